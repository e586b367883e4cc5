//! Faults that strike processes.
//!
//! Promised to be survived: a process kill at any moment, followed by a restart. Nothing else is
//! injected here; what happens to puts is in [`super::store`].

use std::time::Duration;

use durasim_sim::World;

use super::moments::wait_for;
use crate::scenario::{Fault, When, bounds};

/// Carries one fault out. `index` names it in streams of chance.
pub(super) async fn strike(world: World, fault: Fault, index: usize) {
    let Fault::Kill { process, when, restart_after_ms } = fault else { return };
    match when {
        When::AtMs(ms) => world.sleep(Duration::from_millis(ms)).await,
        When::WithinMs(range) => {
            let (least, most) = bounds(range);
            let stream = world.chance().stream("kill", &format!("{process}/{index}"));
            world.sleep(stream.duration(least, most)).await;
        }
        When::Moment(moment) => wait_for(&world, &moment).await,
    }
    let Some(process) = world.find(&process) else { return };
    process.kill();
    world.sleep(Duration::from_millis(restart_after_ms)).await;
    process.restart();
}
