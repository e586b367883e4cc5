//! A case whose process is killed between two of its durable writes.
//!
//! For each such point the script runs until the write before it has landed; the process stops
//! there, is killed, and starts again on what the disk has. Then the thread goes on with `None`,
//! and with the script's later answers where it asks. Three things are judged from outside:
//!
//! * A thread with nothing stored refuses to go on, and nothing happens.
//! * A task whose writes had landed is not executed again. (Inside a resumed subgraph LangGraph does
//!   so, and so does its profile.) A task that left rows was executed.
//! * The final values are some that a run without a kill stores on its way, from before the
//!   operation that was cut off or from after it.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use durasim_runtime::checkpoint::reserved;
use durasim_runtime::{Doors, Durability, Options, Profile};
use durasim_sim::{RunOptions, World};
use futures::future::{Either, select};

use super::case::{Case, Operation};
use super::freeze::Freeze;
use super::observed::ObservedThread;
use super::prepare::{Prepared, prepare};
use super::script::{Happenings, NO_CHECKPOINT, Script, Stage};
use super::simulated::Keeps;
use super::store::{Store, StoreFactory};
use crate::declarative::Raises;
use crate::world::doors_of;

/// What the kills of one case came to.
#[derive(Debug, Default)]
pub struct Kills {
    /// Points at which the process was killed.
    pub points: u64,
    /// Each with its point.
    pub violations: Vec<String>,
}

/// Kills the process at every point of a case under a durability, each time in a world of its own
/// with the same seed. The error says why the case cannot be run.
pub fn check_kills(
    case: &Case,
    keeps: Keeps,
    durability: Durability,
    profile: Profile,
    seed: u64,
) -> Result<Kills, String> {
    let prepared = Arc::new(prepare(case).map_err(|reasons| reasons.join("; "))?);
    let mut kills = Kills::default();
    let mut reachable: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
    for point in 0.. {
        let (name, prepared) = (case.name.clone(), prepared.clone());
        let plan = Plan { name, prepared, keeps, durability, profile };
        let Some(cut) = in_world(seed, plan.clone(), move |plan, world| plan.cut(world, point))?
        else {
            break;
        };
        kills.points += 1;
        if let Entry::Vacant(place) = reachable.entry(cut.operation) {
            let mut values = BTreeSet::new();
            for whole in [cut.operation, cut.operation + 1] {
                let from = cut.operation;
                let thread = cut.thread.clone();
                let play = move |plan: Plan, world| plan.whole(world, whole, from, thread);
                values.extend(in_world(seed, plan.clone(), play)?);
            }
            place.insert(values);
        }
        let problems = cut.judge(&reachable[&cut.operation]);
        kills.violations.extend(problems.map(|problem| format!("after write {point}: {problem}")));
    }
    Ok(kills)
}

fn in_world<T: Send + 'static>(
    seed: u64,
    plan: Plan,
    play: impl FnOnce(Plan, World) -> durasim_sim::BoxFuture<'static, Result<T, String>>
    + Send
    + 'static,
) -> Result<T, String> {
    let finished = durasim_sim::run(seed, RunOptions::default(), |world| play(plan, world));
    finished.value.map_err(|crash| crash.to_string())?
}

#[derive(Clone)]
struct Plan {
    name: String,
    prepared: Arc<Prepared>,
    keeps: Keeps,
    durability: Durability,
    profile: Profile,
}

/// A script that was cut off, and what came of its thread.
struct Cut {
    operation: usize,
    thread: String,
    /// Of the first life.
    before: Happenings,
    finished: BTreeSet<String>,
    /// Of the second.
    after: Happenings,
    /// The first `None` found nothing to go on with.
    is_empty: bool,
    error: Option<String>,
    last: Option<ObservedThread>,
    writes_from_outside: bool,
}

impl Plan {
    /// Runs until the process freezes after `point` writes, kills it, and goes on. `None` when there
    /// are fewer writes.
    fn cut(
        self,
        world: World,
        point: u64,
    ) -> durasim_sim::BoxFuture<'static, Result<Option<Cut>, String>> {
        Box::pin(async move {
            let freeze = Arc::new(Freeze::after(point));
            let factory = self.keeps.in_world(&world);
            let before = Happenings::default();
            let process = world.process("app", "app", |_| Box::pin(std::future::pending()));
            let doors = doors_of(&process);
            let store = self.open(&*factory, &doors).await?;
            let script = self.script(&doors, &store, freeze.clone(), before.clone())?;
            let at = Arc::new(Mutex::new(0));
            let play = {
                let (operations, at) = (self.prepared.clone(), at.clone());
                async move {
                    for (place, operation) in operations.operations.iter().enumerate() {
                        *at.lock().unwrap() = place;
                        if !Plan::perform(&script, operation).await? {
                            break;
                        }
                    }
                    Ok::<(), String>(())
                }
            };
            match select(Box::pin(play), Box::pin(freeze.frozen())).await {
                Either::Left((ended, _)) => return ended.map(|()| None),
                Either::Right(((), play)) => {
                    process.kill();
                    drop(play);
                }
            }
            let operation = *at.lock().unwrap();
            let thread = self.prepared.operations[operation].thread().unwrap_or("t1").to_owned();
            let process = world.process("app again", "app", |_| Box::pin(std::future::pending()));
            let doors = doors_of(&process);
            let store = self.open(&*factory, &doors).await?;
            let after = Happenings::default();
            let again = Arc::new(Freeze::never());
            let script = self.script(&doors, &store, again, after.clone())?;
            let first = script.go_on(&thread, None).await?;
            let class = first.as_ref().map(|error| error.class().to_owned());
            let is_empty = script.is_new(&thread).await?;
            if !is_empty {
                self.finish(&script, &thread, operation).await?;
            }
            let last = script.look_at(&thread, &store).await?;
            Ok(Some(Cut {
                operation,
                thread,
                before,
                finished: freeze.finished(),
                after,
                is_empty,
                error: class,
                last: Some(last),
                writes_from_outside: self
                    .prepared
                    .operations
                    .iter()
                    .any(|operation| matches!(operation, Operation::UpdateState(_))),
            }))
        })
    }

    /// The values that a thread has on its way when the first `operations` are performed in peace
    /// and it then goes on as one that was cut off in operation `from`.
    fn whole(
        self,
        world: World,
        operations: usize,
        from: usize,
        thread: String,
    ) -> durasim_sim::BoxFuture<'static, Result<BTreeSet<String>, String>> {
        Box::pin(async move {
            let factory = self.keeps.in_world(&world);
            let process = world.process("app", "app", |_| Box::pin(std::future::pending()));
            let doors = doors_of(&process);
            let store = self.open(&*factory, &doors).await?;
            let never = Arc::new(Freeze::never());
            let script = self.script(&doors, &store, never, Happenings::default())?;
            let mut values = BTreeSet::new();
            for operation in self.prepared.operations.iter().take(operations) {
                if !Plan::perform(&script, operation).await? {
                    break;
                }
                values.extend(values_of(&script.look_at(&thread, &store).await?));
            }
            if !script.is_new(&thread).await? {
                self.finish(&script, &thread, from).await?;
            }
            values.extend(values_of(&script.look_at(&thread, &store).await?));
            Ok(values)
        })
    }

    /// Goes on until nothing is left, giving the answers that the script has from operation `from`
    /// on where the thread asks.
    async fn finish(&self, script: &Script, thread: &str, from: usize) -> Result<(), String> {
        const LONGEST: usize = 12;
        let mut answers =
            self.prepared.operations[from..].iter().filter_map(|operation| match operation {
                Operation::Resume(run) if run.thread == thread => Some(run),
                _ => None,
            });
        let mut before = None;
        for _ in 0..LONGEST {
            let (is_over, asks) = script.stands(thread).await?;
            let answer = match (is_over, asks) {
                (true, _) => return Ok(()),
                (false, false) => None,
                (false, true) => match answers.next() {
                    None => return Ok(()),
                    answer => answer,
                },
            };
            let error = script.go_on(thread, answer).await?.map(|error| error.to_string());
            // What fails in the same way twice will do so for ever.
            if error.is_some() && error == before {
                return Ok(());
            }
            before = error;
        }
        Ok(())
    }

    /// The profile's, but for what refuses graphs and scripts that were recorded.
    fn options(&self) -> Options {
        let recorded = Profile::Faithful.options();
        Options {
            suspicions: recorded.suspicions,
            unasked_answers: recorded.unasked_answers,
            unknown_targets: recorded.unknown_targets,
            ..self.profile.options()
        }
    }

    /// Performs an operation; false when the script names a checkpoint that there is not, at this
    /// durability.
    async fn perform(script: &Script, operation: &Operation) -> Result<bool, String> {
        match script.perform(operation).await {
            Ok(_) => Ok(true),
            Err(problem) if problem.starts_with(NO_CHECKPOINT) => Ok(false),
            Err(problem) => Err(problem),
        }
    }

    async fn open(&self, factory: &StoreFactory, doors: &Doors) -> Result<Store, String> {
        factory(&self.name, doors).await.map_err(|error| error.to_string())
    }

    fn script(
        &self,
        doors: &Doors,
        store: &Store,
        freeze: Arc<Freeze>,
        happenings: Happenings,
    ) -> Result<Script, String> {
        Script::open(Stage {
            name: &self.name,
            prepared: &self.prepared,
            doors,
            store,
            options: self.options(),
            durability: Some(self.durability),
            freeze,
            happenings,
            raises: Raises::default(),
        })
    }
}

/// The values of every stored checkpoint of the thread's root, and of its head.
fn values_of(thread: &ObservedThread) -> BTreeSet<String> {
    let stored = thread.history.iter().map(|state| state.values.to_value().to_string());
    stored.chain(thread.last.iter().map(|state| state.values.to_value().to_string())).collect()
}

impl Cut {
    fn judge(&self, reachable: &BTreeSet<String>) -> impl Iterator<Item = String> {
        let mut problems = Vec::new();
        if self.is_empty {
            if self.error.as_deref() != Some("EmptyInputError") {
                problems.push(format!("nothing was stored, and None ended with {:?}", self.error));
            }
            if self.after.count() > 0 {
                problems.push(format!("nothing was stored, and {:?} happened", self.after.all()));
            }
            return problems.into_iter();
        }
        let Some(last) = &self.last else { return problems.into_iter() };
        let inside: BTreeSet<&str> =
            last.inside.iter().flat_map(|state| &state.tasks).map(|task| &*task.id).collect();
        for effect in self.after.all() {
            if self.finished.contains(&effect.task) && !inside.contains(&*effect.task) {
                problems.push(format!("{effect:?} was executed again after its writes had landed"));
            }
        }
        let executed: BTreeSet<(String, String)> = self
            .before
            .all()
            .into_iter()
            .chain(self.after.all())
            .map(|e| (e.node, e.task))
            .collect();
        let with_effects: BTreeSet<&String> = executed.iter().map(|(node, _)| node).collect();
        for state in last.history.iter().filter(|_| !self.writes_from_outside) {
            for task in state.tasks.iter().filter(|task| task.is_finished()) {
                let key = (task.node.to_string(), task.id.to_string());
                if with_effects.contains(&key.0)
                    && !executed.contains(&key)
                    && !task.node.starts_with(reserved::START)
                {
                    problems.push(format!("{} has rows and was never executed", task.node));
                }
            }
        }
        if let Ok(state) = &last.last {
            let values = state.values.to_value().to_string();
            if !reachable.contains(&values) {
                let known: Vec<&String> = reachable.iter().collect();
                problems.push(format!(
                    "ends with {values}, which no run without a kill has: {known:?}"
                ));
            }
        }
        problems.into_iter()
    }
}
