//! Faults that strike processes.
//!
//! Promised to be survived: a process kill at any moment, followed by a restart; and a clock that is
//! moved, forward or back. What happens to puts is in [`super::store`].

use std::time::Duration;

use durasim_sim::{Labels, World};

use super::clocks::Clocks;
use super::moments::wait_for;
use crate::scenario::{Fault, When, bounds};

/// Carries one fault out. `index` names it in streams of chance.
pub(super) async fn strike(world: World, clocks: Clocks, fault: Fault, index: usize) {
    let (name, when) = match &fault {
        Fault::Kill { process, when, .. } => (process, when),
        Fault::StepClock { process, when, .. } => (process, when),
        Fault::FailPut { .. } | Fault::FailPutWrites { .. } => return,
    };
    match when.clone() {
        When::AtMs(ms) => world.sleep(Duration::from_millis(ms)).await,
        When::WithinMs(range) => {
            let (least, most) = bounds(range);
            let stream = world.chance().stream("kill", &format!("{name}/{index}"));
            world.sleep(stream.duration(least, most)).await;
        }
        When::Moment(moment) => wait_for(&world, &moment).await,
        When::After { moment, ms } => {
            wait_for(&world, &moment).await;
            world.sleep(Duration::from_millis(ms)).await;
        }
    }
    let Some(process) = world.find(name) else { return };
    match fault {
        Fault::Kill { restart_after_ms, .. } => {
            process.kill();
            world.sleep(Duration::from_millis(restart_after_ms)).await;
            process.restart();
        }
        Fault::StepClock { by_ms, .. } => {
            clocks.step(process.name(), by_ms);
            world.note(
                process.name(),
                Labels::none(),
                "clock.stepped",
                vec![("by_ms", by_ms.into())],
            );
        }
        Fault::FailPut { .. } | Fault::FailPutWrites { .. } => {}
    }
}
