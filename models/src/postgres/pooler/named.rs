//! Prepared statements that follow their client from connection to connection.
//!
//! A statement is kept under a name of the pooler's own, the same for all clients that prepare the
//! same text, and prepared on a connection when somebody needs it there.

use std::collections::BTreeMap;

use bytes::{BufMut, Bytes, BytesMut};

use super::server::Server;

/// What one client has prepared: its name for it, and what it parsed.
#[derive(Default)]
pub struct Named {
    statements: BTreeMap<Vec<u8>, Statement>,
}

struct Statement {
    id: u64,
    /// The message behind the name: text and types.
    body: Vec<u8>,
}

/// What to send instead of a client's message.
#[derive(Default)]
pub struct Rewritten {
    pub bytes: Vec<u8>,
    /// Whether a Parse of ours goes ahead, whose answer the client must not see.
    pub hidden_parse: bool,
}

/// A text with its end, and what follows.
fn text(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = body.iter().position(|byte| *byte == 0)?;
    Some((&body[..end], &body[end + 1..]))
}

fn message(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut message = BytesMut::with_capacity(length + 5);
    message.put_u8(kind);
    message.put_i32(i32::try_from(length + 4).expect("messages are below 2 GiB"));
    parts.iter().for_each(|part| message.put_slice(part));
    message.to_vec()
}

fn own_name(id: u64) -> Vec<u8> {
    format!("PGBOUNCER_{id}\0").into_bytes()
}

/// The same for the same statement, on every connection.
fn id_of(body: &[u8]) -> u64 {
    // FNV-1a: a name has to differ, not to be hard to guess.
    body.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl Named {
    /// The message as this connection has to see it; `None` if it goes as it is.
    pub fn rewrite(&mut self, original: &Bytes, server: &mut Server) -> Option<Rewritten> {
        let body = &original[5..];
        match original[0] {
            b'P' => {
                let (name, rest) = text(body).filter(|(name, _)| !name.is_empty())?;
                let (id, body) = (id_of(rest), rest.to_vec());
                self.statements.insert(name.to_vec(), Statement { id, body });
                // It is prepared again even where it is known, under a name that cannot clash: the
                // client waits for an answer, and hears of a mistake in its text.
                let mut bytes = Vec::new();
                let mut hidden_parse = false;
                if !server.prepared.insert(id) {
                    // Known already: an empty statement gives the answer that is waited for.
                    bytes = message(b'P', &[b"\0", b"\0", &[0, 0]]);
                } else {
                    bytes.extend(message(b'P', &[&own_name(id), rest]));
                }
                hidden_parse &= false;
                Some(Rewritten { bytes, hidden_parse })
            }
            b'B' => {
                let (portal, rest) = text(body)?;
                let (name, rest) = text(rest)?;
                let statement = self.statements.get(name)?;
                let bind = message(b'B', &[portal, b"\0", &own_name(statement.id), rest]);
                Some(statement.ahead_of(bind, server))
            }
            b'D' if body.first() == Some(&b'S') => {
                let (name, _) = text(&body[1..])?;
                let statement = self.statements.get(name)?;
                let describe = message(b'D', &[b"S", &own_name(statement.id)]);
                Some(statement.ahead_of(describe, server))
            }
            b'C' if body.first() == Some(&b'S') => {
                let (name, _) = text(&body[1..])?;
                self.statements.remove(name)?;
                // Others may use it; closing what is not there is answered the same.
                Some(Rewritten { bytes: message(b'C', &[b"S", b"\0"]), hidden_parse: false })
            }
            _ => None,
        }
    }
}

impl Statement {
    /// The message, behind a Parse where this connection does not know the statement.
    fn ahead_of(&self, message_itself: Vec<u8>, server: &mut Server) -> Rewritten {
        let hidden_parse = server.prepared.insert(self.id);
        let mut bytes = Vec::new();
        if hidden_parse {
            bytes.extend(message(b'P', &[&own_name(self.id), &self.body]));
        }
        bytes.extend(message_itself);
        Rewritten { bytes, hidden_parse }
    }
}
