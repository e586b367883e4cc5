//! The connections to the server: lent in the order of asking, the one that came back last first.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::server::Server;
use super::{BoxedStream, Connect, PoolerSettings};
use crate::postgres::clock::Clock;
use crate::postgres::error::PgError;

pub struct Pool {
    pub settings: PoolerSettings,
    connect: Connect,
    clock: Clock,
    permits: Arc<Semaphore>,
    state: Mutex<State>,
    /// A connection has come back.
    returned: Notify,
}

#[derive(Default)]
struct State {
    idle: Vec<Server>,
    lent: usize,
    clients: BTreeMap<i32, Client>,
    last_client: i32,
    /// What the server says of itself, since somebody was connected to it.
    welcome: Option<Vec<u8>>,
}

/// What a CancelRequest finds.
struct Client {
    secret: i32,
    /// The key of the connection that it is lent.
    server: Option<(i32, i32)>,
}

/// The right to one of the connections.
pub struct Loan {
    pub server: Server,
    _permit: OwnedSemaphorePermit,
}

/// 0 is no limit.
fn limit(ms: u64) -> Option<Duration> {
    (ms > 0).then(|| Duration::from_millis(ms))
}

impl Pool {
    pub fn new(settings: PoolerSettings, connect: Connect) -> Pool {
        let permits = Arc::new(Semaphore::new(settings.pool_size));
        let (clock, state, returned) = (Clock::default(), Mutex::default(), Notify::new());
        Pool { settings, connect, clock, permits, state, returned }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn servers(&self) -> usize {
        let state = self.lock();
        state.idle.len() + state.lent
    }

    /// Lets a client in; `None` if there are too many.
    pub fn admit(&self) -> Option<(i32, i32)> {
        let mut state = self.lock();
        if state.clients.len() >= self.settings.max_client_conn {
            return None;
        }
        state.last_client += 1;
        let (id, secret) = (state.last_client, state.last_client.wrapping_mul(0x2545_f491));
        state.clients.insert(id, Client { secret, server: None });
        Some((id, secret))
    }

    pub fn forget(&self, client: i32) {
        self.lock().clients.remove(&client);
    }

    /// The key of the connection that this client is lent, if it knows the secret.
    pub fn lent_to(&self, client: i32, secret: i32) -> Option<(i32, i32)> {
        let state = self.lock();
        state.clients.get(&client).filter(|client| client.secret == secret)?.server
    }

    pub async fn stream(&self) -> Option<BoxedStream> {
        (self.connect)().await.ok()
    }

    /// What the server says of itself; asks it if nobody has yet.
    ///
    /// # Errors
    /// As [`Pool::lend`].
    pub async fn welcome(&self, client: i32) -> Result<Vec<u8>, PgError> {
        let known = self.lock().welcome.clone();
        if let Some(welcome) = known {
            return Ok(welcome);
        }
        let loan = self.lend(client).await?;
        let welcome = loan.server.welcome.clone();
        self.take_back(client, loan);
        Ok(welcome)
    }

    /// Lends a connection to a client, when there is one.
    ///
    /// # Errors
    /// What PgBouncer tells a client that it sends away.
    pub async fn lend(&self, client: i32) -> Result<Loan, PgError> {
        let patience = self.clock.after(limit(self.settings.query_wait_timeout_ms));
        let permit = tokio::select! {
            biased;
            permit = self.permits.clone().acquire_owned() => permit,
            () = self.clock.sleep_until(patience) => {
                return Err(PgError::fatal("08P01", "query_wait_timeout"));
            }
        };
        let permit = permit.expect("the semaphore is never closed");
        let server = self
            .usable()
            .await
            .ok_or_else(|| PgError::fatal("08P01", "pgbouncer cannot connect to server"))?;
        let mut state = self.lock();
        state.lent += 1;
        state.welcome.get_or_insert_with(|| server.welcome.clone());
        if let Some(client) = state.clients.get_mut(&client) {
            client.server = Some(server.key);
        }
        Ok(Loan { server, _permit: permit })
    }

    /// An idle connection that is still good, or a new one.
    async fn usable(&self) -> Option<Server> {
        loop {
            let idle = self.lock().idle.pop();
            let Some(mut server) = idle else { break };
            if !server.is_spoilt().await {
                return Some(server);
            }
        }
        let stream = self.stream().await?;
        Server::open(stream, &self.settings, self.clock.now()).await
    }

    /// The client's transaction is over.
    pub fn take_back(&self, client: i32, loan: Loan) {
        let now = self.clock.now();
        let mut state = self.lock();
        state.returned(client);
        let Loan { mut server, _permit } = loan;
        if limit(self.settings.server_lifetime_ms).is_none_or(|limit| now < server.made + limit) {
            server.idle_since = now;
            state.idle.push(server);
        }
        drop(state);
        self.returned.notify_one();
    }

    /// The client went away in the middle of something, or the server did: nobody can use the
    /// connection any more.
    pub fn close(&self, client: i32, loan: Loan) {
        self.lock().returned(client);
        drop(loan);
    }

    /// Closes what has been idle for too long; says when to look again.
    fn evict(&self) -> Option<Duration> {
        let keep = limit(self.settings.server_idle_timeout_ms)?;
        let now = self.clock.now();
        let mut state = self.lock();
        state.idle.retain(|server| server.idle_since + keep > now);
        state.idle.iter().map(|server| server.idle_since + keep).min()
    }
}

impl State {
    fn returned(&mut self, client: i32) {
        self.lent -= 1;
        if let Some(client) = self.clients.get_mut(&client) {
            client.server = None;
        }
    }
}

/// Closes idle connections for as long as the pooler lives.
pub async fn evict(pool: Arc<Pool>) {
    loop {
        let next = pool.evict();
        tokio::select! {
            biased;
            () = pool.clock.sleep_until(next) => {}
            () = pool.returned.notified() => {}
        }
    }
}
