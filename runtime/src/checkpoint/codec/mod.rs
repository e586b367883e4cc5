//! How values, checkpoints and metadata look in a database.
//!
//! The bytes are those of langgraph-checkpoint 4.3.2 (its `JsonPlusSerializer` over ormsgpack):
//! Python reads what is written here, and what Python wrote is written again byte for byte.

mod checkpoint;
mod encodings;
mod known;
mod metadata;
mod msgpack;

pub(crate) use checkpoint::encode_checkpoint_with;
pub use checkpoint::{decode_checkpoint, encode_checkpoint};
pub(crate) use encodings::Encodings;
pub use known::{
    delta_snapshot_value, interrupt_value, is_delta_snapshot, overwrite_value, read_delta_snapshot,
    read_interrupt, read_overwrite, read_send, read_set, send_value, set_value,
};
pub use metadata::{decode_metadata, encode_metadata, without_nul};
pub use msgpack::{MAX_DEPTH, pack, unpack};

use crate::value::Value;

/// Why bytes are not a value, or a value has no bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    #[error("type {0:?} is not one that can be read (null, bytes, bytearray or msgpack)")]
    UnknownType(String),
    #[error("nothing is stored")]
    NoBytes,
    #[error("a value of type \"null\" has {0} bytes")]
    NullWithBytes(usize),
    #[error("msgpack at byte {at}: {problem}")]
    Msgpack { at: usize, problem: &'static str },
    #[error("nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    #[error("a string is not UTF-8")]
    NotUtf8,
    #[error("something is longer than msgpack's 2^32 - 1")]
    TooLong,
    #[error("channel {channel:?}: {problem}")]
    Channel { channel: String, problem: Box<CodecError> },
    #[error("{key}: expected {expected}")]
    Shape { key: String, expected: &'static str },
    #[error("metadata is not JSON: {0}")]
    Json(String),
}

impl CodecError {
    fn shape(key: impl Into<String>, expected: &'static str) -> CodecError {
        CodecError::Shape { key: key.into(), expected }
    }
}

/// A value as its `type` column and its bytes. Nothing and raw bytes have types of their own.
pub fn encode(value: &Value) -> Result<(&'static str, Vec<u8>), CodecError> {
    match value {
        Value::Nil => Ok(("null", Vec::new())),
        Value::Binary(bytes) => Ok(("bytes", bytes.clone())),
        other => Ok(("msgpack", pack(other)?)),
    }
}

/// The inverse of [`encode`]. Never panics, whatever the bytes are.
///
/// `bytearray` reads as bytes, which is what Rust has; it is never written.
pub fn decode(type_name: &str, bytes: &[u8]) -> Result<Value, CodecError> {
    match type_name {
        "null" if bytes.is_empty() => Ok(Value::Nil),
        "null" => Err(CodecError::NullWithBytes(bytes.len())),
        "bytes" | "bytearray" => Ok(Value::Binary(bytes.to_vec())),
        "msgpack" => unpack(bytes),
        other => Err(CodecError::UnknownType(other.to_owned())),
    }
}
