//! Connections: how one is made, who holds it, and what is done when it breaks.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use deadpool::managed::{Manager, Metrics, Object, Pool, PoolError, RecycleError, RecycleResult};
use futures::future::{BoxFuture, Either, select};
use tokio_postgres::tls::TlsConnect;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, Error, Row};

use super::PostgresOptions;
use super::dismissal::{Keeper, Lent, Link, Work};
use super::errors::{Failure, refused};
use super::prepared::{Prepared, Sessions};
use super::problem::{ServerProblem, explained};
use super::target::{Server, Target};
use super::tls::Tls;
use crate::checkpoint::saver::{SaverError, SaverResult};
use crate::doors::{Clock, Doors, Io, Point};

/// Between two looks of a migrator whether another one is done.
pub(super) const MIGRATOR_PAUSE: Duration = Duration::from_millis(20);
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Makes connections through the doors. The pool neither spawns nor waits by itself.
pub(super) struct Connecting {
    target: Target,
    tls: Tls,
    doors: Doors,
    /// If statements shall be prepared.
    sessions: Option<Sessions>,
}

impl Connecting {
    /// The first of the servers that has us.
    pub async fn connect(&self) -> Result<Link, Failure> {
        let mut failure = None;
        for server in &self.target.servers {
            match self.connect_within_limit(server).await {
                Ok(client) => return Ok(client),
                Err(found @ Failure::Unreachable(_)) => failure = Some(found),
                Err(other) => return Err(other),
            }
        }
        Err(failure.expect("a target has a server"))
    }

    async fn connect_within_limit(&self, server: &Server) -> Result<Link, Failure> {
        let Some(limit) = self.target.connect_limit else {
            return self.connect_to(server).await;
        };
        let connect = pin!(self.connect_to(server));
        match select(connect, self.doors.clock.sleep(limit)).await {
            Either::Left((result, _)) => result,
            Either::Right(_) => Err(Failure::Unreachable(format!(
                "cannot reach postgres at {}: no answer within {limit:?}",
                server.authority
            ))),
        }
    }

    async fn connect_to(&self, server: &Server) -> Result<Link, Failure> {
        let authority = &*server.authority;
        let stream = self.doors.connector.connect(authority).await.map_err(|error| {
            Failure::Unreachable(format!("cannot reach postgres at {authority}: {error}"))
        })?;
        let connected = open(&self.target.config, stream, self.tls.to(server)).await;
        let (client, work) = connected.map_err(|error| refused(authority, error))?;
        let (doors, tls, server) = (self.doors.clone(), self.tls.clone(), server.clone());
        let prepared = self.sessions.as_ref().map(Prepared::new);
        Ok(Keeper { doors, tls, server }.keep(client, work, prepared))
    }
}

/// A client, and what does the work of its connection.
type Opened = Result<(Client, Work), Error>;

fn open<S, T>(config: &Config, stream: S, tls: T) -> BoxFuture<'_, Opened>
where
    S: Io + 'static,
    T: TlsConnect<S, Stream: Send + 'static, Future: Send> + Send + 'static,
{
    Box::pin(async move {
        let (client, connection) = config.connect_raw(stream, tls).await?;
        Ok((client, Box::pin(connection) as Work))
    })
}

impl Manager for Connecting {
    type Type = Link;
    type Error = Failure;

    async fn create(&self) -> Result<Link, Failure> {
        self.connect().await
    }

    async fn recycle(&self, link: &mut Link, _: &Metrics) -> RecycleResult<Failure> {
        match link.is_closed() {
            true => Err(RecycleError::message("closed")),
            false => Ok(()),
        }
    }
}

/// The connections of a saver. Clones share them.
#[derive(Clone)]
pub(super) struct Store {
    pool: Pool<Connecting>,
    name: Arc<str>,
    pub(super) doors: Doors,
    pub(super) options: PostgresOptions,
}

/// One attempt at a call, with what it is about. It may be dropped wherever it waits, so it leaves no
/// transaction open between two of its requests.
pub(super) type Attempt<D, T> = for<'a> fn(&'a D, &'a Link) -> BoxFuture<'a, Result<T, Failure>>;

/// May a call be made again when it is not known whether it took effect?
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Again {
    /// Twice is as good as once.
    Yes,
    No,
}

/// How long an outage lasts from its first failure on, with pauses between attempts that become
/// longer. The last attempt is made when the limit is past.
pub(super) struct Patience {
    clock: Arc<dyn Clock>,
    limit: Duration,
    /// Over when the limit is past.
    outage: Option<BoxFuture<'static, ()>>,
    pause: Duration,
    is_over: bool,
}

impl Patience {
    /// Returns when another attempt is due; `false` if none is.
    pub async fn wait(&mut self) -> bool {
        if self.is_over {
            return false;
        }
        let outage = self.outage.get_or_insert_with(|| self.clock.sleep(self.limit));
        if let Either::Right(_) = select(self.clock.sleep(self.pause), outage).await {
            self.is_over = true;
        }
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        true
    }
}

impl Store {
    pub(super) fn new(
        url: &str,
        doors: &Doors,
        options: PostgresOptions,
    ) -> Result<Store, SaverError> {
        let target = Target::parse(url)?;
        let name = target.name().into();
        let tls = Tls::new(&target, doors, options.root_certificates.as_deref())?;
        let sessions = options.prepared_statements.then(Sessions::default);
        let pool = Pool::builder(Connecting { target, tls, doors: doors.clone(), sessions })
            .max_size(options.max_connections.max(1))
            .build()
            .expect("a pool without timeouts needs no runtime");
        Ok(Store { pool, name, doors: doors.clone(), options })
    }

    /// A connection beside those of the pool.
    pub(super) async fn connect(&self) -> Result<Lent, Failure> {
        let made = pin!(self.pool.manager().connect());
        match select(made, self.doors.clock.sleep(self.options.acquire_limit)).await {
            Either::Left((result, _)) => result.map(Lent::own),
            Either::Right(_) => Err(self.no_connection()),
        }
    }

    pub(super) fn close(&self) {
        self.pool.close();
    }

    /// Does a call once the gate lets it, again and again while the server is away or undoes it.
    pub(super) fn call<D: Send + Sync + 'static, T: Send + 'static>(
        &self,
        point: Point,
        again: Again,
        data: D,
        attempt: Attempt<D, T>,
    ) -> SaverResult<T> {
        let store = self.clone();
        Box::pin(async move {
            let _pass = store.doors.gate.pass(|| point).await;
            let done = store.persist(&mut store.patience(), again, &data, attempt).await;
            done.map_err(|failure| store.error(failure))
        })
    }

    /// As [`Store::call`], of one that has passed the gate, and with what others left of the patience
    /// with an outage.
    pub(super) async fn persist<D, T>(
        &self,
        patience: &mut Patience,
        again: Again,
        data: &D,
        attempt: Attempt<D, T>,
    ) -> Result<T, Failure> {
        let mut was_lost = false;
        loop {
            let failure = match self.attempt(data, attempt).await {
                Ok(value) => {
                    *patience = self.patience();
                    return Ok(value);
                }
                Err(failure) => failure,
            };
            was_lost |= matches!(failure, Failure::Lost(_));
            if let Failure::Sql(_) | Failure::Saver(_) = failure {
                // The server is there.
                *patience = self.patience();
            }
            // Once for each connection at most, as a new one has prepared nothing.
            if matches!(failure, Failure::Moved) {
                continue;
            }
            if !failure.may_pass(again) || !patience.wait().await {
                return Err(if was_lost { failure.after_a_loss() } else { failure });
            }
        }
    }

    pub(super) fn patience(&self) -> Patience {
        let limit = self.options.outage_limit;
        let is_over = limit.is_zero();
        Patience {
            clock: self.doors.clock.clone(),
            limit,
            outage: None,
            pause: FIRST_PAUSE,
            is_over,
        }
    }

    async fn attempt<D, T>(&self, data: &D, attempt: Attempt<D, T>) -> Result<T, Failure> {
        let lent = Lent::pooled(self.acquire().await?);
        let result = self.in_time(attempt(data, lent.link())).await;
        lent.end(&result);
        result
    }

    /// What the server does not answer within the limit has failed.
    pub(super) async fn in_time<T>(
        &self,
        answer: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let limit = self.options.answer_limit;
        match select(pin!(answer), self.doors.clock.sleep(limit)).await {
            Either::Left((result, _)) => result,
            Either::Right(_) => Err(Failure::Silent(limit)),
        }
    }

    async fn acquire(&self) -> Result<Object<Connecting>, Failure> {
        let free = pin!(self.pool.get());
        match select(free, self.doors.clock.sleep(self.options.acquire_limit)).await {
            Either::Left((Ok(client), _)) => Ok(client),
            Either::Left((Err(PoolError::Backend(failure)), _)) => Err(failure),
            Either::Left((Err(PoolError::Closed), _)) => {
                Err(Failure::Unavailable("the saver is closed".to_owned()))
            }
            Either::Left((Err(_), _)) => unreachable!("the pool has no timeouts and no hooks"),
            Either::Right(_) => Err(self.no_connection()),
        }
    }

    fn no_connection(&self) -> Failure {
        let PostgresOptions { acquire_limit, max_connections, .. } = &self.options;
        Failure::Unavailable(format!(
            "no connection became free, or could be made, within {acquire_limit:?}; there may be \
             {max_connections} (PostgresOptions::max_connections)"
        ))
    }

    pub(super) fn error(&self, failure: Failure) -> SaverError {
        let problem = ServerProblem::of(&failure);
        let text = match failure {
            Failure::Saver(error) => return error,
            Failure::Unreachable(problem) | Failure::Unavailable(problem) => problem,
            Failure::Moved => "the session changed; nothing was done".to_owned(),
            Failure::Lost(problem) => {
                format!("the connection broke ({problem}); whether the call took effect is unknown")
            }
            Failure::Silent(limit) => {
                format!("no answer within {limit:?}; whether the call took effect is unknown")
            }
            Failure::Undone(error) | Failure::Sql(error) => explained(&error),
        };
        SaverError::Server { database: self.name.to_string(), problem, text }
    }
}

/// A parameter and its type, which spares the server and us a round trip for asking.
pub(super) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

pub(super) async fn query(
    client: &Client,
    statement: &str,
    parameters: &[Parameter<'_>],
) -> Result<Vec<Row>, Failure> {
    Ok(client.query_typed(statement, parameters).await?)
}

/// The number of rows that a statement stored, changed or removed.
pub(super) async fn execute(
    client: &Client,
    statement: &str,
    parameters: &[Parameter<'_>],
) -> Result<u64, Failure> {
    Ok(client.execute_typed(statement, parameters).await?)
}
