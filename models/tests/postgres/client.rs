//! A client that shows every message as a line.

use std::fmt::Write;

use bytes::{Buf, BytesMut};
use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};
use postgres_protocol::message::frontend;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, WriteHalf};
use tokio::sync::mpsc;

pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

pub type BoxedStream = Box<dyn Stream>;

/// Who asks to be let in, and where to.
#[derive(Clone)]
pub struct Login {
    pub user: String,
    pub password: Vec<u8>,
    pub database: String,
}

pub struct Client {
    writer: WriteHalf<BoxedStream>,
    reading: tokio::task::JoinHandle<()>,
    /// Messages as lines; the end of it is the end of the connection.
    pub lines: mpsc::UnboundedReceiver<String>,
    pub out: BytesMut,
    pub key: (i32, i32),
}

impl Client {
    /// `Err` has what the server said instead of letting us in.
    pub async fn connect(mut stream: BoxedStream, login: &Login) -> Result<Client, String> {
        let mut out = BytesMut::new();
        let params = [("user", &login.user[..]), ("database", &login.database)];
        frontend::startup_message(params, &mut out).unwrap();
        stream.write_all(&out).await.unwrap();
        let mut key = (0, 0);
        let mut scram = None;
        loop {
            let Some((kind, body)) = read(&mut stream).await else {
                return Err("closed".to_owned());
            };
            let mut reply = BytesMut::new();
            let number = if body.len() >= 4 { (&body[..]).get_i32() } else { 0 };
            match (kind, number) {
                (b'E', _) => return Err(line(kind, &body).unwrap()),
                (b'R', 0) => {}
                (b'R', 3) => frontend::password_message(&login.password, &mut reply).unwrap(),
                (b'R', 10) => {
                    let exchange = ScramSha256::new(&login.password, ChannelBinding::unsupported());
                    let first = exchange.message();
                    frontend::sasl_initial_response("SCRAM-SHA-256", first, &mut reply).unwrap();
                    scram = Some(exchange);
                }
                (b'R', 11) => {
                    let exchange = scram.as_mut().unwrap();
                    exchange.update(&body[4..]).unwrap();
                    frontend::sasl_response(exchange.message(), &mut reply).unwrap();
                }
                (b'R', 12) => scram.as_mut().unwrap().finish(&body[4..]).unwrap(),
                (b'K', pid) => key = (pid, (&body[4..]).get_i32()),
                (b'Z', _) => break,
                _ => {}
            }
            stream.write_all(&reply).await.unwrap();
        }
        let (mut reader, writer) = tokio::io::split(stream);
        let (sender, lines) = mpsc::unbounded_channel();
        let reading = tokio::spawn(async move {
            while let Some((kind, body)) = read(&mut reader).await {
                if let Some(line) = line(kind, &body)
                    && sender.send(line).is_err()
                {
                    return;
                }
            }
        });
        let out = BytesMut::new();
        Ok(Client { writer, reading, lines, out, key })
    }

    /// Sends what was gathered.
    pub async fn send(&mut self) {
        let out = self.out.split();
        // A broken connection shows in its lines.
        let _ = self.writer.write_all(&out).await;
    }
}

impl Drop for Client {
    /// The reader holds the other half of the socket, which closes with it.
    fn drop(&mut self) {
        self.reading.abort();
    }
}

async fn read<S: AsyncRead + Unpin>(stream: &mut S) -> Option<(u8, BytesMut)> {
    let mut head = [0; 5];
    stream.read_exact(&mut head).await.ok()?;
    let length = (&head[1..]).get_i32();
    let mut body = BytesMut::zeroed(usize::try_from(length).unwrap() - 4);
    stream.read_exact(&mut body).await.ok()?;
    Some((head[0], body))
}

fn text(body: &mut &[u8]) -> String {
    let end = body.iter().position(|byte| *byte == 0).unwrap();
    let text = String::from_utf8_lossy(&body[..end]).into_owned();
    body.advance(end + 1);
    text
}

/// `None` for messages that differ from server to server.
fn line(kind: u8, body: &[u8]) -> Option<String> {
    let mut body = body;
    let mut out = String::new();
    match kind {
        b'S' | b'K' => return None,
        b'1' => out.push_str("parsed"),
        b'2' => out.push_str("bound"),
        b'3' => out.push_str("closed"),
        b'n' => out.push_str("no data"),
        b's' => out.push_str("suspended"),
        b'I' => out.push_str("empty"),
        b'C' => write!(out, "done {}", text(&mut body)).unwrap(),
        b'Z' => write!(out, "ready {}", char::from(body[0])).unwrap(),
        b't' => {
            let count = body.get_i16();
            let oids: Vec<u32> = (0..count).map(|_| body.get_u32()).collect();
            write!(out, "params {oids:?}").unwrap();
        }
        b'T' => {
            out.push_str("fields");
            for _ in 0..body.get_i16() {
                let name = text(&mut body);
                let (_table, column, oid) = (body.get_u32(), body.get_i16(), body.get_u32());
                let (size, _modifier, format) = (body.get_i16(), body.get_i32(), body.get_i16());
                write!(out, " {name}:{oid}/{size}@{column}").unwrap();
                out.push_str(if format == 1 { "b" } else { "" });
            }
        }
        b'D' => {
            let mut cells = Vec::new();
            for _ in 0..body.get_i16() {
                let Ok(length) = usize::try_from(body.get_i32()) else {
                    cells.push("null".to_owned());
                    continue;
                };
                let bytes = &body[..length];
                cells.push(match std::str::from_utf8(bytes) {
                    Ok(text) if !text.contains(|c: char| c.is_control()) => format!("'{text}'"),
                    _ => format!("{bytes:02x?}"),
                });
                body.advance(length);
            }
            write!(out, "row {}", cells.join(", ")).unwrap();
        }
        b'E' | b'N' => {
            let mut fields = std::collections::BTreeMap::new();
            while body[0] != 0 {
                let kind = char::from(body.get_u8());
                fields.insert(kind, text(&mut body));
            }
            write!(out, "{} {}", fields[&'V'], fields[&'C']).unwrap();
            for kind in ['t', 'c', 'n'] {
                fields.get(&kind).iter().for_each(|value| write!(out, " {kind}={value}").unwrap());
            }
            // The words of these are each server's own.
            const OWN_WORDS: [&str; 6] = ["0A000", "22P02", "22P03", "42601", "42804", "42883"];
            if !OWN_WORDS.contains(&&fields[&'C'][..]) {
                write!(out, ": {}", fields[&'M']).unwrap();
            }
            // Which process waits for which has other numbers each time.
            if !["22P02", "40P01"].contains(&&fields[&'C'][..]) {
                fields.get(&'D').iter().for_each(|detail| write!(out, " ({detail})").unwrap());
            }
        }
        kind => write!(out, "message {}", char::from(kind)).unwrap(),
    }
    Some(out)
}
