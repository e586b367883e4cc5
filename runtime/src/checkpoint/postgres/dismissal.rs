//! Connections that somebody left while the server was still at work for them. Nobody else may have
//! one, as its answers would come behind those of a stranger's request. The server is asked to stop,
//! and until it has, the connection counts as one of those that there may be.

use std::ops::Deref;
use std::time::Duration;

use deadpool::managed::Object;
use futures::channel::oneshot;
use futures::future::{BoxFuture, Either, select};
use tokio_postgres::tls::TlsConnect;
use tokio_postgres::{CancelToken, Client, Error};

use super::connection::Connecting;
use super::errors::{Failure, chain};
use super::prepared::Prepared;
use super::target::Server;
use super::tls::Tls;
use crate::doors::{Doors, Io};

/// How long the server may take to stop before the connection is not counted any more. One that
/// cannot be reached would else keep callers from trying another connection.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// A client, and the way to have its connection ended.
pub(super) struct Link {
    /// Gone first: a statement that is dropped before would be closed, in whatever session.
    client: Client,
    /// What it keeps prepared, if it shall.
    prepared: Option<Prepared>,
    /// To the task that does the connection's work. Dropping a call cannot start a task of its own,
    /// as there may be nothing left to run it.
    dismissal: Option<oneshot::Sender<Held>>,
}

impl Link {
    pub fn prepared(&self) -> Option<&Prepared> {
        self.prepared.as_ref()
    }
}

impl Deref for Link {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

/// A connection of the pool, or one beside it.
enum Held {
    Pooled(Object<Connecting>),
    Own(Link),
}

impl Held {
    fn link_mut(&mut self) -> &mut Link {
        match self {
            Held::Pooled(link) => link,
            Held::Own(link) => link,
        }
    }

    fn link(&self) -> &Link {
        match self {
            Held::Pooled(link) => link,
            Held::Own(link) => link,
        }
    }

    /// Never to be used again.
    fn discard(self) {
        if let Held::Pooled(link) = self {
            drop(Object::take(link));
        }
    }
}

/// A connection that is lent. Unless its work comes to an end, it is dismissed.
pub(super) struct Lent(Option<Held>);

impl Lent {
    pub fn pooled(link: Object<Connecting>) -> Lent {
        Lent(Some(Held::Pooled(link)))
    }

    pub fn own(link: Link) -> Lent {
        Lent(Some(Held::Own(link)))
    }

    pub fn link(&self) -> &Link {
        self.0.as_ref().expect("it is lent for as long as this is there").link()
    }

    /// The work came to an end: the pool has its connection again, if that is still good.
    pub fn end<T>(mut self, result: &Result<T, Failure>) {
        match result {
            // The server may be at it still.
            Err(Failure::Silent(_)) => {}
            Err(Failure::Lost(_) | Failure::Moved) => {
                self.0.take().into_iter().for_each(Held::discard)
            }
            _ => drop(self.0.take()),
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Some(mut held) = self.0.take() else { return };
        let left = match held.link_mut().dismissal.take() {
            Some(dismissal) => dismissal.send(held).err(),
            None => Some(held),
        };
        // The task is over, and the connection with it.
        left.into_iter().for_each(Held::discard);
    }
}

/// What does the work of a connection.
pub(super) type Work = BoxFuture<'static, Result<(), Error>>;

/// How the server of a connection is reached a second time.
pub(super) struct Keeper {
    pub doors: Doors,
    pub tls: Tls,
    pub server: Server,
}

impl Keeper {
    /// Starts the task that does a connection's work. It ends when its client is gone and everything
    /// that was sent is answered.
    pub fn keep(self, client: Client, work: Work, prepared: Option<Prepared>) -> Link {
        let (dismissal, dismissed) = oneshot::channel();
        let executor = self.doors.executor.clone();
        drop(executor.spawn("postgres", async move {
            let ended = match select(work, dismissed).await {
                Either::Left((ended, _)) => ended,
                Either::Right((Ok(held), work)) => self.stop(held, work).await,
                // The client is gone.
                Either::Right((Err(_), work)) => work.await,
            };
            if let Err(error) = ended {
                tracing::debug!("a connection to postgres ended: {}", chain(&error));
            }
        }));
        Link { client, prepared, dismissal: Some(dismissal) }
    }

    /// Has the server stop, and ends the connection.
    async fn stop(&self, held: Held, work: Work) -> Result<(), Error> {
        let token = held.link().cancel_token();
        let stopped = async {
            if let Err(problem) = self.cancel(token).await {
                tracing::debug!("postgres was not asked to stop: {problem}");
            }
            // Behind everything that was sent.
            held.link().batch_execute("").await
        };
        let stopped = Box::pin(select(Box::pin(stopped), self.doors.clock.sleep(STOP_LIMIT)));
        let work = match select(stopped, work).await {
            Either::Left((Either::Left(_), work)) => Some(work),
            Either::Left((Either::Right(_), _)) | Either::Right(_) => None,
        };
        held.discard();
        match work {
            Some(work) => work.await,
            None => Ok(()),
        }
    }

    async fn cancel(&self, token: CancelToken) -> Result<(), String> {
        let stream = self.doors.connector.connect(&self.server.authority).await;
        let stream = stream.map_err(|error| error.to_string())?;
        let cancelled = ask(token, stream, self.tls.to(&self.server)).await;
        cancelled.map_err(|error| chain(&error))
    }
}

fn ask<S, T>(token: CancelToken, stream: S, tls: T) -> Work
where
    S: Io + 'static,
    T: TlsConnect<S, Stream: Send + 'static, Future: Send> + Send + 'static,
{
    Box::pin(async move { token.cancel_query_raw(stream, tls).await })
}
