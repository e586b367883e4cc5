//! Bytes as text: `\x` and hex digits out; that, or the older escape form, in.

use crate::postgres::error::{PgError, Result};

pub(super) fn to_text(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(2 + 2 * bytes.len());
    text.push_str("\\x");
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

pub(super) fn from_text(text: &str) -> Result<Vec<u8>> {
    match text.strip_prefix("\\x") {
        Some(hex) => from_hex(hex),
        None => from_escapes(text.as_bytes()),
    }
}

fn from_hex(hex: &str) -> Result<Vec<u8>> {
    let digits: Vec<char> = hex.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let value = |c: &char| {
        c.to_digit(16)
            .and_then(|digit| u8::try_from(digit).ok())
            .ok_or_else(|| PgError::new("22023", format!("invalid hexadecimal digit: \"{c}\"")))
    };
    let odd = || PgError::new("22023", "invalid hexadecimal data: odd number of digits");
    let pairs = digits.chunks(2).map(|pair| match pair {
        [high, low] => Ok(value(high)? << 4 | value(low)?),
        [lone] => value(lone).and_then(|_| Err(odd())),
        _ => Err(odd()),
    });
    pairs.collect()
}

/// `\\` is a backslash, `\012` a byte in octal, anything else itself.
fn from_escapes(text: &[u8]) -> Result<Vec<u8>> {
    let invalid = || PgError::new("22P02", "invalid input syntax for type bytea");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        match after {
            [b'\\', after @ ..] => {
                bytes.push(b'\\');
                rest = after;
            }
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            _ => return Err(invalid()),
        }
    }
    Ok(bytes)
}
