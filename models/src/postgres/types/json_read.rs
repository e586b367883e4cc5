//! Reading JSON text, with the server's two refusals: what is no JSON, and what it cannot store.

use std::sync::Arc;

use super::{Decimal, Json};
use crate::postgres::error::{PgError, Result};

/// Deeper nesting than this is refused, as the server does when its stack ends.
const DEEPEST: usize = 1_000;

pub(super) fn parse(text: &str) -> Result<Json> {
    let mut reader = Reader { rest: text, depth: 0 };
    let value = reader.value()?;
    reader.space();
    if reader.rest.is_empty() { Ok(value) } else { Err(invalid()) }
}

fn invalid() -> PgError {
    PgError::new("22P02", "invalid input syntax for type json")
}

struct Reader<'a> {
    rest: &'a str,
    depth: usize,
}

impl Reader<'_> {
    fn space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
    }

    fn eat(&mut self, token: &str) -> bool {
        self.space();
        let after = self.rest.strip_prefix(token);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn value(&mut self) -> Result<Json> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(PgError::new("54001", "stack depth limit exceeded"));
        }
        self.space();
        let value = match self.rest.as_bytes().first() {
            Some(b'{') => self.object(),
            Some(b'[') => self.array(),
            Some(b'"') => self.string().map(Json::String),
            Some(b't') if self.word("true") => Ok(Json::Bool(true)),
            Some(b'f') if self.word("false") => Ok(Json::Bool(false)),
            Some(b'n') if self.word("null") => Ok(Json::Null),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(invalid()),
        };
        self.depth -= 1;
        value
    }

    fn word(&mut self, word: &str) -> bool {
        let longer = |after: &str| after.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        match self.rest.strip_prefix(word) {
            Some(after) if !longer(after) => {
                self.rest = after;
                true
            }
            _ => false,
        }
    }

    fn array(&mut self) -> Result<Json> {
        self.eat("[");
        let mut items = Vec::new();
        if self.eat("]") {
            return Ok(Json::Array(items));
        }
        loop {
            items.push(self.value()?);
            if self.eat("]") {
                return Ok(Json::Array(items));
            }
            if !self.eat(",") {
                return Err(invalid());
            }
        }
    }

    fn object(&mut self) -> Result<Json> {
        self.eat("{");
        let mut entries = Vec::new();
        if self.eat("}") {
            return Ok(Json::object(entries));
        }
        loop {
            self.space();
            let key = self.string()?;
            if !self.eat(":") {
                return Err(invalid());
            }
            entries.push((key, self.value()?));
            if self.eat("}") {
                return Ok(Json::object(entries));
            }
            if !self.eat(",") {
                return Err(invalid());
            }
        }
    }

    fn number(&mut self) -> Result<Json> {
        let part = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
        let end = self.rest.find(|c| !part(c)).unwrap_or(self.rest.len());
        let (text, after) = self.rest.split_at(end);
        self.rest = after;
        let digits = text.strip_prefix('-').unwrap_or(text);
        let whole = digits.split(['.', 'e', 'E']).next().unwrap_or_default();
        let fraction = digits.split(['e', 'E']).next().and_then(|part| part.split_once('.'));
        let bad = whole.is_empty()
            || (whole.len() > 1 && whole.starts_with('0'))
            || fraction.is_some_and(|(_, behind)| behind.is_empty());
        let follows = after.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        match Decimal::parse(text) {
            Some(number) if !bad && !follows => Ok(Json::Number(number)),
            _ => Err(invalid()),
        }
    }

    fn string(&mut self) -> Result<Arc<str>> {
        let mut chars = self.rest.strip_prefix('"').ok_or_else(invalid)?.chars();
        let mut out = String::new();
        loop {
            match chars.next().ok_or_else(invalid)? {
                '"' => break,
                '\\' => match chars.next().ok_or_else(invalid)? {
                    c @ ('"' | '\\' | '/') => out.push(c),
                    'b' => out.push('\u{8}'),
                    'f' => out.push('\u{c}'),
                    'n' => out.push('\n'),
                    'r' => out.push('\r'),
                    't' => out.push('\t'),
                    'u' => out.push(unicode(&mut chars)?),
                    _ => return Err(invalid()),
                },
                c if c < ' ' => return Err(invalid()),
                c => out.push(c),
            }
        }
        self.rest = chars.as_str();
        Ok(out.into())
    }
}

/// Behind `\u`: four hex digits, or two times four that make one character.
fn unicode(chars: &mut std::str::Chars<'_>) -> Result<char> {
    let first = hex4(chars)?;
    let code = match first {
        0 => {
            let error = PgError::new("22P05", "unsupported Unicode escape sequence");
            return Err(error.detail("\\u0000 cannot be converted to text."));
        }
        0xd800..=0xdbff => {
            let mut ahead = chars.clone();
            if (ahead.next(), ahead.next()) != (Some('\\'), Some('u')) {
                return Err(invalid());
            }
            let second = hex4(&mut ahead)?;
            if !(0xdc00..=0xdfff).contains(&second) {
                return Err(invalid());
            }
            *chars = ahead;
            0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
        }
        other => other,
    };
    char::from_u32(code).ok_or_else(invalid)
}

fn hex4(chars: &mut std::str::Chars<'_>) -> Result<u32> {
    let mut code = 0;
    for _ in 0..4 {
        let digit = chars.next().and_then(|c| c.to_digit(16)).ok_or_else(invalid)?;
        code = code * 16 + digit;
    }
    Ok(code)
}
