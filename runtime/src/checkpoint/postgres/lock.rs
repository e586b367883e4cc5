//! Locks on a thread, for those who must see what others did before.
//!
//! One statement sees one moment, which is taken before it waits for any lock. So the lock is a
//! statement of its own, in front: the next one in the transaction sees everything that was done
//! under the lock before. All are sent at once, which keeps them one round trip, and which leaves
//! nothing half open when the caller goes away: `COMMIT` was sent as well, and undoes what was stopped.

use futures::future::join3;
use tokio_postgres::Client;
use xxhash_rust::xxh3::xxh3_64;

use super::errors::Failure;

/// How a thread is locked until the transaction ends. The locks are PostgreSQL's advisory ones, which
/// only this saver knows: Python neither waits for them nor makes others wait.
#[derive(Clone, Copy)]
pub(super) enum Lock {
    /// Beside others who write.
    Shared,
    Alone,
}

impl Lock {
    /// Opens a transaction and takes the lock, and gives the value of more columns. Whatever the
    /// session's default is, each statement of it sees its own moment.
    pub fn begin(self, thread: &str, columns: &str) -> String {
        let function = match self {
            Lock::Shared => "pg_advisory_xact_lock_shared",
            Lock::Alone => "pg_advisory_xact_lock",
        };
        let key = key("thread", thread);
        format!("BEGIN ISOLATION LEVEL READ COMMITTED; SELECT {function}({key}){columns}")
    }
}

/// The number of a lock. Two names with one number wait for each other without need, no more.
pub(super) fn key(kind: &str, name: &str) -> i64 {
    xxh3_64(format!("durasim {kind} {name}").as_bytes()) as i64
}

/// Does `statement` in a transaction that holds a lock. It must send everything when it is first
/// polled.
pub(super) async fn locked<T>(
    client: &Client,
    lock: Lock,
    thread: &str,
    statement: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let begin = lock.begin(thread, "");
    // Polled in this order.
    let (begun, answer, committed) =
        join3(client.batch_execute(&begin), statement, client.batch_execute("COMMIT")).await;
    begun?;
    let answer = answer?;
    committed?;
    Ok(answer)
}
