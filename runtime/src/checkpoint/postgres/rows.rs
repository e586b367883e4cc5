//! Checkpoints and pending writes on their way out.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use super::connection::{Parameter, query};
use super::document::{self, Held};
use super::errors::Failure;
use super::statements as sql;
use super::wire::Jsonb;
use crate::checkpoint::codec::{CodecError, decode, decode_metadata};
use crate::checkpoint::memory::parent_id;
use crate::checkpoint::saver::{ListFilter, Look, SaverError};
use crate::checkpoint::{
    Checkpoint, CheckpointTuple, LAYOUT_VERSION, Metadata, PendingWrite, ThreadKey,
};
use crate::value::Value;

/// The checkpoint with this id, or the one with the greatest: text order is time order.
pub(super) async fn get(
    client: &Client,
    key: &ThreadKey,
    id: Option<&str>,
) -> Result<Option<CheckpointTuple>, Failure> {
    let rows = one(client, key, id, [sql::GET_LATEST, sql::GET]).await?;
    Ok(read(client, &key.thread, &Answer::sort(&rows)?, |_| true).await?.pop())
}

/// The same, with how often the thread was deleted.
pub(super) async fn look(
    client: &Client,
    key: &ThreadKey,
    id: Option<&str>,
) -> Result<Look, Failure> {
    let rows = one(client, key, id, [sql::LOOK_AT_LATEST, sql::LOOK]).await?;
    let answer = Answer::sort(&rows)?;
    let tuple = read(client, &key.thread, &answer, |_| true).await?.pop();
    Ok(Look { tuple, deletions: Some(answer.deletions) })
}

async fn one(
    client: &Client,
    key: &ThreadKey,
    id: Option<&str>,
    [latest, this]: [sql::Read; 2],
) -> Result<Vec<Row>, Failure> {
    let (thread, namespace) = (&*key.thread, &*key.namespace);
    let mut parameters: Vec<Parameter<'_>> = vec![(&thread, Type::TEXT), (&namespace, Type::TEXT)];
    let Some(id) = &id else { return ask(client, &latest, &parameters).await };
    parameters.push((id, Type::TEXT));
    ask(client, &this, &parameters).await
}

pub(super) async fn list(
    client: &Client,
    thread: &Arc<str>,
    namespace: Option<&str>,
    filter: &ListFilter,
) -> Result<Vec<CheckpointTuple>, Failure> {
    let name = &**thread;
    let before = filter.before.as_deref();
    // What must be equal is contained. The reverse does not hold, so that the rest is decided here;
    // but where it does, for text and booleans, the server may count as well.
    let wanted: serde_json::Map<_, _> = filter
        .metadata
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let decides = filter.metadata.values().all(|value| value.is_string() || value.is_boolean());
    let wanted = serde_json::Value::Object(wanted).to_string();
    let wanted = (!filter.metadata.is_empty()).then_some(Jsonb(&wanted));
    let limit: Option<i64> = filter.limit.filter(|_| decides).and_then(|n| n.try_into().ok());
    let rows = ask(
        client,
        &sql::LIST,
        &[
            (&name, Type::TEXT),
            (&namespace, Type::TEXT),
            (&before, Type::TEXT),
            (&wanted, Type::JSONB),
            (&limit, Type::INT8),
        ],
    )
    .await?;
    let answer = Answer::sort(&rows)?;
    let mut tuples = read(client, thread, &answer, |metadata| filter.accepts(metadata)).await?;
    tuples.sort_by(|a, b| {
        b.checkpoint.id.cmp(&a.checkpoint.id).then_with(|| a.key.namespace.cmp(&b.key.namespace))
    });
    tuples.truncate(filter.limit.unwrap_or(usize::MAX));
    Ok(tuples)
}

async fn ask(
    client: &Client,
    read: &sql::Read,
    parameters: &[Parameter<'_>],
) -> Result<Vec<Row>, Failure> {
    match query(client, read.plain, parameters).await {
        Err(Failure::Sql(error)) if error.code() == Some(&SqlState::INVALID_PARAMETER_VALUE) => {
            query(client, read.guarded, parameters).await
        }
        answer => answer,
    }
}

/// The rows of an answer by their kind. Columns as told with the statements.
#[derive(Default)]
struct Answer<'a> {
    checkpoints: Vec<&'a Row>,
    /// By namespace, channel and version: type and bytes.
    values: BTreeMap<(&'a str, &'a str, &'a str), Typed<'a>>,
    /// By namespace and checkpoint.
    writes: BTreeMap<(&'a str, &'a str), Tasks<'a>>,
    /// How often the thread was deleted.
    deletions: u32,
}

/// A value's type and bytes.
pub(super) type Typed<'a> = (&'a str, Option<&'a [u8]>);

/// Writes by task and index.
type Tasks<'a> = BTreeMap<(&'a str, i32), Cell<'a>>;

/// A write's channel, type and bytes.
pub(super) type Cell<'a> = (&'a str, Option<&'a str>, &'a [u8]);

impl<'a> Answer<'a> {
    fn sort(rows: &'a [Row]) -> Result<Answer<'a>, Failure> {
        let mut answer = Answer::default();
        for row in rows {
            let namespace: &str = row.try_get(1)?;
            match row.try_get::<_, i32>(0)? {
                0 => answer.checkpoints.push(row),
                1 => {
                    let key = (namespace, row.try_get(3)?, row.try_get(4)?);
                    answer.values.insert(key, (row.try_get(5)?, row.try_get(8)?));
                }
                3 => answer.deletions = row.try_get::<_, i32>(9)?.cast_unsigned(),
                _ => {
                    let of = answer.writes.entry((namespace, row.try_get(2)?)).or_default();
                    let cell = (row.try_get(4)?, row.try_get(5)?, row.try_get(8)?);
                    of.insert((row.try_get(3)?, row.try_get(9)?), cell);
                }
            }
        }
        Ok(answer)
    }
}

/// The checkpoints of an answer whose metadata is `wanted`.
async fn read(
    client: &Client,
    thread: &Arc<str>,
    answer: &Answer<'_>,
    wanted: impl Fn(&Metadata) -> bool,
) -> Result<Vec<CheckpointTuple>, Failure> {
    let mut tuples = Vec::new();
    let mut held = Held::new();
    for row in &answer.checkpoints {
        let found = Found { thread, namespace: row.try_get(1)?, id: row.try_get(2)? };
        let Jsonb(metadata) = row.try_get(7)?;
        let metadata = decode_metadata(metadata.as_bytes())
            .map_err(|error| found.corrupt("metadata", error))?;
        if !wanted(&metadata) {
            continue;
        }
        let parent = parent_id(row.try_get::<_, Option<&str>>(3)?.map(Arc::from));
        let Jsonb(json) = row.try_get(6)?;
        let mut checkpoint = found.document(json)?;
        found.add_values(&mut checkpoint, answer, &mut held)?;
        if let Some(parent) = parent.as_deref().filter(|_| checkpoint.layout < LAYOUT_VERSION) {
            let sends = found.pending_sends(client, parent).await?;
            document::add_pending_sends(&mut checkpoint, sends);
        }
        tuples.push(CheckpointTuple {
            key: ThreadKey { thread: thread.clone(), namespace: found.namespace.into() },
            writes: found.writes(answer)?,
            checkpoint,
            metadata,
            parent,
        });
    }
    Ok(tuples)
}

/// Names of a checkpoint that is being read.
pub(super) struct Found<'a> {
    pub thread: &'a str,
    pub namespace: &'a str,
    pub id: &'a str,
}

impl Found<'_> {
    pub fn corrupt(&self, part: impl Into<String>, problem: impl ToString) -> Failure {
        Failure::Saver(SaverError::Corrupt {
            thread: self.thread.to_owned(),
            checkpoint: self.id.to_owned(),
            part: part.into(),
            problem: problem.to_string(),
        })
    }

    /// The checkpoint with the values that stand in the document.
    pub fn document(&self, json: &str) -> Result<Checkpoint, Failure> {
        let read = document::read(json).map_err(|problem| self.corrupt("checkpoint", problem))?;
        match &*read.id == self.id {
            true => Ok(read),
            false => {
                Err(self
                    .corrupt("checkpoint", format!("it says that it is checkpoint {}", read.id)))
            }
        }
    }

    /// Values that have rows of their own. Each is decoded once for all checkpoints that hold it.
    fn add_values(
        &self,
        checkpoint: &mut Checkpoint,
        answer: &Answer<'_>,
        held: &mut Held,
    ) -> Result<(), Failure> {
        for (channel, version) in &checkpoint.channel_versions {
            let at = (self.namespace, &**channel, &**version);
            let Some(&(type_name, bytes)) = answer.values.get(&at) else { continue };
            // A channel without a value, as older versions of LangGraph said it.
            if type_name == "empty" {
                continue;
            }
            let key = (Arc::from(self.namespace), channel.clone(), version.clone());
            let value = match held.get(&key) {
                Some(value) => value.clone(),
                None => {
                    let value = bytes.ok_or(CodecError::NoBytes);
                    let value = value.and_then(|bytes| decode(type_name, bytes)).map_err(|e| {
                        self.corrupt(format!("channel {channel:?}, version {version}"), e)
                    })?;
                    held.entry(key).or_insert(Arc::new(value)).clone()
                }
            };
            checkpoint.channel_values.insert(channel.clone(), value);
        }
        Ok(())
    }

    fn writes(&self, answer: &Answer<'_>) -> Result<Vec<PendingWrite>, Failure> {
        let rows = answer.writes.get(&(self.namespace, self.id));
        let write = |(&(task, _), &cell): (&(&str, i32), &Cell<'_>)| self.write(task, cell);
        rows.into_iter().flatten().map(write).collect()
    }

    pub fn write(
        &self,
        task: &str,
        (channel, type_name, bytes): Cell<'_>,
    ) -> Result<PendingWrite, Failure> {
        let value = decode(type_name.unwrap_or_default(), bytes)
            .map_err(|error| self.corrupt(format!("channel {channel:?} of task {task}"), error))?;
        Ok(PendingWrite { task: task.into(), channel: channel.into(), value: value.into() })
    }

    async fn pending_sends(&self, client: &Client, parent: &str) -> Result<Vec<Value>, Failure> {
        let parameters: [Parameter<'_>; 3] =
            [(&self.thread, Type::TEXT), (&self.namespace, Type::TEXT), (&parent, Type::TEXT)];
        let rows = query(client, sql::PENDING_SENDS, &parameters).await?;
        let send = |row: &Row| {
            let type_name: Option<&str> = row.try_get(0)?;
            decode(type_name.unwrap_or_default(), row.try_get(1)?)
                .map_err(|error| self.corrupt("pending sends", error))
        };
        rows.iter().map(send).collect()
    }
}
