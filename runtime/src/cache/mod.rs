//! What nodes wrote before, kept so that they need not run again for the same input.

mod memory;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use xxhash_rust::xxh3::xxh3_128;

use crate::checkpoint::codec;
use crate::graph::State;
use crate::value::{Shared, Value};
pub use memory::MemoryCache;

/// Lets a graph with a cache ([`crate::StateGraph::cache`]) use what a node wrote before for an
/// equal input. Only what a task wrote by finishing is kept. LangGraph's `CachePolicy`.
#[derive(Clone, Default)]
pub struct CachePolicy {
    /// How long what was written may be used; `None` for ever.
    pub ttl: Option<Duration>,
    /// What of the input counts; all of it, in any order of its keys, unless this is set.
    pub key: Option<KeyFn>,
}

/// From a node's input to the bytes that equal inputs have in common.
pub type KeyFn = Arc<dyn Fn(&State) -> Vec<u8> + Send + Sync>;

impl CachePolicy {
    /// Everything in the input counts, and it is kept for ever.
    pub fn new() -> CachePolicy {
        CachePolicy::default()
    }

    pub fn ttl(mut self, ttl: Duration) -> CachePolicy {
        self.ttl = Some(ttl);
        self
    }

    pub fn key(mut self, key: impl Fn(&State) -> Vec<u8> + Send + Sync + 'static) -> CachePolicy {
        self.key = Some(Arc::new(key));
        self
    }

    /// 32 hexadecimal digits; `None` for an input that has no key, and so is not cached.
    pub(crate) fn digest(&self, input: &State) -> Option<String> {
        let bytes = match &self.key {
            Some(key) => key(input),
            None => codec::pack(&sorted(input.to_value())).ok()?,
        };
        Some(format!("{:032x}", xxh3_128(&bytes)))
    }
}

/// The same value with every map in the order of its keys.
fn sorted(value: Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        Value::Map(entries) => {
            let mut entries: Vec<(Value, Value)> =
                entries.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            entries.sort_by_cached_key(|(key, _)| key.to_string());
            Value::Map(entries)
        }
        other => other,
    }
}

/// A node whose writes are kept. Two graphs of one name that share a cache share what nodes of one
/// name wrote.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CachedNode {
    pub graph: Arc<str>,
    pub node: Arc<str>,
}

/// Where the writes of one input are kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CacheKey {
    pub of: CachedNode,
    pub digest: String,
}

/// What a task wrote: channels and values, in order.
pub type CachedWrites = Vec<(Arc<str>, Shared)>;

/// The cache refused or failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the cache failed: {0}")]
pub struct CacheError(pub String);

pub type CacheResult<T> = BoxFuture<'static, Result<T, CacheError>>;

/// Keeps what nodes wrote. A run asks once a super-step, before its tasks start, and stores beside
/// the loop; it ends only when what it stored has landed.
pub trait Cache: Send + Sync {
    /// What is kept under each of these keys, in their order.
    fn get(&self, keys: Vec<CacheKey>) -> CacheResult<Vec<Option<CachedWrites>>>;

    /// Keeps `writes` for `ttl`, or for ever, in place of what was there.
    fn set(&self, key: CacheKey, writes: CachedWrites, ttl: Option<Duration>) -> CacheResult<()>;

    /// Forgets what these nodes wrote; with `None` everything.
    fn clear(&self, of: Option<Vec<CachedNode>>) -> CacheResult<()>;
}

impl fmt::Debug for CachePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key.as_ref().map(|_| "custom");
        f.debug_struct("CachePolicy").field("ttl", &self.ttl).field("key", &key).finish()
    }
}
