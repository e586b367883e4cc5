//! A saver that prepares statements, behind a pooler that lends it another session from one transaction
//! to the next. There its names belong to somebody else.
#![cfg(not(madsim))]

mod checkpoint_support;
mod postgres_support;

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use checkpoint_support::{block_on, id, key, shared};
use durasim_runtime::Doors;
use durasim_runtime::checkpoint::postgres::{PostgresOptions, PostgresSaver};
use durasim_runtime::checkpoint::saver::{PutWrites, Saver};
use durasim_runtime::doors::{Connector, Io, TcpConnector};
use futures::future::BoxFuture;
use postgres_support::{Server, connect, rows};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio_postgres::types::Type;
use tokio_postgres::{Config, NoTls};

/// The near end of a connection whose far end may be changed.
#[derive(Clone, Default)]
struct Line {
    far: Arc<Mutex<Option<Box<dyn Io>>>>,
    /// What was sent to the far end that there is now.
    sent: Arc<Mutex<Vec<u8>>>,
}

impl Line {
    fn to(far: Box<dyn Io>) -> Line {
        let line = Line::default();
        line.plug(far);
        line
    }

    /// Gives the far end that was there.
    fn plug(&self, far: Box<dyn Io>) -> Option<Box<dyn Io>> {
        self.sent.lock().unwrap().clear();
        self.far.lock().unwrap().replace(far)
    }

    fn pull(&self) -> Option<Box<dyn Io>> {
        self.far.lock().unwrap().take()
    }

    fn at_far_end<T>(&self, call: impl FnOnce(Pin<&mut dyn Io>) -> T) -> T {
        let mut far = self.far.lock().unwrap();
        call(Pin::new(&mut **far.as_mut().expect("there is a far end")))
    }

    /// The kinds of the messages that were sent. https://www.postgresql.org/docs/15/protocol-overview
    fn kinds_sent(&self) -> String {
        let sent = self.sent.lock().unwrap();
        let (mut rest, mut kinds) = (&sent[..], String::new());
        while let [kind, a, b, c, d, ..] = *rest {
            kinds.push(char::from(kind));
            rest = &rest[1 + u32::from_be_bytes([a, b, c, d]) as usize..];
        }
        kinds
    }
}

impl AsyncRead for Line {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.at_far_end(|far| far.poll_read(cx, buffer))
    }
}

impl AsyncWrite for Line {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.at_far_end(|far| far.poll_write(cx, bytes));
        if let Poll::Ready(Ok(length)) = written {
            self.sent.lock().unwrap().extend(&bytes[..length]);
        }
        written
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.at_far_end(|far| far.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.at_far_end(|far| far.poll_shutdown(cx))
    }
}

/// Makes connections, and remembers the newest.
#[derive(Clone, Default)]
struct Exchange(Arc<Mutex<Line>>);

impl Connector for Exchange {
    fn connect(&self, authority: &str) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        let (connecting, exchange) = (TcpConnector.connect(authority), self.clone());
        Box::pin(async move {
            let line = Line::to(connecting.await?);
            *exchange.0.lock().unwrap() = line.clone();
            Ok(Box::new(line) as Box<dyn Io>)
        })
    }
}

/// A session that somebody has logged in to, without its client.
async fn session(url: &str) -> Box<dyn Io> {
    let config: Config = url.parse().expect("a URL");
    let tcp = TcpConnector.connect(&format!("127.0.0.1:{}", config.get_ports()[0])).await;
    let line = Line::to(tcp.expect("a server"));
    let connected = config.connect_raw(line.clone(), NoTls).await.expect("a connection");
    let far = line.pull().expect("nobody else has it");
    // Its client cannot take leave any more.
    drop(connected);
    far
}

/// Prepares a statement that does nothing, with these parameters, under every name that the client of
/// this process could come upon.
async fn take_all_names(session: &mut Box<dyn Io>, parameters: &[Type]) {
    for nth in 0..1_000 {
        let mut body = format!("s{nth}\0DELETE FROM checkpoint_writes WHERE false\0").into_bytes();
        body.extend((parameters.len() as i16).to_be_bytes());
        body.extend(parameters.iter().flat_map(|kind| kind.oid().to_be_bytes()));
        session.write_u8(b'P').await.unwrap();
        session.write_i32(body.len() as i32 + 4).await.unwrap();
        session.write_all(&body).await.unwrap();
    }
    session.write_all(b"S\0\0\0\x04").await.unwrap();
    session.flush().await.unwrap();
    loop {
        let kind = session.read_u8().await.unwrap();
        let length = session.read_i32().await.unwrap() as usize - 4;
        let mut body = vec![0; length];
        session.read_exact(&mut body).await.unwrap();
        match kind {
            b'1' => {}
            b'Z' => return,
            other => panic!("{:?}: {}", other as char, String::from_utf8_lossy(&body)),
        }
    }
}

fn writes(value: &str) -> PutWrites {
    // Of channels whose rows replace those that are there.
    let writes = ["__interrupt__", "__resume__"].map(|name| (name.into(), shared(value)));
    PutWrites::new(&key("t", ""), &id(0), "task", "", writes.into())
}

async fn open(url: &str) -> (Arc<PostgresSaver>, Exchange) {
    let exchange = Exchange::default();
    let mut doors = Doors::production();
    doors.connector = Arc::new(exchange.clone());
    let options = PostgresOptions {
        max_connections: 1,
        prepared_statements: true,
        ..PostgresOptions::default()
    };
    let saver = PostgresSaver::open_with(url, &doors, options).await.expect("it opens");
    (saver, exchange)
}

/// Without a look at the session, the last of them would be answered by `DELETE 0`, and be lost.
#[test]
fn what_somebody_else_prepared_is_not_taken_for_ours() {
    let Some(server) = Server::get() else { return };
    block_on(async {
        let url = server.database("moved");
        let (saver, exchange) = open(&url).await;
        for value in ["one", "two", "three"] {
            saver.put_writes(writes(value)).await.unwrap();
        }
        let mut other = session(&url).await;
        let text = [Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT];
        let row = [Type::INT4, Type::TEXT, Type::TEXT, Type::BYTEA];
        take_all_names(&mut other, &[&text[..], &row, &row].concat()).await;
        let line = exchange.0.lock().unwrap().clone();
        let before = line.plug(other);
        for value in ["four", "five", "six"] {
            saver.put_writes(writes(value)).await.unwrap();
            let client = connect(&url).await;
            let stored = "SELECT encode(blob, 'escape') FROM checkpoint_writes ORDER BY idx";
            let expected = format!("\\{:o}{value}", 0xa0 + value.len());
            assert_eq!(rows(&client, stored).await, [&*expected, &*expected]);
        }
        drop(before);
    });
}

/// What is prepared in a session that turns out to be another one has a name there, and so may what
/// somebody else prepares in it later. To close that name is to close theirs.
#[test]
fn nothing_is_closed_in_a_session_that_is_not_ours() {
    let Some(server) = Server::get() else { return };
    block_on(async {
        let url = server.database("moved_closed");
        let (saver, exchange) = open(&url).await;
        let more = |value: &str| {
            let mut more = writes(value);
            more.writes.push(("__error__".into(), shared(value)));
            more
        };
        for value in ["one", "two"] {
            saver.put_writes(writes(value)).await.unwrap();
        }
        saver.put_writes(more("three")).await.unwrap();
        let line = exchange.0.lock().unwrap().clone();
        let before = line.plug(session(&url).await);
        saver.put_writes(more("four")).await.unwrap();
        let kinds = line.kinds_sent();
        assert!(kinds.contains('P') && !kinds.contains('C'), "Parse and no Close: {kinds}");
        drop(before);
    });
}
