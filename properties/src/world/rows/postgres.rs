//! The rows of a PostgreSQL database. Values of a checkpoint stand partly in it and partly in a table
//! of their own, by version.

use std::collections::BTreeMap;

use durasim_models::Postgres;
use durasim_models::postgres::Cell;
use serde_json::Value as Json;

use super::{Metadata, text};
use crate::outcome::{StoredCheckpoint, StoredThread, StoredWrite};

/// Fills in what the database holds of these threads. One without the tables has no rows.
pub(in super::super) fn from_postgres(
    postgres: &Postgres,
    threads: &mut BTreeMap<String, StoredThread>,
) -> Result<(), String> {
    let blobs = read_blobs(postgres)?;
    for row in postgres.rows("checkpoints") {
        let row = Row(row);
        let thread = row.text("thread_id")?;
        let Some(stored) = threads.get_mut(thread) else { continue };
        let checkpoint = row.json("checkpoint")?;
        let metadata: Metadata = serde_json::from_value(row.json("metadata")?).map_err(text)?;
        let namespace = row.text("checkpoint_ns")?;
        let versions = texts(&checkpoint["channel_versions"]);
        let inline = checkpoint["channel_values"].as_object().into_iter().flatten();
        let mut values: BTreeMap<String, rmpv::Value> = inline
            .map(|(name, value)| Ok((name.clone(), scalar(value)?)))
            .collect::<Result<_, String>>()?;
        for (channel, version) in &versions {
            let key = [thread, namespace, channel, version].map(str::to_owned);
            if let Some(value) = blobs.get(&key) {
                values.insert(channel.clone(), value.clone());
            }
        }
        let seen = checkpoint["versions_seen"].as_object().into_iter().flatten();
        stored.checkpoints.push(StoredCheckpoint {
            namespace: namespace.to_owned(),
            id: row.text("checkpoint_id")?.to_owned(),
            parent: match row.cell("parent_checkpoint_id")? {
                Cell::Null => None,
                _ => Some(row.text("parent_checkpoint_id")?.to_owned()),
            },
            source: metadata.source.as_str().unwrap_or_default().to_owned(),
            step: metadata.step.as_i64().unwrap_or(i64::MIN),
            request: metadata.request_id.as_str().map(str::to_owned),
            values,
            versions,
            versions_seen: seen.map(|(node, seen)| (node.clone(), texts(seen).into())).collect(),
        });
    }
    read_writes(postgres, threads)?;
    for stored in threads.values_mut() {
        stored.checkpoints.sort_by(|a, b| (&a.id, &a.namespace).cmp(&(&b.id, &b.namespace)));
    }
    Ok(())
}

/// Values by thread, namespace, channel and version.
fn read_blobs(postgres: &Postgres) -> Result<BTreeMap<[String; 4], rmpv::Value>, String> {
    let mut blobs = BTreeMap::new();
    for row in postgres.rows("checkpoint_blobs") {
        let row = Row(row);
        let value = match row.text("type")? {
            "empty" => continue,
            "null" => rmpv::Value::Nil,
            "msgpack" => rmpv::decode::read_value(&mut row.bytes("blob")?).map_err(text)?,
            "bytes" | "bytearray" => rmpv::Value::Binary(row.bytes("blob")?.to_vec()),
            other => return Err(format!("a value of the type {other:?}")),
        };
        let key = ["thread_id", "checkpoint_ns", "channel", "version"];
        let [a, b, c, d] = key.map(|column| row.text(column).map(str::to_owned));
        blobs.insert([a?, b?, c?, d?], value);
    }
    Ok(blobs)
}

fn read_writes(
    postgres: &Postgres,
    threads: &mut BTreeMap<String, StoredThread>,
) -> Result<(), String> {
    // In the order of the primary key: thread, namespace, checkpoint, task, index.
    for row in postgres.rows("checkpoint_writes") {
        let row = Row(row);
        let Some(stored) = threads.get_mut(row.text("thread_id")?) else { continue };
        stored.writes.push(StoredWrite {
            namespace: row.text("checkpoint_ns")?.to_owned(),
            checkpoint: row.text("checkpoint_id")?.to_owned(),
            task: row.text("task_id")?.to_owned(),
            channel: row.text("channel")?.to_owned(),
        });
    }
    for stored in threads.values_mut() {
        stored.writes.sort_by(|a, b| {
            (&a.checkpoint, &a.namespace, &a.task).cmp(&(&b.checkpoint, &b.namespace, &b.task))
        });
    }
    Ok(())
}

/// One row, by column.
struct Row(BTreeMap<String, Cell>);

impl Row {
    fn cell(&self, column: &str) -> Result<&Cell, String> {
        self.0.get(column).ok_or_else(|| format!("there is no column {column}"))
    }

    fn text(&self, column: &str) -> Result<&str, String> {
        self.cell(column)?.as_str().ok_or_else(|| format!("{column} is no text"))
    }

    fn bytes(&self, column: &str) -> Result<&[u8], String> {
        self.cell(column)?.as_bytes().ok_or_else(|| format!("{column} holds no bytes"))
    }

    fn json(&self, column: &str) -> Result<Json, String> {
        match self.cell(column)? {
            Cell::Jsonb(json) => serde_json::from_str(&json.to_text()).map_err(text),
            _ => Err(format!("{column} is no JSON")),
        }
    }
}

/// A value that stands in the checkpoint itself.
fn scalar(value: &Json) -> Result<rmpv::Value, String> {
    Ok(match value {
        Json::Null => rmpv::Value::Nil,
        Json::Bool(value) => (*value).into(),
        Json::String(value) => value.as_str().into(),
        Json::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(value), _) => value.into(),
            (_, Some(value)) => value.into(),
            _ => number.as_f64().ok_or("a number out of range")?.into(),
        },
        Json::Array(_) | Json::Object(_) => {
            return Err("a list or a map in a checkpoint".to_owned());
        }
    })
}

fn texts(map: &Json) -> BTreeMap<String, String> {
    let entries = map.as_object().into_iter().flatten();
    let texts = entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    texts.collect()
}
