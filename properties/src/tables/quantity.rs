//! What a cell says, read from what a client and its page saw.

use serde_json::Value as Json;

use crate::outcome::{Glimpse, Outcome, Sight};

/// An empty cell.
pub(super) const NOTHING: &str = "-";
/// Nothing to read the cell from: the run broke down or the page did not load. Never measured, so
/// such a cell always differs.
pub(super) const UNSEEN: &str = "?";

/// What a handler's table shows of a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantity {
    /// The thread's effects, in letters.
    Executed,
    /// The head's transcript, in letters.
    Stored,
    Next,
    Checkpoints,
    /// The error class with which the last request ended.
    Problem,
}

impl Quantity {
    pub fn name(self) -> &'static str {
        match self {
            Quantity::Executed => "executed",
            Quantity::Stored => "stored",
            Quantity::Next => "next",
            Quantity::Checkpoints => "ckpts",
            Quantity::Problem => "error",
        }
    }

    /// Reads it from one look at the thread and the last answer before it.
    pub fn read(
        self,
        outcome: &Outcome,
        glimpse: Option<&Glimpse>,
        sight: Option<&Sight>,
    ) -> String {
        let of_glimpse = |read: fn(&Glimpse) -> String| glimpse.map_or(UNSEEN.to_owned(), read);
        match self {
            Quantity::Executed => of_glimpse(|glimpse| letters(&glimpse.executed)),
            Quantity::Checkpoints => of_glimpse(|glimpse| glimpse.checkpoints.to_string()),
            Quantity::Next => of_glimpse(next),
            Quantity::Stored => {
                let key = outcome.graph.transcript.as_deref();
                let stored = key.zip(glimpse).and_then(|(key, glimpse)| list(glimpse, key));
                stored.map_or(UNSEEN.to_owned(), |names| letters(&names))
            }
            Quantity::Problem => sight.map_or(UNSEEN.to_owned(), |sight| {
                sight.problem.clone().unwrap_or_else(|| NOTHING.to_owned())
            }),
        }
    }
}

/// The nodes that the head would run next.
pub(super) fn next(glimpse: &Glimpse) -> String {
    let names = glimpse.state["next"].as_array().map(|names| strings(names));
    names.map_or(UNSEEN.to_owned(), |names| or_nothing(names.join(",")))
}

/// A list among the head's values; empty while the key has no value, and none when the page did
/// not load.
pub(super) fn list(glimpse: &Glimpse, key: &str) -> Option<Vec<String>> {
    let values = glimpse.state["values"].as_object()?;
    match values.get(key) {
        None => Some(vec![]),
        Some(value) => value.as_array().map(|items| strings(items)),
    }
}

fn strings(items: &[Json]) -> Vec<String> {
    items.iter().map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned)).collect()
}

/// One letter a node: the first of its last word, so that parallel siblings keep apart.
pub(super) fn letters(nodes: &[String]) -> String {
    let letter = |node: &String| node.rsplit('_').next().and_then(|word| word.chars().next());
    or_nothing(nodes.iter().filter_map(letter).collect())
}

fn or_nothing(text: String) -> String {
    if text.is_empty() { NOTHING.to_owned() } else { text }
}
