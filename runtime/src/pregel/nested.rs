//! A graph that runs inside a node of another one.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use futures::future::BoxFuture;

use super::core::{Family, Inside, RunCore};
use super::deltas::{is_branched, rebuild};
use super::run::End;
use super::turns::turns;
use super::{Input, RunError};
use crate::checkpoint::saver::{ListFilter, Saver, SaverError};
use crate::checkpoint::{CheckpointTuple, ThreadKey};
use crate::doors::one_turn;
use crate::graph::{GraphInner, NodeError, NodeScope, Persistence, TimedAttempt};
use crate::profile::{CancelStyle, ExitDuties, FinishedSiblings};
use crate::value::Value;

/// Turns of the loop that a graph takes to start, as in LangGraph: siblings that need none are done
/// by then.
const TURNS_TO_START: usize = 3;

impl RunCore {
    /// Runs `graph` inside the task of `scope`, from its input to what it gives back. Boxed, as a
    /// graph may have one like itself inside.
    pub(crate) fn run_inside<'a>(
        self: &'a Arc<Self>,
        graph: &'a Arc<GraphInner>,
        input: Value,
        scope: &'a Arc<NodeScope>,
        timed: Option<&'a Arc<TimedAttempt>>,
    ) -> BoxFuture<'a, Result<Value, NodeError>> {
        self.run_inside_unboxed(graph, input, scope, timed).boxed()
    }

    async fn run_inside_unboxed(
        self: &Arc<Self>,
        graph: &Arc<GraphInner>,
        input: Value,
        scope: &Arc<NodeScope>,
        timed: Option<&Arc<TimedAttempt>>,
    ) -> Result<Value, NodeError> {
        for _ in 0..TURNS_TO_START {
            one_turn().await;
        }
        let key = ThreadKey {
            thread: self.key.thread.clone(),
            namespace: namespace(graph, scope).into(),
        };
        let root_saver = self.inside.as_ref().map_or(&self.saver, |inside| &inside.saver);
        let saver = match graph.persistence {
            Persistence::Never => None,
            Persistence::PerCall | Persistence::PerThread => root_saver.clone(),
        };
        let mut parents = self.inside.as_ref().map_or_else(Default::default, |i| i.parents.clone());
        parents.insert(self.key.namespace.to_string(), scope.checkpoint.to_string());
        if let Some(handled) = &scope.handles {
            parents.insert(handled.namespace.to_string(), scope.checkpoint.to_string());
        }
        let inside = Inside {
            parents,
            saver: root_saver.clone(),
            answer: scope.resumes.lock().unwrap().unaddressed.clone(),
            timed: timed.or(self.timed_around()).cloned(),
            resuming: match scope.attempt.load(Ordering::Relaxed) {
                0 | 1 => self.state.lock().unwrap().resuming,
                // A failed attempt goes on where it stood.
                _ => Some(true),
            },
        };
        let core = self.open_inside(graph, key, saver, inside, input).await;
        let core = core.map_err(failed)?;
        core.progress_around();
        let mut guard = Guard { core: Some(core.clone()), around: self.clone() };
        let result = core.drive_inside().await;
        guard.core = None;
        result
    }

    async fn open_inside(
        self: &Arc<Self>,
        graph: &Arc<GraphInner>,
        key: ThreadKey,
        saver: Option<Arc<dyn Saver>>,
        mut inside: Inside,
        input: Value,
    ) -> Result<Arc<RunCore>, RunError> {
        let saved = match &saver {
            None => None,
            Some(saver) => load(&self.family, saver, &key, &mut inside).await?,
        };
        let goes_back = self.family.replay.get().is_some();
        graph.keep_ids_above(&self.ids, saver.as_ref(), saved.as_ref(), goes_back).await?;
        let rebuilt = rebuild(graph, saver.as_ref(), saved.as_ref()).await?;
        let is_branched = goes_back && is_branched(graph, saver.as_ref(), saved.as_ref()).await?;
        let outlet = Arc::new(self.outlet.inside(&key.namespace));
        let mut config = self.config.clone();
        config.interrupt_before = None;
        config.interrupt_after = None;
        let keeps = graph.options.finished_siblings == FinishedSiblings::Kept;
        let is_replaying = !(keeps && inside.resuming == Some(true));
        let mut state = RunCore::opened(graph, &config, saved, &rebuilt, is_replaying);
        state.goes_back = goes_back;
        state.deltas.is_branched = is_branched;
        let core = Arc::new(RunCore {
            path: without_tasks(&key.namespace).into(),
            graph: graph.clone(),
            config,
            key,
            only_output: true,
            saver,
            claim: self.claim.clone(),
            ids: self.ids.clone(),
            inside: Some(inside),
            family: self.family.clone(),
            labels: self.labels.clone(),
            outlet,
            turns: turns(&self.config),
            state: Mutex::new(state),
        });
        core.enter(&mut core.state.lock().unwrap(), Input::New(input))?;
        Ok(core)
    }

    /// From a started run to what it gives back; exit duties are done by then.
    async fn drive_inside(self: &Arc<Self>) -> Result<Value, NodeError> {
        let result = self.steps().await;
        let result = result.and_then(|end| self.past_failure(end).map_or(Ok(end), Err));
        let kept = result.is_err() || self.graph.persistence == Persistence::PerThread;
        let paused = matches!(result, Ok(End::Paused));
        let drained = matches!(result, Ok(End::Drained))
            && self.graph.options.exit_duties == ExitDuties::Always;
        self.leave(kept || paused || drained);
        self.settle().await.map_err(|error| failed(error.into()))?;
        match result {
            Ok(End::Finished) => {
                let output = self.state.lock().unwrap().output.take();
                Ok(output.map_or(Value::Nil, |output| output.to_value()))
            }
            Ok(End::Paused | End::Asked) => Err(NodeError::Interrupted(vec![])),
            Ok(End::Drained) => Err(NodeError::Drained { reason: self.drained_for() }),
            Ok(End::OutOfSteps) => {
                Err(failed(RunError::Recursion { limit: self.config.recursion_limit }))
            }
            Err(error) => Err(failed(error)),
        }
    }
}

/// The namespace of a graph in its node; a second one gets a number.
fn namespace(graph: &GraphInner, scope: &NodeScope) -> String {
    let mut namespace = match graph.persistence {
        Persistence::PerThread => without_tasks(&scope.namespace),
        Persistence::PerCall | Persistence::Never => scope.namespace.to_string(),
    };
    match scope.subgraphs.fetch_add(1, Ordering::Relaxed) {
        0 => {}
        before => namespace += &format!("|{before}"),
    }
    namespace
}

/// The names of the nodes only: what stays the same from call to call.
pub(super) fn without_tasks(namespace: &str) -> String {
    let is_count = |part: &&str| part.bytes().all(|b| b.is_ascii_digit());
    let parts = namespace.split('|').filter(|part| !is_count(part));
    let names: Vec<&str> = parts.map(|part| part.split(':').next().unwrap_or_default()).collect();
    names.join("|")
}

/// The head of a graph's thread; or, when its root has gone back in time, at the first visit what
/// it was before that.
async fn load(
    family: &Family,
    saver: &Arc<dyn Saver>,
    key: &ThreadKey,
    inside: &mut Inside,
) -> Result<Option<CheckpointTuple>, SaverError> {
    let Some(replay) = family.replay.get() else { return saver.get_tuple(key, None).await };
    // Its input is applied again.
    inside.resuming = None;
    let stable = match key.namespace.rsplit_once(':') {
        Some((stable, _)) => stable,
        None => &key.namespace,
    };
    if !replay.is_first_visit(stable) {
        return saver.get_tuple(key, None).await;
    }
    let filter =
        ListFilter { before: Some(replay.before.clone()), limit: Some(1), ..ListFilter::default() };
    let found = saver.list(&key.thread, Some(&key.namespace), filter).await?;
    Ok(found.into_iter().next())
}

/// The end of a run inside, as the node around sees it.
fn failed(error: RunError) -> NodeError {
    match error {
        RunError::Node { error, .. } => error,
        other => NodeError::failed(other.class(), &other),
    }
}

/// Alive while a run inside goes on. Dropped with the node around it, it ends that run in the way
/// in which the root was ended.
struct Guard {
    core: Option<Arc<RunCore>>,
    around: Arc<RunCore>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(core) = self.core.take() {
            let style = self.around.family.style.get().copied().unwrap_or(CancelStyle::Task);
            let gone = core.abandon_inside(style);
            self.around.state.lock().unwrap_or_else(PoisonError::into_inner).leaving.extend(gone);
        }
    }
}
