//! Messages from the client.

use crate::postgres::error::{PgError, Result};
use crate::postgres::types::utf8;

/// What Describe and Close are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Statement,
    Portal,
}

pub enum Message<'a> {
    Query(&'a [u8]),
    Parse { name: &'a str, text: &'a str, oids: Vec<u32> },
    Bind(Bind<'a>),
    Describe(Target, &'a str),
    Execute { portal: &'a str, limit: usize },
    Close(Target, &'a str),
    Sync,
    Flush,
    Terminate,
}

pub struct Bind<'a> {
    pub portal: &'a str,
    pub statement: &'a str,
    pub param_formats: Vec<i16>,
    pub params: Vec<Option<&'a [u8]>>,
    pub result_formats: Vec<i16>,
}

impl<'a> Message<'a> {
    /// # Errors
    /// 08P01, fatal, for what is no message; 22021 for text that is no UTF-8.
    pub fn parse(message: &'a [u8]) -> Result<Message<'a>> {
        let mut body = Body(&message[5..]);
        Ok(match message[0] {
            b'Q' => Message::Query(body.text_bytes()?),
            b'P' => {
                let (name, text) = (body.text()?, body.text()?);
                let count = body.count()?;
                let oids = (0..count).map(|_| body.int().map(i32::cast_unsigned));
                Message::Parse { name, text, oids: oids.collect::<Result<_>>()? }
            }
            b'B' => Message::Bind(bind(&mut body)?),
            b'D' => Message::Describe(body.target()?, body.text()?),
            b'C' => Message::Close(body.target()?, body.text()?),
            b'E' => {
                let (portal, limit) = (body.text()?, body.int()?);
                Message::Execute { portal, limit: usize::try_from(limit).unwrap_or(0) }
            }
            b'S' => Message::Sync,
            b'H' => Message::Flush,
            b'X' => Message::Terminate,
            kind => {
                let message = format!("invalid frontend message type {kind}");
                return Err(PgError::fatal("08P01", message));
            }
        })
    }
}

fn bind<'a>(body: &mut Body<'a>) -> Result<Bind<'a>> {
    let (portal, statement) = (body.text()?, body.text()?);
    let param_formats = body.shorts()?;
    let count = body.count()?;
    let params = (0..count).map(|_| body.value()).collect::<Result<_>>()?;
    let result_formats = body.shorts()?;
    Ok(Bind { portal, statement, param_formats, params, result_formats })
}

/// What is left of a message.
struct Body<'a>(&'a [u8]);

fn short_message() -> PgError {
    PgError::fatal("08P01", "insufficient data left in message")
}

impl<'a> Body<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk().ok_or_else(short_message)?;
        self.0 = rest;
        Ok(*head)
    }

    fn int(&mut self) -> Result<i32> {
        self.take().map(i32::from_be_bytes)
    }

    fn short(&mut self) -> Result<i16> {
        self.take().map(i16::from_be_bytes)
    }

    /// Counts are meant without a sign.
    fn count(&mut self) -> Result<usize> {
        self.take().map(|bytes| usize::from(u16::from_be_bytes(bytes)))
    }

    fn shorts(&mut self) -> Result<Vec<i16>> {
        let count = self.count()?;
        (0..count).map(|_| self.short()).collect()
    }

    fn text_bytes(&mut self) -> Result<&'a [u8]> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or_else(short_message)?;
        let (text, rest) = self.0.split_at(end);
        self.0 = &rest[1..];
        Ok(text)
    }

    fn text(&mut self) -> Result<&'a str> {
        utf8(self.text_bytes()?)
    }

    fn target(&mut self) -> Result<Target> {
        match self.take()? {
            [b'S'] => Ok(Target::Statement),
            [b'P'] => Ok(Target::Portal),
            _ => Err(PgError::fatal("08P01", "invalid DESCRIBE or CLOSE message subtype")),
        }
    }

    fn value(&mut self) -> Result<Option<&'a [u8]>> {
        let Ok(length) = usize::try_from(self.int()?) else { return Ok(None) };
        let (value, rest) = self.0.split_at_checked(length).ok_or_else(short_message)?;
        self.0 = rest;
        Ok(Some(value))
    }
}
