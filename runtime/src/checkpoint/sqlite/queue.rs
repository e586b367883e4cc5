//! The queue in front of a file: everything that waits is done in one blocking call, and all writes
//! of it in one commit.
//!
//! Writes wait in one lane and reads in another. A blocking call (a *shift*) takes all that waits,
//! commits the writes together, answers their callers, does the reads, and looks again. Writes that
//! come while a commit waits for the disk thus cost one more commit in all, not one each. A shift
//! belongs to the file and to no caller: one that goes away takes nothing with it. One that finds
//! nothing lingers for a moment ([`Executor::linger`]): a run's next step is often not far.
//!
//! SQLite's own busy handler would sleep inside the call, where a simulated world has no time; here a
//! lane that finds the file locked lets the connection go and pauses at the clock's door.
//!
//! [`Executor::linger`]: crate::doors::Executor::linger

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::call::{Call, Kind};
use super::connection::{Failure, OpenFile};
use super::lanes::{FIRST_PAUSE, LONGEST_PAUSE, Lane, Lanes, Need};
use super::{FileProblem, SqliteOptions, commit};
use crate::checkpoint::saver::SaverError;
use crate::doors::{Doors, one_turn};

/// A file and what waits for it. Clones share it.
#[derive(Clone)]
pub(super) struct Queue(Arc<Inner>);

struct Inner {
    path: Arc<str>,
    doors: Doors,
    busy_limit: Duration,
    lanes: Mutex<Lanes>,
    /// `None` before opening and after closing. Only a shift looks at it, and there is one at a time.
    file: Mutex<Option<OpenFile>>,
}

/// Which lane.
type Pick = fn(&mut Lanes) -> &mut Lane;
const WRITES: Pick = |lanes| &mut lanes.writes;
const READS: Pick = |lanes| &mut lanes.reads;

impl Queue {
    pub(super) fn new(path: &str, doors: &Doors, busy_limit: Duration) -> Queue {
        Queue(Arc::new(Inner {
            path: path.into(),
            doors: doors.clone(),
            busy_limit,
            lanes: Mutex::default(),
            file: Mutex::default(),
        }))
    }

    pub(super) fn doors(&self) -> &Doors {
        &self.0.doors
    }

    /// Opens the file. Nothing may be queued before that.
    pub(super) async fn open(&self, options: SqliteOptions) -> Result<(), SaverError> {
        let mut waited = Duration::ZERO;
        let mut pause = FIRST_PAUSE;
        loop {
            let queue = self.clone();
            let call = self.0.doors.executor.blocking("saver", move || {
                let file = OpenFile::open(&*queue.0.doors.opener, &queue.0.path, options)?;
                *queue.file() = Some(file);
                Ok(())
            });
            match call.await.map_err(|_| SaverError::Cancelled)? {
                Ok(()) => return Ok(()),
                Err(Failure::Busy(_)) if waited < self.0.busy_limit => {
                    pause = pause.min(self.0.busy_limit - waited);
                    self.0.doors.clock.sleep(pause).await;
                    waited += pause;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                Err(failure) => return Err(self.0.told(failure, waited)),
            }
        }
    }

    /// Queues a call behind those of its lane.
    pub(super) fn push(&self, call: Call) {
        let need = self.lanes().push(call);
        self.meet(need);
    }

    fn meet(&self, need: Need) {
        let promise = Promise { queue: self.clone(), need };
        match need {
            Need::Nothing => {}
            Need::Shift => promise.begin_shift(),
            Need::Gathering => drop(self.0.doors.executor.spawn("saver", async move {
                one_turn().await;
                promise.end_gathering();
            })),
        }
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        // Nothing under this lock can fail half done.
        self.0.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self) -> MutexGuard<'_, Option<OpenFile>> {
        // A transaction that a panic cut short was rolled back on its way out.
        self.0.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a shift can do next. When there is nothing, also after lingering, the shift is over.
    fn take(&self) -> Option<(VecDeque<Call>, VecDeque<Call>)> {
        let mut lingers = true;
        for looks in 0.. {
            let mut lanes = self.lanes();
            if let Some(found) = lanes.take() {
                return Some(found);
            }
            if !lingers {
                lanes.end_shift();
                break;
            }
            drop(lanes);
            // Who has dropped the saver wants the file to be closed.
            let is_wanted = Arc::strong_count(&self.0) > 1;
            lingers = is_wanted && self.0.doors.executor.linger(looks);
        }
        None
    }

    /// Puts back what met a lock, to be tried again after a pause. What has waited long enough fails.
    fn pause(&self, pick: Pick, mut locked: VecDeque<Call>, error: &rusqlite::Error) {
        let limit = self.0.busy_limit;
        while let Some(call) = locked.pop_front_if(|call| call.waited >= limit) {
            let error = self.0.still_locked(call.waited, error);
            call.end(Err(error));
        }
        let mut lanes = self.lanes();
        let lane = pick(&mut lanes);
        let Some(first) = locked.front() else {
            lane.next_pause = FIRST_PAUSE;
            return;
        };
        let pause = lane.next_pause.min(limit - first.waited);
        locked.iter_mut().for_each(|call| call.waited += pause);
        // What came meanwhile stands behind.
        locked.append(&mut lane.waiting);
        *lane =
            Lane { waiting: locked, is_pausing: true, next_pause: (pause * 2).min(LONGEST_PAUSE) };
        drop(lanes);
        let queue = self.clone();
        drop(self.0.doors.executor.spawn("saver", async move {
            queue.0.doors.clock.sleep(pause).await;
            let mut lanes = queue.lanes();
            pick(&mut lanes).is_pausing = false;
            let need = lanes.need_shift();
            drop(lanes);
            queue.meet(need);
        }));
    }

    /// The file was not locked: the next time starts with a short pause again.
    fn went_well(&self, pick: Pick) {
        pick(&mut self.lanes()).next_pause = FIRST_PAUSE;
    }
}

impl Inner {
    fn told(&self, failure: Failure, waited: Duration) -> SaverError {
        match failure {
            Failure::Saver(error) => error,
            Failure::Sql(error) => match FileProblem::of(&error) {
                Some(problem) => SaverError::File { path: self.path.to_string(), problem },
                None => SaverError::Store(format!("{}: {error}", self.path)),
            },
            Failure::File(problem) => SaverError::File { path: self.path.to_string(), problem },
            Failure::Busy(error) => self.still_locked(waited, &error),
        }
    }

    fn still_locked(&self, waited: Duration, error: &rusqlite::Error) -> SaverError {
        let path = &self.path;
        SaverError::Store(format!(
            "{path}: still locked by another connection after {waited:?}: {error}"
        ))
    }
}

/// That what waits will be looked after.
struct Promise {
    queue: Queue,
    /// Nothing once it is kept.
    need: Need,
}

impl Promise {
    fn end_gathering(mut self) {
        self.need = self.queue.lanes().gathered();
        if self.need == Need::Shift {
            self.begin_shift();
        }
    }

    /// One blocking call. It goes on by itself and answers the callers one by one.
    fn begin_shift(self) {
        let executor = self.queue.0.doors.executor.clone();
        drop(executor.blocking_raw("saver", Box::new(move || self.work())));
    }

    fn work(mut self) {
        let mut file = self.queue.file();
        while let Some((writes, mut reads)) = self.queue.take() {
            self.write(&mut file, writes, &mut reads);
            self.read(&file, reads);
        }
        drop(file);
        self.need = Need::Nothing;
    }

    /// Does the writes, up to a locked file.
    fn write(
        &self,
        file: &mut Option<OpenFile>,
        mut writes: VecDeque<Call>,
        reads: &mut VecDeque<Call>,
    ) {
        while let Some(first) = writes.front() {
            if first.kind == Kind::Close {
                // Reads that were queued before it are done before it.
                self.read(file, std::mem::take(reads));
                let closed = file.take().map_or(Ok(()), OpenFile::close);
                let closed = closed.map_err(|failure| self.queue.0.told(failure, Duration::ZERO));
                if let Some(close) = writes.pop_front() {
                    close.end(closed);
                }
                continue;
            }
            let group = writes.iter().take_while(|call| call.kind != Kind::Close).count();
            let rest = writes.split_off(group);
            let group = std::mem::replace(&mut writes, rest);
            let Some(file) = file else {
                group.into_iter().for_each(|call| call.end(Err(self.closed())));
                continue;
            };
            let told = |failure| self.queue.0.told(failure, Duration::ZERO);
            if let Err((mut locked, error)) = commit::all(file, group, &told) {
                locked.append(&mut writes);
                self.queue.pause(WRITES, locked, &error);
                return;
            }
            self.queue.went_well(WRITES);
        }
    }

    fn read(&self, file: &Option<OpenFile>, mut reads: VecDeque<Call>) {
        while let Some(mut call) = reads.pop_front() {
            let Some(file) = file else {
                call.end(Err(self.closed()));
                continue;
            };
            match call.attempt(file) {
                Ok(()) => {
                    call.end(Ok(()));
                    self.queue.went_well(READS);
                }
                Err(Failure::Busy(error)) => {
                    reads.push_front(call);
                    self.queue.pause(READS, reads, &error);
                    return;
                }
                Err(failure) => call.end(Err(self.queue.0.told(failure, Duration::ZERO))),
            }
        }
    }

    fn closed(&self) -> SaverError {
        SaverError::Store(format!("{}: the saver is closed", self.queue.0.path))
    }
}

impl Drop for Promise {
    /// It can no longer be kept, as its process is going down, or as a panic cut it short: those who
    /// wait are told that they were cancelled.
    fn drop(&mut self) {
        let cancelled = self.queue.lanes().abandon(self.need);
        // Not under the lock.
        drop(cancelled);
    }
}
