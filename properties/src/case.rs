//! Case files: a scenario, a seed, and the tape of every choice that a run of it made.
//!
//! The seed alone replays a run, as long as nobody changes the program. The tape holds on to the
//! choices themselves: it may be cut or edited by hand, and what it does not have comes from the
//! seed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use durasim_sim::Choice;
use serde::{Deserialize, Serialize};

use crate::scenario::{self, BadScenario, Scenario};

/// The version of the file format that this build reads and writes.
pub const VERSION: u32 = 1;

/// One run, to be had again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Told apart from a scenario file by this name.
    pub case_version: u32,
    pub scenario: Scenario,
    pub seed: u64,
    pub tape: Vec<Strip>,
}

/// The choices of one stream, in the order in which they were drawn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Strip {
    /// What is decided, and for whom.
    pub label: String,
    pub actor: String,
    /// Each as `[bound, value]`: the value lies below the bound; a bound of 0 is 64 bits.
    pub draws: Vec<[u64; 2]>,
}

impl Case {
    pub fn new(scenario: Scenario, seed: u64, tape: &[Choice]) -> Case {
        let mut strips: BTreeMap<(&str, &str), Vec<[u64; 2]>> = BTreeMap::new();
        for choice in tape {
            let strip = strips.entry((&choice.label, &choice.actor)).or_default();
            strip.push([choice.bound, choice.value]);
        }
        let strip = |((label, actor), draws): ((&str, &str), _)| Strip {
            label: label.to_owned(),
            actor: actor.to_owned(),
            draws,
        };
        let tape = strips.into_iter().map(strip).collect();
        Case { case_version: VERSION, scenario, seed, tape }
    }

    /// The tape as the simulator takes it.
    pub fn choices(&self) -> Vec<Choice> {
        let choices = self.tape.iter().flat_map(|strip| {
            let (label, actor) = (Arc::from(&*strip.label), Arc::from(&*strip.actor));
            strip.draws.iter().zip(0..).map(move |(&[bound, value], index)| {
                let (label, actor): (Arc<str>, Arc<str>) = (Arc::clone(&label), Arc::clone(&actor));
                Choice { label, actor, index, bound, value }
            })
        });
        choices.collect()
    }

    /// Reads a case file. The error says in one line what is wrong and where.
    pub fn load(path: &Path) -> Result<Case, BadScenario> {
        let origin = path.display().to_string();
        let bad = |problem: String| BadScenario { origin: origin.clone(), problem };
        let text = std::fs::read_to_string(path).map_err(|error| bad(error.to_string()))?;
        let json: serde_json::Value =
            serde_json::from_str(&text).map_err(|error| bad(format!("not JSON: {error}")))?;
        match json.get("case_version") {
            Some(version) if version.as_u64() == Some(VERSION.into()) => {}
            Some(version) => {
                let problem = format!("case_version: is {version}, and this build reads {VERSION}");
                return Err(bad(problem));
            }
            None => return Err(bad("case_version: missing; is it a scenario file?".to_owned())),
        }
        let case: Case = serde_path_to_error::deserialize(json)
            .map_err(|error| bad(format!("{}: {}", error.path(), error.inner())))?;
        let scenario = serde_json::to_string(&case.scenario).map_err(|e| bad(e.to_string()))?;
        scenario::from_json(&scenario, &format!("{origin}: scenario"))?;
        case.check_tape().map_err(bad)?;
        Ok(case)
    }

    /// A draw that could not have been made, and a stream that is there twice, would be read as
    /// something else than what they say.
    fn check_tape(&self) -> Result<(), String> {
        let mut strips: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for (i, Strip { label, actor, draws }) in self.tape.iter().enumerate() {
            if let Some(first) = strips.insert((label, actor), i) {
                return Err(format!(
                    "tape[{i}]: {label:?} of {actor:?} is the stream of tape[{first}] already"
                ));
            }
            let beyond = |[bound, value]: &[u64; 2]| *bound != 0 && value >= bound;
            if let Some(j) = draws.iter().position(beyond) {
                let [bound, value] = draws[j];
                let problem = format!("{value} is not below its bound {bound}");
                return Err(format!("tape[{i}].draws[{j}]: {problem}"));
            }
        }
        Ok(())
    }

    /// Writes it, one strip of the tape a line.
    pub fn save(&self, path: &Path) -> std::io::Result<()> {
        let scenario = serde_json::to_string_pretty(&self.scenario)?;
        let scenario = scenario.replace('\n', "\n  ");
        let strips: Vec<String> =
            self.tape.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
        let tape = strips.join(",\n    ");
        let (version, seed) = (self.case_version, self.seed);
        let text = format!(
            "{{\n  \"case_version\": {version},\n  \"scenario\": {scenario},\n  \
             \"seed\": {seed},\n  \"tape\": [\n    {tape}\n  ]\n}}\n"
        );
        std::fs::write(path, text)
    }
}
