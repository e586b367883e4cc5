//! Waiting for something to show in the trace.

use std::time::Duration;

use durasim_sim::{Event, Value, World};

use crate::scenario::Moment;

/// How often the trace is looked at, in virtual time.
const LOOK: Duration = Duration::from_micros(100);

/// Returns once the moment has come.
pub(super) async fn wait_for(world: &World, moment: &Moment) {
    let (mut seen, mut count) = (0, 0);
    loop {
        let reached = world.trace().with(|events| {
            let fresh = events.get(seen..).unwrap_or_default();
            seen = events.len();
            count += fresh.iter().filter(|event| fits(event, moment)).count() as u64;
            count >= moment.nth
        });
        if reached {
            return;
        }
        world.sleep(LOOK).await;
    }
}

fn fits(event: &Event, moment: &Moment) -> bool {
    event.name == moment.event
        && moment.with.iter().all(|(field, wanted)| {
            let wanted = wanted.as_str().map_or_else(|| wanted.to_string(), str::to_owned);
            let labels = &event.labels;
            let label = match field.as_str() {
                "process" => Some(&event.process),
                "request" => labels.request.as_ref(),
                "run" => labels.run.as_ref(),
                "thread" => labels.thread.as_ref(),
                "checkpoint" => labels.checkpoint.as_ref(),
                "task" => labels.task.as_ref(),
                _ => None,
            };
            match label {
                Some(label) => **label == *wanted,
                None => event.get(field).is_some_and(|value| text(value) == wanted),
            }
        })
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
