//! An outcome as a tale: who did what, when, in the words of the field and without ids.
//!
//! Only what moves the story is told. What a checkpoint is called is its step: there is one run at a
//! time in these tales.

use std::collections::BTreeMap;

use durasim_properties::Outcome;
use durasim_sim::{Event, Value};

/// The tale, then what was executed and what the thread's newest checkpoint shows of it.
pub fn tell(outcome: &Outcome) -> String {
    let mut teller = Teller { outcome, executed: BTreeMap::new(), reloads: 0 };
    let mut tale = String::new();
    for event in &outcome.trace {
        if let Some(what) = teller.line(event) {
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
    }
    tale
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
                "input" => "a run begins, with a new message".to_owned(),
                "none" => "a run begins, to continue the thread".to_owned(),
                other => format!("a run begins, with a {other}"),
            },
            "checkpoint.loaded" => format!("loads {}", step()),
            "task.discarded" => format!("discards {}, which was unfinished", text("node")),
            "effect.executed" => {
                let count = self.executed.entry(text("effect").to_owned()).or_default();
                *count += 1;
                match *count {
                    1 => format!("EXECUTES {}", text("effect")),
                    again => format!("EXECUTES {}, time {again}", text("effect")),
                }
            }
            "node.cancelled" => format!("cuts {} off", text("node")),
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
                format!("reloads the page and sees {}", state["values"])
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
