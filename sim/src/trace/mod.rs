//! The one ordered list of everything a run did.
//!
//! The determinism check, text replay, exports, snapshots and properties all read this list, so an
//! event carries virtual time and stable names only: no address, no thread id, no wall clock.

mod encode;
mod event;
mod line;

pub use event::{Event, Labels, Value};

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::lock::lock;

/// A handle to the list; cloning gives another handle to the same list.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    list: Arc<Mutex<List>>,
}

#[derive(Debug)]
struct List {
    events: Vec<Event>,
    closed: bool,
}

/// Room for the events of a small run.
const ROOM: usize = 200;

impl Default for List {
    fn default() -> List {
        List { events: Vec::with_capacity(ROOM), closed: false }
    }
}

impl Trace {
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends an event and returns its sequence number. A closed trace takes nothing more.
    pub fn push(
        &self,
        at: Duration,
        process: impl Into<Arc<str>>,
        labels: Labels,
        name: &'static str,
        fields: Vec<(&'static str, Value)>,
    ) -> u64 {
        let process = process.into();
        let mut list = lock(&self.list);
        let seq = list.events.len() as u64;
        if !list.closed {
            list.events.push(Event { seq, at, process, labels, name, fields });
        }
        seq
    }

    /// Ends the list: what destructors do while a run is torn down is no part of the run.
    pub fn close(&self) {
        lock(&self.list).closed = true;
    }

    pub fn len(&self) -> usize {
        lock(&self.list).events.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn events(&self) -> Vec<Event> {
        lock(&self.list).events.clone()
    }

    /// Reads the list in place. The closure must not note anything itself.
    pub fn with<T>(&self, read: impl FnOnce(&[Event]) -> T) -> T {
        read(&lock(&self.list).events)
    }

    /// xxh3 over a canonical encoding of every event; the same in every process.
    pub fn hash(&self) -> u64 {
        self.with(hash)
    }

    /// Takes the events out, leaving the list empty.
    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut lock(&self.list).events)
    }
}

/// The hash of a list of events, as [`Trace::hash`] computes it.
pub fn hash(events: &[Event]) -> u64 {
    encode::hash(events)
}
