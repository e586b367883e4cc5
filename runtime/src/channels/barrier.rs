use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Channel, ChannelError};
use crate::checkpoint::codec::{read_set, set_value};
use crate::value::Shared;

/// Opens when every expected name was written. LangGraph's `NamedBarrierValue`.
pub(super) struct NamedBarrier {
    expected: Arc<BTreeSet<Arc<str>>>,
    seen: BTreeSet<Arc<str>>,
}

impl NamedBarrier {
    pub fn new(expected: Arc<BTreeSet<Arc<str>>>, stored: Option<Shared>) -> NamedBarrier {
        let seen = stored.and_then(|value| read_set(&value)).unwrap_or_default();
        let seen = seen.iter().filter_map(|name| name.as_str()).map(Arc::from).collect();
        NamedBarrier { expected, seen }
    }

    fn is_full(&self) -> bool {
        self.seen == *self.expected
    }
}

impl Channel for NamedBarrier {
    fn update(&mut self, values: &[Shared]) -> Result<bool, ChannelError> {
        let mut moved = false;
        for value in values {
            let name = value.as_str().filter(|name| self.expected.contains(*name));
            let name = name.ok_or_else(|| {
                ChannelError::Unfit(format!("waits for {:?}, and got {value}", self.expected))
            })?;
            moved |= self.seen.insert(name.into());
        }
        Ok(moved)
    }

    fn get(&self) -> Option<Shared> {
        self.is_full().then(|| Arc::new(crate::value::Value::Nil))
    }

    fn checkpoint(&self) -> Option<Shared> {
        Some(Arc::new(set_value(self.seen.iter().map(|name| &**name))))
    }

    fn consume(&mut self) -> bool {
        let full = self.is_full();
        if full {
            self.seen.clear();
        }
        full
    }
}
