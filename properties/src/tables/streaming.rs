//! What a person saw and what was stored, when the answer streams as events of one long node and
//! when it streams as steps.

use durasim_runtime::{CancelStyle, Durability, StreamMode};
use serde_json::{Value as Json, json};

use super::measured;
use super::quantity::{self, UNSEEN};
use super::simulated::{self, Simulated, Stack};
use super::table::{Row, Table};
use crate::outcome::{Glimpse, Outcome};
use crate::scenario::{Leave, Shape, Step};

const COLUMNS: [&str; 5] = ["UI chunks", "stored chunks", "checkpoint rows", "write rows", "next"];

/// Measured: one graph and end, under durabilities that gave the same.
pub(super) struct Streamed {
    pub graph: &'static str,
    /// The mode whose chunks the person sees.
    pub visible: StreamMode,
    pub given: &'static [Option<Durability>],
    pub end: End,
    /// In the order of the columns.
    pub cells: &'static str,
}

/// How the client leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    /// When the stream ends.
    Complete,
    /// By an orderly close on having the third visible chunk. No other chunk comes before it, so
    /// it is the third of all.
    Cancel3,
}

pub(super) fn table(simulated: &Simulated) -> Table {
    let listed = measured::STREAMING.iter();
    let mut cases: Vec<_> = listed
        .flat_map(|streamed| streamed.given.iter().map(move |&given| (streamed, given)))
        .collect();
    cases.sort_by_key(|(streamed, given)| (streamed.graph, *given, streamed.end));
    Table {
        name: "streaming".to_owned(),
        title: "six visible chunks, seen and stored".to_owned(),
        about: "The client holds the run itself (modes custom and updates, SQLite) and stays to \
                the end, or closes it on having the third visible chunk.\nmonolithic: one node \
                emits six events. stepwise: one node a chunk, in a loop."
            .to_owned(),
        keys: ["graph", "durability", "end"].map(str::to_owned).to_vec(),
        columns: COLUMNS.map(str::to_owned).to_vec(),
        rows: cases.into_iter().map(|(streamed, given)| row(simulated, streamed, given)).collect(),
    }
}

fn row(simulated: &Simulated, streamed: &Streamed, given: Option<Durability>) -> Row {
    let stack = Stack {
        graph: streamed.graph,
        shape: Shape::Direct,
        cancel: CancelStyle::Close,
        given,
        modes: &[StreamMode::Custom, StreamMode::Updates],
        put_ms: 0,
    };
    let leave = match streamed.end {
        End::Complete => Leave::Never,
        End::Cancel3 => Leave::AfterChunk(3),
    };
    let outcome = simulated.play(stack, vec![Step::Send { input: input(), leave }, Step::Reload]);
    let key = [streamed.graph, simulated::name(given), streamed.end.name()];
    let measured = streamed.cells.split_whitespace().map(str::to_owned);
    Row::new(key.map(str::to_owned).to_vec(), measured.collect(), cells(&outcome, streamed.visible))
}

/// All five keys, as in the measurement: an input of fewer keys has fewer write rows.
fn input() -> Json {
    json!({
        "request_id": "r-1",
        "status": "started",
        "emitted_chunks": [],
        "final_text": "",
        "step_index": 0,
    })
}

fn cells(outcome: &Outcome, visible: StreamMode) -> Vec<String> {
    let seen = outcome.sights.first().map(|sight| {
        sight.chunks.iter().filter(|(mode, _)| mode == visible.name()).count().to_string()
    });
    let glimpse = outcome.glimpses.first();
    let of_glimpse = |read: fn(&Glimpse) -> Option<String>| glimpse.and_then(read);
    let cells = [
        seen,
        of_glimpse(|glimpse| Some(quantity::list(glimpse, "emitted_chunks")?.len().to_string())),
        of_glimpse(|glimpse| Some(glimpse.checkpoints.to_string())),
        of_glimpse(|glimpse| Some(glimpse.writes.to_string())),
        of_glimpse(|glimpse| Some(quantity::next(glimpse))),
    ];
    cells.map(|cell| cell.unwrap_or_else(|| UNSEEN.to_owned())).to_vec()
}

impl End {
    fn name(self) -> &'static str {
        match self {
            End::Complete => "complete",
            End::Cancel3 => "cancel3",
        }
    }
}
