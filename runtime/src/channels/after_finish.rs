//! The triggers of deferred nodes: they open when nothing else is left to run.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::barrier::NamedBarrier;
use super::{Channel, ChannelError};
use crate::value::{Shared, Value};

/// A last value that shows once the graph would be done. LangGraph's `LastValueAfterFinish`.
pub(super) struct LastValueAfterFinish {
    value: Option<Shared>,
    finished: bool,
}

impl LastValueAfterFinish {
    pub fn new(stored: Option<Shared>) -> LastValueAfterFinish {
        match read_pair(stored) {
            Some((value, finished)) => LastValueAfterFinish { value: Some(value), finished },
            None => LastValueAfterFinish { value: None, finished: false },
        }
    }
}

impl Channel for LastValueAfterFinish {
    fn update(&mut self, values: &[Shared]) -> Result<bool, ChannelError> {
        let Some(last) = values.last() else { return Ok(false) };
        self.value = Some(last.clone());
        self.finished = false;
        Ok(true)
    }

    fn get(&self) -> Option<Shared> {
        self.value.clone().filter(|_| self.finished)
    }

    fn checkpoint(&self) -> Option<Shared> {
        self.value.as_ref().map(|value| pair((**value).clone(), self.finished))
    }

    fn consume(&mut self) -> bool {
        if self.finished {
            self.value = None;
        }
        std::mem::take(&mut self.finished)
    }

    fn finish(&mut self) -> bool {
        let finishes = self.value.is_some() && !self.finished;
        self.finished |= finishes;
        finishes
    }
}

/// A barrier that, when full, opens once the graph would be done. LangGraph's
/// `NamedBarrierValueAfterFinish`.
pub(super) struct BarrierAfterFinish {
    barrier: NamedBarrier,
    finished: bool,
}

impl BarrierAfterFinish {
    pub fn new(expected: Arc<BTreeSet<Arc<str>>>, stored: Option<Shared>) -> BarrierAfterFinish {
        let (seen, finished) = match read_pair(stored) {
            Some((seen, finished)) => (Some(seen), finished),
            None => (None, false),
        };
        BarrierAfterFinish { barrier: NamedBarrier::new(expected, seen), finished }
    }
}

impl Channel for BarrierAfterFinish {
    fn update(&mut self, values: &[Shared]) -> Result<bool, ChannelError> {
        self.barrier.update(values)
    }

    fn get(&self) -> Option<Shared> {
        self.barrier.get().filter(|_| self.finished)
    }

    fn checkpoint(&self) -> Option<Shared> {
        let seen = self.barrier.checkpoint()?;
        Some(pair((*seen).clone(), self.finished))
    }

    fn consume(&mut self) -> bool {
        let open = self.is_available();
        if open {
            self.barrier.consume();
            self.finished = false;
        }
        open
    }

    fn finish(&mut self) -> bool {
        let finishes = self.barrier.is_available() && !self.finished;
        self.finished |= finishes;
        finishes
    }
}

/// What a checkpoint stores: the value, and whether the channel is open.
fn pair(value: Value, finished: bool) -> Shared {
    Arc::new(Value::Array(vec![value, Value::Boolean(finished)]))
}

fn read_pair(stored: Option<Shared>) -> Option<(Shared, bool)> {
    match stored.as_deref() {
        Some(Value::Array(parts)) => match parts.as_slice() {
            [value, Value::Boolean(finished)] => Some((Arc::new(value.clone()), *finished)),
            _ => None,
        },
        _ => None,
    }
}
