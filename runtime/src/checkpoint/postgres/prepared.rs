//! Statements that a session keeps prepared, which spares the server reading and planning them.
//!
//! Only those that store rows are, wherever the head is. They look nothing up, so that there is no plan
//! to go wrong; that of a read which was made while its table was small would be kept while the table
//! grows.
//!
//! A name means something in its session alone, and in another one it may mean somebody else's
//! statement. A pooler may lend another session each time. So every transaction that relies on a name
//! asks first whether the session is still the same, and does nothing if not; from then on the saver
//! prepares nothing more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::{join, join_all};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, SimpleQueryMessage, Statement};

use super::connection::{Parameter, execute};
use super::dismissal::Link;
use super::errors::Failure;
use super::statements::Insert;

/// Do the connections of a saver keep their sessions? Clones share the answer.
#[derive(Clone, Default)]
pub(super) struct Sessions {
    come_and_go: Arc<AtomicBool>,
}

impl Sessions {
    /// Nothing was done, and nothing will be prepared any more.
    fn moved(&self) -> Failure {
        if !self.come_and_go.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "a pooler lends the saver another session of postgres each time: it goes on without \
                 prepared statements (PostgresOptions::prepared_statements)"
            );
        }
        Failure::Moved
    }
}

/// What a connection has prepared.
pub(super) struct Prepared {
    sessions: Sessions,
    texts: Mutex<Texts>,
}

/// There are as many texts as ways to spell rows out.
#[derive(Default)]
struct Texts {
    /// What came once, and was sent unnamed.
    seen: BTreeSet<String>,
    kept: BTreeMap<String, Statement>,
    /// All that were ever prepared: to drop one is to close whatever has its name in the session at
    /// that moment, so that none is dropped before the connection is gone.
    alive: Vec<Statement>,
    /// Where they are kept: the process id of the server's end.
    session: Option<i32>,
}

impl Prepared {
    pub fn new(sessions: &Sessions) -> Prepared {
        Prepared { sessions: sessions.clone(), texts: Mutex::default() }
    }

    /// Before a transaction: prepares those of its statements that come a second time, in one round
    /// trip. What cannot be prepared is sent unnamed, and tells then what is wrong.
    pub async fn get_ready(&self, client: &Client, inserts: Vec<Insert>) -> Result<(), Failure> {
        let again = self.seen_before(inserts);
        if again.is_empty() {
            return Ok(());
        }
        // Within a transaction a pooler leaves us one session.
        let prepare = async |insert: Insert| {
            let statement = client.prepare_typed(&insert.text, &insert.types).await?;
            self.texts().alive.push(statement.clone());
            Ok::<_, Error>((insert.text, statement))
        };
        let all = join_all(again.into_iter().map(prepare));
        let begin = client.simple_query("BEGIN; SELECT pg_backend_pid()");
        let (begun, (prepared, ended)) =
            join(begin, join(all, client.batch_execute("COMMIT"))).await;
        let session = backend(&begun?);
        ended?;
        let mut texts = self.texts();
        let mut is_ours = texts.session.is_none_or(|before| Some(before) == session);
        texts.session = session;
        for one in prepared {
            match one {
                Ok((text, statement)) => drop(texts.kept.insert(text, statement)),
                // Somebody else's, and not of this connection.
                Err(error) if error.code() == Some(&SqlState::DUPLICATE_PSTATEMENT) => {
                    is_ours = false;
                }
                Err(_) => {}
            }
        }
        if is_ours { Ok(()) } else { Err(self.sessions.moved()) }
    }

    /// Those that came before and are not kept yet.
    fn seen_before(&self, inserts: Vec<Insert>) -> Vec<Insert> {
        if self.is_off() {
            return vec![];
        }
        let mut texts = self.texts();
        let mut again: Vec<Insert> = vec![];
        for insert in inserts {
            let is_new = texts.seen.insert(insert.text.clone());
            let is_there = texts.kept.contains_key(&insert.text);
            if !is_new && !is_there && again.iter().all(|other| other.text != insert.text) {
                again.push(insert);
            }
        }
        again
    }

    /// The process id that the session must have for what is kept to mean anything.
    fn session(&self) -> Option<i32> {
        let texts = self.texts();
        texts.session.filter(|_| !texts.kept.is_empty() && !self.is_off())
    }

    fn kept(&self, text: &str) -> Option<Statement> {
        self.texts().kept.get(text).filter(|_| !self.is_off()).cloned()
    }

    fn is_off(&self) -> bool {
        self.sessions.come_and_go.load(Ordering::Relaxed)
    }

    /// Nothing under this lock can fail half done.
    fn texts(&self) -> MutexGuard<'_, Texts> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn backend(answers: &[SimpleQueryMessage]) -> Option<i32> {
    answers.iter().find_map(|answer| match answer {
        SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
        _ => None,
    })
}

/// One more column of the statement that opens a transaction: it fails (22P02) in another session
/// than that of the prepared statements. Empty where there are none.
pub(super) fn same_session(link: &Link) -> String {
    match link.prepared().and_then(Prepared::session) {
        Some(session) => format!(
            ", CAST(CASE WHEN pg_backend_pid() = {session} THEN '1' ELSE 'another session' END AS int4)"
        ),
        None => String::new(),
    }
}

/// What a transaction failed with that began with [`same_session`].
pub(super) fn judge_session(link: &Link, failure: Failure) -> Failure {
    match (&failure, link.prepared()) {
        (Failure::Sql(error), Some(prepared))
            if error.code() == Some(&SqlState::INVALID_TEXT_REPRESENTATION) =>
        {
            prepared.sessions.moved()
        }
        _ => failure,
    }
}

/// The number of rows that a statement stored. It is sent when this is first polled, behind what makes
/// sure of the session.
pub(super) async fn store(
    link: &Link,
    insert: &Insert,
    values: &[&(dyn ToSql + Sync)],
) -> Result<u64, Failure> {
    let Some(statement) = link.prepared().and_then(|prepared| prepared.kept(&insert.text)) else {
        return store_unnamed(link, insert, values).await;
    };
    match link.execute(&statement, values).await {
        // Somebody told the session to forget it.
        Err(error) if error.code() == Some(&SqlState::INVALID_SQL_STATEMENT_NAME) => {
            Err(Failure::Moved)
        }
        other => Ok(other?),
    }
}

pub(super) async fn store_unnamed(
    client: &Client,
    insert: &Insert,
    values: &[&(dyn ToSql + Sync)],
) -> Result<u64, Failure> {
    let types = insert.types.iter().cloned();
    let parameters: Vec<Parameter<'_>> = values.iter().copied().zip(types).collect();
    execute(client, &insert.text, &parameters).await
}
