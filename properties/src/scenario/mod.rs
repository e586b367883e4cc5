//! A scenario: who does what, when, and what must hold. Data, so that it can be written by hand,
//! kept in a file, and replayed from a seed.

mod builtin;
pub mod declared;
mod file;

use std::time::Duration;

use durasim_models::PaymentSettings;
use durasim_runtime::{CancelStyle, Durability, Options, Profile, StreamMode};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use crate::declarative::GraphSpec;
use crate::registry::Registry;

pub use builtin::builtin;
#[cfg(madsim)]
pub(crate) use file::check;
pub use file::{BadScenario, from_json, load};

/// The version of the file format that this build reads and writes.
pub const VERSION: u32 = 1;

/// One scenario. With a seed, it determines a run to the byte.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    pub version: u32,
    pub name: String,
    /// The question it asks, in a sentence.
    #[serde(default)]
    pub about: String,
    /// The registered name of a graph; with `declared`, what its own graph is called.
    pub graph: String,
    /// The graph itself, as data; see [`declared`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<GraphSpec>,
    /// Server processes, `server-1` and so on, behind a balancer when there are several.
    #[serde(default = "one")]
    pub workers: u32,
    #[serde(default)]
    pub store: Store,
    #[serde(default)]
    pub durability: Durability,
    #[serde(default = "updates")]
    pub stream_modes: Vec<StreamMode>,
    #[serde(default)]
    pub shape: Shape,
    /// What a client's leaving does to its run.
    #[serde(default = "scope")]
    pub cancel: CancelStyle,
    #[serde(default)]
    pub profile: Profile,
    /// Where the graph differs from its profile: names and values of [`Options`], in snake_case.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub options: Map<String, Json>,
    #[serde(default)]
    pub delays: Delays,
    /// How the charging node charges.
    #[serde(default)]
    pub effects: Effects,
    /// The payment provider, if effects go over HTTP.
    #[serde(default)]
    pub provider: PaymentSettings,
    /// What effects are counted with, besides the truth.
    #[serde(default)]
    pub log: Log,
    pub clients: Vec<Client>,
    #[serde(default)]
    pub faults: Vec<Fault>,
    #[serde(default)]
    pub expect: Expect,
    /// The seed that `replay` takes when none is given.
    #[serde(default)]
    pub seed: u64,
}

/// Where checkpoints are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Store {
    /// In the server process: gone when it dies.
    Memory,
    /// A file on the simulated disk.
    #[default]
    Sqlite,
    /// A database server on a host of its own.
    Postgres,
}

impl Store {
    pub fn name(self) -> &'static str {
        match self {
            Store::Memory => "memory",
            Store::Sqlite => "sqlite",
            Store::Postgres => "postgres",
        }
    }
}

/// Where the effect of a charging node happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effects {
    /// Nowhere but in the log: the instrument of the measured tables.
    #[default]
    Log,
    /// At the payment provider, over the simulated network.
    Http,
}

/// The instrument that a person would count effects with. The judge always has the truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Log {
    /// A file whose appends are atomic: it never loses a line.
    #[default]
    Atomic,
    /// A file that is appended to in two steps, under node sleeps that wake on a common tick: a
    /// line is lost when the writes of two processes overlap.
    Leaky,
}

/// How clients reach the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// No HTTP: the client holds the run itself, inside the server process.
    Direct,
    /// The response body is the run.
    #[default]
    Inline,
    /// The run has a task of its own; the response only listens.
    Background,
    /// A disconnect lets the pull that is under way give its chunk, then closes the run.
    Shielded,
}

impl Shape {
    pub const fn name(self) -> &'static str {
        match self {
            Shape::Direct => "direct",
            Shape::Inline => "inline",
            Shape::Background => "background",
            Shape::Shielded => "shielded",
        }
    }
}

/// Latencies. Each is drawn between the two bounds, in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Delays {
    /// Added before a checkpoint put reaches the store.
    pub put_ms: [u64; 2],
    /// Added before a put_writes reaches the store.
    pub put_writes_ms: [u64; 2],
    /// One way between client and server.
    pub network_ms: [u64; 2],
}

impl Default for Delays {
    fn default() -> Delays {
        Delays { put_ms: [0, 0], put_writes_ms: [0, 0], network_ms: [1, 1] }
    }
}

/// One person at one browser, on one thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Client {
    pub name: String,
    pub thread: String,
    pub script: Vec<Step>,
}

/// One thing a client does. Steps run one after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// Sends a new message.
    Send {
        input: Json,
        #[serde(default)]
        leave: Leave,
    },
    /// Continues the thread without an input.
    Continue {
        #[serde(default)]
        leave: Leave,
    },
    /// Answers the interrupt that waits.
    Answer {
        value: Json,
        #[serde(default)]
        leave: Leave,
    },
    /// Does nothing for a while.
    Wait { ms: u64 },
    /// Waits until something has happened.
    WaitFor { moment: Moment },
    /// Loads the thread's state, as a reloaded page does.
    Reload,
    /// Deletes the thread.
    Delete,
    /// The client's next request will be held at the server's door until something has happened.
    Hold { until: Moment },
}

/// When a client goes away from a streaming answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Leave {
    /// Stays until the end.
    #[default]
    Never,
    AfterChunk(u64),
    AfterMs(u64),
    /// At a moment drawn between the two bounds.
    WithinMs([u64; 2]),
}

/// Something that shows in the trace. Waiting for it ends at once when it has happened before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moment {
    /// The event's name, such as `node.entered` or `put.acknowledged`.
    pub event: String,
    /// Which fields it must have, as text.
    #[serde(default)]
    pub with: Map<String, Json>,
    /// Which occurrence, from 1.
    #[serde(default = "one_u64")]
    pub nth: u64,
}

/// Something that goes wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// The process dies, and comes back after a while.
    Kill { process: String, when: When, restart_after_ms: u64 },
    /// The process's clock is moved, forward or back, and stays so.
    StepClock { process: String, when: When, by_ms: i64 },
    /// The nth put of the run (from 1, counted per world) fails.
    FailPut { nth: u64 },
    /// The nth put_writes fails.
    FailPutWrites { nth: u64 },
}

/// When a fault strikes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum When {
    AtMs(u64),
    /// At a moment drawn between the two bounds.
    WithinMs([u64; 2]),
    Moment(Moment),
    /// So long after a moment.
    After {
        moment: Moment,
        ms: u64,
    },
}

/// What a scenario claims. Names are those of registered properties.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    /// Properties that must hold in every seed.
    pub hold: Vec<String>,
    /// Properties that this scenario is there to break: seeing them broken is no finding.
    pub demonstrates: Vec<String>,
}

impl Default for Scenario {
    /// A scenario in which nobody does anything, with every field as a file that leaves it out.
    fn default() -> Scenario {
        Scenario {
            version: VERSION,
            name: String::new(),
            about: String::new(),
            graph: String::new(),
            declared: None,
            workers: one(),
            store: Store::default(),
            durability: Durability::default(),
            stream_modes: updates(),
            shape: Shape::default(),
            cancel: scope(),
            profile: Profile::default(),
            options: Map::new(),
            delays: Delays::default(),
            effects: Effects::default(),
            provider: PaymentSettings::default(),
            log: Log::default(),
            clients: vec![],
            faults: vec![],
            expect: Expect::default(),
            seed: 0,
        }
    }
}

impl Scenario {
    /// The profile's options with this scenario's own. The error names what is unknown.
    pub fn options(&self) -> Result<Options, String> {
        if self.options.is_empty() {
            return Ok(self.profile.options());
        }
        let mut all = serde_json::json!(self.profile.options());
        for (name, value) in &self.options {
            all[name] = value.clone();
        }
        serde_path_to_error::deserialize(all).map_err(|error| match error.path().to_string() {
            path if path == "." => format!("options: {}", error.into_inner()),
            path => format!("options.{path}: {}", error.into_inner()),
        })
    }

    /// The command line that replays one seed of it. `named` is its registered name or its file;
    /// what differs from what is found there is said by options.
    pub fn replay_command(&self, registry: &Registry, named: &str, seed: u64) -> String {
        let quoted = self.replay_arguments(registry, named, seed);
        let quoted: Vec<String> = quoted.iter().map(|argument| quote(argument)).collect();
        format!("{} {}", registry.program_name(), quoted.join(" "))
    }

    /// As [`Scenario::replay_command`], for starting a process.
    pub fn replay_arguments(&self, registry: &Registry, named: &str, seed: u64) -> Vec<String> {
        let plain = registry.find_scenario(named).cloned().or_else(|| load(named.as_ref()).ok());
        let mut arguments = vec!["replay".to_owned(), "--scenario".to_owned(), named.to_owned()];
        let mut option = |name: &str, value: String| {
            arguments.extend([format!("--{name}"), value]);
        };
        if let Some(plain) = plain {
            for (name, mine, plain) in [
                ("shape", self.shape.name(), plain.shape.name()),
                ("durability", self.durability.name(), plain.durability.name()),
                ("store", self.store.name(), plain.store.name()),
                ("profile", self.profile.name(), plain.profile.name()),
            ] {
                if mine != plain {
                    option(name, mine.to_owned());
                }
            }
        }
        option("seed", seed.to_string());
        arguments
    }
}

/// An argument as a shell takes it.
fn quote(argument: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !argument.is_empty() && argument.chars().all(plain) {
        return argument.to_owned();
    }
    format!("'{}'", argument.replace('\'', r"'\''"))
}

/// The name of the nth server process, from 1.
pub fn server_name(nth: u32) -> String {
    format!("server-{nth}")
}

/// A range in milliseconds as durations.
pub fn bounds([low, high]: [u64; 2]) -> (Duration, Duration) {
    (Duration::from_millis(low), Duration::from_millis(high))
}

fn one() -> u32 {
    1
}

fn one_u64() -> u64 {
    1
}

fn updates() -> Vec<StreamMode> {
    vec![StreamMode::Updates]
}

fn scope() -> CancelStyle {
    CancelStyle::Scope
}
