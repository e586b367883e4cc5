//! msgpack to [`Value`] and back.
//!
//! Writing is rmpv's, whose choice of forms is the same as ormsgpack's. Reading is our own: rmpv
//! reads the reserved byte 0xc1 as nil and lets through strings that are not UTF-8, which it would
//! write again as binary. A damaged row must be an error, not another value.

use super::CodecError;
use crate::value::Value;

/// Deepest nesting of arrays and maps. ormsgpack 1.13.1 writes no more than this, so nothing that
/// Python stored is refused, and the bound keeps reading and dropping off the end of the stack.
pub const MAX_DEPTH: usize = 255;

/// The bytes of `value`, integers in their smallest form.
pub fn pack(value: &Value) -> Result<Vec<u8>, CodecError> {
    let mut packer = Packer::default();
    packer.value(value, 0)?;
    Ok(packer.bytes)
}

/// Writes parts of a structure that is not one [`Value`]. Lengths and texts are the runtime's own
/// names and counts, which fit by far.
#[derive(Default)]
pub(super) struct Packer {
    pub(super) bytes: Vec<u8>,
}

impl Packer {
    pub(super) fn nil(&mut self) -> &mut Packer {
        self.bytes.push(0xc0);
        self
    }

    pub(super) fn number(&mut self, number: u64) -> &mut Packer {
        self.write(&Value::from(number))
    }

    pub(super) fn text(&mut self, text: &str) -> &mut Packer {
        match text.len() {
            length @ 0..=31 => self.bytes.push(0xa0 | length as u8),
            length @ 32..=0xff => self.bytes.extend_from_slice(&[0xd9, length as u8]),
            length @ 0x100..=0xffff => {
                self.bytes.push(0xda);
                self.bytes.extend_from_slice(&(length as u16).to_be_bytes());
            }
            length => {
                self.bytes.push(0xdb);
                self.bytes.extend_from_slice(&(length as u32).to_be_bytes());
            }
        }
        self.bytes.extend_from_slice(text.as_bytes());
        self
    }

    pub(super) fn map(&mut self, length: usize) -> &mut Packer {
        self.length(length, 0x80, 0xde)
    }

    pub(super) fn array(&mut self, length: usize) -> &mut Packer {
        self.length(length, 0x90, 0xdc)
    }

    /// Head of a collection: `short` holds up to 15, `long` is followed by 2 bytes and the marker
    /// after it by 4.
    fn length(&mut self, length: usize, short: u8, long: u8) -> &mut Packer {
        match length {
            0..=15 => self.bytes.push(short | length as u8),
            16..=0xffff => {
                self.bytes.push(long);
                self.bytes.extend_from_slice(&(length as u16).to_be_bytes());
            }
            _ => {
                self.bytes.push(long + 1);
                self.bytes.extend_from_slice(&(length as u32).to_be_bytes());
            }
        }
        self
    }

    /// A value that stands `depth` collections deep. Nothing is written when it is refused.
    pub(super) fn value(&mut self, value: &Value, depth: usize) -> Result<(), CodecError> {
        check(value, depth)?;
        self.write(value);
        Ok(())
    }

    fn write(&mut self, value: &Value) -> &mut Packer {
        rmpv::encode::write_value(&mut self.bytes, value).expect("a vector takes all bytes");
        self
    }
}

/// Refuses what rmpv would write wrong or not survive writing.
fn check(value: &Value, depth: usize) -> Result<(), CodecError> {
    let length = |n: usize| u32::try_from(n).map(drop).map_err(|_| CodecError::TooLong);
    match value {
        Value::String(s) if s.is_err() => Err(CodecError::NotUtf8),
        Value::String(s) => length(s.as_bytes().len()),
        Value::Binary(bytes) | Value::Ext(_, bytes) => length(bytes.len()),
        Value::Array(_) | Value::Map(_) if depth == MAX_DEPTH => Err(CodecError::TooDeep),
        Value::Array(items) => {
            length(items.len())?;
            items.iter().try_for_each(|item| check(item, depth + 1))
        }
        Value::Map(entries) => {
            length(entries.len())?;
            entries.iter().try_for_each(|(key, item)| {
                check(key, depth + 1)?;
                check(item, depth + 1)
            })
        }
        _ => Ok(()),
    }
}

/// Reads exactly one value. Never panics; allocates no more than the bytes can fill.
pub fn unpack(bytes: &[u8]) -> Result<Value, CodecError> {
    let mut reader = Reader { bytes, at: 0 };
    let value = reader.value(0)?;
    match reader.at == bytes.len() {
        true => Ok(value),
        false => Err(reader.problem("bytes left over after the value")),
    }
}

/// Of a map whose value under `key` is a map: the first name in that one whose value cannot be read.
pub(super) fn unreadable_in(key: &str, bytes: &[u8]) -> Option<String> {
    let mut reader = Reader { bytes, at: 0 };
    for _ in 0..reader.entries()? {
        if reader.value(1).ok()?.as_str() != Some(key) {
            reader.value(1).ok()?;
            continue;
        }
        for _ in 0..reader.entries()? {
            let name = reader.value(2).ok()?;
            if reader.value(2).is_err() {
                return name.as_str().map(str::to_owned);
            }
        }
    }
    None
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn problem(&self, problem: &'static str) -> CodecError {
        CodecError::Msgpack { at: self.at, problem }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], CodecError> {
        let rest = &self.bytes[self.at..];
        let taken = rest.get(..length).ok_or_else(|| self.problem("the bytes end too early"))?;
        self.at += length;
        Ok(taken)
    }

    /// A big-endian number of `N` bytes.
    fn number<const N: usize>(&mut self) -> Result<u64, CodecError> {
        Ok(self.take(N)?.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    fn length<const N: usize>(&mut self) -> Result<usize, CodecError> {
        Ok(self.number::<N>()? as usize)
    }

    fn value(&mut self, depth: usize) -> Result<Value, CodecError> {
        let start = self.at;
        let marker = self.number::<1>()? as u8;
        Ok(match marker {
            0x00..=0x7f => Value::from(marker),
            0x80..=0x8f => self.map(usize::from(marker & 0x0f), depth)?,
            0x90..=0x9f => self.array(usize::from(marker & 0x0f), depth)?,
            0xa0..=0xbf => self.string(usize::from(marker & 0x1f))?,
            0xc0 => Value::Nil,
            0xc1 => {
                self.at = start;
                return Err(self.problem("the reserved byte 0xc1"));
            }
            0xc2 => Value::Boolean(false),
            0xc3 => Value::Boolean(true),
            0xc4 => self.length::<1>().and_then(|n| self.binary(n))?,
            0xc5 => self.length::<2>().and_then(|n| self.binary(n))?,
            0xc6 => self.length::<4>().and_then(|n| self.binary(n))?,
            0xc7 => self.length::<1>().and_then(|n| self.ext(n))?,
            0xc8 => self.length::<2>().and_then(|n| self.ext(n))?,
            0xc9 => self.length::<4>().and_then(|n| self.ext(n))?,
            0xca => Value::F32(f32::from_bits(self.number::<4>()? as u32)),
            0xcb => Value::F64(f64::from_bits(self.number::<8>()?)),
            0xcc => Value::from(self.number::<1>()?),
            0xcd => Value::from(self.number::<2>()?),
            0xce => Value::from(self.number::<4>()?),
            0xcf => Value::from(self.number::<8>()?),
            0xd0 => Value::from(self.number::<1>()? as i8),
            0xd1 => Value::from(self.number::<2>()? as i16),
            0xd2 => Value::from(self.number::<4>()? as i32),
            0xd3 => Value::from(self.number::<8>()? as i64),
            0xd4..=0xd8 => self.ext(1 << (marker - 0xd4))?,
            0xd9 => self.length::<1>().and_then(|n| self.string(n))?,
            0xda => self.length::<2>().and_then(|n| self.string(n))?,
            0xdb => self.length::<4>().and_then(|n| self.string(n))?,
            0xdc => self.length::<2>().and_then(|n| self.array(n, depth))?,
            0xdd => self.length::<4>().and_then(|n| self.array(n, depth))?,
            0xde => self.length::<2>().and_then(|n| self.map(n, depth))?,
            0xdf => self.length::<4>().and_then(|n| self.map(n, depth))?,
            0xe0..=0xff => Value::from(marker as i8),
        })
    }

    /// How many entries the map has that begins here.
    fn entries(&mut self) -> Option<usize> {
        match self.number::<1>().ok()? as u8 {
            marker @ 0x80..=0x8f => Some(usize::from(marker & 0x0f)),
            0xde => self.length::<2>().ok(),
            0xdf => self.length::<4>().ok(),
            _ => None,
        }
    }

    fn string(&mut self, length: usize) -> Result<Value, CodecError> {
        let bytes = self.take(length)?;
        std::str::from_utf8(bytes).map(Value::from).map_err(|_| CodecError::NotUtf8)
    }

    fn binary(&mut self, length: usize) -> Result<Value, CodecError> {
        Ok(Value::Binary(self.take(length)?.to_vec()))
    }

    fn ext(&mut self, length: usize) -> Result<Value, CodecError> {
        let code = self.number::<1>()? as i8;
        Ok(Value::Ext(code, self.take(length)?.to_vec()))
    }

    /// Room for a collection that claims to hold `length` values: none is shorter than a byte, so
    /// a damaged length cannot make us reserve more than there are bytes left.
    fn room(&self, length: usize) -> usize {
        length.min(self.bytes.len() - self.at)
    }

    fn array(&mut self, length: usize, depth: usize) -> Result<Value, CodecError> {
        if depth == MAX_DEPTH {
            return Err(CodecError::TooDeep);
        }
        let mut items = Vec::with_capacity(self.room(length));
        for _ in 0..length {
            items.push(self.value(depth + 1)?);
        }
        Ok(Value::Array(items))
    }

    fn map(&mut self, length: usize, depth: usize) -> Result<Value, CodecError> {
        if depth == MAX_DEPTH {
            return Err(CodecError::TooDeep);
        }
        let mut entries = Vec::with_capacity(self.room(length) / 2);
        for _ in 0..length {
            entries.push((self.value(depth + 1)?, self.value(depth + 1)?));
        }
        Ok(Value::Map(entries))
    }
}
