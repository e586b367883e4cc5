//! Cases: a recorded run can be had again, edited, and shortened without moving what came before.
#![cfg(madsim)]

use durasim_properties::case::Case;
use durasim_properties::world::{RunPlan, record, run, run_case};
use durasim_properties::{Outcome, Registry, Scenario};
use durasim_sim::Event;

fn scenario(registry: &Registry, name: &str) -> Scenario {
    registry.find_scenario(name).expect("a scenario of this name").clone()
}

#[test]
fn a_case_file_replays_to_the_byte() {
    let registry = Registry::builtin();
    for name in ["kill-then-continue", "pay-booking-key", "leaky-log"] {
        let (outcome, case) = record(&registry, &scenario(&registry, name), 3);
        assert!(!case.tape.is_empty(), "{name}");
        let path = std::env::temp_dir().join(format!("{name}-{}.case.json", std::process::id()));
        case.save(&path).expect("it can be written");
        let read = Case::load(&path).expect("it reads");
        std::fs::remove_file(&path).expect("it was written");
        assert_eq!(read, case, "{name}");
        assert_eq!(run_case(&registry, &read).hash, outcome.hash, "{name}");
        let seed_alone = run(&registry, &case.scenario, RunPlan { seed: 3, ..RunPlan::default() });
        assert_eq!(seed_alone.hash, outcome.hash, "{name}: recording changes nothing");
    }
}

/// What could not have been drawn is refused, and the line says where it stands.
#[test]
fn a_tape_that_nobody_drew_is_refused() {
    let registry = Registry::builtin();
    let (_, case) = record(&registry, &scenario(&registry, "kill-then-continue"), 3);
    let refused = |case: &Case| {
        let path = std::env::temp_dir().join(format!("bad-{}.case.json", std::process::id()));
        case.save(&path).expect("it can be written");
        let read = Case::load(&path);
        std::fs::remove_file(&path).expect("it was written");
        read.err().map(|error| error.problem)
    };
    let kill = case.tape.iter().position(|strip| strip.label == "kill").expect("a kill");
    let draw = |bound, value| {
        let mut edited = case.clone();
        edited.tape[kill].draws[0] = [bound, value];
        refused(&edited)
    };
    let problem =
        |value: u64| format!("tape[{kill}].draws[0]: {value} is not below its bound 1000");
    assert_eq!(draw(1_000, 999), None);
    assert_eq!(draw(1_000, 1_000), Some(problem(1_000)));
    assert_eq!(draw(1_000, u64::MAX), Some(problem(u64::MAX)));
    assert_eq!(draw(0, u64::MAX), None, "a bound of 0 is all 64 bits");

    let mut twice = case.clone();
    let last = twice.tape.len();
    twice.tape.push(case.tape[kill].clone());
    let actor = &case.tape[kill].actor;
    let problem =
        format!("tape[{last}]: \"kill\" of {actor:?} is the stream of tape[{kill}] already");
    assert_eq!(refused(&twice), Some(problem));
}

/// The tape is obeyed: the moment of the kill is a choice like any other.
#[test]
fn an_edited_tape_moves_the_kill() {
    let registry = Registry::builtin();
    let (_, mut case) = record(&registry, &scenario(&registry, "kill-then-continue"), 3);
    let strip = case.tape.iter_mut().find(|strip| strip.label == "kill").expect("a kill");
    strip.draws[0][1] = 700_000;
    let outcome = run_case(&registry, &case);
    let killed = outcome.trace.iter().find(|event| event.name == "process.killed");
    let at = killed.expect("it is killed").at.as_micros();
    // 700 ms after the world's start-up of 2 ms.
    assert!((700_000..710_000).contains(&at), "killed at {at} us");
}

/// Everything that a run did before `until`, in nanoseconds of virtual time.
fn before(outcome: &Outcome, until: u128) -> Vec<Event> {
    outcome.trace.iter().filter(|event| event.at.as_nanos() < until).cloned().collect()
}

/// Chance is keyed by who draws for what, and not by a global order: taking away one of a client's
/// actions leaves everything that came before it as it was.
#[test]
fn removing_an_action_leaves_every_earlier_event_as_it_was() {
    let registry = Registry::builtin();
    for name in ["disconnect-then-message", "kill-then-continue", "two-at-once", "pay-booking-key"]
    {
        for seed in 0..20 {
            let whole = scenario(&registry, name);
            let (outcome, case) = record(&registry, &whole, seed);
            let mut shorter = case.clone();
            let client = shorter.scenario.clients.last_mut().expect("a client");
            let name_of_client = client.name.clone();
            client.script.pop().expect("an action");
            // The removed action is the client's last: its last request, and the first trace of it.
            let request = format!(
                "{name_of_client}.{}",
                whole
                    .clients
                    .last()
                    .expect("a client")
                    .script
                    .iter()
                    .filter(|step| {
                        !matches!(step, durasim_properties::scenario::Step::Wait { .. })
                    })
                    .count()
            );
            let first = outcome
                .trace
                .iter()
                .find(|event| event.labels.request.as_deref() == Some(&*request));
            let until = first.expect("the action left a trace").at.as_nanos();
            let cut = run_case(&registry, &shorter);
            assert_eq!(before(&outcome, until), before(&cut, until), "{name}, seed {seed}");
            assert_ne!(outcome.hash, cut.hash, "{name}, seed {seed}: the action was there");
        }
    }
}
