//! Puts and put_writes: submitted to run beside the loop, chained where order matters.
//!
//! Under [`WriteOrder::Unordered`] a put begins when the one before has ended, as in LangGraph. Under
//! [`WriteOrder::WritesFirst`] it begins when what it comes after has its *place* in the store
//! ([`Saver::submit_put`]). A store that keeps its writes in order may then have many of a run, and
//! commit them together; in one that does not, a write has its place when it has ended.
//!
//! [`Saver::submit_put`]: crate::checkpoint::saver::Saver::submit_put

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::{BoxFuture, Shared};

use super::core::{RunCore, RunState};
use super::deltas::whole_value;
use super::task::Task;
use crate::cache::CacheResult;
use crate::checkpoint::saver::{Claim, Fate, Put, PutWrites, SaverError};
use crate::checkpoint::{ChannelVersions, Checkpoint, Metadata};
use crate::doors::{RawHandle, What, one_turn};
use crate::profile::{AwaitedPut, DeltaRows, Durability, WriteOrder};
use crate::value::Shared as SharedValue;

/// Resolves when a submitted write has landed, failed or was cancelled.
pub(crate) type Completion = Shared<BoxFuture<'static, Result<(), SaverError>>>;

/// Resolves when a submitted write has its place in the store, or never will.
type Place = oneshot::Receiver<()>;

/// Writes of one run that were submitted. Finished ones are dropped as new ones come, so that the
/// cost of a step does not grow with the run.
pub(crate) struct Puts {
    /// Checkpoint puts, oldest first; each comes after the one before.
    chain: VecDeque<UnderWay>,
    /// put_writes, oldest first, in no order among each other.
    writes: VecDeque<Completion>,
    /// The place of the newest put, which the next one comes after.
    newest_place: Option<Place>,
    /// Those of the put_writes since that put, if the next one comes after them.
    writes_places: Vec<Place>,
    /// Of all of them, if the next is submitted before it is known what became of the last.
    fate: Fate,
    /// Those of them since the last put that have rows of delta channels. The next one waits for
    /// them: a checkpoint must not be seen without what its value is made of.
    deltas: Vec<Completion>,
    /// Those of them that a handler waits for before it starts.
    failures: Vec<Completion>,
    /// What was given to the cache.
    cached: Vec<Completion>,
    /// What failed; told when the run ends.
    failure: Option<SaverError>,
    /// The run was dropped and cancelled a put itself. Where it did not, a write that was cancelled
    /// has failed like any other.
    has_cancelled: bool,
}

struct UnderWay {
    checkpoint: Arc<str>,
    step: i64,
    done: Completion,
    aborter: Arc<dyn RawHandle>,
}

impl Puts {
    pub fn new(order: WriteOrder) -> Puts {
        Puts {
            fate: match order {
                WriteOrder::Unordered => Fate::default(),
                WriteOrder::WritesFirst => Fate::shared(),
            },
            chain: VecDeque::new(),
            writes: VecDeque::new(),
            newest_place: None,
            writes_places: vec![],
            deltas: vec![],
            failures: vec![],
            cached: vec![],
            failure: None,
            has_cancelled: false,
        }
    }

    fn prune(&mut self) {
        let (failure, has_cancelled) = (&mut self.failure, self.has_cancelled);
        let mut finished = |done: &Completion| match end(done) {
            None => false,
            Some(Ok(())) => true,
            Some(Err(SaverError::Cancelled)) if has_cancelled => true,
            Some(Err(error)) => {
                // What was refused because of another failure is not the news.
                if matches!(failure, None | Some(SaverError::Unfounded { .. })) {
                    *failure = Some(error);
                }
                true
            }
        };
        while self.writes.pop_front_if(|done| finished(done)).is_some() {}
        self.cached.retain(|done| !finished(done));
        // The newest put stays: the loop may still want to await it.
        while self.chain.len() > 1 && finished(&self.chain[0].done) {
            self.chain.pop_front();
        }
    }

    /// Everything submitted so far.
    fn all(&self) -> Vec<Completion> {
        let puts = self.chain.iter().map(|put| &put.done);
        puts.chain(&self.writes).chain(&self.cached).cloned().collect()
    }
}

/// How a submitted write ended, if it has. Asking is what drives a [`Shared`] future that nobody
/// awaits.
fn end(done: &Completion) -> Option<Result<(), SaverError>> {
    done.clone().now_or_never()
}

impl RunCore {
    pub(super) fn submit_put(self: &Arc<Self>, state: &mut RunState, whole: &BTreeSet<Arc<str>>) {
        let checkpoint = state.checkpoint.clone();
        let metadata = state.metadata.clone();
        let parent = state.head.replace(checkpoint.id.clone());
        state.before_head = parent.clone();
        let new_versions = self.new_versions(&checkpoint, &state.stored_versions, whole);
        state.stored_versions.clone_from(&checkpoint.channel_versions);
        let in_part = self.graph.deltas().filter(|(name, _)| {
            !whole.contains(*name) && checkpoint.channel_versions.contains_key(*name)
        });
        let in_part =
            in_part.filter_map(|(name, _)| Some((name.clone(), state.channels[name].get()?)));
        let in_part = in_part.collect();
        self.chain_put(state, parent, checkpoint, metadata, new_versions, in_part);
    }

    /// Submits a put behind those before it. `in_part` are the values of the delta channels of which
    /// the checkpoint has no snapshot.
    pub(super) fn chain_put(
        self: &Arc<Self>,
        state: &mut RunState,
        parent: Option<Arc<str>>,
        mut checkpoint: Checkpoint,
        metadata: Metadata,
        mut new_versions: ChannelVersions,
        in_part: Vec<(Arc<str>, SharedValue)>,
    ) {
        let Some(saver) = self.saver.clone() else { return };
        state.puts.prune();
        let rows = std::mem::take(&mut state.puts.deltas);
        let previous = state.puts.chain.back().map(|put| put.done.clone());
        let is_ordered = self.graph.options.write_order == WriteOrder::WritesFirst;
        let places = std::mem::take(&mut state.puts.writes_places);
        let (has_place, place) = oneshot::channel();
        let previous_place = state.puts.newest_place.replace(place);
        let fate = state.puts.fate.clone();
        let (id, step, source) = (checkpoint.id.clone(), metadata.step, metadata.source.name());
        let claim = self.next_claim(state);
        let core = self.clone();
        let turn = self.queue_to_write();
        let task = {
            let id = id.clone();
            async move {
                futures::future::join_all(places).await;
                let rows = futures::future::join_all(rows).await;
                let mut lost = rows.into_iter().find_map(Result::err);
                if let (Some(error), DeltaRows::Trusted) = (&lost, core.graph.options.delta_rows) {
                    let (checkpoint, error) = (id, error.to_string().into());
                    core.observe(|| What::PutFailed { checkpoint, step, error });
                    return Err(lost.unwrap_or(SaverError::Cancelled));
                }
                match (previous, previous_place) {
                    // One that may have to be whole must know what was lost.
                    (Some(_), Some(place)) if is_ordered && in_part.is_empty() => {
                        let _ = place.await;
                    }
                    (Some(previous), _) => lost = lost.or(previous.await.err()),
                    (None, _) => {}
                }
                if lost.is_some() && core.graph.options.delta_rows == DeltaRows::Checked {
                    // A walk from here would miss what was lost, or not get past its parent.
                    let whole =
                        in_part.iter().map(|(name, value)| (name.clone(), whole_value(value)));
                    checkpoint.channel_values.extend(whole);
                    // A saver that stores values by version may lack those that were new with it.
                    new_versions.clone_from(&checkpoint.channel_versions);
                }
                let _turn = turn.await;
                core.observe(|| What::PutBegun { checkpoint: id.clone(), source, step });
                let key = core.key.clone();
                let put = Put { key, parent, checkpoint, metadata, new_versions, claim, fate };
                let landing = saver.submit_put(put).await;
                drop(has_place);
                let result = landing.end().await;
                core.observe(|| match &result {
                    Ok(()) => What::PutAcknowledged { checkpoint: id, source, step },
                    Err(error) => {
                        What::PutFailed { checkpoint: id, step, error: error.to_string().into() }
                    }
                });
                result
            }
        };
        let handle = self.doors().executor.spawn(&self.actor("put"), task);
        let aborter = handle.aborter();
        let done = handle.map(|end| end.unwrap_or(Err(SaverError::Cancelled))).boxed().shared();
        state.puts.chain.push_back(UnderWay { checkpoint: id, step, done, aborter });
    }

    /// What must be so when the next put lands. After it the run is where it put itself.
    pub(super) fn next_claim(&self, state: &mut RunState) -> Claim {
        let goes_back = std::mem::take(&mut state.goes_back);
        Claim { parent_is_head: self.claim.parent_is_head && !goes_back, ..self.claim.clone() }
    }

    /// A task's writes, to stand beside a checkpoint.
    pub(super) fn rows(
        &self,
        checkpoint: &Arc<str>,
        task: &Arc<str>,
        path: &str,
        writes: Vec<(Arc<str>, SharedValue)>,
    ) -> PutWrites {
        PutWrites {
            key: self.key.clone(),
            checkpoint: checkpoint.clone(),
            task: task.clone(),
            task_path: path.into(),
            writes,
            claim: self.claim.clone(),
            fate: Fate::default(),
        }
    }

    /// Submits a task's writes. Nothing is stored at exit durability until the exit itself.
    pub fn submit_writes(
        self: &Arc<Self>,
        state: &mut RunState,
        task: &Arc<str>,
        writes: Vec<(Arc<str>, SharedValue)>,
    ) {
        let checkpoint = state.checkpoint.id.clone();
        let path = state.tasks.get(task).map_or_else(String::new, Task::path);
        self.submit_rows(state, &checkpoint, task, path, writes);
    }

    /// Submits rows to stand beside a checkpoint.
    pub(super) fn submit_rows(
        self: &Arc<Self>,
        state: &mut RunState,
        checkpoint: &Arc<str>,
        task: &Arc<str>,
        path: String,
        mut writes: Vec<(Arc<str>, SharedValue)>,
    ) {
        let Some(saver) = self.saver.clone() else { return };
        state.puts.prune();
        state.deltas.keep_off(&self.graph, checkpoint, &mut writes);
        if writes.is_empty() {
            return;
        }
        let has_deltas = writes.iter().any(|(channel, _)| self.graph.is_delta(channel));
        let core = self.clone();
        let (checkpoint, task) = (checkpoint.clone(), task.clone());
        let turn = self.queue_to_write();
        let fate = state.puts.fate.clone();
        let (has_place, place) = oneshot::channel();
        let job = async move {
            let _turn = turn.await;
            core.observe(|| What::WritesBegun {
                checkpoint: checkpoint.clone(),
                task: task.clone(),
            });
            let writes = PutWrites { fate, ..core.rows(&checkpoint, &task, &path, writes) };
            let landing = saver.submit_writes(writes).await;
            drop(has_place);
            let result = landing.end().await;
            core.observe(|| match &result {
                Ok(()) => What::WritesAcknowledged { checkpoint, task },
                Err(error) => {
                    What::WritesFailed { checkpoint, task, error: error.to_string().into() }
                }
            });
            result
        };
        let handle = self.doors().executor.spawn(&self.actor("put_writes"), job);
        let done = handle.map(|end| end.unwrap_or(Err(SaverError::Cancelled))).boxed().shared();
        if has_deltas {
            state.puts.deltas.push(done.clone());
        }
        state.puts.writes.push_back(done);
        if self.graph.options.write_order == WriteOrder::WritesFirst {
            state.puts.writes_places.push(place);
        }
    }

    /// Submits a write to the cache.
    pub fn submit_cached(&self, state: &mut RunState, write: CacheResult<()>) {
        let write =
            async move { write.await.map_err(|error| SaverError::Store(error.to_string())) };
        let handle = self.doors().executor.spawn(&self.actor("cache"), write);
        let done = handle.map(|end| end.unwrap_or(Err(SaverError::Cancelled))).boxed().shared();
        state.puts.cached.push(done);
    }

    /// The writes that were just submitted say that a task failed, and its handler waits for them.
    pub fn mark_failure(&self, state: &mut RunState) {
        if self.saver.is_some() && self.config.durability != Durability::Exit {
            state.puts.failures.extend(state.puts.writes.back().cloned());
        }
    }

    /// Waits until every failure that a handler takes care of is stored.
    pub async fn await_failures(&self) -> Result<(), SaverError> {
        let failures = std::mem::take(&mut self.state.lock().unwrap().puts.failures);
        futures::future::join_all(failures).await.into_iter().collect()
    }

    /// What was submitted has a turn before the next node begins, as in LangGraph, where a node is a
    /// task of its own behind those. Not so in a graph inside: the order in which the checkpoints of
    /// two of them beside each other were recorded leaves no room for one.
    pub async fn give_puts_a_turn(&self) {
        if self.inside.is_some() {
            return;
        }
        let is_under_way = {
            let puts = &self.state.lock().unwrap().puts;
            let newest =
                puts.chain.back().map(|put| &put.done).into_iter().chain(puts.writes.back());
            newest.into_iter().any(|done| end(done).is_none())
        };
        if is_under_way {
            one_turn().await;
        }
    }

    /// Async durability: the run waits while it is as far ahead of its store as it may be.
    pub async fn let_puts_go_on(&self) -> Result<(), SaverError> {
        if let Some(most) = self.graph.options.max_inflight_puts {
            while let Some(oldest) = self.oldest_of(most) {
                let _ = oldest.await;
            }
        }
        if !self.state.lock().unwrap().puts.fate.is_lost() {
            return Ok(());
        }
        // No checkpoint of it is stored any more.
        self.settle().await
    }

    /// The oldest put, when so many are under way.
    fn oldest_of(&self, most: usize) -> Option<Completion> {
        let puts = &mut self.state.lock().unwrap().puts;
        if puts.chain.len() >= most {
            puts.prune();
        }
        let oldest = puts.chain.front().filter(|_| puts.chain.len() >= most)?;
        Some(oldest.done.clone()).filter(|done| end(done).is_none())
    }

    /// Sync durability: waits for the newest put. When the run is cancelled here, the put is too,
    /// under the option that keeps this hazard.
    pub async fn await_put(&self) -> Result<(), SaverError> {
        let newest = self.state.lock().unwrap().puts.chain.back().map(|put| put.done.clone());
        let Some(done) = newest else { return Ok(()) };
        let guard = AwaitGuard(self);
        let result = done.await;
        std::mem::forget(guard);
        match result {
            // What it was refused for says more.
            Err(error @ SaverError::Unfounded { .. }) => self.settle().await.and(Err(error)),
            result => result,
        }
    }

    /// Waits for everything that was submitted, and tells the first failure.
    pub async fn settle(&self) -> Result<(), SaverError> {
        loop {
            let leaving = std::mem::take(&mut self.state.lock().unwrap().leaving);
            futures::future::join_all(leaving).await;
            let waiting = {
                let mut state = self.state.lock().unwrap();
                state.puts.prune();
                state.puts.all()
            };
            if waiting.iter().all(|done| end(done).is_some()) {
                break;
            }
            futures::future::join_all(waiting).await;
        }
        let mut state = self.state.lock().unwrap();
        let last = state.puts.chain.back().and_then(|put| end(&put.done));
        match (state.puts.failure.take(), last) {
            (Some(error), _) => Err(error),
            (None, Some(Err(SaverError::Cancelled))) if state.puts.has_cancelled => Ok(()),
            (None, last) => last.unwrap_or(Ok(())),
        }
    }
}

/// Alive while the loop awaits a put. Dropped with the loop, it passes the cancellation on.
struct AwaitGuard<'a>(&'a RunCore);

impl Drop for AwaitGuard<'_> {
    fn drop(&mut self) {
        if self.0.graph.options.awaited_put == AwaitedPut::Finished {
            return;
        }
        // A put that waits for its predecessor hands the cancellation to it and then goes on
        // itself (Python awaits it inside try/finally), so it is the oldest unfinished put that is
        // cancelled.
        let mut state = self.0.state.lock().unwrap();
        let puts = &mut state.puts;
        if let Some(put) = puts.chain.iter().find(|put| end(&put.done).is_none()) {
            put.aborter.abort();
            puts.has_cancelled = true;
            let (checkpoint, step) = (put.checkpoint.clone(), put.step);
            self.0.observe(|| What::PutCancelled { checkpoint, step });
        }
    }
}
