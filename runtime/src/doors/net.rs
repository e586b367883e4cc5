//! How other parties are reached, and how requests are accepted.

use std::io;

use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};

/// A byte stream between two parties.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Opens connections to other parties (a payment provider, a database, a broker).
pub trait Connector: Send + Sync {
    /// `authority` is `host:port`.
    fn connect(&self, authority: &str) -> BoxFuture<'static, io::Result<Box<dyn Io>>>;
}

/// Accepts connections of clients.
pub trait Listener: Send {
    /// The next connection and a name of the peer for logs.
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(Box<dyn Io>, String)>>;
}

/// Real TCP.
pub struct TcpConnector;

impl Connector for TcpConnector {
    fn connect(&self, authority: &str) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        let authority = authority.to_owned();
        Box::pin(async move {
            let stream = tokio::net::TcpStream::connect(authority).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Io>)
        })
    }
}

/// Real TCP, accepting side.
pub struct TcpDoor(pub tokio::net::TcpListener);

impl Listener for TcpDoor {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(Box<dyn Io>, String)>> {
        Box::pin(async move {
            let (stream, peer) = self.0.accept().await?;
            stream.set_nodelay(true)?;
            Ok((Box::new(stream) as Box<dyn Io>, peer.to_string()))
        })
    }
}
