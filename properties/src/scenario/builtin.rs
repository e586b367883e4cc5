//! The scenarios that come with this repository, as stories.

use super::{Scenario, from_json};
use crate::registry::Vary;

/// All of them, by question, in the order in which a sweep asks.
pub fn builtin() -> Vec<(Vec<Scenario>, Vary)> {
    let read = |(name, text)| match from_json(text, name) {
        Ok(scenario) => scenario,
        Err(error) => unreachable!("a scenario of our own does not read: {error}"),
    };
    let everything = FILES.into_iter().map(|file| (vec![read(file)], Vary::Everything));
    everything.chain([(keys(read(PAYING[0])), Vary::Profile)]).collect()
}

/// The same story with every way of keying a charge. Only the last charges once.
fn keys(right: Scenario) -> Vec<Scenario> {
    let wrong = ["pay-no-key", "pay-minted-key", "pay-look-up-first", "pay-fresh-key"];
    let wrong = wrong.map(|name| {
        let mut scenario =
            Scenario { name: name.to_owned(), graph: name.to_owned(), ..right.clone() };
        scenario.expect.hold.retain(|property| property != "charged-once");
        scenario.expect.demonstrates.insert(0, "charged-once".to_owned());
        scenario
    });
    wrong.into_iter().chain([right]).collect()
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

const PAYING: [(&str, &str); 1] = files!["pay-booking-key"];
