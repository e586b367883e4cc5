//! The simulated stack that the real one is compared with.

use durasim_runtime::{CancelStyle, Durability, Profile, StreamMode};

use crate::outcome::Outcome;
use crate::registry::Registry;
use crate::scenario::{Client, Delays, Scenario, Shape, Step, Store};
use crate::world::{RunPlan, run};

/// What all runs of all tables have in common.
pub(super) struct Simulated<'a> {
    pub registry: &'a Registry,
    pub stand: Stand,
    pub plan: RunPlan,
}

/// What the tables stand on. The measured ones were the same on all of it.
#[derive(Debug, Clone, Copy)]
pub struct Stand {
    pub profile: Profile,
    pub store: Store,
    /// Server processes, where clients come over HTTP.
    pub workers: u32,
}

impl Default for Stand {
    fn default() -> Stand {
        Stand { profile: Profile::Faithful, store: Store::Sqlite, workers: 1 }
    }
}

/// What the cases of a table differ in, besides what their client does.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stack {
    pub graph: &'static str,
    pub shape: Shape,
    pub cancel: CancelStyle,
    /// `None` leaves it to the runtime.
    pub given: Option<Durability>,
    pub modes: &'static [StreamMode],
    /// How long a checkpoint put takes, in milliseconds.
    pub put_ms: u64,
}

impl Simulated<'_> {
    /// One client on one thread, with nothing else in the world.
    pub fn play(&self, stack: Stack, script: Vec<Step>) -> Outcome {
        self.run(stack.scenario(self.stand, script))
    }

    pub fn run(&self, scenario: Scenario) -> Outcome {
        run(self.registry, &scenario, self.plan)
    }
}

impl Stack {
    pub fn scenario(self, stand: Stand, script: Vec<Step>) -> Scenario {
        // A direct client is a task of the one process that it talks to.
        let workers = if self.shape == Shape::Direct { 1 } else { stand.workers };
        let client = Client { name: "client".to_owned(), thread: "thread".to_owned(), script };
        Scenario {
            name: format!("table/{}/{}/{}", self.graph, self.shape.name(), name(self.given)),
            graph: self.graph.to_owned(),
            durability: self.given.unwrap_or_default(),
            stream_modes: self.modes.to_vec(),
            shape: self.shape,
            cancel: self.cancel,
            store: stand.store,
            workers,
            profile: stand.profile,
            delays: Delays { put_ms: [self.put_ms; 2], ..Delays::default() },
            clients: vec![client],
            ..Scenario::default()
        }
    }
}

/// How a table names a durability as it was given.
pub(super) fn name(given: Option<Durability>) -> &'static str {
    given.map_or("default", Durability::name)
}
