use std::sync::Arc;

use serde_json::{Map, Value as Json};

use super::RunControl;
use crate::graph::{Command, StateError, Update};
use crate::profile::{CancelStyle, Durability};
use crate::stream::StreamMode;
use crate::value::{self, Value};

/// How a run is started.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A new turn: whatever was unfinished is discarded, and the graph is entered at START.
    New(Value),
    /// Continue where the thread stands (Python's `None`).
    Resume,
    /// Continue with an answer for an interrupt, an update, or at another node.
    Command(Command),
}

impl Input {
    /// A new turn that brings `update`. The error is that of a value which could not be written.
    pub fn of(update: impl Into<Update>) -> Result<Input, StateError> {
        let Update { writes, problem } = update.into();
        match problem {
            Some(problem) => Err(problem),
            None => Ok(Input::New(value::map(
                writes.iter().map(|(key, value)| (key.to_string(), (**value).clone())),
            ))),
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Input::New(_) => "input",
            Input::Resume => "none",
            Input::Command(_) => "command",
        }
    }
}

/// Everything about one run besides its input.
#[derive(Debug, Clone)]
pub struct RunConfig {
    pub thread: Arc<str>,
    /// Start from this checkpoint instead of the thread's head.
    pub checkpoint: Option<Arc<str>>,
    /// Names the run in events; minted when absent. This is not the `run_id` of `configurable`,
    /// which has a meaning of its own (re-entry).
    pub run: Option<Arc<str>>,
    /// Names the request that started the run, in events.
    pub request: Option<Arc<str>>,
    pub durability: Durability,
    pub modes: Vec<StreamMode>,
    /// Does the stream show graphs that run inside nodes?
    pub subgraphs: bool,
    /// Static interrupts of this run, in place of those that the graph was compiled with; `*` stands
    /// for all nodes.
    pub interrupt_before: Option<Vec<Arc<str>>>,
    pub interrupt_after: Option<Vec<Arc<str>>>,
    /// Most tasks of one super-step that run at the same time; `None` for all of them.
    pub max_concurrency: Option<usize>,
    /// By which the run can be asked to end early.
    pub control: Option<RunControl>,
    /// Anything that nodes should know and no checkpoint holds (LangGraph's `context`).
    pub context: Value,
    /// What it means when the run is dropped before its end.
    pub cancel: CancelStyle,
    /// Node steps before [`super::RunError::Recursion`]. LangGraph's default is 10007.
    pub recursion_limit: u64,
    /// Scalars end up in every checkpoint's metadata; nodes can read all of it.
    pub configurable: Map<String, Json>,
}

impl RunConfig {
    pub fn new(thread: impl Into<Arc<str>>) -> RunConfig {
        RunConfig {
            thread: thread.into(),
            checkpoint: None,
            run: None,
            request: None,
            durability: Durability::default(),
            modes: vec![StreamMode::Updates],
            subgraphs: false,
            interrupt_before: None,
            interrupt_after: None,
            max_concurrency: None,
            control: None,
            context: Value::Nil,
            cancel: CancelStyle::default(),
            recursion_limit: 10_007,
            configurable: Map::new(),
        }
    }

    pub fn durability(mut self, durability: Durability) -> RunConfig {
        self.durability = durability;
        self
    }

    pub fn modes(mut self, modes: &[StreamMode]) -> RunConfig {
        self.modes = modes.to_vec();
        self
    }

    /// At most so many tasks of one super-step run at the same time; zero means one.
    pub fn max_concurrency(mut self, limit: usize) -> RunConfig {
        self.max_concurrency = Some(limit);
        self
    }

    pub fn control(mut self, control: &RunControl) -> RunConfig {
        self.control = Some(control.clone());
        self
    }

    pub fn subgraphs(mut self, show: bool) -> RunConfig {
        self.subgraphs = show;
        self
    }

    /// Starts from this checkpoint instead of the thread's head.
    pub fn checkpoint(mut self, id: impl Into<Arc<str>>) -> RunConfig {
        self.checkpoint = Some(id.into());
        self
    }

    pub fn cancel(mut self, style: CancelStyle) -> RunConfig {
        self.cancel = style;
        self
    }

    pub fn request(mut self, request: impl Into<Arc<str>>) -> RunConfig {
        self.request = Some(request.into());
        self
    }

    pub fn configurable(mut self, key: &str, value: impl Into<Json>) -> RunConfig {
        self.configurable.insert(key.to_owned(), value.into());
        self
    }

    /// What of `configurable` goes into metadata: scalars, except names that LangGraph keeps for
    /// itself (FORMAT.md section 3).
    pub(crate) fn metadata(&self) -> Map<String, Json> {
        const OWN: [&str; 9] = [
            "thread_id",
            "checkpoint_id",
            "checkpoint_ns",
            "checkpoint_map",
            "langgraph_step",
            "langgraph_node",
            "langgraph_triggers",
            "langgraph_path",
            "langgraph_checkpoint_ns",
        ];
        let scalar = |value: &Json| !(value.is_object() || value.is_array() || value.is_null());
        self.configurable
            .iter()
            .filter(|(key, value)| {
                scalar(value) && !key.starts_with("__") && !OWN.contains(&key.as_str())
            })
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }
}
