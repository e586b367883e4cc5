//! A pause that could not be stored is no pause: nobody could ever answer it. The client is told.
//!
//! The real stack suppresses the interrupt first and then raises what its background writes raised.
#![cfg(madsim)]

use durasim_properties::scenario::{Fault, Scenario};
use durasim_properties::world::{RunPlan, run};
use durasim_properties::{Outcome, Registry};
use durasim_runtime::Durability;

fn asked(durability: Durability, faults: Vec<Fault>) -> Outcome {
    let registry = Registry::builtin();
    let plain = registry.find_scenario("approval").expect("it is registered").clone();
    let mut scenario = Scenario { durability, faults, ..plain };
    // Only the question, without its answer.
    scenario.clients[0].script.truncate(1);
    run(&registry, &scenario, RunPlan::default())
}

#[test]
fn a_pause_that_is_stored_is_complete() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let outcome = asked(durability, vec![]);
        assert_eq!(outcome.sights[0].ending, "complete", "{durability:?}");
    }
}

#[test]
fn a_pause_whose_checkpoint_or_question_is_lost_is_a_failure() {
    let put = |nth| Fault::FailPut { nth };
    let writes = |nth| Fault::FailPutWrites { nth };
    for (durability, fault) in [
        // The input, the start, prepare: three checkpoints before the question.
        (Durability::Async, put(1)),
        (Durability::Async, put(2)),
        (Durability::Async, put(3)),
        // The writes of the start, of prepare, and the question itself.
        (Durability::Sync, writes(3)),
        (Durability::Async, writes(1)),
        (Durability::Async, writes(3)),
        (Durability::Exit, put(1)),
        (Durability::Exit, writes(1)),
    ] {
        let outcome = asked(durability, vec![fault.clone()]);
        let sight = &outcome.sights[0];
        assert_eq!(sight.ending, "failed", "{durability:?}, {fault:?}");
        assert_eq!(
            sight.problem.as_deref(),
            Some("CheckpointerError"),
            "{durability:?}, {fault:?}"
        );
    }
}
