//! The engine broken on purpose. A judge that does not notice is worth nothing.
#![cfg(madsim)]

mod settings;

use durasim_properties::scenario::{Fault, Leave, Scenario, Step, Store, When};
use durasim_properties::world::{RunPlan, Sabotage, run};
use durasim_properties::{Outcome, Registry};
use durasim_runtime::channels::Reducer;
use durasim_runtime::{
    CancelStyle, Durability, END, NodeContext, Profile, START, State, StateGraph, Update,
};
use serde_json::json;

use settings::booking;

const SEEDS: std::ops::Range<u64> = 0..20;
const STORES: [Store; 2] = [Store::Memory, Store::Sqlite];

/// One undisturbed booking, which makes the loop checkpoints of the steps 0 to 4.
fn quiet(store: Store, durability: Durability) -> Scenario {
    let script = vec![Step::Send { input: json!({ "steps": [] }), leave: Leave::Never }];
    Scenario { store, durability, ..booking(script, vec![]) }
}

/// The client leaves at any moment and continues later.
fn disturbed(store: Store, durability: Durability) -> Scenario {
    let script = vec![
        Step::Send { input: json!({ "steps": [] }), leave: Leave::WithinMs([0, 2_600]) },
        Step::Wait { ms: 2_000 },
        Step::Continue { leave: Leave::Never },
    ];
    Scenario { store, durability, cancel: CancelStyle::Task, ..booking(script, vec![]) }
}

/// What "accounted" says of one seed.
fn judged(registry: &Registry, outcome: &Outcome) -> Vec<String> {
    let accounted = registry.find_property("accounted").expect("a standard property");
    accounted.check(outcome).into_iter().map(|violation| violation.evidence).collect()
}

/// In how many of the seeds the property is red.
fn red(scenario: &Scenario, sabotage: Sabotage) -> usize {
    let registry = Registry::builtin();
    let is_red = |seed: &u64| {
        let outcome = run(&registry, scenario, RunPlan { seed: *seed, sabotage });
        !judged(&registry, &outcome).is_empty()
    };
    SEEDS.filter(is_red).count()
}

#[test]
fn a_put_that_is_dropped_is_noticed_in_every_seed() {
    for store in STORES {
        for durability in [Durability::Sync, Durability::Async] {
            for nth in 1..=5 {
                let seeds = red(&quiet(store, durability), Sabotage::DropLoopPut { nth });
                assert_eq!(seeds, 20, "{store:?} {durability:?} {nth}");
            }
        }
        // At exit durability a run has one put.
        let seeds = red(&quiet(store, Durability::Exit), Sabotage::DropLoopPut { nth: 1 });
        assert_eq!(seeds, 20, "{store:?} exit");
    }
}

#[test]
fn an_edge_that_is_recorded_twice_is_noticed_in_every_seed() {
    for store in STORES {
        for durability in [Durability::Sync, Durability::Async] {
            for nth in 1..=5 {
                let seeds = red(&quiet(store, durability), Sabotage::RepeatLoopPut { nth });
                assert_eq!(seeds, 20, "{store:?} {durability:?} {nth}");
            }
        }
        let seeds = red(&quiet(store, Durability::Exit), Sabotage::RepeatLoopPut { nth: 1 });
        assert_eq!(seeds, 20, "{store:?} exit");
    }
}

/// Also where there is much to explain. A dropped put shows when the run got as far as a step after
/// it, or was told that it was stored; so at least one seed of twenty.
#[test]
fn it_is_noticed_behind_disconnects_too() {
    for store in STORES {
        for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
            let puts = if durability == Durability::Exit { 2 } else { 4 };
            for nth in 1..=puts {
                for sabotage in [Sabotage::DropLoopPut { nth }, Sabotage::RepeatLoopPut { nth }] {
                    let seeds = red(&disturbed(store, durability), sabotage);
                    assert!(seeds > 0, "{store:?} {durability:?} {sabotage:?}");
                    println!("{store:?} {durability:?} {sabotage:?}: {seeds} of 20");
                }
            }
        }
    }
}

/// A saver that says "stored" before it has, and dies in between.
#[test]
fn an_early_acknowledgement_is_noticed_when_a_kill_meets_it() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        // Half a second after each effect, or after the run's end at exit durability.
        let moment = if durability == Durability::Exit { [2_610, 3_090] } else { [310, 2_600] };
        let kill = Fault::Kill {
            process: "server-1".to_owned(),
            when: When::WithinMs(moment),
            restart_after_ms: 10,
        };
        let scenario = Scenario { faults: vec![kill], ..quiet(Store::Sqlite, durability) };
        let seeds = red(&scenario, Sabotage::AcknowledgeEarly);
        assert!(seeds > 0, "{durability:?}");
        println!("{durability:?}: {seeds} of 20");
        assert_eq!(red(&scenario, Sabotage::None), 0, "the kill alone explains itself");
        let harmless = Scenario { faults: vec![], ..scenario };
        assert_eq!(red(&harmless, Sabotage::AcknowledgeEarly), 0, "late is not lost");
    }
}

/// A put that never comes back holds up the rest of the run; the client that leaves in the end must
/// not be taken for the reason.
#[test]
fn a_client_that_leaves_does_not_excuse_a_put_that_never_came_back() {
    for store in STORES {
        for nth in 2..=4 {
            let script =
                vec![Step::Send { input: json!({ "steps": [] }), leave: Leave::AfterMs(9_000) }];
            let scenario = Scenario {
                store,
                durability: Durability::Async,
                profile: Profile::Safe,
                ..booking(script, vec![])
            };
            let seeds = red(&scenario, Sabotage::SwallowLoopPut { nth });
            assert_eq!(seeds, 20, "{store:?} {nth}");
        }
    }
}

/// What a node of a broken graph does with its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Charging {
    Once,
    Twice,
    Never,
    /// It executes, and its name is left out of the transcript.
    Silently,
    /// It executes once, and leaves its name twice.
    Loudly,
}

fn one_charge(charging: Charging) -> Registry {
    let graph = move |world: &durasim_properties::GraphWorld| {
        let world = world.clone();
        let charge = move |_: State, context: NodeContext| {
            let world = world.clone();
            async move {
                let times = match charging {
                    Charging::Never => 0,
                    Charging::Twice => 2,
                    _ => 1,
                };
                for _ in 0..times {
                    world.effect(&context).await;
                }
                let names = match charging {
                    Charging::Silently => vec![],
                    Charging::Loudly => vec!["charge", "charge"],
                    _ => vec!["charge"],
                };
                Ok(Update::new().set("steps", names))
            }
        };
        StateGraph::new("one charge")
            .reduced_key("steps", Reducer::append())
            .node("charge", charge)
            .edge(START, "charge")
            .edge("charge", END)
    };
    Registry::new().graph("one charge", graph).transcript("one charge", "steps")
}

#[test]
fn an_effect_that_happens_more_or_less_often_than_recorded_is_noticed() {
    for store in STORES {
        for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
            let scenario = Scenario { graph: "one charge".to_owned(), ..quiet(store, durability) };
            let violations = |charging| {
                let registry = one_charge(charging);
                judged(&registry, &run(&registry, &scenario, RunPlan::default()))
            };
            assert_eq!(violations(Charging::Once), Vec::<String>::new());
            for charging in [Charging::Twice, Charging::Never, Charging::Silently, Charging::Loudly]
            {
                let found = violations(charging);
                assert!(!found.is_empty(), "{store:?} {durability:?} {charging:?}");
            }
        }
    }
}

/// What the account cannot see: a pending write is no edge. Filed under a wrong task it is lost, its
/// task runs again, and the first execution is explained by the cancellation as it would be anyway.
#[test]
fn misfiled_pending_writes_are_beyond_it() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        for nth in 1..=5 {
            let scenario = disturbed(Store::Sqlite, durability);
            assert_eq!(red(&scenario, Sabotage::MisfileWrites { nth }), 0, "{durability:?} {nth}");
        }
    }
}
