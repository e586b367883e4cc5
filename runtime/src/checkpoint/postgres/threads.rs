//! What is done to whole threads. Each step is one statement, so that a call that is given up leaves
//! whole steps behind.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use super::connection::{Parameter, execute, query};
use super::errors::Failure;
use super::lock::{Lock, locked};
use super::put::texts;
use super::rows::{Found, Typed};
use super::statements as sql;
use super::wire::Jsonb;
use crate::checkpoint::Checkpoint;
use crate::checkpoint::codec::{decode, decode_metadata, is_delta_snapshot};
use crate::checkpoint::memory::parent_id;
use crate::checkpoint::prune::InPart;
use crate::checkpoint::saver::SaverError;

/// Removes a thread.
pub(super) async fn delete(client: &Client, thread: &str, remembers: bool) -> Result<(), Failure> {
    let parameters: [Parameter<'_>; 1] = [(&thread, Type::TEXT)];
    match remembers {
        false => execute(client, sql::DELETE, &parameters).await?,
        true => {
            let delete = execute(client, sql::DELETE_AND_REMEMBER, &parameters);
            locked(client, Lock::Alone, thread, delete).await?
        }
    };
    Ok(())
}

pub(super) async fn copy(client: &Client, from: &str, to: &str) -> Result<(), Failure> {
    let parameters: [Parameter<'_>; 2] = [(&from, Type::TEXT), (&to, Type::TEXT)];
    let rows = locked(client, Lock::Alone, to, query(client, sql::COPY, &parameters)).await?;
    match rows.first().is_some_and(|row| row.get(0)) {
        true => Err(SaverError::Occupied { thread: to.to_owned() }.into()),
        false => Ok(()),
    }
}

/// Of each namespace keeps the newest checkpoint and what it cannot do without.
pub(super) async fn prune(client: &Client, thread: &str) -> Result<(), Failure> {
    let heads = query(client, sql::HEADS, &[(&thread, Type::TEXT)]).await?;
    for head in &heads {
        let (namespace, id): (&str, &str) = (head.try_get(0)?, head.try_get(1)?);
        let needed = needed(client, Found { thread, namespace, id }, head).await?;
        let needed: Vec<&str> = needed.iter().map(|id| &**id).collect();
        let parameters: [Parameter<'_>; 4] = [
            (&thread, Type::TEXT),
            (&namespace, Type::TEXT),
            (&id, Type::TEXT),
            (&needed, Type::TEXT_ARRAY),
        ];
        execute(client, sql::PRUNE, &parameters).await?;
    }
    sweep(client, thread).await
}

/// Removes values that no checkpoint holds. Under the lock, as a checkpoint that is being stored may
/// find its value there and rely on it.
async fn sweep(client: &Client, thread: &str) -> Result<(), Failure> {
    let parameters: [Parameter<'_>; 1] = [(&thread, Type::TEXT)];
    locked(client, Lock::Alone, thread, execute(client, sql::SWEEP, &parameters)).await?;
    Ok(())
}

/// A checkpoint and the ancestors that its delta channels are rebuilt from.
async fn needed(
    client: &Client,
    head: Found<'_>,
    row: &Row,
) -> Result<BTreeSet<Arc<str>>, Failure> {
    let (Jsonb(document), Jsonb(metadata)) = (row.try_get(3)?, row.try_get(4)?);
    let metadata = decode_metadata(metadata.as_bytes());
    let metadata = metadata.map_err(|problem| head.corrupt("metadata", problem))?;
    let document = head.document(document)?;
    let mut in_part = InPart::of(&document, &metadata);
    let mut asked = Asked::new();
    visit_rows(client, &head, &document, &mut in_part, &mut asked).await?;
    let mut needed = BTreeSet::from([Arc::from(head.id)]);
    let mut next = parent(row.try_get(2)?);
    while let Some(id) = next.take_if(|_| !in_part.is_empty()) {
        let (thread, namespace, name) = (head.thread, head.namespace, &*id);
        let parameters: [Parameter<'_>; 3] =
            [(&thread, Type::TEXT), (&namespace, Type::TEXT), (&name, Type::TEXT)];
        let rows = query(client, sql::ANCESTOR, &parameters).await?;
        let Some(row) = rows.first() else { break };
        // One that was seen before is its own ancestor.
        if !needed.insert(id.clone()) {
            break;
        }
        let Jsonb(document) = row.try_get(1)?;
        let found = Found { thread, namespace, id: &id };
        let ancestor = found.document(document)?;
        in_part.visit(&ancestor);
        visit_rows(client, &found, &ancestor, &mut in_part, &mut asked).await?;
        next = parent(row.try_get(0)?);
    }
    Ok(needed)
}

/// Channels and versions whose values were looked for.
type Asked = BTreeSet<(Arc<str>, Arc<str>)>;

/// Finds the channels whose values stand beside the document. A snapshot of a delta channel counts
/// only where the document says that there is one, as in [`super::history`]; a value that cannot be
/// read is a value all the same. A version is asked for once, as its value is always the same.
async fn visit_rows(
    client: &Client,
    found: &Found<'_>,
    checkpoint: &Checkpoint,
    in_part: &mut InPart,
    asked: &mut Asked,
) -> Result<(), Failure> {
    let versions = &checkpoint.channel_versions;
    let (channels, versions): (Vec<&str>, Vec<&str>) = in_part
        .channels()
        .filter_map(|channel| versions.get_key_value(channel))
        .filter(|&(channel, version)| asked.insert((channel.clone(), version.clone())))
        .map(|(channel, version)| (&**channel, &**version))
        .unzip();
    if channels.is_empty() {
        return Ok(());
    }
    let parameters: [Parameter<'_>; 4] = [
        (&found.thread, Type::TEXT),
        (&found.namespace, Type::TEXT),
        (&channels, Type::TEXT_ARRAY),
        (&versions, Type::TEXT_ARRAY),
    ];
    for row in query(client, sql::VALUES, &parameters).await? {
        let (type_name, bytes): Typed<'_> = (row.try_get(1)?, row.try_get(2)?);
        let value = bytes.and_then(|bytes| decode(type_name, bytes).ok());
        if !value.is_some_and(|value| is_delta_snapshot(&value)) {
            in_part.found(row.try_get(0)?);
        }
    }
    Ok(())
}

fn parent(id: Option<&str>) -> Option<Arc<str>> {
    parent_id(id.map(Arc::from))
}

/// Removes the checkpoints that these runs made, and what stands beside them.
pub(super) async fn delete_runs(client: &Client, runs: &[Arc<str>]) -> Result<(), Failure> {
    let runs = texts(runs);
    let parameters: [Parameter<'_>; 1] = [(&runs, Type::TEXT_ARRAY)];
    let rows = query(client, sql::DELETE_RUNS, &parameters).await?;
    for row in &rows {
        sweep(client, row.try_get(0)?).await?;
    }
    Ok(())
}
