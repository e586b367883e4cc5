//! `replay`: one seed as a story.

use comfy_table::{Table, presets::NOTHING};
use serde_json::json;

use super::args::ReplayArgs;
use super::{select, worker};
use crate::case::Case;
use crate::outcome::Outcome;
use crate::registry::Registry;
use crate::scenario::{Log, Scenario};
use crate::world::{RunPlan, record, run, run_case};

/// True when the seed breaks nothing that must hold.
pub fn replay(registry: &Registry, args: &ReplayArgs) -> Result<bool, String> {
    let played = play(registry, args)?;
    let Played { scenario, seed, outcome, again } = played;
    let verdict = worker::judge(registry, &outcome, 0);
    let ok = verdict.findings.is_empty();
    if args.json {
        for event in &outcome.trace {
            say!("{}", serde_json::to_string(event).map_err(|error| error.to_string())?);
        }
        say!(
            "{}",
            json!({
                "summary": "replay", "ok": ok, "scenario": scenario.name, "seed": seed,
                "hash": format!("{:016x}", outcome.hash), "events": outcome.trace.len(),
                "findings": verdict.findings, "demonstrated": verdict.demonstrated,
            })
        );
        return Ok(ok);
    }
    say!("{}\n", knobs(&scenario, seed));
    say!(
        "{:>5} {:>11} {:<10} {:<8} {:<8} {:<8} {:<9} what happened",
        "seq",
        "time",
        "process",
        "request",
        "run",
        "thread",
        "ckpt"
    );
    for event in &outcome.trace {
        say!("{event}");
    }
    say!("");
    for thread in outcome.thread_names() {
        let executed: Vec<_> = outcome.executed(thread).iter().map(|e| &*e.label).collect();
        say!("{thread}: executed   [{}]", executed.join(", "));
        if scenario.log == Log::Leaky {
            let logged = outcome.logged.get(thread).cloned().unwrap_or_default();
            say!("{thread}: the log    [{}] (an illusion where it differs)", logged.join(", "));
        }
        say!("{thread}: transcript [{}]", outcome.transcript(thread).join(", "));
    }
    for charge in &outcome.charges {
        let (id, booking, state) = (&charge.id, &charge.business_id, charge.state.name());
        say!("the provider's ledger: {id} for {booking}, {state}");
    }
    for (reason, count) in &verdict.explained {
        say!("not on any edge: {count}, {reason}");
    }
    for violation in &verdict.demonstrated {
        say!("shown, as declared: {} — {}", violation.property, violation.evidence);
    }
    for violation in &verdict.findings {
        say!("BROKEN: {} — {}", violation.property, violation.evidence);
    }
    say!("trace hash {:016x}", outcome.hash);
    say!("again: {again}");
    Ok(ok)
}

/// A run, and the command that has it again.
struct Played {
    scenario: Scenario,
    seed: u64,
    outcome: Outcome,
    again: String,
}

fn play(registry: &Registry, args: &ReplayArgs) -> Result<Played, String> {
    if let Some(path) = &args.case {
        let case = Case::load(path).map_err(|error| error.to_string())?;
        select::check(registry, &case.scenario)?;
        let outcome = run_case(registry, &case);
        let again = format!("{} replay {}", registry.program_name(), path.display());
        return Ok(Played { scenario: case.scenario, seed: case.seed, outcome, again });
    }
    let scenario = select::one(registry, &args.choice)?;
    let seed = args.seed.unwrap_or(scenario.seed);
    let again = scenario.replay_command(registry, args.choice.name_of(&scenario), seed);
    let outcome = match &args.save {
        None => run(registry, &scenario, RunPlan { seed, ..RunPlan::default() }),
        Some(path) => {
            let (outcome, case) = record(registry, &scenario, seed);
            case.save(path).map_err(|error| format!("--save: {}: {error}", path.display()))?;
            outcome
        }
    };
    Ok(Played { scenario, seed, outcome, again })
}

fn json_text(value: &impl serde::Serialize) -> String {
    let text = serde_json::to_string(value).unwrap_or_default();
    text.trim_matches('"').to_owned()
}

/// The seed and the knobs that the run was given.
fn knobs(scenario: &Scenario, seed: u64) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING);
    let delays = &scenario.delays;
    let modes: Vec<&str> = scenario.stream_modes.iter().map(|mode| mode.name()).collect();
    let range = |[low, high]: [u64; 2]| format!("{low}..{high} ms");
    for (knob, value) in [
        ("scenario", scenario.name.clone()),
        ("seed", seed.to_string()),
        ("graph", scenario.graph.clone()),
        ("shape", scenario.shape.name().to_owned()),
        ("workers", scenario.workers.to_string()),
        ("store", scenario.store.name().to_owned()),
        ("durability", scenario.durability.name().to_owned()),
        ("stream modes", modes.join(", ")),
        ("cancel style", scenario.cancel.name().to_owned()),
        ("profile", scenario.profile.name().to_owned()),
        ("put delay", range(delays.put_ms)),
        ("put_writes delay", range(delays.put_writes_ms)),
        ("network, one way", range(delays.network_ms)),
        ("effects", json_text(&scenario.effects)),
        ("log", json_text(&scenario.log)),
        ("faults", json_text(&scenario.faults)),
    ] {
        table.add_row([knob.to_owned(), value]);
    }
    table.to_string()
}
