//! Checkpoints and pending writes on their way in.

use std::sync::Arc;

use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::connection::{Parameter, execute, query};
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
    /// The moment that the thread's deletion must be older than, if anybody asks.
    pub fn since(&self) -> Option<&str> {
        self.claim.since.as_deref().filter(|_| self.late_writes == LateWrites::Refused)
    }

    /// Everything of it lands or nothing, whatever it claims.
    pub async fn store(&self, client: &Client) -> Result<(), Failure> {
        self.send(client, sql::PUT, None).await.map(drop)
    }

    /// Everything of it lands or nothing, in one round trip.
    pub async fn put(&self, client: &Client) -> Result<(), Failure> {
        let (thread, namespace) = (&*self.key.thread, &*self.key.namespace);
        let (id, parent) = (&*self.id, self.parent.as_deref());
        let (since, head) = (self.since(), self.claim.parent_is_head);
        let statement = match (since.is_some(), head) {
            (false, false) => return self.store(client).await,
            (false, true) => sql::PUT_AT_HEAD,
            (true, false) => sql::PUT_SINCE,
            (true, true) => sql::PUT_SINCE_AT_HEAD,
        };
        // Two that both found their parent at the head would make a fork.
        let lock = if head { Lock::Alone } else { Lock::Shared };
        loop {
            let put = self.send(client, statement, since);
            if locked(client, lock, thread, put).await? == 1 {
                return Ok(());
            }
            if since.is_some() {
                check_deletion(client, thread, &self.claim).await?;
            }
            let at = [(&thread as _, Type::TEXT), (&namespace as _, Type::TEXT)];
            let found = query(client, sql::HEAD, &at).await?;
            let found: Option<&str> = found.first().map_or(Ok(None), |row| row.try_get(0))?;
            late::check_head(thread, &self.claim, id, parent, found)?;
            // What was in the way is gone meanwhile.
        }
    }

    /// The number of checkpoints that were stored. It is sent when this is first polled.
    async fn send(
        &self,
        client: &Client,
        statement: &str,
        since: Option<&str>,
    ) -> Result<u64, Failure> {
        let (thread, namespace) = (&*self.key.thread, &*self.key.namespace);
        let (id, parent) = (&*self.id, self.parent.as_deref());
        let (document, metadata) = (Jsonb(&self.document), Jsonb(&self.metadata));
        let channels = texts(&self.blobs.channels);
        let versions = texts(&self.blobs.versions);
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
        if since.is_some() {
            parameters.push((&since, Type::TEXT));
        }
        execute(client, statement, &parameters).await
    }
}

/// Says so if the thread was deleted after its writer looked at it.
async fn check_deletion(client: &Client, thread: &str, claim: &Claim) -> Result<(), Failure> {
    let rows = query(client, sql::DELETION, &[(&thread, Type::TEXT)]).await?;
    let deletion: Option<&str> = rows.first().map(|row| row.try_get(0)).transpose()?;
    Ok(late::check(thread, claim, deletion)?)
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

    /// The moment that the thread's deletion must be older than, if anybody asks.
    pub fn since(&self) -> Option<&str> {
        let since = self.put.claim.since.as_deref();
        since.filter(|_| self.late_writes == LateWrites::Refused)
    }

    /// All rows or none, whatever they claim.
    pub async fn store(&self, client: &Client) -> Result<(), Failure> {
        let statement = if self.replaces { sql::REPLACE_WRITES } else { sql::ADD_WRITES };
        self.send(client, statement, None).await.map(drop)
    }

    pub async fn put(&self, client: &Client) -> Result<(), Failure> {
        let PutWrites { key, claim, .. } = &self.put;
        let Some(since) = self.since() else { return self.store(client).await };
        let statement = match self.replaces {
            true => sql::REPLACE_WRITES_SINCE,
            false => sql::ADD_WRITES_SINCE,
        };
        let write = self.send(client, statement, Some(since));
        match locked(client, Lock::Shared, &key.thread, write).await? {
            // They were all there already, or they are not wanted any more.
            0 => check_deletion(client, &key.thread, claim).await,
            _ => Ok(()),
        }
    }

    /// The number of rows that were stored. They are sent when this is first polled.
    async fn send(
        &self,
        client: &Client,
        statement: &str,
        since: Option<&str>,
    ) -> Result<u64, Failure> {
        let PutWrites { key, checkpoint, task, task_path, .. } = &self.put;
        let (thread, namespace, id) = (&*key.thread, &*key.namespace, &**checkpoint);
        let (task, path) = (&**task, &**task_path);
        let channels = texts(&self.channels);
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
        if since.is_some() {
            parameters.push((&since, Type::TEXT));
        }
        execute(client, statement, &parameters).await
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
