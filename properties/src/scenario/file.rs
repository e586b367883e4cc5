//! Reading scenario files. What is wrong is said in one line that names the field.

use std::path::Path;

use serde_json::Value as Json;

use super::{
    Fault, Leave, Moment, Scenario, Shape, Step, Store, VERSION, When, declared, server_name,
};

/// Server processes that a scenario may have.
const MOST_WORKERS: u32 = 16;

/// A scenario that cannot be run: where it is from, and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: {problem}")]
pub struct BadScenario {
    pub origin: String,
    pub problem: String,
}

/// Reads a scenario file.
pub fn load(path: &Path) -> Result<Scenario, BadScenario> {
    let origin = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| BadScenario { origin: origin.clone(), problem: error.to_string() })?;
    from_json(&text, &origin)
}

/// Reads and checks a scenario. `origin` names it in errors.
pub fn from_json(text: &str, origin: &str) -> Result<Scenario, BadScenario> {
    let bad = |problem: String| BadScenario { origin: origin.to_owned(), problem };
    let json: Json = serde_json::from_str(text).map_err(|e| bad(format!("not JSON: {e}")))?;
    // The version first: a file of another version need not have this version's fields.
    match json.get("version").map(|version| (version, version.as_u64())) {
        Some((_, Some(version))) if version == u64::from(VERSION) => {}
        Some((version, _)) => {
            let problem = format!("version: is {version}, and this build reads {VERSION}");
            return Err(bad(problem));
        }
        None => return Err(bad("version: missing".to_owned())),
    }
    let scenario: Scenario = serde_path_to_error::deserialize(json).map_err(|error| {
        let path = error.path().to_string();
        match path.as_str() {
            "." => bad(error.into_inner().to_string()),
            _ => bad(format!("{path}: {}", error.into_inner())),
        }
    })?;
    check(&scenario).map_err(bad)?;
    Ok(scenario)
}

/// What the types cannot say.
pub(crate) fn check(scenario: &Scenario) -> Result<(), String> {
    let printable = |field: String, name: &str| match name {
        "" => Err(format!("{field}: is empty")),
        name if name.chars().any(char::is_control) => {
            Err(format!("{field}: {name:?} holds a control character"))
        }
        _ => Ok(()),
    };
    printable("name".to_owned(), &scenario.name)?;
    if let Some(spec) = &scenario.declared {
        declared::entry(&scenario.graph, spec)?;
    }
    if !(1..=MOST_WORKERS).contains(&scenario.workers) {
        return Err(format!("workers: is {}, and may be 1 to {MOST_WORKERS}", scenario.workers));
    }
    if scenario.workers > 1 && scenario.store == Store::Memory {
        return Err("store: each of several workers would have a memory of its own".to_owned());
    }
    scenario.options()?;
    scenario.provider.check().map_err(|problem| format!("provider.{problem}"))?;
    if scenario.clients.is_empty() {
        return Err("clients: is empty; nothing would happen".to_owned());
    }
    for range in [
        ("delays.put_ms", scenario.delays.put_ms),
        ("delays.put_writes_ms", scenario.delays.put_writes_ms),
        ("delays.network_ms", scenario.delays.network_ms),
    ] {
        forward(range.0.to_owned(), range.1)?;
    }
    for (i, client) in scenario.clients.iter().enumerate() {
        printable(format!("clients[{i}].name"), &client.name)?;
        printable(format!("clients[{i}].thread"), &client.thread)?;
        if is_reserved(&client.name) {
            let problem = "is the name of a process of the world";
            return Err(format!("clients[{i}].name: {:?} {problem}", client.name));
        }
        if scenario.clients[..i].iter().any(|other| other.name == client.name) {
            return Err(format!("clients[{i}].name: {:?} is taken", client.name));
        }
        for (j, step) in client.script.iter().enumerate() {
            let field = format!("clients[{i}].script[{j}]");
            match step {
                Step::WaitFor { moment } => {
                    counts_from_one(&format!("{field}.moment.nth"), moment)?;
                }
                Step::Hold { until } => counts_from_one(&format!("{field}.until.nth"), until)?,
                _ => {}
            }
            if let Step::Wait { ms } = step {
                not_too_long(&format!("{field}.ms"), *ms)?;
            }
            if let (Step::Hold { .. }, Shape::Direct) = (step, scenario.shape) {
                return Err(format!("{field}.do: a direct client has no request to be held"));
            }
            let (Step::Send { leave, .. } | Step::Continue { leave } | Step::Answer { leave, .. }) =
                step
            else {
                continue;
            };
            match leave {
                Leave::WithinMs(range) => forward(format!("{field}.leave.within_ms"), *range)?,
                Leave::AfterMs(ms) => not_too_long(&format!("{field}.leave.after_ms"), *ms)?,
                Leave::AfterChunk(0) => {
                    return Err(format!("{field}.leave.after_chunk: counts from 1"));
                }
                _ => {}
            }
        }
    }
    for (i, fault) in scenario.faults.iter().enumerate() {
        match fault {
            Fault::Kill { process, when, restart_after_ms } => {
                not_too_long(&format!("faults[{i}].restart_after_ms"), *restart_after_ms)?;
                strikes(scenario, &format!("faults[{i}]"), process, when)?;
                if scenario.shape == Shape::Direct {
                    let problem = "a direct client dies with the process; use shape inline";
                    return Err(format!("faults[{i}].do: {problem}"));
                }
            }
            Fault::StepClock { process, when, by_ms } => {
                not_too_long(&format!("faults[{i}].by_ms"), by_ms.unsigned_abs())?;
                strikes(scenario, &format!("faults[{i}]"), process, when)?;
            }
            Fault::FailPut { nth: 0 } | Fault::FailPutWrites { nth: 0 } => {
                return Err(format!("faults[{i}].nth: counts from 1"));
            }
            Fault::FailPut { .. } | Fault::FailPutWrites { .. } => {}
        }
    }
    Ok(())
}

/// Is there such a process, and can that moment come?
fn strikes(scenario: &Scenario, field: &str, process: &str, when: &When) -> Result<(), String> {
    let known: Vec<String> = (1..=scenario.workers).map(server_name).collect();
    if !known.iter().any(|name| name == process) {
        let known = known.join(", ");
        return Err(format!("{field}.process: {process:?} is not one of {known}"));
    }
    match when {
        When::WithinMs(range) => forward(format!("{field}.when.within_ms"), *range),
        When::AtMs(ms) => not_too_long(&format!("{field}.when.at_ms"), *ms),
        When::Moment(moment) => counts_from_one(&format!("{field}.when.moment.nth"), moment),
        When::After { moment, ms } => {
            not_too_long(&format!("{field}.when.after.ms"), *ms)?;
            counts_from_one(&format!("{field}.when.after.moment.nth"), moment)
        }
    }
}

/// Names of processes that the world itself starts.
fn is_reserved(name: &str) -> bool {
    matches!(name, "world" | "balancer" | "payments") || name.starts_with("server-")
}

/// No time in a scenario is longer than this: a run is over after ten minutes of virtual time.
const LONGEST_MS: u64 = 3_600_000;

fn counts_from_one(field: &str, moment: &Moment) -> Result<(), String> {
    match moment.nth {
        0 => Err(format!("{field}: counts from 1")),
        _ => Ok(()),
    }
}

fn not_too_long(field: &str, ms: u64) -> Result<(), String> {
    match ms > LONGEST_MS {
        true => Err(format!("{field}: {ms} ms is more than an hour")),
        false => Ok(()),
    }
}

fn forward(field: String, [low, high]: [u64; 2]) -> Result<(), String> {
    not_too_long(&field, high)?;
    if low > high { Err(format!("{field}: runs backwards, from {low} to {high}")) } else { Ok(()) }
}
