//! One connection to the server.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::task::Poll;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::{BoxedStream, PoolerSettings};
use crate::postgres::wire::{Connection, Out};

pub struct Server {
    pub connection: Connection<BoxedStream>,
    /// What a CancelRequest has to say.
    pub key: (i32, i32),
    /// The ParameterStatus messages of its welcome, as they came.
    pub welcome: Vec<u8>,
    pub made: Duration,
    pub idle_since: Duration,
    /// The pooler's own prepared statements on it, the oldest first.
    pub prepared: VecDeque<u64>,
}

impl Server {
    /// Logs in; `None` if the server does not let us.
    pub async fn open(
        stream: BoxedStream,
        settings: &PoolerSettings,
        now: Duration,
    ) -> Option<Server> {
        let mut connection = Connection::new(stream);
        let mut hello = BytesMut::new();
        hello.put_i32(0);
        hello.put_i32(3 << 16);
        for text in ["user", &settings.user, "database", &settings.database, ""] {
            hello.put_slice(text.as_bytes());
            hello.put_u8(0);
        }
        let length = i32::try_from(hello.len()).ok()?;
        hello[..4].copy_from_slice(&length.to_be_bytes());
        send(&mut connection, &hello).await?;
        let (mut key, mut welcome) = ((0, 0), Vec::new());
        loop {
            let message = connection.message().await?;
            let mut body = &message[5..];
            match (message[0], body.len()) {
                (b'R', 4..) => match body.get_i32() {
                    0 => {}
                    3 => password(&mut connection, settings.password.as_deref()?).await?,
                    _ => return None,
                },
                (b'S', _) => welcome.extend_from_slice(&message),
                (b'K', 8) => key = (body.get_i32(), body.get_i32()),
                (b'Z', _) => break,
                (b'N', _) => {}
                _ => return None,
            }
        }
        let prepared = VecDeque::new();
        Some(Server { connection, key, welcome, made: now, idle_since: now, prepared })
    }

    /// Whether it has said something, or ended, while nobody used it: then it is of no use.
    pub async fn is_spoilt(&mut self) -> bool {
        let mut message = Box::pin(self.connection.message());
        poll_fn(|cx| Poll::Ready(message.as_mut().poll(cx).is_ready())).await
    }

    pub async fn send(&mut self, bytes: &[u8]) -> Option<()> {
        send(&mut self.connection, bytes).await
    }

    pub async fn message(&mut self) -> Option<Bytes> {
        self.connection.message().await
    }
}

pub async fn send(connection: &mut Connection<BoxedStream>, bytes: &[u8]) -> Option<()> {
    connection.send(&mut Out { bytes: bytes.to_vec() }).await.ok()
}

async fn password(connection: &mut Connection<BoxedStream>, password: &str) -> Option<()> {
    let mut message = BytesMut::new();
    message.put_u8(b'p');
    message.put_i32(i32::try_from(password.len() + 5).ok()?);
    message.put_slice(password.as_bytes());
    message.put_u8(0);
    send(connection, &message).await
}
