//! The scenarios that come with this repository, as stories.

use super::{Scenario, from_json};

/// All of them, in the order in which a sweep asks their questions.
pub fn builtin() -> Vec<Scenario> {
    let read = |(name, text)| match from_json(text, name) {
        Ok(scenario) => scenario,
        Err(error) => unreachable!("a scenario of our own does not read: {error}"),
    };
    FILES.into_iter().map(read).collect()
}

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../scenarios/", $name, ".json")))),*]
    };
}

const FILES: [(&str, &str); 8] = files![
    "disconnect-then-message",
    "disconnect-then-continue",
    "kill-then-message",
    "kill-then-continue",
    "late-writes",
    "approval",
    "two-at-once",
    "leaky-log",
];
