use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use super::{Cache, CacheKey, CacheResult, CachedNode, CachedWrites};
use crate::doors::{Clock, Doors};

/// Keeps what nodes wrote in memory, values shared with the runs that wrote them. It dies with its
/// process. Cheap to clone; clones are one cache.
#[derive(Clone)]
pub struct MemoryCache {
    clock: Arc<dyn Clock>,
    nodes: Arc<Mutex<Nodes>>,
}

/// By node, then digest.
type Nodes = BTreeMap<CachedNode, BTreeMap<String, Kept>>;

struct Kept {
    writes: CachedWrites,
    /// The first moment at which it is not used any more.
    until: Option<SystemTime>,
}

impl MemoryCache {
    pub fn new(doors: &Doors) -> MemoryCache {
        MemoryCache { clock: doors.clock.clone(), nodes: Arc::default() }
    }

    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, key: &CacheKey, now: SystemTime) -> Option<CachedWrites> {
        let mut nodes = self.nodes();
        let inputs = nodes.get_mut(&key.of)?;
        if inputs.get(&key.digest)?.until.is_some_and(|until| until <= now) {
            inputs.remove(&key.digest);
            return None;
        }
        inputs.get(&key.digest).map(|kept| kept.writes.clone())
    }
}

impl Cache for MemoryCache {
    fn get(&self, keys: Vec<CacheKey>) -> CacheResult<Vec<Option<CachedWrites>>> {
        let this = self.clone();
        Box::pin(async move {
            let now = this.clock.now();
            Ok(keys.iter().map(|key| this.find(key, now)).collect())
        })
    }

    fn set(&self, key: CacheKey, writes: CachedWrites, ttl: Option<Duration>) -> CacheResult<()> {
        let this = self.clone();
        Box::pin(async move {
            // A moment too far away to be named never comes.
            let until = ttl.and_then(|ttl| this.clock.now().checked_add(ttl));
            let kept = Kept { writes, until };
            this.nodes().entry(key.of).or_default().insert(key.digest, kept);
            Ok(())
        })
    }

    fn clear(&self, of: Option<Vec<CachedNode>>) -> CacheResult<()> {
        let this = self.clone();
        Box::pin(async move {
            match of {
                None => this.nodes().clear(),
                Some(of) => of.iter().for_each(|node| drop(this.nodes().remove(node))),
            }
            Ok(())
        })
    }
}
