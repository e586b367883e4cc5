//! The queue in front of a file: everything that waits is done in one blocking call, and all writes
//! of it in one commit.
//!
//! Writes wait in one lane and reads in another. A blocking call (a *shift*) takes all that waits,
//! commits the writes together, answers their callers, does the reads, and looks again. Writes that
//! come while a commit waits for the disk thus cost one more commit in all, not one each. A shift
//! belongs to the file and to no caller: one that goes away takes nothing with it.
//!
//! SQLite's own busy handler would sleep inside the call, where a simulated world has no time; here a
//! lane that finds the file locked lets the connection go and pauses at the clock's door.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::call::{Call, Kind};
use super::connection::{Failure, OpenFile, another_saver};
use super::{FileProblem, SqliteOptions, commit};
use crate::checkpoint::saver::SaverError;
use crate::doors::{Doors, Turn, one_turn};

const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

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

#[derive(Default)]
struct Lanes {
    writes: Lane,
    reads: Lane,
    has_shift: bool,
}

/// First come, first served. A lane that pauses keeps what it has.
struct Lane {
    waiting: VecDeque<Call>,
    is_pausing: bool,
    next_pause: Duration,
}

impl Default for Lane {
    fn default() -> Lane {
        Lane { waiting: VecDeque::new(), is_pausing: false, next_pause: FIRST_PAUSE }
    }
}

impl Lane {
    fn take(&mut self) -> VecDeque<Call> {
        match self.is_pausing {
            true => VecDeque::new(),
            false => std::mem::take(&mut self.waiting),
        }
    }
}

impl Drop for Inner {
    /// To close a file may be to wait for the disk.
    fn drop(&mut self) {
        let file = self.file.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if file.is_some() {
            self.doors.executor.dispose(Box::new(move || drop(file.map(OpenFile::close))));
        }
    }
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
        let mut lanes = self.lanes();
        let lane = if call.kind == Kind::Read { READS } else { WRITES };
        let is_read = call.kind == Kind::Read;
        lane(&mut lanes).waiting.push_back(call);
        match self.new_shift(lanes) {
            Some(shift) if is_read => shift.begin(),
            // The writes of a step and its checkpoint are submitted one right after the other. Let
            // who is ready come, or each would begin a commit of its own.
            Some(shift) => drop(self.0.doors.executor.spawn("saver", async move {
                one_turn().await;
                shift.begin();
            })),
            None => {}
        }
    }

    /// A shift, unless there is one.
    fn new_shift(&self, mut lanes: MutexGuard<'_, Lanes>) -> Option<Shift> {
        let is_new = !std::mem::replace(&mut lanes.has_shift, true);
        is_new.then(|| Shift { queue: self.clone(), is_over: false })
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        // Nothing under this lock can fail half done.
        self.0.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self) -> MutexGuard<'_, Option<OpenFile>> {
        // A transaction that a panic cut short was rolled back on its way out.
        self.0.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What can be done now. When there is nothing, the shift is over.
    fn take(&self) -> Option<(VecDeque<Call>, VecDeque<Call>)> {
        let mut lanes = self.lanes();
        let found = (lanes.writes.take(), lanes.reads.take());
        lanes.has_shift = !(found.0.is_empty() && found.1.is_empty());
        lanes.has_shift.then_some(found)
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
        let pausing = Pausing { queue: self.clone(), pick, is_over: false };
        drop(self.0.doors.executor.spawn("saver", async move {
            pausing.queue.0.doors.clock.sleep(pause).await;
            pausing.end();
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

/// A lane that waits for a locked file.
struct Pausing {
    queue: Queue,
    pick: Pick,
    is_over: bool,
}

impl Pausing {
    fn end(mut self) {
        self.is_over = true;
        let mut lanes = self.queue.lanes();
        (self.pick)(&mut lanes).is_pausing = false;
        if let Some(shift) = self.queue.new_shift(lanes) {
            shift.begin();
        }
    }
}

impl Drop for Pausing {
    /// Its process is going down, or only the runtime that it was in: those who wait are told that
    /// they were cancelled, and who comes later is not held up.
    fn drop(&mut self) {
        if !self.is_over {
            let mut lanes = self.queue.lanes();
            let gone = std::mem::take((self.pick)(&mut lanes));
            drop(lanes);
            drop(gone);
        }
    }
}

/// One blocking call's work.
struct Shift {
    queue: Queue,
    is_over: bool,
}

impl Shift {
    /// It goes on by itself and answers the callers one by one.
    fn begin(self) {
        let executor = self.queue.0.doors.executor.clone();
        drop(executor.blocking_raw("saver", Box::new(move || self.work())));
    }

    fn work(mut self) {
        let queue = self.queue.clone();
        let mut file = queue.file();
        while let Some((writes, mut reads)) = queue.take() {
            self.write(&mut file, writes, &mut reads);
            self.read(file.as_ref(), reads);
        }
        self.is_over = true;
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
                self.read(file.as_ref(), std::mem::take(reads));
                let closed = file.take().map_or(Ok(()), OpenFile::close);
                let closed = closed.map_err(|failure| self.queue.0.told(failure, Duration::ZERO));
                if let Some(close) = writes.pop_front() {
                    close.end(closed);
                }
                continue;
            }
            let group = writes.iter().take_while(|call| call.kind != Kind::Close).count();
            let rest = writes.split_off(group);
            let mut group = std::mem::replace(&mut writes, rest);
            let Some(file) = file else {
                group.into_iter().for_each(|call| call.end(Err(self.closed())));
                continue;
            };
            let told = |failure| self.queue.0.told(failure, Duration::ZERO);
            // What waits to be read does not wait for the other savers of this process.
            let taken = file.turn.try_take().or_else(|| {
                self.read(Some(file), std::mem::take(reads));
                file.turn.take()
            });
            let end = match taken {
                Some(_) => commit::all(file, group, &told),
                None => {
                    group.iter_mut().for_each(|call| call.waited += Turn::LONGEST_WAIT);
                    Err((group, another_saver()))
                }
            };
            drop(taken);
            if let Err((mut locked, error)) = end {
                locked.append(&mut writes);
                self.queue.pause(WRITES, locked, &error);
                return;
            }
            self.queue.went_well(WRITES);
        }
    }

    fn read(&self, file: Option<&OpenFile>, mut reads: VecDeque<Call>) {
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

impl Drop for Shift {
    /// Thrown away before it began, as its process is going down, or cut short by a panic: those who
    /// wait for it are told that they were cancelled. A lane that pauses waits for another shift.
    fn drop(&mut self) {
        if !self.is_over {
            let mut lanes = self.queue.lanes();
            let gone = (lanes.writes.take(), lanes.reads.take());
            lanes.has_shift = false;
            drop(lanes);
            drop(gone);
        }
    }
}
