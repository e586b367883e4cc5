//! Puts and put_writes: submitted to run beside the loop, chained where order matters.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};

use super::core::{RunCore, RunState};
use crate::checkpoint::saver::SaverError;
use crate::checkpoint::{Checkpoint, Source};
use crate::doors::{RawHandle, What};
use crate::profile::{AwaitedPut, Durability, WriteOrder};
use crate::value::Shared as SharedValue;

/// Resolves when a submitted write has landed, failed or was cancelled.
pub(crate) type Completion = Shared<BoxFuture<'static, Result<(), SaverError>>>;

/// Writes of one run that were submitted. Finished ones are dropped as new ones come, so that the
/// cost of a step does not grow with the run.
#[derive(Default)]
pub(crate) struct Puts {
    /// Checkpoint puts, oldest first; each waits for the one before.
    chain: VecDeque<Put>,
    /// put_writes, in no order among each other.
    writes: Vec<Completion>,
    /// What failed; told when the run ends.
    failure: Option<SaverError>,
}

struct Put {
    checkpoint: Arc<str>,
    step: i64,
    done: Completion,
    aborter: Arc<dyn RawHandle>,
}

impl Puts {
    fn prune(&mut self) {
        let failure = &mut self.failure;
        let mut finished = |done: &Completion| match done.peek() {
            None => false,
            Some(Err(error)) if !matches!(error, SaverError::Cancelled) => {
                failure.get_or_insert(error.clone());
                true
            }
            Some(_) => true,
        };
        self.writes.retain(|done| !finished(done));
        // The newest put stays: the loop may still want to await it.
        while self.chain.len() > 1 && finished(&self.chain[0].done) {
            self.chain.pop_front();
        }
    }

    /// Everything submitted so far.
    fn all(&self) -> Vec<Completion> {
        self.chain.iter().map(|put| put.done.clone()).chain(self.writes.iter().cloned()).collect()
    }
}

impl RunCore {
    /// Makes the step's checkpoint and, unless the durability is exit, submits its put.
    pub fn checkpoint_step(self: &Arc<Self>, state: &mut RunState, source: Source) {
        let store = self.graph.saver.is_some() && self.config.durability != Durability::Exit;
        state.metadata.source = source;
        state.metadata.step = state.step;
        state.metadata.extra = self.config.metadata();
        state.metadata.parents.clear();
        state.checkpoint = self.snapshot(state, store, None);
        if store {
            self.submit_put(state);
        }
        state.step += 1;
    }

    /// The one put of exit durability: the last in-memory checkpoint, under its own id.
    pub fn checkpoint_exit(self: &Arc<Self>, state: &mut RunState) {
        if self.graph.saver.is_none() || state.loaded.as_ref() == Some(&state.checkpoint.id) {
            return;
        }
        let id = Some(state.checkpoint.id.clone());
        state.checkpoint = self.snapshot(state, true, id);
        self.submit_put(state);
    }

    /// The checkpoint that takes the place of the state's own, whose maps it takes over.
    fn snapshot(&self, state: &mut RunState, values: bool, id: Option<Arc<str>>) -> Checkpoint {
        let doors = self.doors();
        let old = &mut state.checkpoint;
        let channel_values = match values {
            false => std::mem::take(&mut old.channel_values),
            true => state
                .channels
                .iter()
                .filter(|(name, _)| old.channel_versions.contains_key(*name))
                .filter_map(|(name, channel)| Some((name.clone(), channel.checkpoint()?)))
                .collect(),
        };
        Checkpoint {
            ts: crate::checkpoint::id::timestamp(doors.clock.now()),
            id: id.unwrap_or_else(|| self.graph.mint.mint(state.step)),
            channel_values,
            channel_versions: std::mem::take(&mut old.channel_versions),
            versions_seen: std::mem::take(&mut old.versions_seen),
            updated_channels: state.updated.as_ref().map(|set| set.iter().cloned().collect()),
        }
    }

    fn submit_put(self: &Arc<Self>, state: &mut RunState) {
        let Some(saver) = self.graph.saver.clone() else { return };
        state.puts.prune();
        let checkpoint = state.checkpoint.clone();
        let metadata = state.metadata.clone();
        let parent = state.head.replace(checkpoint.id.clone());
        let new_versions = checkpoint
            .channel_versions
            .iter()
            .filter(|(name, version)| Some(*version) > state.stored_versions.get(*name))
            .map(|(name, version)| (name.clone(), version.clone()))
            .collect();
        state.stored_versions.clone_from(&checkpoint.channel_versions);

        let previous = state.puts.chain.back().map(|put| put.done.clone());
        let writes = match self.graph.options.write_order {
            WriteOrder::Unordered => vec![],
            WriteOrder::WritesFirst => state.puts.writes.clone(),
        };
        let (id, step, source) = (checkpoint.id.clone(), metadata.step, metadata.source.name());
        let core = self.clone();
        let task = {
            let id = id.clone();
            async move {
                futures::future::join_all(writes).await;
                if let Some(previous) = previous {
                    let _ = previous.await;
                }
                core.observe(|| What::PutBegun { checkpoint: id.clone(), source, step });
                let put =
                    saver.put(&core.key, parent.as_deref(), checkpoint, metadata, new_versions);
                let result = put.await;
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
        state.puts.chain.push_back(Put { checkpoint: id, step, done, aborter });
    }

    /// Submits a task's writes. Nothing is stored at exit durability until the exit itself.
    pub fn submit_writes(
        self: &Arc<Self>,
        state: &mut RunState,
        task: &Arc<str>,
        writes: Vec<(Arc<str>, SharedValue)>,
    ) {
        let Some(saver) = self.graph.saver.clone() else { return };
        state.puts.prune();
        let checkpoint = state.checkpoint.id.clone();
        let path = state.tasks.get(task).map_or_else(|| "".into(), |task| task.path.clone());
        let core = self.clone();
        let task = task.clone();
        let job = async move {
            core.observe(|| What::WritesBegun {
                checkpoint: checkpoint.clone(),
                task: task.clone(),
            });
            let result = saver.put_writes(&core.key, &checkpoint, &task, &path, writes).await;
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
        state.puts.writes.push(done);
    }

    /// Sync durability: waits for the newest put. When the run is cancelled here, the put is too,
    /// under the option that keeps this hazard.
    pub async fn await_put(&self) -> Result<(), SaverError> {
        let newest = self.state.lock().unwrap().puts.chain.back().map(|put| put.done.clone());
        let Some(done) = newest else { return Ok(()) };
        let guard = AwaitGuard(self);
        let result = done.await;
        std::mem::forget(guard);
        result
    }

    /// Waits for everything that was submitted, and tells the first failure.
    pub async fn settle(&self) -> Result<(), SaverError> {
        loop {
            let waiting = {
                let mut state = self.state.lock().unwrap();
                state.puts.prune();
                state.puts.all()
            };
            if waiting.iter().all(|done| done.peek().is_some()) {
                break;
            }
            futures::future::join_all(waiting).await;
        }
        let mut state = self.state.lock().unwrap();
        let last = state.puts.chain.back().and_then(|put| put.done.peek().cloned());
        match (state.puts.failure.take(), last) {
            (Some(error), _) => Err(error),
            (None, Some(Err(error))) if !matches!(error, SaverError::Cancelled) => Err(error),
            _ => Ok(()),
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
        let state = self.0.state.lock().unwrap();
        if let Some(put) = state.puts.chain.iter().find(|put| put.done.peek().is_none()) {
            put.aborter.abort();
            let (checkpoint, step) = (put.checkpoint.clone(), put.step);
            self.0.observe(|| What::PutCancelled { checkpoint, step });
        }
    }
}
