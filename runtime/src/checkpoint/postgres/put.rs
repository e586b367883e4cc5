//! Checkpoints and pending writes on their way in.

use std::sync::Arc;

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use super::connection::{Parameter, query};
use super::document::Blobs;
use super::errors::Failure;
use super::lock::{Lock, locked};
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
    /// Everything of it lands or nothing, in one round trip.
    pub async fn put(&self, client: &Client) -> Result<(), Failure> {
        let (thread, namespace) = (&*self.key.thread, &*self.key.namespace);
        let (id, parent) = (&*self.id, self.parent.as_deref());
        let (document, metadata) = (Jsonb(&self.document), Jsonb(&self.metadata));
        let channels = texts(&self.blobs.channels);
        let versions = texts(&self.blobs.versions);
        let head = self.claim.parent_is_head;
        let since = self.claim.since.as_deref();
        let mut parameters: Vec<Parameter<'_>> = vec![
            (&thread, Type::TEXT),
            (&namespace, Type::TEXT),
            (&id, Type::TEXT),
            (&parent, Type::TEXT),
            (&document, Type::JSONB),
            (&metadata, Type::JSONB),
            (&channels, Type::TEXT_ARRAY),
            (&versions, Type::TEXT_ARRAY),
            (&self.blobs.types, Type::TEXT_ARRAY),
            (&self.blobs.bytes, Type::BYTEA_ARRAY),
        ];
        let minds_deletions = self.late_writes == LateWrites::Refused && since.is_some();
        if !minds_deletions && !head {
            query(client, sql::PUT, &parameters).await?;
            return Ok(());
        }
        parameters.push((&head, Type::BOOL));
        let statement = match minds_deletions {
            false => sql::PUT_AT_HEAD,
            true => {
                parameters.push((&since, Type::TEXT));
                sql::PUT_CLAIMED
            }
        };
        // Two that both found themselves at the head would make a fork.
        let lock = if head { Lock::Alone } else { Lock::Shared };
        let rows = locked(client, lock, thread, query(client, statement, &parameters)).await?;
        let answer = Answer::read(&rows)?;
        if answer.stored {
            return Ok(());
        }
        late::check(thread, &self.claim, answer.deletion)?;
        late::check_head(thread, &self.claim, id, parent, answer.head)?;
        Err(SaverError::Store("a claim held and nothing was stored".to_owned()).into())
    }
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

    pub async fn put(&self, client: &Client) -> Result<(), Failure> {
        let PutWrites { key, checkpoint, task, task_path, claim, .. } = &self.put;
        let (thread, namespace, id) = (&*key.thread, &*key.namespace, &**checkpoint);
        let (task, path) = (&**task, &**task_path);
        let channels = texts(&self.channels);
        let since = claim.since.as_deref();
        let mut parameters: Vec<Parameter<'_>> = vec![
            (&thread, Type::TEXT),
            (&namespace, Type::TEXT),
            (&id, Type::TEXT),
            (&task, Type::TEXT),
            (&path, Type::TEXT),
            (&self.indices, Type::INT4_ARRAY),
            (&channels, Type::TEXT_ARRAY),
            (&self.types, Type::TEXT_ARRAY),
            (&self.bytes, Type::BYTEA_ARRAY),
        ];
        if self.late_writes == LateWrites::Land || since.is_none() {
            let statement = if self.replaces { sql::REPLACE_WRITES } else { sql::ADD_WRITES };
            query(client, statement, &parameters).await?;
            return Ok(());
        }
        parameters.push((&since, Type::TEXT));
        let statement = match self.replaces {
            true => sql::REPLACE_WRITES_CLAIMED,
            false => sql::ADD_WRITES_CLAIMED,
        };
        let write = query(client, statement, &parameters);
        let rows = locked(client, Lock::Shared, thread, write).await?;
        let answer = Answer::read(&rows)?;
        late::check(thread, claim, answer.deletion)?;
        match answer.stored {
            true => Ok(()),
            false => Err(SaverError::Store("a claim held and nothing was stored".into()).into()),
        }
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

/// What a statement with a claim answers.
struct Answer<'a> {
    deletion: Option<&'a str>,
    head: Option<&'a str>,
    stored: bool,
}

impl Answer<'_> {
    fn read(rows: &[Row]) -> Result<Answer<'_>, Failure> {
        let row = rows.first().ok_or_else(|| {
            Failure::Saver(SaverError::Store("a statement gave no answer".to_owned()))
        })?;
        Ok(Answer { deletion: row.try_get(0)?, head: row.try_get(1)?, stored: row.try_get(2)? })
    }
}

pub(super) fn texts(names: &[Arc<str>]) -> Vec<&str> {
    names.iter().map(|name| &**name).collect()
}
