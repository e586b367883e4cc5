//! An outcome as a tale: who did what, when, in the words of the field and without ids.
//!
//! Only what moves the story is told. What a checkpoint is called is its step, of the run that its
//! process has at that time: no process has two at once in these tales.

use std::collections::BTreeMap;

use durasim_properties::Outcome;
use durasim_sim::{Event, Value};

/// The tale without what `skips` says, then what was executed and what the thread's newest
/// checkpoint shows of it.
pub fn tell(outcome: &Outcome, skips: fn(&Event) -> bool) -> String {
    let mut teller = Teller { outcome, executed: BTreeMap::new(), reloads: 0 };
    let mut tale = String::new();
    for event in &outcome.trace {
        // Told or not, it counts.
        let line = teller.line(event).filter(|_| !skips(event));
        if let Some(what) = line {
            let at = event.at.as_secs_f64();
            tale.push_str(&format!("{at:>7.3} s  {:<9} {what}\n", event.process));
        }
    }
    for thread in outcome.thread_names() {
        let executed: Vec<&str> = outcome.executed(thread).iter().map(|e| &*e.label).collect();
        let rows = outcome.threads[thread].checkpoints.len();
        tale.push_str(&format!(
            "\nexecuted:            {}\nin the head's state: {}\ncheckpoints stored:  {rows}\n",
            executed.join(", "),
            outcome.transcript(thread).join(", "),
        ));
        match forks(outcome, thread) {
            0 => {}
            forks => tale.push_str(&format!("with two children:   {forks}\n")),
        }
    }
    tale
}

/// Checkpoints of the thread with more than one child.
pub fn forks(outcome: &Outcome, thread: &str) -> usize {
    let mut children: BTreeMap<&str, usize> = BTreeMap::new();
    for parent in outcome.threads[thread].checkpoints.iter().filter_map(|c| c.parent.as_deref()) {
        *children.entry(parent).or_default() += 1;
    }
    children.values().filter(|&&count| count > 1).count()
}

struct Teller<'a> {
    outcome: &'a Outcome,
    /// How often each effect was executed so far.
    executed: BTreeMap<String, usize>,
    reloads: usize,
}

impl Teller<'_> {
    fn line(&mut self, event: &Event) -> Option<String> {
        let text = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default();
        let step = || {
            let step = event.get("step").map(|step| format!("step {step}")).unwrap_or_default();
            if text("source") == "input" { format!("{step}, the message") } else { step }
        };
        Some(match event.name {
            "run.started" => match text("input") {
                "input" => format!("a run begins, with a new message{}", self.sender(event)),
                "none" => "a run begins, to continue the thread".to_owned(),
                other => format!("a run begins, with a {other}"),
            },
            "checkpoint.loaded" => format!("loads {}", step()),
            "task.discarded" => match self.was_executed(event) {
                false => format!("discards {}, which was unfinished", text("node")),
                true => format!("discards {}, though it was executed", text("node")),
            },
            "effect.executed" => {
                let count = self.executed.entry(text("effect").to_owned()).or_default();
                *count += 1;
                let time = if *count > 1 { format!(", time {count}") } else { String::new() };
                let alone = if self.is_orphan(event) { ", and no run records it" } else { "" };
                format!("EXECUTES {}{time}{alone}", text("effect"))
            }
            "node.cancelled" => format!("cuts {} off", text("node")),
            "node.orphaned" => format!("leaves {} to run on alone", text("node")),
            "writes.acknowledged" => {
                let node = self.discarded(event)?;
                format!("stores the result of {node} as a pending write")
            }
            "put.acknowledged" => format!("stores {}", step()),
            "put.begun" if !self.is_acknowledged(event) => format!("begins to store {}", step()),
            "put.cancelled" => format!("gives up storing {}", step()),
            "run.ended" => match text("outcome") {
                // The client is told so.
                "finished" => return None,
                other => format!("the run is {other}"),
            },
            "browser.sees" => format!("sees {}", key(text("chunk"))),
            "browser.reloads" => {
                self.reloads += 1;
                let state = &self.outcome.glimpses[self.reloads - 1].state;
                format!("reloads the page and sees {}, next {}", state["values"], state["next"])
            }
            "browser.done" => match text("ending") {
                "complete" => "is told: complete".to_owned(),
                "left" => "LEAVES".to_owned(),
                other => format!("finds the answer {other}"),
            },
            "process.killed" => "IS KILLED".to_owned(),
            "process.started" if event.get("incarnation").and_then(Value::as_u64) > Some(1) => {
                "is back".to_owned()
            }
            _ => return None,
        })
    }

    /// Who sent the message of the event's run, where several do.
    fn sender(&self, event: &Event) -> String {
        let request = event.labels.request.as_deref().unwrap_or_default();
        match (request.rsplit_once('.'), self.outcome.scenario.clients.len()) {
            (Some((client, _)), 2..) => format!(" from {client}"),
            _ => String::new(),
        }
    }

    /// Was the event's task left behind by its run before?
    fn is_orphan(&self, event: &Event) -> bool {
        self.outcome.trace.iter().any(|e| {
            e.name == "node.orphaned" && e.labels.task == event.labels.task && e.seq < event.seq
        })
    }

    /// Was the effect of the event's task executed before?
    fn was_executed(&self, event: &Event) -> bool {
        let mut effects = self.outcome.effects.iter().filter(|effect| effect.at <= event.at);
        effects.any(|effect| Some(&*effect.task) == event.labels.task.as_deref())
    }

    /// The node of the event's task, if that is discarded in the end.
    fn discarded(&self, event: &Event) -> Option<&str> {
        let mut events = self.outcome.trace.iter().filter(|e| e.name == "task.discarded");
        events.find(|e| e.labels.task == event.labels.task)?.get("node")?.as_str()
    }

    fn is_acknowledged(&self, begun: &Event) -> bool {
        self.outcome.trace.iter().any(|event| {
            event.name == "put.acknowledged" && event.labels.checkpoint == begun.labels.checkpoint
        })
    }
}

/// The node that an update comes from: the first key of its JSON.
fn key(chunk: &str) -> &str {
    chunk.split('"').nth(1).unwrap_or(chunk)
}
