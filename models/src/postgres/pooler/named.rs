//! Prepared statements that follow their client from connection to connection.
//!
//! A statement is kept under a name of the pooler's own, the same for all clients that prepare the
//! same text, and prepared on a connection when somebody needs it there. So more goes to the server
//! than the client sent, and fewer answers go back: [`Answers`] keeps the two in step.

use std::collections::{BTreeMap, VecDeque};

use bytes::{BufMut, Bytes, BytesMut};

use super::server::Server;

/// What one client has prepared: its name for it, and what it parsed.
#[derive(Default)]
pub struct Named {
    statements: BTreeMap<Vec<u8>, Statement>,
}

#[derive(Clone)]
struct Statement {
    id: u64,
    /// The message behind the name: text and types.
    body: Vec<u8>,
}

/// What the client is shown of an answer to a Parse or a Close.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    AsItIs,
    /// A Close that went in the place of a Parse.
    AsParsed,
    Nothing,
}

struct Awaited {
    /// The answer's kind.
    kind: u8,
    shown: Shown,
    /// The Sync that ends its part of the pipeline.
    part: usize,
    /// The statement that is there once the answer has come.
    id: Option<u64>,
}

/// The answers to Parse and Close that are still to come, in their order.
#[derive(Default)]
pub struct Answers {
    awaited: VecDeque<Awaited>,
    syncs_sent: usize,
    syncs_answered: usize,
}

impl Answers {
    fn expect(&mut self, kind: u8, shown: Shown, id: Option<u64>) {
        self.awaited.push_back(Awaited { kind, shown, part: self.syncs_sent, id });
    }

    /// A Query or Sync goes to the server.
    pub fn synced(&mut self) {
        self.syncs_sent += 1;
    }

    /// What the client sees of an answer of the server; `None` for nothing.
    pub fn show(&mut self, answer: Bytes, server: &mut Server) -> Option<Bytes> {
        match answer[0] {
            kind @ (b'1' | b'3') => {
                let next = self.awaited.pop_front_if(|awaited| awaited.kind == kind);
                match next.map_or(Shown::AsItIs, |awaited| awaited.shown) {
                    Shown::AsItIs => Some(answer),
                    Shown::AsParsed => Some(Bytes::from_static(&[b'1', 0, 0, 0, 4])),
                    Shown::Nothing => None,
                }
            }
            b'Z' => {
                // What an error kept from being answered never happened.
                while let Some(missed) =
                    self.awaited.pop_front_if(|awaited| awaited.part <= self.syncs_answered)
                {
                    server.prepared.retain(|known| Some(*known) != missed.id);
                }
                self.syncs_answered += 1;
                Some(answer)
            }
            _ => Some(answer),
        }
    }
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

/// The pooler's name for a statement, with its end.
fn own_name(id: u64) -> Vec<u8> {
    format!("PGBOUNCER_{id}\0").into_bytes()
}

/// The same for the same statement, on every connection: FNV-1a, as a name has to differ and not to
/// be hard to guess.
fn id_of(body: &[u8]) -> u64 {
    body.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl Named {
    /// What goes to this connection for a message of the client's.
    pub fn rewrite(
        &mut self,
        original: &Bytes,
        server: &mut Server,
        answers: &mut Answers,
        limit: usize,
    ) -> Vec<u8> {
        let rewritten = self.rewritten(original, server, answers, limit);
        rewritten.unwrap_or_else(|| {
            match original[0] {
                b'P' => answers.expect(b'1', Shown::AsItIs, None),
                b'C' => answers.expect(b'3', Shown::AsItIs, None),
                _ => {}
            }
            original.to_vec()
        })
    }

    /// `None` if the message goes as it is.
    fn rewritten(
        &mut self,
        original: &Bytes,
        server: &mut Server,
        answers: &mut Answers,
        limit: usize,
    ) -> Option<Vec<u8>> {
        let body = &original[5..];
        match original[0] {
            b'P' => {
                let (name, rest) = text(body).filter(|(name, _)| !name.is_empty())?;
                let statement = Statement { id: id_of(rest), body: rest.to_vec() };
                self.statements.insert(name.to_vec(), statement.clone());
                let mut bytes = statement.prepare(server, answers, limit, Shown::AsItIs);
                if bytes.is_empty() {
                    // It is there already. Closing what is not there changes nothing, and has an
                    // answer to show in the place of the one that is waited for.
                    answers.expect(b'3', Shown::AsParsed, None);
                    bytes = message(b'C', &[b"S", b"PGBOUNCER_NONE\0"]);
                }
                Some(bytes)
            }
            b'B' => {
                let (portal, rest) = text(body)?;
                let (name, rest) = text(rest)?;
                let statement = self.statements.get(name)?;
                let mut bytes = statement.prepare(server, answers, limit, Shown::Nothing);
                bytes.extend(message(b'B', &[portal, b"\0", &own_name(statement.id), rest]));
                Some(bytes)
            }
            b'D' if body.first() == Some(&b'S') => {
                let (name, _) = text(&body[1..])?;
                let statement = self.statements.get(name)?;
                let mut bytes = statement.prepare(server, answers, limit, Shown::Nothing);
                bytes.extend(message(b'D', &[b"S", &own_name(statement.id)]));
                Some(bytes)
            }
            b'C' if body.first() == Some(&b'S') => {
                let (name, _) = text(&body[1..])?;
                self.statements.remove(name)?;
                // Others may have prepared the same.
                answers.expect(b'3', Shown::AsItIs, None);
                Some(message(b'C', &[b"S", b"PGBOUNCER_NONE\0"]))
            }
            _ => None,
        }
    }
}

impl Statement {
    /// What makes the connection know the statement; nothing if it does. Of too many, that goes
    /// which was prepared first.
    fn prepare(
        &self,
        server: &mut Server,
        answers: &mut Answers,
        limit: usize,
        shown: Shown,
    ) -> Vec<u8> {
        if server.prepared.contains(&self.id) {
            return Vec::new();
        }
        let mut bytes = Vec::new();
        if server.prepared.len() >= limit
            && let Some(oldest) = server.prepared.pop_front()
        {
            answers.expect(b'3', Shown::Nothing, None);
            bytes.extend(message(b'C', &[b"S", &own_name(oldest)]));
        }
        server.prepared.push_back(self.id);
        answers.expect(b'1', shown, Some(self.id));
        bytes.extend(message(b'P', &[&own_name(self.id), &self.body]));
        bytes
    }
}
