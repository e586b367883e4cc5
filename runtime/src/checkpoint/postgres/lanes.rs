//! Writes on their way to a thread: those that wait go together.
//!
//! The writes of a thread stand in a lane, in the order in which they were submitted, and one task
//! works it off. Whatever waits is one transaction, sent whole without waiting for answers in
//! between: one round trip and one commit, however many there are. A step's pending writes and its
//! checkpoint thus cost one round trip, or two where the checkpoint is refused if it forks. Where one
//! of them fails none has landed, and they are sent again one by one, to tell who is to blame.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::channel::oneshot;
use futures::future::BoxFuture;

use super::connection::{Again, Patience, Store};
use super::errors::Failure;
use super::together::{Rows, together};
use crate::checkpoint::saver::{Fate, Landing, SaverError};
use crate::doors::{Pass, Point, one_turn};

/// Writes in one transaction, at most.
const MOST: usize = 32;

/// The lanes of a saver. Clones share them.
#[derive(Clone)]
pub(super) struct Lanes {
    store: Store,
    /// By thread; one is there for as long as it is worked off.
    waiting: Arc<Mutex<BTreeMap<Arc<str>, VecDeque<Write>>>>,
}

struct Write {
    /// Or why there is nothing to be stored: its turn comes all the same, behind what came before.
    rows: Result<Rows, SaverError>,
    told: Told,
}

/// Who is told how a write ended.
struct Told {
    kind: Kind,
    fate: Fate,
    landed: oneshot::Sender<Result<(), SaverError>>,
    /// The point is left when the write is over.
    _pass: Pass,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    /// Refused behind a write that failed.
    Checkpoint,
    Writes,
}

impl Told {
    fn end(self, result: Result<(), SaverError>) {
        if let Err(error) = &result {
            self.fate.lose(error);
        }
        // Who does not wait any more does not mind.
        let _ = self.landed.send(result);
    }
}

impl Lanes {
    pub fn new(store: &Store) -> Lanes {
        Lanes { store: store.clone(), waiting: Arc::default() }
    }

    /// Resolves when the write has its place in its thread's lane, and gives what resolves when it
    /// has landed. What has a place runs to its end.
    pub fn submit(
        &self,
        (thread, kind): (Arc<str>, Kind),
        point: Point,
        rows: Result<Rows, SaverError>,
        fate: Fate,
    ) -> BoxFuture<'static, Landing> {
        let lanes = self.clone();
        Box::pin(async move {
            let pass = lanes.store.doors.gate.pass(|| point).await;
            let (landed, landing) = oneshot::channel();
            let told = Told { kind, fate: fate.clone(), landed, _pass: pass };
            lanes.enter(thread, Write { rows, told });
            Landing::new(async move {
                landing.await.unwrap_or_else(|_| {
                    // Its worker was cut short.
                    fate.lose(&SaverError::Cancelled);
                    Err(SaverError::Cancelled)
                })
            })
        })
    }

    fn enter(&self, thread: Arc<str>, write: Write) {
        let mut waiting = self.waiting();
        if let Some(lane) = waiting.get_mut(&thread) {
            lane.push_back(write);
            return;
        }
        waiting.insert(thread.clone(), VecDeque::from([write]));
        drop(waiting);
        let worker = Worker { lanes: self.clone(), thread, is_done: false };
        drop(self.store.doors.executor.spawn("postgres", worker.work_off()));
    }

    /// Nothing under this lock can fail half done.
    fn waiting(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, VecDeque<Write>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to be sent next. A lane with nothing in it is gone.
    fn take(&self, thread: &str) -> Option<Vec<Write>> {
        let mut waiting = self.waiting();
        let lane = waiting.get_mut(thread)?;
        if lane.is_empty() {
            waiting.remove(thread);
            return None;
        }
        let most = lane.len().min(MOST);
        Some(lane.drain(..most).collect())
    }

    async fn send(&self, group: Vec<Write>, patience: &mut Patience) {
        let is_free = |Write { rows, told }: &Write| {
            !told.fate.is_lost() && rows.as_ref().is_ok_and(Rows::goes_with_others)
        };
        if group.len() == 1 || !group.iter().all(is_free) {
            return self.send_one_by_one(group, patience).await;
        }
        let (rows, told): (Vec<_>, Vec<_>) =
            group.into_iter().filter_map(|Write { rows, told }| Some((rows.ok()?, told))).unzip();
        let sent = self
            .store
            .persist(patience, Again::Yes, &rows, |rows, client| Box::pin(together(rows, client)))
            .await;
        match sent {
            Ok(()) => told.into_iter().for_each(|told| told.end(Ok(()))),
            Err(Failure::Sql(_) | Failure::Saver(_)) => {
                let group = rows.into_iter().zip(told);
                let group = group.map(|(rows, told)| Write { rows: Ok(rows), told });
                self.send_one_by_one(group.collect(), patience).await;
            }
            Err(failure) => {
                let error = self.store.error(failure);
                told.into_iter().for_each(|told| told.end(Err(error.clone())));
            }
        }
    }

    /// When the server stays away, all of them are not waited for one after the other.
    async fn send_one_by_one(&self, group: Vec<Write>, patience: &mut Patience) {
        let mut away: Option<SaverError> = None;
        for Write { rows, told } in group {
            let refusal = match told.kind {
                Kind::Checkpoint => told.fate.refusal(),
                Kind::Writes => None,
            };
            let refusal = refusal.or_else(|| away.clone());
            let result = match (refusal, rows) {
                (Some(refusal), _) => Err(refusal),
                (None, Err(unstorable)) => Err(unstorable),
                (None, Ok(rows)) => {
                    let sent = self.store.persist(patience, Again::Yes, &rows, |rows, client| {
                        Box::pin(rows.put(client))
                    });
                    sent.await.map_err(|failure| {
                        away = failure.of_the_next().map(|next| self.store.error(next));
                        self.store.error(failure)
                    })
                }
            };
            told.end(result);
        }
    }
}

/// Works one lane off. When it is cut short, those who wait there are told.
struct Worker {
    lanes: Lanes,
    thread: Arc<str>,
    /// The lane is gone, and one of this name is somebody else's.
    is_done: bool,
}

impl Worker {
    async fn work_off(mut self) {
        // Who is about to submit the next write may do so first.
        one_turn().await;
        let mut patience = self.lanes.store.patience();
        while let Some(group) = self.lanes.take(&self.thread) {
            self.lanes.send(group, &mut patience).await;
        }
        self.is_done = true;
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if !self.is_done {
            let left = self.lanes.waiting().remove(&self.thread);
            drop(left);
        }
    }
}
