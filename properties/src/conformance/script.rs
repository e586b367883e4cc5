//! Performs the operations of a case's script.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use durasim_runtime::checkpoint::reserved;
use durasim_runtime::checkpoint::saver::ListFilter;
use durasim_runtime::graph::{Command, Resume};
use durasim_runtime::pregel::{Input, RunConfig, RunError, StateUpdate};
use durasim_runtime::value::from_json;
use durasim_runtime::{
    CancelStyle, CompiledGraph, Doors, Durability, Options, START, Saver, Update,
};
use futures::StreamExt;
use futures::future::{Either, select};
use serde_json::{Map, Value as Json};

use super::case::{LookOperation, Operation, RunOperation};
use super::freeze::Freeze;
use super::observed::{ObservedOperation, ObservedThread};
use super::prepare::{Prepared, mode};
use super::store::{Store, WatchedSaver};
use crate::declarative::{Direction, EffectSink, OneOrMany, Raises, build_counting};

/// How it is said that a script names a checkpoint that is not there.
pub(super) const NO_CHECKPOINT: &str = "there is no checkpoint";

/// One effect that happened.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Happened {
    pub node: String,
    pub label: String,
    pub task: String,
}

/// Every effect of a case, over all of its processes.
#[derive(Clone, Default)]
pub(super) struct Happenings(Arc<Mutex<Vec<Happened>>>);

impl Happenings {
    pub fn all(&self) -> Vec<Happened> {
        self.0.lock().unwrap().clone()
    }

    pub fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// Those from the `first` on, as they are recorded.
    pub fn texts_from(&self, first: usize) -> Vec<String> {
        let text = |effect: &Happened| format!("{}:{}", effect.node, effect.label);
        self.0.lock().unwrap()[first..].iter().map(text).collect()
    }

    fn sink(&self, freeze: Arc<Freeze>) -> EffectSink {
        let happenings = self.clone();
        Arc::new(move |context, label| {
            let (happenings, freeze) = (happenings.clone(), freeze.clone());
            let happened = Happened {
                node: context.node().to_owned(),
                label: label.to_owned(),
                task: context.task().to_owned(),
            };
            let happen = async move {
                freeze.hold().await;
                happenings.0.lock().unwrap().push(happened);
            };
            Box::pin(context.effect(label, happen))
        })
    }
}

/// A graph on a store, ready for a script.
pub(super) struct Script {
    graph: CompiledGraph,
    saver: WatchedSaver,
    doors: Doors,
    /// In place of what each operation says.
    durability: Option<Durability>,
}

/// What a script is performed on.
pub(super) struct Stage<'a> {
    pub name: &'a str,
    pub prepared: &'a Prepared,
    pub doors: &'a Doors,
    pub store: &'a Store,
    pub options: Options,
    pub durability: Option<Durability>,
    pub freeze: Arc<Freeze>,
    pub happenings: Happenings,
    pub raises: Raises,
}

impl Script {
    pub fn open(stage: Stage<'_>) -> Result<Script, String> {
        let Stage { name, prepared, doors, store, options, durability, freeze, happenings, raises } =
            stage;
        let delay = prepared.put_delay;
        let saver =
            WatchedSaver::new(store.saver.clone(), doors.clock.clone(), delay, freeze.clone());
        let graph = build_counting(name, &prepared.graph, happenings.sink(freeze), &raises);
        let graph = graph.map_err(|error| error.to_string())?;
        let graph = graph
            .compile(Some(Arc::new(saver.clone())), doors, options)
            .map_err(|error| format!("the graph does not compile: {error}"))?;
        Ok(Script { graph, saver, doors: doors.clone(), durability })
    }
}

fn all() -> ListFilter {
    ListFilter::default()
}

fn update_of(values: &Map<String, Json>) -> Update {
    let entries = values.iter();
    entries
        .fold(Update::new(), |update, (key, value)| update.set_value(key, from_json(value.clone())))
}

impl Script {
    pub async fn perform(&self, operation: &Operation) -> Result<ObservedOperation, String> {
        match operation {
            Operation::Stream(run) => {
                let input = match &run.input {
                    Json::Null => Input::Resume,
                    input => Input::New(from_json(input.clone())),
                };
                self.stream(run, input).await
            }
            Operation::Resume(run) | Operation::Command(run) => {
                let command = self.command(run).await?;
                self.stream(run, Input::Command(command)).await
            }
            Operation::UpdateState(update) => {
                let checkpoint = self.checkpoint(&update.thread, &update.checkpoint).await?;
                let values = update.values.as_ref().map(update_of);
                let as_node = update.as_node.as_deref().map(|node| match node {
                    "INPUT" => reserved::INPUT.to_owned(),
                    START => reserved::START.to_owned(),
                    node => node.to_owned(),
                });
                let step = StateUpdate { values, as_node };
                let (thread, checkpoint) = (&update.thread, checkpoint.as_deref());
                let written = self.graph.update_state(thread, checkpoint, step).await;
                Ok(ObservedOperation { error: written.err(), ..Default::default() })
            }
            Operation::GetState(look) => {
                let checkpoint = self.checkpoint(&look.thread, &look.checkpoint).await?;
                let (thread, checkpoint) = (&look.thread, checkpoint.as_deref());
                let state = match look.subgraphs {
                    true => self.graph.get_state_inside(thread, checkpoint).await,
                    false => self.graph.get_state(thread, checkpoint).await,
                };
                Ok(match state {
                    Ok(state) => ObservedOperation { state: Some(state), ..Default::default() },
                    Err(error) => ObservedOperation { error: Some(error), ..Default::default() },
                })
            }
            Operation::History(LookOperation { thread, .. }) => {
                let history = self.graph.get_state_history(thread, all()).await;
                Ok(match history {
                    Ok(history) => {
                        ObservedOperation { history: Some(history), ..Default::default() }
                    }
                    Err(error) => ObservedOperation { error: Some(error), ..Default::default() },
                })
            }
            Operation::Sleep { ms } => {
                self.doors.clock.sleep(Duration::from_millis(*ms)).await;
                Ok(ObservedOperation::default())
            }
        }
    }

    pub async fn stream(
        &self,
        run: &RunOperation,
        input: Input,
    ) -> Result<ObservedOperation, String> {
        let config = self.config(run).await?;
        let cut = run.cancel_at_ms.or(run.cancel_scope_at_ms).map(Duration::from_millis);
        let never = || Box::pin(futures::future::pending()) as _;
        let mut alarm = cut.map_or_else(never, |after| self.doors.clock.sleep(after));
        let mut stream = self.graph.stream(input, config);

        let mut observed = ObservedOperation::default();
        let mut events = Vec::new();
        loop {
            let next = match select(stream.next(), &mut alarm).await {
                Either::Left((next, _)) => next,
                Either::Right(((), pull)) => {
                    drop(pull);
                    drop(stream);
                    observed.is_cancelled = true;
                    self.after_cancel(run).await;
                    break;
                }
            };
            match next {
                None => break,
                Some(Err(error)) => {
                    observed.error = Some(error);
                    break;
                }
                Some(Ok(chunk)) => events.push(chunk),
            }
            let closes = run.close_after.as_ref().is_some_and(|close| {
                let received = events.iter().filter(|event| event.mode.name() == close.mode);
                received.count() == close.count
            });
            if closes {
                observed.is_closed = true;
                observed.error = stream.close().await.err();
                break;
            }
        }
        observed.events = Some(events);
        Ok(observed)
    }

    /// Continues a thread, with the answer of `resume` if there is one. Gives the run's error.
    #[cfg(madsim)]
    pub async fn go_on(
        &self,
        thread: &str,
        resume: Option<&RunOperation>,
    ) -> Result<Option<RunError>, String> {
        let input = match resume {
            None => Input::Resume,
            Some(run) => Input::Command(self.command(run).await?),
        };
        let mut config = RunConfig::new(thread);
        config.durability = self.durability.unwrap_or_default();
        let mut stream = self.graph.stream(input, config);
        while let Some(chunk) = stream.next().await {
            if let Err(error) = chunk {
                return Ok(Some(error));
            }
        }
        Ok(None)
    }

    /// Is nothing stored of a thread?
    #[cfg(madsim)]
    pub async fn is_new(&self, thread: &str) -> Result<bool, String> {
        let stored = self.saver.list(thread, Some(""), all()).await;
        Ok(stored.map_err(|error| error.to_string())?.is_empty())
    }

    /// Is nothing left to run on a thread, and does any of what is left ask something?
    #[cfg(madsim)]
    pub async fn stands(&self, thread: &str) -> Result<(bool, bool), String> {
        // Stored writes may be such that no step can be made of them.
        let Ok(state) = self.graph.get_state(thread, None).await else { return Ok((true, false)) };
        let waiting = state.tasks.iter().filter(|task| !task.is_finished());
        let asks = waiting.filter(|task| !task.interrupts.is_empty()).count() > 0;
        // Tasks that have finished still wait for their step to be made.
        Ok((state.tasks.is_empty(), asks))
    }

    pub async fn command(&self, run: &RunOperation) -> Result<Command, String> {
        let mut command = Command::new();
        command.update = run.update.as_ref().map(update_of).unwrap_or_default();
        let directions = run.goto.iter().flat_map(|goto| goto.as_slice());
        command.goto = directions.map(Direction::goto).collect();
        command.resume = run.value.clone().map(from_json).map(Resume::from_value);
        if let Some(answers) = &run.by_index {
            let state = self.graph.get_state(&run.thread, None).await;
            let state = state.map_err(|error| error.to_string())?;
            let waiting: Vec<&String> =
                state.tasks.iter().flat_map(|task| &task.interrupts).map(|(_, id)| id).collect();
            for (index, answer) in answers {
                let id = index.parse().ok().and_then(|index: usize| waiting.get(index));
                let id = id.ok_or_else(|| format!("there is no interrupt {index}"))?;
                command = command.answer(id, from_json(answer.clone()));
            }
        }
        Ok(command)
    }

    /// A cancelled task is awaited with its exit duties. A cancelled scope leaves at once, and the
    /// script says how long it watches what goes on behind it.
    async fn after_cancel(&self, run: &RunOperation) {
        match run.then_wait_ms {
            Some(ms) => self.doors.clock.sleep(Duration::from_millis(ms)).await,
            None => self.saver.until_quiet().await,
        }
    }

    async fn config(&self, run: &RunOperation) -> Result<RunConfig, String> {
        let mut config = RunConfig::new(run.thread.as_str());
        config.modes = run.modes.iter().filter_map(|name| mode(name)).collect();
        config.durability = self.durability.unwrap_or(match run.durability.as_deref() {
            Some("sync") => Durability::Sync,
            Some("exit") => Durability::Exit,
            _ => Durability::Async,
        });
        config.cancel = match run.cancel_scope_at_ms {
            Some(_) => CancelStyle::Scope,
            None if run.cancel_at_ms.is_some() => CancelStyle::Task,
            None => CancelStyle::Close,
        };
        config.subgraphs = run.subgraphs;
        let nodes = |list: &Option<OneOrMany>| {
            let names = list.as_ref()?.to_vec();
            Some(names.into_iter().map(Arc::from).collect())
        };
        config.interrupt_before = nodes(&run.interrupt_before);
        config.interrupt_after = nodes(&run.interrupt_after);
        if let Some(limit) = run.recursion_limit {
            config.recursion_limit = limit;
        }
        config.checkpoint =
            self.checkpoint(&run.thread, &run.checkpoint).await?.map(|id| id.as_str().into());
        Ok(config)
    }

    /// The id behind a label: `cN` is the N-th checkpoint of the thread's root, by id.
    async fn checkpoint(
        &self,
        thread: &str,
        label: &Option<String>,
    ) -> Result<Option<String>, String> {
        let Some(label) = label else { return Ok(None) };
        let number = label.rsplit('.').next().and_then(|name| name.strip_prefix('c'));
        let number: Option<usize> = number.and_then(|digits| digits.parse().ok());
        let stored = self.saver.list(thread, Some(""), all()).await;
        let stored = stored.map_err(|error| error.to_string())?;
        let mut ids: Vec<_> = stored.iter().map(|tuple| tuple.checkpoint.id.to_string()).collect();
        ids.sort();
        let id = number.and_then(|number| ids.get(number));
        match id {
            Some(id) => Ok(Some(id.clone())),
            None => Err(format!("{NO_CHECKPOINT} {label} on thread {thread}")),
        }
    }

    pub async fn look_at(&self, thread: &str, store: &Store) -> Result<ObservedThread, String> {
        let text = |error: RunError| format!("thread {thread} cannot be read: {error}");
        let last = self.graph.get_state(thread, None).await;
        let mut history = self.graph.get_state_history(thread, all()).await.map_err(text)?;
        history.reverse();
        let stored = self.saver.list(thread, None, all()).await;
        let mut stored = stored.map_err(|error| text(error.into()))?;
        stored.reverse();
        let namespaces: BTreeSet<&str> =
            stored.iter().map(|tuple| &*tuple.key.namespace).filter(|ns| !ns.is_empty()).collect();
        let mut inside = Vec::new();
        for namespace in namespaces {
            let history = self.graph.get_state_history_inside(thread, namespace, all());
            inside.extend(history.await.map_err(text)?);
        }
        let write_keys = store.write_keys(thread, &self.doors).await?;
        Ok(ObservedThread { name: thread.to_owned(), last, history, inside, stored, write_keys })
    }
}
