//! What a disconnect leaves behind, for any shape of handler.
//!
//! A table is data: samples say when to look and at what, rows say which stack, and how its client
//! leaves. Each continuation is a trial of its own, from the same seed, so that it starts from the
//! very state that was sampled.

use durasim_runtime::{CancelStyle, Durability, StreamMode};
use serde_json::{Value as Json, json};

use super::quantity::Quantity;
use super::simulated::{self, Simulated, Stack};
use super::table::{Row, Table};
use crate::scenario::{Leave, Shape, Step};

/// A measured table.
pub(super) struct HandlerTable {
    pub name: &'static str,
    pub title: &'static str,
    pub about: &'static str,
    /// What the parts of a row's key are.
    pub keys: [&'static str; 2],
    /// How long a checkpoint put takes, in milliseconds.
    pub put_ms: u64,
    /// Moments in the order of time, then continuations.
    pub samples: &'static [Sample],
    pub rows: &'static [Handler],
}

/// One group of columns.
pub(super) enum Sample {
    /// This long after the client left.
    After { ms: u64, shows: &'static [Quantity] },
    /// When the next request, sent at the last moment, has had its answer.
    Then { next: Then, shows: &'static [Quantity] },
}

/// What the thread gets next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    Message,
    /// No input.
    Continue,
}

/// One row: a stack, how its client leaves, and what was measured.
pub(super) struct Handler {
    /// The first part of its key.
    pub name: &'static str,
    pub graph: &'static str,
    pub shape: Shape,
    pub given: Option<Durability>,
    pub modes: &'static [StreamMode],
    pub leave: Leave,
    /// One text a sample.
    pub cells: &'static [&'static str],
}

pub(super) fn table(simulated: &Simulated, spec: &HandlerTable) -> Table {
    let columns = spec.samples.iter().flat_map(|sample| {
        sample.shows().iter().map(|what| format!("{}: {}", sample.moment(), what.name()))
    });
    Table {
        name: spec.name.to_owned(),
        title: spec.title.to_owned(),
        about: spec.about.to_owned(),
        keys: spec.keys.map(str::to_owned).to_vec(),
        columns: columns.collect(),
        rows: spec.rows.iter().map(|handler| row(simulated, spec, handler)).collect(),
    }
}

fn row(simulated: &Simulated, spec: &HandlerTable, handler: &Handler) -> Row {
    let stack = Stack {
        graph: handler.graph,
        shape: handler.shape,
        cancel: CancelStyle::Scope,
        given: handler.given,
        modes: handler.modes,
        put_ms: spec.put_ms,
    };
    let left = abandoned(spec.samples, handler.leave);
    let looked = simulated.play(stack, left.clone());
    let mut looks = looked.glimpses.iter();
    let mut cells = Vec::new();
    for sample in spec.samples {
        match sample {
            Sample::After { shows, .. } => {
                let glimpse = looks.next();
                cells.extend(shows.iter().map(|what| what.read(&looked, glimpse, None)));
            }
            Sample::Then { next, shows } => {
                let steps = left.iter().cloned().chain([next.step(), Step::Reload]);
                let ended = simulated.play(stack, steps.collect());
                // By number, not the last ones: a trial that broke off has no later ones.
                let glimpse = ended.glimpses.get(looked.glimpses.len());
                let sight = ended.sights.get(1);
                cells.extend(shows.iter().map(|what| what.read(&ended, glimpse, sight)));
            }
        }
    }
    let key = [handler.name, simulated::name(handler.given)];
    let measured = handler.cells.iter().flat_map(|sample| sample.split_whitespace());
    Row::new(key.map(str::to_owned).to_vec(), measured.map(str::to_owned).collect(), cells)
}

/// The abandoned request, and a look at each of the moments after it.
fn abandoned(samples: &[Sample], leave: Leave) -> Vec<Step> {
    let mut script = vec![Step::Send { input: message(), leave }];
    let mut passed = 0;
    for sample in samples {
        if let Sample::After { ms, .. } = sample {
            script.extend([Step::Wait { ms: ms - passed }, Step::Reload]);
            passed = *ms;
        }
    }
    script
}

/// What every message to the booking graph says; what it does is in the graph.
fn message() -> Json {
    json!({ "steps": [] })
}

impl Sample {
    fn moment(&self) -> String {
        match self {
            Sample::After { ms, .. } => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
            Sample::Then { next: Then::Message, .. } => "a message".to_owned(),
            Sample::Then { next: Then::Continue, .. } => "None".to_owned(),
        }
    }

    fn shows(&self) -> &'static [Quantity] {
        match self {
            Sample::After { shows, .. } | Sample::Then { shows, .. } => shows,
        }
    }
}

impl Then {
    fn step(self) -> Step {
        match self {
            Then::Message => Step::Send { input: message(), leave: Leave::Never },
            Then::Continue => Step::Continue { leave: Leave::Never },
        }
    }
}
