//! The shape of a case file.

use indexmap::IndexMap;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value as Json};

use crate::declarative::{OneOrMany, OneOrManyDirections};

/// One recorded case. Graph and operations stay JSON here: [`super::prepare`] reads them, and says
/// what it cannot read.
#[derive(Debug, Clone, Deserialize)]
pub struct Case {
    pub name: String,
    pub spec: CaseSpec,
    pub expected: Json,
    /// Paths into `expected` where LangGraph's memory saver left something else.
    #[serde(default)]
    pub memory_saver_differs_at: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct CaseSpec {
    #[serde(default)]
    pub description: String,
    pub graph: Json,
    pub ops: Vec<Json>,
    pub saver: Option<SaverSpec>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SaverSpec {
    /// Every put of a checkpoint takes this long before it begins.
    pub put_delay_ms: u64,
}

impl Case {
    pub fn parse(text: &str) -> Result<Case, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }
}

/// One step of a case's script.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Operation {
    Stream(RunOperation),
    Resume(RunOperation),
    Command(RunOperation),
    UpdateState(UpdateOperation),
    GetState(LookOperation),
    History(LookOperation),
    Sleep { ms: u64 },
}

impl Operation {
    pub fn name(&self) -> &'static str {
        match self {
            Operation::Stream(_) => "stream",
            Operation::Resume(_) => "resume",
            Operation::Command(_) => "command",
            Operation::UpdateState(_) => "update_state",
            Operation::GetState(_) => "get_state",
            Operation::History(_) => "history",
            Operation::Sleep { .. } => "sleep",
        }
    }

    /// The thread that is worked on; `None` for those that touch none.
    pub fn thread(&self) -> Option<&str> {
        match self {
            Operation::Stream(run) | Operation::Resume(run) | Operation::Command(run) => {
                Some(&run.thread)
            }
            Operation::GetState(look) | Operation::History(look) => Some(&look.thread),
            Operation::UpdateState(update) => Some(&update.thread),
            Operation::Sleep { .. } => None,
        }
    }
}

/// Everything about one run: what it is given, and how it is cut short.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunOperation {
    #[serde(default = "first_thread")]
    pub thread: String,
    /// Null goes on with what is unfinished.
    #[serde(default)]
    pub input: Json,
    /// The answer of a resume; null is an answer too.
    #[serde(default, deserialize_with = "present")]
    pub value: Option<Json>,
    /// Answers by the position of their interrupt among those that wait.
    pub by_index: Option<IndexMap<String, Json>>,
    pub update: Option<Map<String, Json>>,
    pub goto: Option<OneOrManyDirections>,
    pub modes: Vec<String>,
    pub durability: Option<String>,
    pub checkpoint: Option<String>,
    pub recursion_limit: Option<u64>,
    pub interrupt_before: Option<OneOrMany>,
    pub interrupt_after: Option<OneOrMany>,
    #[serde(default)]
    pub subgraphs: bool,
    pub close_after: Option<CloseAfter>,
    pub cancel_at_ms: Option<u64>,
    pub cancel_scope_at_ms: Option<u64>,
    pub then_wait_ms: Option<u64>,
}

/// Stop in an orderly way on receiving the `count`-th event of a mode.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CloseAfter {
    pub mode: String,
    pub count: usize,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LookOperation {
    #[serde(default = "first_thread")]
    pub thread: String,
    pub checkpoint: Option<String>,
    #[serde(default)]
    pub subgraphs: bool,
}

/// A write from outside a run.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpdateOperation {
    #[serde(default = "first_thread")]
    pub thread: String,
    pub values: Option<Map<String, Json>>,
    pub as_node: Option<String>,
    pub checkpoint: Option<String>,
}

/// Names of all threads of a script, each once, in order of appearance.
pub(super) fn threads(operations: &[Operation]) -> Vec<String> {
    let names = operations.iter().filter_map(Operation::thread);
    let unique: IndexMap<&str, ()> = names.map(|name| (name, ())).collect();
    unique.into_keys().map(str::to_owned).collect()
}

fn first_thread() -> String {
    "t1".to_owned()
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}
