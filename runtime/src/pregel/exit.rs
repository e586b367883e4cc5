//! How a run leaves: its exit duties, and who does them when the run was dropped.
//!
//! A destructor cannot await and must not spawn. A dropped run therefore hands what is left to do
//! to the finalizer, a task that has been running in the same process since the graph was
//! compiled. A kill takes the finalizer with it, as it takes everything.

use std::sync::Arc;

use futures::StreamExt;
use futures::channel::{mpsc, oneshot};

use super::commit::TaskEnd;
use super::core::{RunCore, RunState};
use crate::channels::ChannelSpec;
use crate::checkpoint::PendingWrite;
use crate::doors::{Doors, What};
use crate::profile::{BarriersAtPause, CancelStyle, Durability, ExitDuties, FoundWrites, Orphans};
use crate::value::Shared;

/// Finishes dropped runs. Ends when the last graph that uses it is gone.
pub(crate) struct Finalizer(mpsc::UnboundedSender<Dropped>);

struct Dropped {
    run: Arc<RunCore>,
    /// Held until the duties are done.
    done: Option<oneshot::Sender<()>>,
}

impl Finalizer {
    pub fn start(doors: &Doors) -> Finalizer {
        let (sender, mut dropped) = mpsc::unbounded::<Dropped>();
        let executor = doors.executor.clone();
        drop(doors.executor.spawn("finalizer", async move {
            while let Some(Dropped { run, done }) = dropped.next().await {
                // One slow database must not hold up the next run's duties.
                let actor = run.actor("exit");
                drop(executor.spawn(&actor, async move {
                    run.begin_exit();
                    let _ = run.settle().await;
                    drop(done);
                }));
            }
        }));
        Finalizer(sender)
    }
}

impl RunCore {
    /// The exit duties, up to where they wait: at exit durability the one put and the pending
    /// writes, then the cancelling of nodes that still run. Does nothing the second time.
    pub fn begin_exit(self: &Arc<Self>) {
        self.leave(true);
    }

    /// As [`RunCore::begin_exit`], of a run that pauses and is not inside another one.
    pub fn begin_pause(self: &Arc<Self>) {
        if self.config.durability == Durability::Exit
            && self.graph.options.barriers_at_pause == BarriersAtPause::RunAhead
        {
            self.run_barriers_ahead(&mut self.state.lock().unwrap());
        }
        self.leave(true);
    }

    /// Lets the finished tasks of the step that is not made pass into the barriers.
    fn run_barriers_ahead(&self, state: &mut RunState) {
        let RunState { tasks, channels, pending, .. } = state;
        if pending.is_empty() {
            return;
        }
        for (name, value) in tasks.values().flat_map(|task| &task.writes) {
            if self.graph.channels.get(name).is_some_and(ChannelSpec::is_barrier) {
                // A name that the barrier does not wait for fails the step, when it is made.
                let _ = channels[name].update(std::slice::from_ref(value));
            }
        }
    }

    /// As [`RunCore::begin_exit`]. At exit durability a run inside another one that has finished
    /// stores nothing: the run around it has what it gave back.
    pub fn leave(self: &Arc<Self>, stores: bool) {
        let mut state = self.state.lock().unwrap();
        let state = &mut *state;
        if state.is_over {
            return;
        }
        if self.config.durability == Durability::Exit && stores {
            state.drop_used_answer();
            self.submit_step_writes(state);
            self.checkpoint_exit(state);
            let leaves_alone = self.graph.options.found_writes == FoundWrites::LeftAlone;
            for (task, writes) in by_task(&state.pending) {
                if !(leaves_alone && state.found.contains(&task)) {
                    self.submit_writes(state, &task, writes);
                }
            }
        }
        // The flush comes first, so at exit durability no cancellation is recorded.
        for (id, running) in state.running.take() {
            running.aborter.abort();
            state.leaving.push(running.gone);
            let resumes = running.scope.map_or_else(Vec::new, |scope| scope.resume_records());
            self.commit(state, &id, TaskEnd::Cancelled { resumes });
        }
        state.is_over = true;
    }

    /// The run was dropped by its owner before its end.
    pub fn abandon(self: &Arc<Self>, style: CancelStyle) {
        let outcome = match style {
            CancelStyle::Close => "dropped: close",
            CancelStyle::Task => "dropped: task",
            CancelStyle::Scope => "dropped: scope",
        };
        self.observe(|| What::RunEnded { outcome });
        let mut state = self.state.lock().unwrap();
        self.let_go(&mut state, style, None);
    }

    /// As [`RunCore::abandon`], for a run inside another one. What is given back resolves when the
    /// exit duties are done.
    pub fn abandon_inside(self: &Arc<Self>, style: CancelStyle) -> Option<oneshot::Receiver<()>> {
        let (done, gone) = oneshot::channel();
        let mut state = self.state.lock().unwrap();
        self.let_go(&mut state, style, Some(done));
        Some(gone)
    }

    fn let_go(
        self: &Arc<Self>,
        state: &mut RunState,
        style: CancelStyle,
        done: Option<oneshot::Sender<()>>,
    ) {
        let options = self.graph.options;
        if state.is_over {
            return;
        }
        let by_scope = style == CancelStyle::Scope;
        if by_scope && options.orphans == Orphans::RunOn {
            for (task, running) in state.running.take() {
                let node = running.node;
                self.observe(|| What::NodeOrphaned { node, task });
            }
        }
        if by_scope && options.exit_duties == ExitDuties::SkippedByScope {
            state.is_over = true;
            for (task, running) in state.running.take() {
                running.aborter.abort();
                let node = running.node;
                self.observe(|| What::NodeCancelled { node, task });
            }
            return;
        }
        // Here and not later: a node that has not started yet must not start any more. Its end is
        // recorded with the exit duties.
        state.is_leaving = true;
        state.running.abort();
        // A process that is going down has no finalizer any more, and nothing is left to save.
        let _ = self.graph.finalizer.0.unbounded_send(Dropped { run: self.clone(), done });
    }
}

/// A task with what it wrote.
type TaskWrites = (Arc<str>, Vec<(Arc<str>, Shared)>);

/// Pending writes grouped by task, in order of first appearance.
fn by_task(pending: &[PendingWrite]) -> Vec<TaskWrites> {
    let mut groups: Vec<TaskWrites> = Vec::new();
    for write in pending {
        let row = (write.channel.clone(), write.value.clone());
        match groups.iter_mut().find(|(task, _)| *task == write.task) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((write.task.clone(), vec![row])),
        }
    }
    groups
}
