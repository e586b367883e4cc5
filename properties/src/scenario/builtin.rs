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
    let hazards = HAZARDS.into_iter().zip(CURES);
    let hazards =
        hazards.map(|(file, (option, cure))| (both_ways(read(file), option, cure), Vary::Nothing));
    everything.chain([(keys(read(PAYING[0])), Vary::Profile)]).chain(hazards).collect()
}

/// A hazard, and the same story with the option that cures it: what was shown to break must hold.
fn both_ways(hazard: Scenario, option: &str, cure: &str) -> Vec<Scenario> {
    let mut cured = hazard.clone();
    cured.name += "-cured";
    cured.options.insert(option.to_owned(), cure.into());
    cured.expect.hold.append(&mut cured.expect.demonstrates);
    vec![hazard, cured]
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

const HAZARDS: [(&str, &str); 5] =
    files!["unordered-writes", "clock-behind", "deleted-thread", "unnoticed-fork", "pending-list"];

/// For each of them the option that is to blame, and its other value.
const CURES: [(&str, &str); 5] = [
    ("write_order", "writes_first"),
    ("id_order", "above_head"),
    ("late_writes", "refused"),
    ("forks", "refused"),
    ("pending_list", "one_by_one"),
];
