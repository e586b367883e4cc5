//! Situations that a sweep is there to reach, counted by the seeds in which they came up.
//!
//! They are read from the trace, the effect log and the stored rows; a mark that rests on one of
//! the runtime's own events says what the sweep reached, never that anything is right.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use durasim_models::Effect;
use durasim_properties::accounting::Account;
use durasim_properties::{Outcome, StoredThread};
use durasim_runtime::Durability;
use durasim_sim::{Event, Value};

#[derive(Default)]
pub struct Marks(BTreeMap<String, u64>);

impl Marks {
    /// Counts what came up in one run.
    pub fn look(&mut self, outcome: &Outcome, account: &Account) {
        let looked = Looked { outcome, stored: &outcome.threads["trip-7"] };
        for (mark, came_up) in looked.all() {
            *self.0.entry(mark.to_owned()).or_default() += u64::from(came_up);
        }
        for reason in account.explained.keys() {
            *self.0.entry(format!("explained: {reason}")).or_default() += 1;
        }
    }

    /// Fails when one of these never came up: the sweep would have proved nothing about it.
    pub fn require(&self, marks: &[&str]) {
        let never: Vec<_> = marks
            .iter()
            .filter(|&&mark| self.0.get(mark).is_none_or(|&seeds| seeds == 0))
            .collect();
        assert!(never.is_empty(), "never came up: {never:?}\n{self}");
    }
}

impl fmt::Display for Marks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(mark, seeds)| writeln!(f, "{seeds:>6} seeds: {mark}"))
    }
}

struct Looked<'a> {
    outcome: &'a Outcome,
    stored: &'a StoredThread,
}

impl Looked<'_> {
    fn all(&self) -> [(&'static str, bool); 16] {
        let exit = self.outcome.scenario.durability == Durability::Exit;
        [
            ("the client left and the run with it", !self.drops().is_empty()),
            (
                "a put was in flight when the client left",
                self.drops().iter().any(|e| self.in_flight(e.at)),
            ),
            ("a put was cancelled", self.any("put.cancelled")),
            ("a put failed", self.any("put.failed")),
            ("a put_writes failed", self.any("writes.failed")),
            (
                "a kill between an effect and its record",
                self.kills().iter().any(|k| self.cuts_off(k)),
            ),
            ("a kill with a put in flight", self.kills().iter().any(|k| self.in_flight(k.at))),
            ("a finished task's pending write was discarded", self.discards_finished()),
            ("an orphan's effect", self.effects().any(|e| self.is_orphan_at(e, e.at))),
            ("an orphan died with its process", self.orphan_dies()),
            ("exit: effects, and nothing stored", exit && self.leaves_nothing()),
            ("a checkpoint hangs on one that was never stored", self.hangs()),
            ("a question was answered", self.any_effect("after_interrupt")),
            ("an effect happened twice", self.repeats()),
            ("a stream broke", self.saw("broken")),
            ("the client was told of a failure", self.saw("failed")),
        ]
    }

    fn effects(&self) -> impl Iterator<Item = &Effect> {
        self.outcome.effects.iter()
    }

    fn named(&self, name: &str) -> impl Iterator<Item = &Event> {
        self.outcome.trace.iter().filter(move |event| event.name == name)
    }

    fn any(&self, name: &str) -> bool {
        self.named(name).next().is_some()
    }

    fn any_effect(&self, label: &str) -> bool {
        self.effects().any(|effect| &*effect.label == label)
    }

    fn saw(&self, ending: &str) -> bool {
        self.outcome.sights.iter().any(|sight| sight.ending == ending)
    }

    fn kills(&self) -> Vec<&Event> {
        self.named("process.killed").filter(|event| &*event.process == "server-1").collect()
    }

    /// Ends of runs by their client's leaving.
    fn drops(&self) -> Vec<&Event> {
        let early = |event: &&Event| {
            let outcome = event.get("outcome").and_then(Value::as_str).unwrap_or_default();
            outcome.starts_with("dropped") || outcome == "closed"
        };
        self.named("run.ended").filter(early).collect()
    }

    /// Is a put begun and not over at this moment?
    fn in_flight(&self, at: Duration) -> bool {
        let over = |begun: &Event| {
            self.outcome.trace.iter().any(|event| {
                matches!(event.name, "put.acknowledged" | "put.failed" | "put.cancelled")
                    && event.labels.checkpoint == begun.labels.checkpoint
                    && event.at <= at
            })
        };
        self.named("put.begun").any(|begun| begun.at < at && !over(begun))
    }

    /// Did this kill come after an effect of the process's same life and before the checkpoint of its
    /// step was acknowledged?
    fn cuts_off(&self, kill: &Event) -> bool {
        let life = kill.get("incarnation").and_then(Value::as_u64);
        self.effects().any(|effect| {
            let acknowledged = self.named("put.acknowledged").any(|event| {
                event.labels.run == effect.run && step(event) >= effect.step && event.at <= kill.at
            });
            effect.at <= kill.at && Some(u64::from(effect.incarnation)) == life && !acknowledged
        })
    }

    /// A new input discarded a task whose result was there already, as rows of its own.
    fn discards_finished(&self) -> bool {
        self.named("task.discarded").any(|event| {
            let task = event.labels.task.as_deref();
            let executed = self.effects().any(|effect| Some(&*effect.task) == task);
            let finished = |channel: &str| !channel.starts_with("__");
            let mut writes = self.stored.writes.iter();
            executed && writes.any(|w| Some(&*w.task) == task && finished(&w.channel))
        })
    }

    fn is_orphan_at(&self, effect: &Effect, at: Duration) -> bool {
        self.named("node.orphaned")
            .any(|event| event.labels.task.as_deref() == Some(&*effect.task) && event.at <= at)
    }

    /// A node that ran on alone was killed before its effect.
    fn orphan_dies(&self) -> bool {
        self.named("node.orphaned").any(|orphaned| {
            let task = orphaned.labels.task.as_deref();
            let later = self.effects().any(|e| Some(&*e.task) == task && e.at >= orphaned.at);
            !later && self.kills().iter().any(|kill| kill.at >= orphaned.at)
        })
    }

    /// A request had effects, and no row tells of it.
    fn leaves_nothing(&self) -> bool {
        self.effects().any(|effect| {
            let mut rows = self.stored.checkpoints.iter();
            !rows.any(|checkpoint| checkpoint.request.as_deref() == effect.request.as_deref())
        })
    }

    fn hangs(&self) -> bool {
        let parents = self.stored.checkpoints.iter().filter_map(|c| c.parent.as_deref());
        parents.into_iter().any(|parent| self.stored.find(parent).is_none())
    }

    fn repeats(&self) -> bool {
        let labels: Vec<&str> = self.effects().map(|effect| &*effect.label).collect();
        (1..labels.len()).any(|i| labels[..i].contains(&labels[i]))
    }
}

fn step(event: &Event) -> i64 {
    event.get("step").map_or(i64::MIN, |step| step.to_string().parse().unwrap_or(i64::MIN))
}
