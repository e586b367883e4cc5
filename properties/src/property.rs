//! Properties: pure functions from an outcome to violations, by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::accounting;
use durasim_models::ChargeState;

use crate::history;
use crate::outcome::{Outcome, UnknownCharge};

/// One way in which an outcome breaks a property.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    pub property: String,
    pub thread: String,
    /// What was seen, in one line.
    pub evidence: String,
}

type Check = Arc<dyn Fn(&Outcome) -> Vec<(String, String)> + Send + Sync>;

/// Something that must hold, or that a scenario demonstrates not to.
#[derive(Clone)]
pub struct Property {
    pub name: String,
    /// What it says, in one line.
    pub statement: String,
    check: Check,
}

impl Property {
    /// `check` gives a thread and the evidence for each violation.
    pub fn new(
        name: &str,
        statement: &str,
        check: impl Fn(&Outcome) -> Vec<(String, String)> + Send + Sync + 'static,
    ) -> Property {
        Property { name: name.to_owned(), statement: statement.to_owned(), check: Arc::new(check) }
    }

    pub fn check(&self, outcome: &Outcome) -> Vec<Violation> {
        let found = (self.check)(outcome).into_iter();
        let property = &self.name;
        found
            .map(|(thread, evidence)| Violation { property: property.clone(), thread, evidence })
            .collect()
    }
}

/// The properties that come with the library.
pub fn standard() -> Vec<Property> {
    vec![
        Property::new(
            "accounted",
            "every execution is matched by one edge of the checkpoint tree or explained by an \
             event of its own task",
            |outcome| {
                let audit = |thread: &&str| {
                    let found = accounting::audit(outcome, thread);
                    found.into_iter().map(|evidence| (thread.to_string(), evidence)).collect()
                };
                outcome.thread_names().iter().flat_map(|t| -> Vec<_> { audit(t) }).collect()
            },
        ),
        Property::new("kept", "what the saver acknowledged is stored", accounting::lost),
        Property::new("once", "no node's effect executes twice on one thread", |outcome| {
            per_thread(outcome, |thread| {
                let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
                for effect in outcome.executed(thread) {
                    *counts.entry(&effect.node).or_default() += 1;
                }
                let repeated = counts.into_iter().filter(|(_, count)| *count > 1);
                repeated.map(|(node, count)| format!("{node} executed {count} times")).collect()
            })
        }),
        Property::new("shown", "the head's transcript shows every executed effect", |outcome| {
            per_thread(outcome, |thread| {
                let transcript = outcome.transcript(thread);
                let executed = outcome.executed(thread);
                let nodes = executed.iter().map(|effect| effect.node.to_string());
                let hidden = missing(nodes, &transcript).into_iter();
                let line = |(node, count)| {
                    format!("{count} execution(s) of {node} are not in the head's transcript")
                };
                hidden.map(line).collect()
            })
        }),
        Property::new(
            "told",
            "a client whose run did not finish is not told that it is complete",
            |outcome| {
                let lies = outcome.sights.iter().filter(|sight| {
                    sight.ending == "complete"
                        && !outcome.trace.iter().any(|event| {
                            event.name == "run.ended"
                                && event.labels.request.as_deref() == Some(&sight.request)
                                && event.get("outcome").and_then(|o| o.as_str()).is_some_and(
                                    |outcome| matches!(outcome, "finished" | "interrupted"),
                                )
                        })
                });
                lies.map(|sight| {
                    let evidence = format!("request {} ended as complete", sight.request);
                    (sight.thread.clone(), evidence)
                })
                .collect()
            },
        ),
        Property::new("charged-once", "the provider charges each booking once", |outcome| {
            let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
            for charge in outcome.charges.iter().filter(|c| c.state == ChargeState::Succeeded) {
                *counts.entry(&charge.business_id).or_default() += 1;
            }
            let twice = counts.into_iter().filter(|(_, count)| *count > 1);
            let line = |(booking, count)| {
                ("-".to_owned(), format!("the provider charged {booking} {count} times"))
            };
            twice.map(line).collect()
        }),
        Property::new(
            "answered",
            "every charge request that may have left has its reply read",
            |outcome| {
                let line = |unknown: &UnknownCharge| {
                    let settled = match &unknown.charges {
                        None => "the provider does not answer a look-up".to_owned(),
                        Some(ids) if ids.is_empty() => "a look-up finds no charge".to_owned(),
                        Some(ids) => format!("a look-up finds {}", ids.join(", ")),
                    };
                    let UnknownCharge { thread, request, booking, sent_at, .. } = unknown;
                    let evidence = format!(
                        "the outcome of the charge for {booking} that {request} sent at \
                         {sent_at:?} is unknown to its sender; {settled}"
                    );
                    (thread.clone(), evidence)
                };
                outcome.unknown.iter().map(line).collect()
            },
        ),
        Property::new("logged", "the log shows every executed effect", |outcome| {
            per_thread(outcome, |thread| {
                let executed = outcome.executed(thread);
                let labels = executed.iter().map(|effect| effect.label.to_string());
                let logged = outcome.logged.get(thread).cloned().unwrap_or_default();
                let lost = missing(labels, &logged).into_iter();
                lost.map(|(label, n)| format!("{n} execution(s) of {label} are not in the log"))
                    .collect()
            })
        }),
        Property::new("rising", "no checkpoint sorts before its parent", history::falling),
        Property::new(
            "unforked",
            "no checkpoint has two children, unless somebody went back to it on purpose",
            history::forks,
        ),
        Property::new("erased", "a thread can be deleted, and stays so", history::resurrected),
        Property::new("whole", "the run itself ends, and nothing of it is left over", |outcome| {
            let leaked = (outcome.leaked > 0).then(|| format!("{} tasks leaked", outcome.leaked));
            outcome.crash.clone().into_iter().chain(leaked).map(|e| ("-".to_owned(), e)).collect()
        }),
    ]
}

/// How often each name is executed more often than it is listed.
fn missing(executed: impl Iterator<Item = String>, listed: &[String]) -> BTreeMap<String, usize> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    executed.for_each(|name| *counts.entry(name).or_default() += 1);
    for name in listed {
        if let Some(count) = counts.get_mut(name) {
            *count = count.saturating_sub(1);
        }
    }
    counts.retain(|_, count| *count > 0);
    counts
}

pub(crate) fn per_thread(
    outcome: &Outcome,
    check: impl Fn(&str) -> Vec<String>,
) -> Vec<(String, String)> {
    let threads = outcome.thread_names();
    let found = threads.iter().flat_map(|thread| {
        check(thread).into_iter().map(|evidence| (thread.to_string(), evidence))
    });
    found.collect()
}
