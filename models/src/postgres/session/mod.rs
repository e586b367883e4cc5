//! One connection: its transaction, its settings, its prepared statements.

mod control;
mod extended;
mod listen;
mod run;
mod settings;
mod simple;
mod startup;
mod statement;
mod wait;
mod xact;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::engine::{Engine, Signal};
use super::error::{PgError, Severity};
use super::exec::Facts;
use super::locks::Pid;
use super::sql::Field;
pub use extended::format_at;
use extended::{Portal, Prepared};
pub use listen::serve;
pub use run::Run;
pub use settings::Settings;
use xact::{Block, Xact};

/// The server's side of one connection.
pub struct Session {
    pub engine: Arc<Engine>,
    pub pid: Pid,
    life: u64,
    signal: Arc<Signal>,
    /// Whose latencies are drawn: the connection's name in the world.
    actor: String,
    user: Arc<str>,
    database: Arc<str>,
    pub xact: Xact,
    settings: Arc<Settings>,
    prepared: BTreeMap<String, Arc<Prepared>>,
    portals: BTreeMap<String, Portal>,
    /// When the statement that runs has run for too long.
    deadline: Option<Duration>,
    /// Is the statement one of several in a simple query?
    several: bool,
    /// The fields of the statement that runs, as soon as they are known.
    announced: Option<Vec<Field>>,
    /// Notices and warnings on their way to the client.
    notices: Vec<PgError>,
}

impl Session {
    pub fn warn(&mut self, code: &'static str, message: &str) {
        self.notices.push(PgError::new(code, message).severe(Severity::Warning));
    }

    pub fn notice(&mut self, code: &'static str, message: String) {
        self.notices.push(PgError::new(code, message).severe(Severity::Notice));
    }

    fn facts(&self) -> Facts {
        Facts {
            now: self.xact.now,
            clock: self.engine.clock.timestamp(),
            pid: self.pid,
            xid: self.xact.own().first().copied().unwrap_or_default(),
            user: self.user.clone(),
            database: self.database.clone(),
            settings: self.settings.clone(),
        }
    }

    /// The transaction status that ReadyForQuery tells.
    fn status(&self) -> u8 {
        match (self.xact.failed, self.xact.block) {
            (true, _) => b'E',
            (false, Block::Explicit) => b'T',
            (false, _) => b'I',
        }
    }
}

impl Drop for Session {
    /// The end of a connection rolls back and lets go of everything, however it came about.
    fn drop(&mut self) {
        let mut state = self.engine.lock();
        if state.life != self.life {
            return;
        }
        if self.xact.block != Block::Idle {
            self.xact.abort(&mut state, self.pid);
        }
        state.locks.forget(self.pid);
        state.backends.remove(&self.pid);
    }
}
