//! The walk through a checkpoint's ancestors, a page of checkpoints at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use super::connection::{Parameter, query};
use super::document;
use super::errors::Failure;
use super::put::texts;
use super::rows::{Cell, Found, Typed};
use super::statements as sql;
use super::wire::Jsonb;
use crate::checkpoint::codec::{CodecError, decode, is_delta_snapshot};
use crate::checkpoint::history::{DeltaHistories, Walk};
use crate::checkpoint::memory::parent_id;
use crate::checkpoint::{PendingWrite, ThreadKey};
use crate::ordered::IndexMap;
use crate::value::Shared;

/// Checkpoints in the first page; what is looked for is often near.
const FIRST_PAGE: i64 = 16;
const LARGEST_PAGE: i64 = 1024;

pub(super) async fn walk(
    client: &Client,
    key: &ThreadKey,
    id: Option<&str>,
    channels: &[Arc<str>],
) -> Result<DeltaHistories, Failure> {
    let mut walk = Walk::new(channels);
    // One that comes again is its own ancestor: it would hold the walk for ever.
    let mut seen: BTreeSet<Arc<str>> = BTreeSet::new();
    let mut size = FIRST_PAGE;
    let mut next: Option<Arc<str>> = id.map(Arc::from);
    let mut is_first = true;
    while !walk.is_over() {
        // Of the greatest ids up to the one that is next.
        let rows = page(client, key, next.as_deref(), channels, size).await?;
        let page = Page::sort(&rows)?;
        if is_first {
            // The greatest id there is, or nothing if it is not the one that was asked for.
            let target = page.ancestors.last_key_value();
            let target = target.filter(|(target, _)| id.is_none_or(|id| id == **target));
            let Some((target, ancestor)) = target else { return Ok(DeltaHistories::new()) };
            seen.insert((*target).into());
            next = ancestor.parent.clone();
            is_first = false;
        } else if next.as_deref().is_none_or(|id| !page.ancestors.contains_key(id)) {
            // An ancestor that was never stored ends it, as the root does.
            break;
        }
        while let Some(id) = next.clone() {
            let Some(ancestor) = page.ancestors.get(&*id) else { break };
            if walk.is_over() || !seen.insert(id.clone()) {
                return Ok(walk.end());
            }
            let found = Found { thread: &key.thread, namespace: &key.namespace, id: &id };
            let values = page.values(&found, ancestor, &walk)?;
            let writes = page.writes(&found, &walk)?;
            walk.visit(&values, writes.into_iter());
            next = ancestor.parent.clone();
        }
        let Some(id) = &next else { break };
        // A page that is not full has every older one.
        let is_older = page.ancestors.first_key_value().is_some_and(|(oldest, _)| **id < **oldest);
        if is_older && (page.ancestors.len() as i64) < size {
            break;
        }
        size = (size * 4).min(LARGEST_PAGE);
    }
    Ok(walk.end())
}

async fn page(
    client: &Client,
    key: &ThreadKey,
    bound: Option<&str>,
    channels: &[Arc<str>],
    size: i64,
) -> Result<Vec<Row>, Failure> {
    let (thread, namespace, channels) = (&*key.thread, &*key.namespace, texts(channels));
    let parameters: [Parameter<'_>; 5] = [
        (&thread, Type::TEXT),
        (&namespace, Type::TEXT),
        (&bound, Type::TEXT),
        (&channels, Type::TEXT_ARRAY),
        (&size, Type::INT8),
    ];
    query(client, sql::HISTORY, &parameters).await
}

/// Rows of one answer by their kind. Columns as told with the statement.
#[derive(Default)]
struct Page<'a> {
    ancestors: BTreeMap<&'a str, Ancestor<'a>>,
    /// By channel and version: type and bytes.
    values: BTreeMap<(&'a str, &'a str), Typed<'a>>,
    /// By checkpoint, task and index.
    writes: BTreeMap<(&'a str, &'a str, i32), Cell<'a>>,
}

#[derive(Default)]
struct Ancestor<'a> {
    parent: Option<Arc<str>>,
    /// By channel: its version, and what the document has for it.
    told: BTreeMap<&'a str, (Option<&'a str>, Option<Jsonb<'a>>)>,
}

impl<'a> Page<'a> {
    fn sort(rows: &'a [Row]) -> Result<Page<'a>, Failure> {
        let mut page = Page::default();
        for row in rows {
            let channel: &str = row.try_get(3)?;
            match row.try_get::<_, i32>(0)? {
                0 => {
                    let ancestor = page.ancestors.entry(row.try_get(1)?).or_default();
                    ancestor.parent = parent_id(row.try_get::<_, Option<&str>>(2)?.map(Arc::from));
                    ancestor.told.insert(channel, (row.try_get(4)?, row.try_get(6)?));
                }
                1 => {
                    let value = (row.try_get(5)?, row.try_get(7)?);
                    page.values.insert((channel, row.try_get(4)?), value);
                }
                _ => {
                    let at = (row.try_get(1)?, row.try_get(2)?, row.try_get(8)?);
                    page.writes.insert(at, (channel, row.try_get(5)?, row.try_get(7)?));
                }
            }
        }
        Ok(page)
    }

    /// What an ancestor holds of the channels that are wanted. A snapshot counts only where the
    /// document says that there is one: it has a row by its version, which later checkpoints have as
    /// well for as long as nothing is written.
    fn values(
        &self,
        found: &Found<'_>,
        ancestor: &Ancestor<'_>,
        walk: &Walk,
    ) -> Result<IndexMap<Arc<str>, Shared>, Failure> {
        let mut values = IndexMap::default();
        for (&channel, (version, told)) in &ancestor.told {
            if !walk.wants(channel) {
                continue;
            }
            let corrupt = |problem: String| found.corrupt(format!("channel {channel:?}"), problem);
            let row = version.and_then(|version| self.values.get(&(channel, version)));
            let row = row.filter(|(type_name, _)| *type_name != "empty");
            let value = match (row, told) {
                (Some((type_name, bytes)), _) => {
                    let value = bytes.ok_or(CodecError::NoBytes);
                    let value = value.and_then(|bytes| decode(type_name, bytes));
                    let value = value.map_err(|error| corrupt(error.to_string()))?;
                    if told.is_none() && is_delta_snapshot(&value) {
                        continue;
                    }
                    Arc::new(value)
                }
                (None, Some(Jsonb(json))) => document::inline(json).map_err(corrupt)?,
                (None, None) => continue,
            };
            values.insert(channel.into(), value);
        }
        Ok(values)
    }

    fn writes(&self, found: &Found<'_>, walk: &Walk) -> Result<Vec<PendingWrite>, Failure> {
        self.writes
            .range((found.id, "", i32::MIN)..)
            .take_while(|((checkpoint, ..), _)| *checkpoint == found.id)
            .filter(|(_, (channel, ..))| walk.wants(channel))
            .map(|(&(_, task, _), &cell)| found.write(task, cell))
            .collect()
    }
}
