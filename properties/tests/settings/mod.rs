//! Every way in which a run can be kept, be late, and end early.

#![allow(dead_code)] // Every test that includes this uses a part of it.

use durasim_properties::scenario::{
    Client, Delays, Expect, Fault, Scenario, Shape, Step, Store, VERSION,
};
use durasim_runtime::{CancelStyle, Durability, Profile, StreamMode};

/// What a scenario leaves open.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    durability: Durability,
    store: Store,
    profile: Profile,
    shape: Shape,
    cancel: CancelStyle,
    /// Mode `custom` makes every node a task of its own, which a scope leaves behind as an orphan.
    is_eager: bool,
    /// A put or put_writes takes up to this long.
    slowest_ms: u64,
}

/// The response body is the run: a client's leaving is one cancellation, or a scope's many.
pub fn over_http() -> Vec<Setting> {
    every(Shape::Inline, &[CancelStyle::Task, CancelStyle::Scope])
}

/// The client holds the run itself, and can also close it in good order.
pub fn in_process() -> Vec<Setting> {
    every(Shape::Direct, &[CancelStyle::Close, CancelStyle::Task, CancelStyle::Scope])
}

fn every(shape: Shape, styles: &[CancelStyle]) -> Vec<Setting> {
    let mut settings = Vec::new();
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        for store in [Store::Sqlite, Store::Memory, Store::Postgres] {
            for profile in [Profile::Faithful, Profile::Safe] {
                for &cancel in styles {
                    for is_eager in [false, true] {
                        for slowest_ms in [30, 900] {
                            settings.push(Setting {
                                durability,
                                store,
                                profile,
                                shape,
                                cancel,
                                is_eager,
                                slowest_ms,
                            });
                        }
                    }
                }
            }
        }
    }
    settings
}

impl Setting {
    pub fn apply(self, scenario: Scenario) -> Scenario {
        let stream_modes = match self.is_eager {
            false => vec![StreamMode::Updates],
            true => vec![StreamMode::Updates, StreamMode::Custom],
        };
        let late = [0, self.slowest_ms];
        Scenario {
            durability: self.durability,
            store: self.store,
            profile: self.profile,
            shape: self.shape,
            cancel: self.cancel,
            stream_modes,
            delays: Delays { put_ms: late, put_writes_ms: late, network_ms: [1, 5] },
            ..scenario
        }
    }
}

/// plan, charge, notify, finish.
pub fn booking(script: Vec<Step>, faults: Vec<Fault>) -> Scenario {
    on_one_thread("booking", script, faults)
}

/// Prepare, then an effect, a question, an effect.
pub fn approval(script: Vec<Step>, faults: Vec<Fault>) -> Scenario {
    on_one_thread("approval", script, faults)
}

fn on_one_thread(graph: &str, script: Vec<Step>, faults: Vec<Fault>) -> Scenario {
    Scenario {
        version: VERSION,
        name: format!("{graph}, disturbed"),
        about: String::new(),
        graph: graph.to_owned(),
        workers: 1,
        store: Store::Sqlite,
        durability: Durability::Async,
        stream_modes: vec![StreamMode::Updates],
        shape: Shape::Inline,
        cancel: CancelStyle::Scope,
        profile: Profile::Faithful,
        delays: Delays::default(),
        clients: vec![Client { name: "alice".to_owned(), thread: "trip-7".to_owned(), script }],
        faults,
        expect: Expect::default(),
        seed: 0,
        ..Scenario::default()
    }
}
