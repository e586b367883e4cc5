//! What must be true of a thread's stored history, whatever executed.

use std::collections::BTreeMap;

use crate::outcome::{Outcome, StoredCheckpoint};
use crate::property::per_thread;

/// Checkpoints that sort before their parent: whoever asks for the newest gets an older one.
pub(crate) fn falling(outcome: &Outcome) -> Vec<(String, String)> {
    per_thread(outcome, |thread| {
        let Some(stored) = outcome.threads.get(thread) else { return vec![] };
        let falls = |checkpoint: &&StoredCheckpoint| {
            checkpoint.parent.as_ref().is_some_and(|parent| *parent > checkpoint.id)
        };
        let line = |checkpoint: &StoredCheckpoint| {
            let StoredCheckpoint { id, step, source, .. } = checkpoint;
            format!("the {source} checkpoint {id} of step {step} sorts before its parent")
        };
        stored.checkpoints.iter().filter(falls).map(line).collect()
    })
}

/// Checkpoints with several children of which none was made by going back on purpose.
pub(crate) fn forks(outcome: &Outcome) -> Vec<(String, String)> {
    per_thread(outcome, |thread| {
        let mut children: BTreeMap<(&str, &str), Vec<&StoredCheckpoint>> = BTreeMap::new();
        let stored = outcome.threads.get(thread).into_iter();
        for checkpoint in stored.flat_map(|stored| &stored.checkpoints) {
            if let Some(parent) = &checkpoint.parent {
                children.entry((&checkpoint.namespace, parent)).or_default().push(checkpoint);
            }
        }
        let is_accident = |children: &[&StoredCheckpoint]| {
            children.len() > 1
                && !children.iter().any(|child| matches!(&*child.source, "fork" | "update"))
        };
        let forks = children.into_iter().filter(|(_, children)| is_accident(children));
        let line = |((_, parent), children): ((&str, &str), Vec<&StoredCheckpoint>)| {
            let of = |child: &StoredCheckpoint| child.request.clone().unwrap_or_default();
            let requests: Vec<String> = children.into_iter().map(of).collect();
            format!("checkpoint {parent} has a child each of {}", requests.join(", "))
        };
        forks.map(line).collect()
    })
}

/// Threads that could not be deleted, and those with rows though their deletion was confirmed and
/// nobody asked for anything since.
pub(crate) fn resurrected(outcome: &Outcome) -> Vec<(String, String)> {
    per_thread(outcome, |thread| {
        let of_thread = |name: &str| {
            let mut found = outcome.trace.iter().enumerate();
            let fits = |event: &durasim_sim::Event| {
                event.name == name && event.labels.thread.as_deref() == Some(thread)
            };
            found.rfind(|(_, event)| fits(event)).map(|(at, _)| at)
        };
        if let Some(failed) = of_thread("browser.delete_failed") {
            return vec![format!("it could not be deleted: {}", outcome.trace[failed])];
        }
        let Some(deleted) = of_thread("browser.deleted") else { return vec![] };
        let Some(stored) = outcome.threads.get(thread) else { return vec![] };
        let rows = stored.checkpoints.len() + stored.writes.len();
        let asked_since = of_thread("browser.sends").is_some_and(|sent| sent > deleted);
        if rows == 0 || asked_since {
            return vec![];
        }
        let (checkpoints, writes) = (stored.checkpoints.len(), stored.writes.len());
        vec![format!(
            "{checkpoints} checkpoints and {writes} pending writes came after the deletion"
        )]
    })
}
