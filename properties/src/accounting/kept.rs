//! What the saver acknowledged is there at the end.
//!
//! The account of effects cannot see everything that gets lost: a pending write is no edge, and a
//! checkpoint that nothing hangs on leaves no gap. Here every acknowledgement in the trace demands
//! its rows. The trace only demands; nothing in it excuses, but for a memory saver's process, which
//! takes its store along when it dies.

use durasim_sim::Event;

use crate::outcome::Outcome;
use crate::scenario::Store;

/// One line for each acknowledged write without its rows, with its thread.
pub fn lost(outcome: &Outcome) -> Vec<(String, String)> {
    let mut lost = Vec::new();
    for (i, event) in outcome.trace.iter().enumerate() {
        let is_put = event.name == "put.acknowledged";
        if !(is_put || event.name == "writes.acknowledged") || died_with_its_store(outcome, i) {
            continue;
        }
        let thread = event.labels.thread.as_deref().unwrap_or_default();
        let checkpoint = event.labels.checkpoint.as_deref().unwrap_or_default();
        let task = event.labels.task.as_deref().unwrap_or_default();
        let stored = outcome.threads.get(thread);
        let has_checkpoint = stored.is_some_and(|stored| stored.find(checkpoint).is_some());
        let has_writes = stored.is_some_and(|stored| {
            stored.writes.iter().any(|row| row.checkpoint == checkpoint && row.task == task)
        });
        // A memory saver is asked for its checkpoints, and tells of writes only with theirs.
        let is_untold = outcome.scenario.store == Store::Memory && !has_checkpoint;
        let at = event.at;
        if is_put && !has_checkpoint {
            let evidence =
                format!("checkpoint {checkpoint}, acknowledged at {at:?}, is not stored");
            lost.push((thread.to_owned(), evidence));
        } else if !is_put && !has_writes && !is_untold {
            let evidence = format!(
                "the writes of task {task} at checkpoint {checkpoint}, acknowledged at {at:?}, are \
                 not stored"
            );
            lost.push((thread.to_owned(), evidence));
        }
    }
    lost
}

/// Was this told by a process that kept its store in memory and has died since?
fn died_with_its_store(outcome: &Outcome, i: usize) -> bool {
    let ended = |event: &Event| {
        matches!(
            event.name,
            "process.killed" | "process.panicked" | "process.power_cut" | "process.exited"
        ) && event.process == outcome.trace[i].process
    };
    outcome.scenario.store == Store::Memory && outcome.trace[i..].iter().any(ended)
}
