//! Why an execution has no edge: an event of that same task, before the checkpoint that holds its
//! step was acknowledged.

use std::time::Duration;

use durasim_models::Effect;
use durasim_runtime::Durability;
use durasim_runtime::profile::ExitDuties;
use durasim_sim::{Event, Value};

use crate::outcome::{Outcome, StoredThread};
use crate::scenario::Store;

/// A dropped run's nodes are cancelled by a task of its process that first has to have its turn. Until
/// then one of them may still execute its effect.
const TURN: Duration = Duration::from_millis(1);

/// The reason in two words, or the line that says that there is none.
pub(super) fn explain(
    outcome: &Outcome,
    stored: &StoredThread,
    effect: &Effect,
) -> Result<&'static str, String> {
    let later = |event: &&Event| event.at >= effect.at;
    let of_task = |event: &&Event| event.labels.task.as_deref() == Some(&*effect.task);
    let of_run = |event: &&Event| event.labels.run.is_some() && event.labels.run == effect.run;
    let is = |event: &Event, field: &str, value: &str| {
        event.get(field).and_then(Value::as_str) == Some(value)
    };
    let any = |test: &dyn Fn(&&Event) -> bool| outcome.trace.iter().any(|event| test(&event));

    // An orphan is nobody's: no checkpoint ever holds it.
    if any(&|e| e.name == "node.orphaned" && of_task(e) && of_run(e)) {
        return Ok("ran on as an orphan");
    }
    let killed_at = outcome
        .trace
        .iter()
        .find(|event| {
            later(event)
                && matches!(event.name, "process.killed" | "process.panicked" | "process.power_cut")
                && event.process == effect.process
                && event.get("incarnation").and_then(Value::as_u64)
                    == Some(u64::from(effect.incarnation))
        })
        .map(|event| event.at)
        // A run that had finished by then had nothing left to lose.
        .filter(|killed_at| {
            !any(&|e| {
                e.name == "run.ended"
                    && of_run(e)
                    && is(e, "outcome", "finished")
                    && e.at <= *killed_at
            }) || outcome.scenario.store == Store::Memory
        });
    if killed_at.is_some() && outcome.scenario.store == Store::Memory {
        return Ok("process killed");
    }

    let holds_step = |event: &Event| match outcome.scenario.durability {
        Durability::Exit => step(event) >= effect.step,
        Durability::Sync | Durability::Async => step(event) == effect.step,
    };
    // From here on, an acknowledged checkpoint would have to be there.
    let acknowledged = outcome.trace.iter().find(|event| {
        event.name == "put.acknowledged"
            && of_run(event)
            && is(event, "source", "loop")
            && later(event)
            && holds_step(event)
    });
    let who = format!(
        "{} (task {}, run {}, at {:?})",
        effect.label,
        effect.task,
        effect.run.as_deref().unwrap_or("-"),
        effect.at,
    );
    if let Some(event) = acknowledged {
        let checkpoint = event.labels.checkpoint.as_deref().unwrap_or("-");
        return Err(format!(
            "{who} executed; checkpoint {checkpoint}, which holds its step, was acknowledged at \
             {:?}, and no stored edge records it",
            event.at
        ));
    }

    let asked = stored
        .writes
        .iter()
        .any(|write| write.channel == "__interrupt__" && write.task == *effect.task);
    let put_lost =
        |e: &&Event| matches!(e.name, "put.failed" | "put.cancelled") && of_run(e) && holds_step(e);
    let ended = |e: &Event, outcomes: &[&str]| {
        let outcome = e.get("outcome").and_then(Value::as_str).unwrap_or_default();
        e.name == "run.ended" && of_run(&e) && outcomes.contains(&outcome)
    };
    let cut = |e: &&Event| ended(e, &CUT) && e.at + TURN >= effect.at;
    let stopped = |e: &&Event| later(e) && ended(e, &["failed", "interrupted"]);
    let settled = |e: &&Event| ended(e, &["finished", "failed", "interrupted"]);
    let discarded = any(&|e| e.name == "task.discarded" && of_task(e));

    // What ends a run early explains the step that it ended in. A step that the run has left was
    // handed to the store already, or is by the exit duties, and only what befell that put explains.
    // So it is with a put that has begun: it goes on without its run.
    let scenario = &outcome.scenario;
    let skips_duties = scenario.durability == Durability::Exit
        && scenario.profile.options().exit_duties == ExitDuties::SkippedByScope
        && any(&|e| ended(e, &["dropped: scope"]));
    let left = was_left(outcome, effect);
    let begun = any(&|e| {
        e.name == "put.begun" && of_run(e) && is(e, "source", "loop") && later(e) && holds_step(e)
    });
    if (left && !skips_duties) || begun {
        // At sync durability the next step waits for the acknowledgement. A run that came to an end
        // of its own has waited for all its puts.
        let was_acknowledged = left && scenario.durability == Durability::Sync;
        let in_time = !was_acknowledged
            && killed_at.is_some_and(|killed_at| !any(&|e| settled(e) && e.at <= killed_at));
        return match (any(&put_lost), in_time) {
            (true, _) if discarded => Ok("discarded by a new input"),
            (true, _) => Ok("put lost"),
            (false, true) => Ok("process killed"),
            (false, false) => {
                let why = if left { "its run went on" } else { "the put of its step began" };
                Err(format!("{who} executed and {why}; no put of its step failed or was cut off"))
            }
        };
    }
    if discarded {
        Ok("discarded by a new input")
    } else if any(&put_lost) {
        Ok("put lost")
    } else if asked {
        Ok("asked, ran again")
    } else if any(&|e| e.name == "node.failed" && of_task(e) && of_run(e) && later(e)) {
        Ok("node failed after it")
    } else if any(&|e| cut(e) && killed_at.is_some_and(|killed_at| e.at < killed_at)) {
        Ok("run cancelled")
    } else if killed_at.is_some() {
        Ok("process killed")
    } else if any(&cut) {
        Ok("run cancelled")
    } else if any(&stopped) {
        Ok("run ended early")
    } else {
        Err(format!("{who} executed; no stored edge records it and nothing explains that"))
    }
}

/// How a run ends that somebody else ended.
const CUT: [&str; 4] = ["dropped: close", "dropped: task", "dropped: scope", "closed"];

/// Did the run of this effect get as far as a later step: into a node of another checkpoint, or to a
/// later effect?
fn was_left(outcome: &Outcome, effect: &Effect) -> bool {
    let Some(run) = effect.run.as_deref() else { return false };
    let entered =
        |event: &&Event| event.name == "node.entered" && event.labels.run.as_deref() == Some(run);
    let here = |event: &Event| event.labels.checkpoint.as_deref() == Some(&*effect.checkpoint);
    let mut entries = outcome.trace.iter().filter(entered).skip_while(|event| !here(event));
    entries.any(|event| !here(event))
        || outcome
            .effects
            .iter()
            .any(|other| other.run.as_deref() == Some(run) && other.step > effect.step)
}

fn step(event: &Event) -> i64 {
    match event.get("step") {
        Some(Value::I64(step)) => *step,
        Some(Value::U64(step)) => *step as i64,
        _ => i64::MIN,
    }
}
