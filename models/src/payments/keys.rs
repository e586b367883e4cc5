//! The idempotency layer: which keys were used, for what, and what was answered.
//!
//! It is stored where the ledger is, so it outlives the provider's process; that a request is being
//! worked on does not.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::answer::Answer;
use super::request::Operation;

/// What a key says about the request that came with it.
#[derive(Debug, PartialEq)]
pub(super) enum Claim {
    /// It is the first; the key is in use from now on.
    First,
    Saved(Answer),
    InUse,
    OtherParameters,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Keys(Arc<Mutex<BTreeMap<Arc<str>, Record>>>);

#[derive(Debug)]
struct Record {
    operation: Operation,
    since: Duration,
    /// The incarnation of the provider that works on it.
    worker: Option<u32>,
    answer: Option<Answer>,
}

impl Keys {
    fn records(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Record>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The provider's incarnation `worker` asks for the key on behalf of a request.
    pub fn claim(
        &self,
        key: &Arc<str>,
        operation: &Operation,
        now: Duration,
        lifetime: Duration,
        worker: u32,
    ) -> Claim {
        let mut records = self.records();
        if let Some(record) = records.get(key) {
            let in_use = record.worker == Some(worker);
            let expired = now - record.since >= lifetime;
            // Work that died with an earlier incarnation, and had not come to an answer.
            let abandoned = record.answer.is_none();
            if in_use || !(expired || abandoned) {
                return match &record.answer {
                    _ if record.operation != *operation => Claim::OtherParameters,
                    Some(answer) if !in_use => Claim::Saved(answer.clone()),
                    _ => Claim::InUse,
                };
            }
        }
        let operation = operation.clone();
        let record = Record { operation, since: now, worker: Some(worker), answer: None };
        records.insert(key.clone(), record);
        Claim::First
    }

    /// Saves the answer, in the same transaction as what it tells of: a kill after this leaves an
    /// answer to replay.
    pub fn save(&self, key: &Arc<str>, answer: &Answer) {
        if let Some(record) = self.records().get_mut(key) {
            record.answer = Some(answer.clone());
        }
    }

    /// The work is over; the next request with this key is a replay.
    pub fn release(&self, key: &Arc<str>) {
        if let Some(record) = self.records().get_mut(key) {
            record.worker = None;
        }
    }
}
