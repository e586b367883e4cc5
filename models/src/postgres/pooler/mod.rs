//! A connection pooler in transaction mode, as PgBouncer documents it: few connections to the
//! server, lent to many clients, each for one transaction.
//!
//! What a session leaves on its connection stays there for whoever is lent it next: a session's
//! advisory lock, a setting, a named prepared statement. With [`PoolerSettings::max_prepared_statements`]
//! the pooler makes prepared statements follow their client, nothing else.
//!
//! - <https://www.pgbouncer.org/features.html>, the table of what breaks in transaction mode
//! - <https://www.pgbouncer.org/config.html>, the settings and their defaults

mod client;
mod named;
mod pool;
mod server;
mod settings;

use std::io;
use std::sync::Arc;

use durasim_sim::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};

use pool::Pool;
pub use settings::PoolerSettings;

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

type BoxedStream = Box<dyn Stream>;

/// How the pooler reaches its server.
type Connect = Arc<dyn Fn() -> BoxFuture<'static, io::Result<BoxedStream>> + Send + Sync>;

/// A pooler. Cloning gives another handle to the same one.
#[derive(Clone)]
pub struct Pooler {
    pool: Arc<Pool>,
}

impl Pooler {
    fn new(settings: PoolerSettings, connect: Connect) -> Pooler {
        Pooler { pool: Arc::new(Pool::new(settings, connect)) }
    }

    /// Connections to the server, lent and idle.
    pub fn servers(&self) -> usize {
        self.pool.servers()
    }

    /// A pooler in front of a server, both in memory.
    #[cfg(not(madsim))]
    pub fn over(postgres: &super::Postgres, settings: PoolerSettings) -> Pooler {
        let postgres = postgres.clone();
        let connect: Connect = Arc::new(move || {
            let stream = postgres.connect();
            Box::pin(async move { Ok(Box::new(stream) as BoxedStream) })
        });
        let pooler = Pooler::new(settings, connect);
        tokio::spawn(pool::evict(pooler.pool.clone()));
        pooler
    }

    /// Opens a connection in memory, served by a task.
    #[cfg(not(madsim))]
    pub fn connect(&self) -> tokio::io::DuplexStream {
        let (client, server) = tokio::io::duplex(64 * 1024);
        tokio::spawn(client::serve(self.pool.clone(), server));
        client
    }
}

#[cfg(madsim)]
mod served {
    use std::sync::Arc;

    use durasim_sim::{Process, World};

    use super::{BoxedStream, Connect, Pooler, PoolerSettings, client, pool};
    use crate::postgres::Postgres;

    impl Pooler {
        /// The process, and the host that others connect to.
        pub const NAME: &str = "pooler";
        pub const PORT: u16 = 6432;

        /// Starts the pooler as a process of the world, in front of the process
        /// [`Postgres::NAME`].
        ///
        /// # Panics
        /// If the world has a process of that name.
        pub fn serve(world: &World, settings: PoolerSettings) -> Process {
            world.process(Self::NAME, Self::NAME, move |me| {
                let (settings, server) = (settings.clone(), me.clone());
                let connect: Connect = Arc::new(move || {
                    let server = server.clone();
                    Box::pin(async move {
                        let stream = server.connect(Postgres::NAME, Postgres::PORT).await?;
                        Ok(Box::new(stream) as BoxedStream)
                    })
                });
                let pooler = Pooler::new(settings, connect);
                Box::pin(async move {
                    let listener =
                        me.listen(Self::PORT).expect("a fresh process has its ports free");
                    drop(me.spawn("evict", pool::evict(pooler.pool.clone())));
                    while let Ok(stream) = listener.accept().await {
                        let actor = stream.label().to_string();
                        drop(me.spawn(&actor, client::serve(pooler.pool.clone(), stream)));
                    }
                })
            })
        }
    }
}
