//! Charging over HTTP: which key charges once, and what becomes of a charge without a reply.
//!
//! The right answer is the vendors' contract (an idempotency key replays its first answer) and
//! arithmetic; the ledger of the provider is the truth.
#![cfg(madsim)]

use durasim_properties::scenario::{Fault, Moment, Scenario, When};
use durasim_properties::world::{RunPlan, run};
use durasim_properties::{Outcome, Registry};
use durasim_runtime::Profile;

/// Within so many seeds every wrong way must have charged twice.
const BOUND: u64 = 200;

fn charged(outcome: &Outcome) -> usize {
    outcome.charges.iter().filter(|charge| charge.state.name() == "succeeded").count()
}

fn outcomes(
    registry: &Registry,
    scenario: &Scenario,
    seeds: std::ops::Range<u64>,
) -> impl Iterator<Item = Outcome> {
    let play = move |seed| run(registry, scenario, RunPlan { seed, ..RunPlan::default() });
    seeds.map(play)
}

#[test]
fn every_wrong_way_charges_twice_within_a_bounded_number_of_seeds() {
    let registry = Registry::builtin();
    for name in ["pay-no-key", "pay-minted-key", "pay-look-up-first", "pay-fresh-key"] {
        for profile in [Profile::Faithful, Profile::Safe] {
            let plain = registry.find_scenario(name).expect("a scenario of this name").clone();
            let scenario = Scenario { profile, ..plain };
            let twice = outcomes(&registry, &scenario, 0..BOUND).any(|o| charged(&o) > 1);
            assert!(twice, "{name}, {profile:?}: {BOUND} seeds, and never charged twice");
        }
    }
}

#[test]
fn a_key_from_the_booking_charges_once() {
    let registry = Registry::builtin();
    let (mut replies_lost, mut conflicts) = (0, 0);
    for profile in [Profile::Faithful, Profile::Safe] {
        let plain = registry.find_scenario("pay-booking-key").expect("it is registered").clone();
        let scenario = Scenario { profile, ..plain };
        for outcome in outcomes(&registry, &scenario, 0..1000) {
            assert_eq!(charged(&outcome), 1, "seed {}, {profile:?}", outcome.seed);
            let seen = |name| outcome.trace.iter().filter(|event| event.name == name).count();
            replies_lost += seen("payment.reply_lost");
            conflicts += seen("payment.conflict");
        }
    }
    // Otherwise the key had nothing to do.
    assert!(replies_lost > 100 && conflicts > 100, "{replies_lost} replies lost, {conflicts} 409s");
}

/// The one unanswered charge of a run in which only one was sent, and how many were really made.
fn unknown(outcome: &Outcome) -> Vec<(usize, usize)> {
    let found = outcome.unknown.iter().map(|unknown| {
        let looked_up = unknown.charges.as_ref().expect("the provider answers");
        assert_eq!(unknown.booking, "b-1");
        (looked_up.len(), charged(outcome))
    });
    found.collect()
}

fn one_client(faults: Vec<Fault>, leave: &str, lose_reply: [u64; 2]) -> Scenario {
    let script =
        format!(r#"{{ "do": "send", "input": {{ "steps": [], "booking": "b-1" }}{leave} }}"#);
    let text = format!(
        r#"{{
            "version": 1, "name": "one-charge", "graph": "pay-booking-key", "effects": "http",
            "provider": {{ "latency_before_ms": [50, 50], "latency_after_ms": [50, 50] }},
            "clients": [{{ "name": "alice", "thread": "trip-7", "script": [{script}] }}]
        }}"#
    );
    let mut scenario =
        durasim_properties::scenario::from_json(&text, "one-charge").expect("it reads");
    scenario.faults = faults;
    scenario.provider.lose_reply = lose_reply;
    scenario
}

#[test]
fn a_charge_whose_client_is_gone_is_unknown_and_settled_by_look_up() {
    let registry = Registry::builtin();
    // plan takes 100 ms; the charge is made 50 ms after its request and answered 50 ms later.
    let before = one_client(vec![], r#", "leave": { "after_ms": 130 }"#, [0, 1]);
    let between = one_client(vec![], r#", "leave": { "after_ms": 180 }"#, [0, 1]);
    for outcome in outcomes(&registry, &before, 0..5).chain(outcomes(&registry, &between, 0..5)) {
        assert_eq!(unknown(&outcome), [(1, 1)], "seed {}", outcome.seed);
    }
}

#[test]
fn a_charge_whose_process_is_killed_is_unknown_and_settled_by_look_up() {
    let registry = Registry::builtin();
    let moment = |event: &str| Moment { event: event.into(), with: Default::default(), nth: 1 };
    let kill = |at| Fault::Kill {
        process: "server-1".into(),
        when: When::Moment(moment(at)),
        restart_after_ms: 100,
    };
    // Once the provider has it, it is charged; a request that dies in its socket is not.
    let arrived = one_client(vec![kill("payment.requested")], "", [0, 1]);
    let left = one_client(vec![kill("charge.sent")], "", [0, 1]);
    for outcome in outcomes(&registry, &arrived, 0..5) {
        assert_eq!(unknown(&outcome), [(1, 1)], "seed {}", outcome.seed);
    }
    for outcome in outcomes(&registry, &left, 0..5) {
        let [(looked_up, made)] = unknown(&outcome)[..] else { panic!("one unknown charge") };
        assert_eq!(looked_up, made, "seed {}: the look-up tells the truth", outcome.seed);
    }
}

#[test]
fn a_charge_whose_connection_breaks_is_unknown_until_a_retry_has_its_reply() {
    let registry = Registry::builtin();
    let scenario = one_client(vec![], "", [1, 1]);
    for outcome in outcomes(&registry, &scenario, 0..5) {
        // The first attempt stays unanswered; the retry with the same key is told, and the booking
        // is charged once.
        assert_eq!(unknown(&outcome), [(1, 1)], "seed {}", outcome.seed);
        assert_eq!(outcome.sights[0].ending, "complete");
    }
}
