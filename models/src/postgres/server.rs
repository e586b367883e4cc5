//! The database server: its data, and how connections come to it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::PostgresSettings;
use super::engine::{Engine, Wish};
use super::session;
use super::types::Cell;

/// A PostgreSQL server. Cloning gives another handle to the same one; its data outlives every
/// process that serves it.
#[derive(Clone)]
pub struct Postgres {
    engine: Arc<Engine>,
}

impl Postgres {
    /// An empty database.
    ///
    /// # Panics
    /// If the settings make no sense ([`PostgresSettings::check`]).
    pub fn new(settings: PostgresSettings) -> Postgres {
        if let Err(complaint) = settings.check() {
            panic!("postgres settings: {complaint}");
        }
        Postgres { engine: Arc::new(Engine::new(settings)) }
    }

    /// The committed rows of a table in the order of its primary key (without one, of their
    /// storage), by column. For judges: it goes through no SQL. No rows if there is no such table.
    pub fn rows(&self, table: &str) -> Vec<BTreeMap<String, Cell>> {
        let state = self.engine.lock();
        let (store, snapshot) = (&state.store, state.store.committed());
        let Some(table) = store.find(table, &[]) else { return Vec::new() };
        let versions = table.versions.iter();
        let seen = versions.filter(|(_, version)| snapshot.visible(&store.xacts, version));
        let key: &[usize] = table.primary_key().map_or(&[], |index| &index.columns);
        let mut rows: Vec<(Vec<Cell>, BTreeMap<String, Cell>)> = seen
            .map(|(_, version)| {
                let cell = |column: usize| table.cell(&version.row, column).clone();
                let names = table.columns.iter().enumerate();
                let row = names.map(|(at, column)| (column.name.clone(), cell(at))).collect();
                (key.iter().map(|column| cell(*column)).collect(), row)
            })
            .collect();
        rows.sort_by(|a, b| a.0.cmp(&b.0));
        rows.into_iter().map(|(_, row)| row).collect()
    }

    /// How many sessions there are.
    pub fn connections(&self) -> usize {
        self.engine.lock().backends.len()
    }

    /// The sessions that wait for a lock at this moment, by process id.
    pub fn waiting(&self) -> Vec<i32> {
        self.engine.lock().locks.waiting()
    }

    /// A fast shutdown followed by a start: every session is told 57P01 and ends, what it had not
    /// committed is rolled back.
    pub fn restart(&self) {
        self.engine
            .lock()
            .backends
            .values()
            .for_each(|backend| backend.signal.send(Wish::Terminate));
    }

    /// The server dies without a word and comes back: what was not committed is gone, and of what
    /// was committed with `synchronous_commit` off, the last moments.
    pub fn crash(&self) {
        self.engine.crash();
    }

    /// Opens a connection in memory, as a client's socket would be; its session is a task.
    #[cfg(not(madsim))]
    pub fn connect(&self) -> tokio::io::DuplexStream {
        let (client, server) = tokio::io::duplex(64 * 1024);
        tokio::spawn(session::serve(self.engine.clone(), server, "client".to_owned()));
        client
    }
}

#[cfg(madsim)]
mod served {
    use durasim_sim::{Process, World};

    use super::{Postgres, session};

    impl Postgres {
        /// The process, and the host that others connect to.
        pub const NAME: &str = "postgres";
        pub const PORT: u16 = 5432;

        /// Starts the server as a process of the world. Killed and restarted it has its data, as
        /// after [`Postgres::crash`].
        ///
        /// # Panics
        /// If the world has a process of that name.
        pub fn serve(&self, world: &World) -> Process {
            let postgres = self.clone();
            // A second world would have other streams; the first one's stay.
            let _ = self.engine.chance.set(world.chance().clone());
            world.process(Self::NAME, Self::NAME, move |me| {
                let postgres = postgres.clone();
                Box::pin(async move {
                    postgres.crash();
                    let listener =
                        me.listen(Self::PORT).expect("a fresh process has its ports free");
                    while let Ok(stream) = listener.accept().await {
                        let actor = stream.label().to_string();
                        let serving =
                            session::serve(postgres.engine.clone(), stream, actor.clone());
                        drop(me.spawn(&actor, serving));
                    }
                })
            })
        }
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.engine.lock();
        let (tables, sessions) = (state.store.tables.len(), state.backends.len());
        write!(f, "Postgres({tables} tables, {sessions} sessions)")
    }
}
