//! What runs again when a question is answered.

use durasim_runtime::{CancelStyle, Durability, StreamMode};
use serde_json::json;

use super::measured;
use super::quantity::UNSEEN;
use super::simulated::{self, Simulated, Stack};
use super::table::{Row, Table};
use crate::outcome::{Glimpse, Outcome};
use crate::scenario::{Leave, Shape, Step};

const COLUMNS: [&str; 6] = [
    "effects: before_interrupt",
    "effects: after_interrupt",
    "rows when paused: checkpoints",
    "rows when paused: writes",
    "rows when done: checkpoints",
    "rows when done: writes",
];

pub(super) fn table(simulated: &Simulated) -> Table {
    let rows = measured::INTERRUPT.iter().map(|&(given, cells)| row(simulated, given, cells));
    Table {
        name: "interrupt".to_owned(),
        title: "a question in the middle of a node, answered".to_owned(),
        about:
            "The node executes before_interrupt, asks, and executes after_interrupt. The answer \
                starts it again from its first line."
                .to_owned(),
        keys: vec!["durability".to_owned()],
        columns: COLUMNS.map(str::to_owned).to_vec(),
        rows: rows.collect(),
    }
}

fn row(simulated: &Simulated, given: Option<Durability>, measured: &str) -> Row {
    let stack = Stack {
        graph: "approval",
        shape: Shape::Direct,
        cancel: CancelStyle::Close,
        given,
        modes: &[StreamMode::Custom, StreamMode::Updates],
        put_ms: 0,
    };
    let script = vec![
        Step::Send { input: json!({ "request_id": "r-1" }), leave: Leave::Never },
        Step::Reload,
        Step::Answer { value: true.into(), leave: Leave::Never },
        Step::Reload,
    ];
    let outcome = simulated.play(stack, script);
    let key = vec![simulated::name(given).to_owned()];
    Row::new(key, measured.split_whitespace().map(str::to_owned).collect(), cells(&outcome))
}

fn cells(outcome: &Outcome) -> Vec<String> {
    let look = |nth: usize, read: &dyn Fn(&Glimpse) -> usize| {
        outcome.glimpses.get(nth).map_or(UNSEEN.to_owned(), |glimpse| read(glimpse).to_string())
    };
    let effects = |label: &str| {
        look(1, &|glimpse| glimpse.executed.iter().filter(|&effect| effect == label).count())
    };
    let mut cells = vec![effects("before_interrupt"), effects("after_interrupt")];
    for nth in [0, 1] {
        cells.push(look(nth, &|glimpse| glimpse.checkpoints));
        cells.push(look(nth, &|glimpse| glimpse.writes));
    }
    cells
}
