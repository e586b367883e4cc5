//! The knobs of the server.

use serde::{Deserialize, Serialize};

/// Lowest and highest, both included, in microseconds.
pub type Micros = [u64; 2];

/// How the server behaves. The defaults are those of PostgreSQL 15, with work that takes no time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PostgresSettings {
    /// Connections beyond this many are told 53300.
    pub max_connections: usize,
    /// Asked for in clear text; `None` trusts everybody.
    pub password: Option<String>,
    /// From the arrival of a statement to its execution.
    pub statement_us: Micros,
    /// How long the disk takes to make a commit durable; its effects are seen afterwards.
    pub commit_us: Micros,
    /// How long somebody waits for a lock before looking for a deadlock.
    pub deadlock_timeout_ms: u64,
    /// What sessions begin with; 0 is none. Each can be changed by SET.
    pub lock_timeout_ms: u64,
    pub statement_timeout_ms: u64,
    pub idle_in_transaction_session_timeout_ms: u64,
    /// Off: a commit is answered before it is durable, and a crash may lose the last ones.
    pub synchronous_commit: bool,
    /// How long such a commit stays undone by a crash, at most.
    pub wal_writer_delay_ms: u64,
}

impl Default for PostgresSettings {
    fn default() -> PostgresSettings {
        PostgresSettings {
            max_connections: 100,
            password: None,
            statement_us: [0, 0],
            commit_us: [0, 0],
            deadlock_timeout_ms: 1_000,
            lock_timeout_ms: 0,
            statement_timeout_ms: 0,
            idle_in_transaction_session_timeout_ms: 0,
            synchronous_commit: true,
            wal_writer_delay_ms: 200,
        }
    }
}

impl PostgresSettings {
    /// Whether the values make sense.
    ///
    /// # Errors
    /// Names the field and says what it would take.
    pub fn check(&self) -> Result<(), String> {
        let spans = [("statement_us", self.statement_us), ("commit_us", self.commit_us)];
        for (field, [low, high]) in spans {
            if low > high {
                return Err(format!("{field}: [{low}, {high}] is empty; the lower bound is first"));
            }
        }
        if self.max_connections == 0 {
            return Err("max_connections: 0 lets nobody in".to_owned());
        }
        Ok(())
    }
}
