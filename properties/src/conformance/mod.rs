//! Holds the runtime against traces of the real LangGraph.
//!
//! A case is a graph, a script of operations and the trace that LangGraph 1.2.9 left (see
//! `conformance/README.md` in this crate). It is run as it was recorded, and everything that this
//! runtime has a counterpart for is compared: effects, stream events, errors, states, histories and
//! the stored rows. A case that needs something the runtime does not have is named with the reason
//! ([`Verdict::NotYet`]); none is left out silently.
//!
//! Nothing here knows a clock, a file or a random number except through the doors it is given, so
//! the same runner works on tokio and in a simulated world.

mod any_order;
mod case;
mod compare;
mod expected;
mod freeze;
#[cfg(madsim)]
mod kills;
#[cfg(not(madsim))]
mod lane;
mod observed;
mod one_by_one;
mod own_text;
#[cfg(not(madsim))]
mod part;
#[cfg(not(madsim))]
mod postgres;
mod prepare;
mod run;
mod script;
#[cfg(madsim)]
mod simulated;
mod store;
mod trace;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use durasim_runtime::{Doors, Profile, Saver};

pub use case::{Case, Operation, RunOperation};
pub use compare::Difference;
#[cfg(madsim)]
pub use kills::{Kills, check_kills};
#[cfg(not(madsim))]
pub use lane::doors;
#[cfg(not(madsim))]
pub use part::{Part, Performed};
#[cfg(not(madsim))]
pub use postgres::postgres_store;
pub use prepare::{Prepared, prepare};
#[cfg(madsim)]
pub use simulated::{Keeps, check_simulated};
pub use store::{Rows, Store, StoreFactory, memory_store, sqlite_store};

/// What became of one case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Pass,
    /// Everything agrees except where the case itself says that what was recorded is no rule.
    PassExcept {
        reason: &'static str,
        paths: Vec<String>,
    },
    /// Under this schedule it left another trace, and this is why it may.
    Varies(&'static str),
    /// The run left another trace than the recorded one.
    Differs(Vec<Difference>),
    /// The case could not be run to its end.
    Broken(String),
    /// The case needs what the runtime does not have; each reason once.
    NotYet(Vec<String>),
}

impl Verdict {
    pub fn passes(&self) -> bool {
        matches!(self, Verdict::Pass | Verdict::PassExcept { .. } | Verdict::Varies(_))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Pass => f.write_str("pass"),
            Verdict::PassExcept { reason, paths } => {
                write!(f, "pass, except at {}: {reason}", paths.join(", "))
            }
            Verdict::Varies(reason) => write!(f, "varies: {reason}"),
            Verdict::NotYet(reasons) => write!(f, "not yet: {}", reasons.join("; ")),
            Verdict::Broken(problem) => write!(f, "broken: {problem}"),
            Verdict::Differs(differences) => {
                write!(f, "differs at {} places", differences.len())?;
                differences.iter().take(6).try_for_each(|d| write!(f, "\n    {d}"))
            }
        }
    }
}

/// Runs one case on a fresh store of `factory` in LangGraph's own profile and judges what it left.
pub async fn check(case: &Case, doors: &Doors, factory: &StoreFactory) -> Verdict {
    check_with(case, doors, factory, one_by_one::one_by_one, |_| ()).await
}

/// As [`check`], where a scheduler chooses the order of what runs at the same time: only what must
/// not depend on it is compared.
pub async fn check_any_order(case: &Case, doors: &Doors, factory: &StoreFactory) -> Verdict {
    match check_with(case, doors, factory, |saver| saver, any_order::sort).await {
        Verdict::Differs(differences) => match any_order::reason_to_vary(&case.name) {
            Some(reason) => Verdict::Varies(reason),
            None => Verdict::Differs(differences),
        },
        verdict => verdict,
    }
}

async fn check_with(
    case: &Case,
    doors: &Doors,
    factory: &StoreFactory,
    pace: fn(Arc<dyn Saver>) -> Arc<dyn Saver>,
    settle: fn(&mut serde_json::Value),
) -> Verdict {
    let prepared = match prepare(case) {
        Ok(prepared) => prepared,
        Err(reasons) => return Verdict::NotYet(reasons),
    };
    let store = match factory(&case.name, doors).await {
        Ok(store) => Store { saver: pace(store.saver), ..store },
        Err(error) => return Verdict::Broken(format!("the store does not open: {error}")),
    };
    let options = Profile::Faithful.options();
    let observed = match run::run(case, &prepared, doors, &store, options).await {
        Ok(observed) => observed,
        Err(problem) => return Verdict::Broken(problem),
    };
    let has_indexes = !matches!(store.rows, Rows::Saver);
    let mut expected = expected::reduce(&case.expected, &prepared, has_indexes);
    let mut trace = trace::trace(&observed, &prepared);
    settle(&mut expected);
    settle(&mut trace);
    let excuse = excuse(case, &prepared, &store.rows);
    let excused = excuse.as_ref().map_or(&[][..], |excuse| &excuse.paths);
    let differences = compare::compare(&expected, &trace, excused);
    match excuse {
        _ if !differences.is_empty() => Verdict::Differs(differences),
        Some(Excuse { reason, paths }) => Verdict::PassExcept { reason, paths },
        None => Verdict::Pass,
    }
}

/// Where a case does not bind, and why.
struct Excuse {
    reason: &'static str,
    paths: Vec<String>,
}

fn excuse(case: &Case, prepared: &Prepared, rows: &Rows) -> Option<Excuse> {
    let at = |reason, paths| Some(Excuse { reason, paths });
    let is_empty = |operation: &Operation| match operation {
        Operation::Command(run) | Operation::Resume(run) => {
            let says_nothing = run.update.is_none() && run.goto.is_none();
            says_nothing
                && run.by_index.is_none()
                && run.value.as_ref().is_none_or(serde_json::Value::is_null)
        }
        _ => false,
    };
    if let Some(place) = prepared.operations.iter().position(is_empty) {
        let path = format!("/ops/{place}/error/class");
        return at("1.2.9 crashes there where it means to raise EmptyInputError", vec![path]);
    }
    if let (Rows::Postgres(_), "barrier_exit_second_turn") = (rows, &*case.name) {
        // The case was recorded on SQLite, which stores every value with every checkpoint.
        let path = "/threads/t1/checkpoints/2/channel_values/join:b+h:z/$set/0".to_owned();
        let reason =
            "LangGraph changes that value under its old version, and Postgres has the old one";
        return at(reason, vec![path]);
    }
    if case.memory_saver_differs_at.is_empty() {
        return None;
    }
    let paths = case.memory_saver_differs_at.clone();
    match rows {
        Rows::Saver => {
            at("LangGraph's memory saver left something else there, not recorded", paths)
        }
        _ if case.spec.description.starts_with("ARTIFACT of 1.2.9") => {
            at("the case calls it an artifact of 1.2.9 that depends on timing", paths)
        }
        _ => None,
    }
}

/// The cases of a folder, by file name.
pub fn load_cases(folder: &Path) -> Result<Vec<Case>, String> {
    let at = |problem: &dyn fmt::Display| format!("{}: {problem}", folder.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|e| at(&e))? {
        files.push(entry.map_err(|e| at(&e))?.path());
    }
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    let load = |file: &std::path::PathBuf| {
        let text = std::fs::read_to_string(file).map_err(|e| e.to_string());
        let case = text.and_then(|text| Case::parse(&text));
        case.map_err(|problem| format!("{}: {problem}", file.display()))
    };
    files.iter().map(load).collect()
}
