use std::sync::Arc;

use super::{Channel, ChannelError};
use crate::value::{Shared, Value};

/// Collects every value written. LangGraph's `Topic`: lists are flattened; unless it accumulates,
/// each step starts empty.
pub(super) struct Topic {
    values: Vec<Value>,
    accumulates: bool,
}

impl Topic {
    pub fn new(accumulates: bool, stored: Option<Shared>) -> Topic {
        let values = match stored.map(Arc::unwrap_or_clone) {
            Some(Value::Array(values)) => values,
            _ => vec![],
        };
        Topic { values, accumulates }
    }
}

impl Channel for Topic {
    fn update(&mut self, values: &[Shared]) -> Result<bool, ChannelError> {
        let mut moved = false;
        if !self.accumulates {
            moved = !self.values.is_empty();
            self.values.clear();
        }
        let before = self.values.len();
        for value in values {
            match &**value {
                Value::Array(items) => self.values.extend(items.iter().cloned()),
                one => self.values.push(one.clone()),
            }
        }
        Ok(moved || self.values.len() > before)
    }

    fn get(&self) -> Option<Shared> {
        self.is_available().then(|| Arc::new(Value::Array(self.values.clone())))
    }

    fn checkpoint(&self) -> Option<Shared> {
        Some(Arc::new(Value::Array(self.values.clone())))
    }

    fn is_available(&self) -> bool {
        !self.values.is_empty()
    }
}
