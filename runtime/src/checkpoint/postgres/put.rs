//! Checkpoints and pending writes on their way in.

use std::sync::Arc;

use tokio_postgres::types::{ToSql, Type};

use super::connection::query;
use super::dismissal::Link;
use super::document::Blobs;
use super::errors::Failure;
use super::prepared::{store, store_unnamed};
use super::statements as sql;
use super::wire::Jsonb;
use crate::checkpoint::codec::encode;
use crate::checkpoint::late;
use crate::checkpoint::saver::{Claim, LateWrites, PutWrites, SaverError};
use crate::checkpoint::{ThreadKey, reserved};
use crate::value::Shared;

/// A checkpoint, ready to be sent.
pub(super) struct CheckpointRows {
    pub key: ThreadKey,
    pub id: Arc<str>,
    pub parent: Option<Arc<str>>,
    pub document: String,
    pub metadata: String,
    pub blobs: Blobs,
    pub claim: Claim,
    pub late_writes: LateWrites,
}

impl CheckpointRows {
    /// Everything of it lands or nothing, wherever the head is. It is sent when this is first polled.
    pub async fn store(&self, link: &Link) -> Result<u64, Failure> {
        self.send(link, Where::Anywhere).await
    }

    /// As [`CheckpointRows::store`], and nothing is stored when the parent is not the head.
    pub async fn store_at_head(&self, link: &Link) -> Result<u64, Failure> {
        self.send(link, Where::AtHead).await
    }

    /// Says so if the parent is not the head.
    pub async fn check_head(&self, link: &Link) -> Result<(), Failure> {
        let (thread, namespace) = (&*self.key.thread, &*self.key.namespace);
        let at = [(&thread as _, Type::TEXT), (&namespace as _, Type::TEXT)];
        let found = query(link, sql::HEAD, &at).await?;
        let found: Option<&str> = found.first().map_or(Ok(None), |row| row.try_get(0))?;
        Ok(late::check_head(thread, &self.claim, &self.id, self.parent.as_deref(), found)?)
    }

    pub fn insert(&self, place: Where) -> sql::Insert {
        match place {
            Where::Anywhere => sql::put(self.values()),
            Where::AtHead => sql::put_at_head(),
        }
    }

    fn values(&self) -> sql::Rows {
        sql::Rows::of(self.blobs.channels.len())
    }

    async fn send(&self, link: &Link, place: Where) -> Result<u64, Failure> {
        let (thread, namespace) = (&*self.key.thread, &*self.key.namespace);
        let (id, parent) = (&*self.id, self.parent.as_deref());
        let (document, metadata) = (Jsonb(&self.document), Jsonb(&self.metadata));
        let Blobs { types, bytes, .. } = &self.blobs;
        let (channels, versions) = (texts(&self.blobs.channels), texts(&self.blobs.versions));
        let mut values: Vec<&(dyn ToSql + Sync)> =
            vec![&thread, &namespace, &id, &parent, &document, &metadata];
        match (place, self.values()) {
            (Where::AtHead, _) | (Where::Anywhere, sql::Rows::Arrays) => {
                values.extend([&channels as &(dyn ToSql + Sync), &versions, types, bytes]);
            }
            (Where::Anywhere, sql::Rows::SpelledOut(count)) => {
                values.extend((0..count).flat_map(|n| {
                    [&channels[n] as &(dyn ToSql + Sync), &versions[n], &types[n], &bytes[n]]
                }));
            }
        }
        let insert = self.insert(place);
        match place {
            Where::Anywhere => store(link, &insert, &values).await,
            Where::AtHead => store_unnamed(link, &insert, &values).await,
        }
    }
}

/// Where a checkpoint's parent must be.
#[derive(Clone, Copy)]
pub(super) enum Where {
    Anywhere,
    AtHead,
}

/// Pending writes, ready to be sent.
pub(super) struct WriteRows {
    pub put: PutWrites,
    pub late_writes: LateWrites,
    indices: Vec<i32>,
    channels: Vec<Arc<str>>,
    types: Vec<&'static str>,
    bytes: Vec<Vec<u8>>,
    replaces: bool,
}

impl WriteRows {
    pub fn new(put: PutWrites, late_writes: LateWrites) -> Result<WriteRows, SaverError> {
        let replaces = put.writes.iter().all(|(name, _)| reserved::fixed_index(name).is_some());
        let mut rows = WriteRows {
            indices: vec![],
            channels: vec![],
            types: vec![],
            bytes: vec![],
            replaces,
            late_writes,
            put,
        };
        // In one order, whoever sends them: two that send the same rows wait for each other then,
        // and do not get in each other's way.
        for (index, channel, value) in in_order(&rows.put.writes, replaces) {
            let (type_name, bytes) = encode(value).map_err(|error| SaverError::Unstorable {
                channel: channel.to_string(),
                problem: error.to_string(),
            })?;
            rows.indices.push(index);
            rows.channels.push(channel.clone());
            rows.types.push(type_name);
            rows.bytes.push(bytes);
        }
        Ok(rows)
    }

    /// `None` where there are no rows.
    pub fn insert(&self) -> Option<sql::Insert> {
        match self.indices.len() {
            0 => None,
            count => Some(sql::put_writes(sql::Rows::of(count), self.replaces)),
        }
    }

    /// All rows or none. They are sent when this is first polled.
    pub async fn store(&self, link: &Link) -> Result<u64, Failure> {
        let Some(insert) = self.insert() else { return Ok(0) };
        let PutWrites { key, checkpoint, task, task_path, .. } = &self.put;
        let (thread, namespace, id) = (&*key.thread, &*key.namespace, &**checkpoint);
        let (task, path) = (&**task, &**task_path);
        let channels = texts(&self.channels);
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![&thread, &namespace, &id, &task, &path];
        let (indices, types, bytes) = (&self.indices, &self.types, &self.bytes);
        match sql::Rows::of(indices.len()) {
            sql::Rows::Arrays => {
                values.extend([indices as &(dyn ToSql + Sync), &channels, types, bytes]);
            }
            sql::Rows::SpelledOut(count) => values.extend((0..count).flat_map(|n| {
                [&indices[n] as &(dyn ToSql + Sync), &channels[n], &types[n], &bytes[n]]
            })),
        }
        store(link, &insert, &values).await
    }
}

/// Index, channel and value of each row, by index. Of two rows with one index the server would take
/// neither if they replace: the last of them counts then, and else the first.
fn in_order(writes: &[(Arc<str>, Shared)], replaces: bool) -> Vec<(i32, &Arc<str>, &Shared)> {
    let index = |position: usize, channel: &str| {
        let position = i32::try_from(position).unwrap_or(i32::MAX);
        reserved::fixed_index(channel).map_or(position, |fixed| fixed as i32)
    };
    let mut rows: Vec<_> = writes
        .iter()
        .enumerate()
        .map(|(position, (channel, value))| (index(position, channel), channel, value))
        .collect();
    if replaces {
        rows.reverse();
    }
    rows.sort_by_key(|&(index, ..)| index);
    rows.dedup_by_key(|(index, ..)| *index);
    rows
}

pub(super) fn texts(names: &[Arc<str>]) -> Vec<&str> {
    names.iter().map(|name| &**name).collect()
}
