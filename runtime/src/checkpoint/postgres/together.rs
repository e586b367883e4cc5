//! Writes of one thread as one transaction, sent whole without waiting for answers in between.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::slice;
use std::sync::Arc;
use std::task::Poll;

use futures::TryFutureExt;
use futures::future::{BoxFuture, maybe_done};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::connection::query;
use super::dismissal::Link;
use super::errors::Failure;
use super::lock::Lock;
use super::prepared::{judge_session, same_session};
use super::put::{CheckpointRows, Where, WriteRows};
use super::statements as sql;
use crate::checkpoint::late;
use crate::checkpoint::saver::{Claim, LateWrites};

/// What is to be stored.
pub(super) enum Rows {
    Checkpoint(CheckpointRows),
    Writes(WriteRows),
}

impl Rows {
    pub fn thread(&self) -> &Arc<str> {
        match self {
            Rows::Checkpoint(rows) => &rows.key.thread,
            Rows::Writes(rows) => &rows.put.key.thread,
        }
    }

    /// A checkpoint whose parent must be the head cannot tell while others are before it.
    pub fn goes_with_others(&self) -> bool {
        match self {
            Rows::Checkpoint(rows) => !rows.claim.parent_is_head,
            Rows::Writes(_) => true,
        }
    }

    fn claim(&self) -> (&Claim, LateWrites) {
        match self {
            Rows::Checkpoint(rows) => (&rows.claim, rows.late_writes),
            Rows::Writes(rows) => (&rows.put.claim, rows.late_writes),
        }
    }

    /// How often the thread must have been deleted, if anybody asks.
    pub fn deletions(&self) -> Option<u32> {
        let (claim, late_writes) = self.claim();
        claim.deletions.filter(|_| late_writes == LateWrites::Refused)
    }

    fn insert(&self) -> Option<sql::Insert> {
        match self {
            Rows::Checkpoint(rows) => Some(rows.insert(Where::Anywhere)),
            Rows::Writes(rows) => rows.insert(),
        }
    }

    async fn store(&self, link: &Link) -> Result<u64, Failure> {
        match self {
            Rows::Checkpoint(rows) => rows.store(link).await,
            Rows::Writes(rows) => rows.store(link).await,
        }
    }

    /// On its own, with what it claims.
    pub async fn put(&self, link: &Link) -> Result<(), Failure> {
        let result = match self {
            Rows::Checkpoint(rows) if rows.claim.parent_is_head => {
                self.put_at_head(rows, link).await
            }
            _ => together(slice::from_ref(self), link).await,
        };
        match result {
            Err(Failure::Sql(error)) if error.code() == Some(&SqlState::DIVISION_BY_ZERO) => {
                self.check_deletion(link).await?;
                Err(Failure::Sql(error))
            }
            other => other,
        }
    }

    async fn put_at_head(&self, rows: &CheckpointRows, link: &Link) -> Result<(), Failure> {
        loop {
            // Two that both found their parent at the head would make a fork.
            let begin = Lock::Alone.begin(self.thread(), "");
            let begin = begin + &check(self.thread(), self.deletions());
            let put = Box::pin(rows.store_at_head(link));
            if transaction(link, &begin, vec![put]).await? == [1] {
                return Ok(());
            }
            rows.check_head(link).await?;
            // What was in the way is gone meanwhile.
        }
    }

    /// Says so if the thread was deleted after its writer looked at it.
    async fn check_deletion(&self, link: &Link) -> Result<(), Failure> {
        let thread = &**self.thread();
        let rows = query(link, sql::DELETIONS, &[(&thread, Type::TEXT)]).await?;
        let deletions: Option<i32> = rows.first().map(|row| row.try_get(0)).transpose()?;
        let deletions = deletions.unwrap_or_default().cast_unsigned();
        Ok(late::check(thread, self.claim().0, deletions)?)
    }
}

/// All rows, of one thread. Fails (22012) when one of them is of before the thread's deletion. A
/// checkpoint is stored wherever the head is.
pub(super) async fn together(rows: &[Rows], link: &Link) -> Result<(), Failure> {
    // Deletions are only ever added: if one claim does not hold, the least does not.
    let deletions = rows.iter().filter_map(Rows::deletions).min();
    if let Some(prepared) = link.prepared() {
        prepared.get_ready(link, rows.iter().filter_map(Rows::insert).collect()).await?;
    }
    let session = same_session(link);
    if let ([alone], None, "") = (rows, deletions, &*session) {
        return alone.store(link).await.map(drop);
    }
    let begin = match deletions {
        Some(_) => Lock::Shared.begin(rows[0].thread(), &session),
        None if session.is_empty() => "BEGIN ISOLATION LEVEL READ COMMITTED".to_owned(),
        None => format!("BEGIN ISOLATION LEVEL READ COMMITTED; SELECT 1{session}"),
    };
    let statements = rows.iter().map(|rows| Box::pin(rows.store(link)) as BoxFuture<'_, _>);
    let begin = begin + &check(rows[0].thread(), deletions);
    transaction(link, &begin, statements.collect()).await.map(drop)
}

/// What is asked after the lock was taken, of a thread that may have been deleted.
fn check(thread: &str, deletions: Option<u32>) -> String {
    match deletions {
        // The server has the words for a name that cannot be.
        Some(times) if !thread.contains('\0') => {
            "; ".to_owned() + &sql::fail_if_deleted(thread, times)
        }
        _ => String::new(),
    }
}

/// Begins, and does all statements, for as long as none fails, and commits; gives how many rows each
/// of them stored. Everything is sent when this is first polled.
async fn transaction(
    link: &Link,
    begin: &str,
    statements: Vec<BoxFuture<'_, Result<u64, Failure>>>,
) -> Result<Vec<u64>, Failure> {
    let simple = |text| -> BoxFuture<'_, Result<u64, Failure>> {
        Box::pin(async move { Ok(link.batch_execute(text).await.map(|()| 0)?) })
    };
    let begin: BoxFuture<'_, _> =
        Box::pin(simple(begin).map_err(|failure| judge_session(link, failure)));
    let all = [begin].into_iter().chain(statements).chain([simple("COMMIT")]);
    let mut stored = in_order(all.collect()).await?;
    stored.pop();
    Ok(stored.split_off(1))
}

/// Polls all of them, always in this order, to the end, and gives the first failure.
async fn in_order<T>(all: Vec<BoxFuture<'_, Result<T, Failure>>>) -> Result<Vec<T>, Failure> {
    let mut all: Vec<_> = all.into_iter().map(maybe_done).collect();
    poll_fn(|cx| {
        let pending = all.iter_mut().map(|one| Pin::new(one).poll(cx).is_pending());
        match pending.fold(false, |any, one| any | one) {
            false => Poll::Ready(()),
            true => Poll::Pending,
        }
    })
    .await;
    let results = all.iter_mut().filter_map(|one| Pin::new(one).take_output());
    results.collect()
}
