//! Reading whole messages off a stream, and sending.

use std::collections::BTreeMap;
use std::io;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::Out;

/// Longer messages are refused, as the server refuses them.
const LONGEST: usize = 0x3fff_ffff;

/// What a connection may begin with.
pub enum First {
    Startup(BTreeMap<String, String>),
    /// SSLRequest, GSSENCRequest.
    Encryption,
    Cancel {
        pid: i32,
        secret: i32,
    },
    Unknown(String),
}

pub struct Connection<S> {
    stream: S,
    buffer: BytesMut,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    pub fn new(stream: S) -> Connection<S> {
        Connection { stream, buffer: BytesMut::new() }
    }

    /// Waits until so many bytes are there; nothing is lost if the wait is given up.
    async fn fill(&mut self, length: usize) -> Option<()> {
        while self.buffer.len() < length {
            if self.stream.read_buf(&mut self.buffer).await.ok()? == 0 {
                return None;
            }
        }
        Some(())
    }

    /// The length that stands at a place, as a whole number of bytes behind it.
    async fn length_at(&mut self, place: usize) -> Option<usize> {
        self.fill(place + 4).await?;
        let mut length = &self.buffer[place..];
        usize::try_from(length.get_i32()).ok().filter(|n| (4..=LONGEST).contains(n))
    }

    /// The first message has no kind. `None` when the client is gone.
    pub async fn first(&mut self) -> Option<First> {
        let length = self.length_at(0).await?;
        self.fill(length).await?;
        let mut body = self.buffer.split_to(length).freeze();
        body.advance(4);
        if body.remaining() < 4 {
            return None;
        }
        Some(match body.get_i32() {
            80_877_103 | 80_877_104 => First::Encryption,
            80_877_102 if body.remaining() == 8 => {
                First::Cancel { pid: body.get_i32(), secret: body.get_i32() }
            }
            version if version >> 16 == 3 => First::Startup(pairs(&body)),
            version => First::Unknown(format!("{}.{}", version >> 16, version & 0xffff)),
        })
    }

    /// A message with its kind and length in front. `None` when the client is gone.
    pub async fn message(&mut self) -> Option<Bytes> {
        let length = self.length_at(1).await?;
        self.fill(1 + length).await?;
        Some(self.buffer.split_to(1 + length).freeze())
    }

    /// The body of a PasswordMessage, without its end.
    pub async fn password(&mut self) -> Option<Bytes> {
        let mut message = self.message().await.filter(|message| message[0] == b'p')?;
        message.advance(5);
        message.truncate(message.len().checked_sub(1)?);
        Some(message)
    }

    pub async fn send_byte(&mut self, byte: u8) -> io::Result<()> {
        self.stream.write_all(&[byte]).await?;
        self.stream.flush().await
    }

    pub async fn send(&mut self, out: &mut Out) -> io::Result<()> {
        let bytes = std::mem::take(&mut out.bytes);
        self.stream.write_all(&bytes).await?;
        self.stream.flush().await
    }
}

/// Names and values, each with a zero behind it.
fn pairs(body: &[u8]) -> BTreeMap<String, String> {
    let mut texts = body.split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text).into());
    let mut pairs = BTreeMap::new();
    while let (Some(name), Some(value)) = (texts.next(), texts.next()) {
        let name: String = name;
        if !name.is_empty() {
            pairs.insert(name, value);
        }
    }
    pairs
}
