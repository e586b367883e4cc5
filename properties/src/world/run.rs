//! One scenario, one seed, one world.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use durasim_models::leaky_log::TICK;

use durasim_models::{EffectLog, LeakyLog, Ledger, PaymentProvider, Postgres, PostgresSettings};
use durasim_sim::{Choice, LinkSpec, RunOptions, World};

use super::clients::{Player, Reported};
use super::doors::Around;
use super::faults::strike;
use super::server::{Fleet, Program};
use super::store::StoreFaults;
use crate::case::Case;
use crate::graph_world::GraphWorld;
use crate::outcome::{Outcome, StoredThread, UnknownCharge};
use crate::payment::settle::unknown_charges;
use crate::registry::Registry;
use crate::scenario::{Effects, Log, Scenario, Store, bounds};

/// For how long nothing must have happened before the world is judged: longer than any node and any
/// delayed write. A run that goes on without its client has as long as it needs.
const QUIET: Duration = Duration::from_secs(10);

/// Breaking the engine on purpose, to see that the properties notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sabotage {
    #[default]
    None,
    /// The nth put of a loop checkpoint (from 1) is acknowledged and not stored.
    DropLoopPut { nth: u64 },
    /// The nth put of a loop checkpoint is stored a second time under another id.
    RepeatLoopPut { nth: u64 },
    /// Every put is acknowledged at once and stored half a second later.
    AcknowledgeEarly,
    /// The nth put of a loop checkpoint never comes back.
    SwallowLoopPut { nth: u64 },
    /// The nth put_writes is filed under another task.
    MisfileWrites { nth: u64 },
}

/// Compiles the scenario's graph in a world of its own and tells what is wrong with it.
pub fn try_compile(registry: &Registry, scenario: &Scenario) -> Result<(), String> {
    let entry = registry.graph_of(scenario)?;
    let options = scenario.options()?;
    let finished = durasim_sim::run(0, RunOptions::default(), move |world| {
        Box::pin(async move {
            let process = world.process("compiler", "compiler", |_| Box::pin(async {}));
            let doors = super::doors::doors_of(&process);
            let graph = (entry.build)(&GraphWorld::nowhere());
            graph.compile(None, &doors, options).map(drop).map_err(|error| error.to_string())
        })
    });
    finished.value.map_err(|crash| crash.to_string())?
}

/// What to run besides the scenario itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunPlan {
    pub seed: u64,
    pub sabotage: Sabotage,
}

/// Runs one seed of a scenario to quiescence.
///
/// # Panics
/// If the scenario's graph is not there; check that before a sweep.
pub fn run(registry: &Registry, scenario: &Scenario, plan: RunPlan) -> Outcome {
    drive(registry, scenario, plan, Extra::default()).0
}

/// As [`run`], with a program of the caller's own in the same world. It starts when the servers are
/// up, beside the clients, and the world is judged only after it has ended, too.
pub fn run_beside<Fut: Future<Output = ()> + Send + 'static>(
    registry: &Registry,
    scenario: &Scenario,
    plan: RunPlan,
    program: impl FnOnce(World) -> Fut + Send + 'static,
) -> Outcome {
    let beside: Beside = Box::new(|world| Box::pin(program(world)));
    drive(registry, scenario, plan, Extra { beside: Some(beside), ..Extra::default() }).0
}

/// Runs a case: its scenario and seed, with the choices of its tape.
///
/// # Panics
/// As [`run`].
pub fn run_case(registry: &Registry, case: &Case) -> Outcome {
    let plan = RunPlan { seed: case.seed, ..RunPlan::default() };
    drive(registry, &case.scenario, plan, Extra { tape: case.choices(), ..Extra::default() }).0
}

/// As [`run`], and keeps every choice that was made.
///
/// # Panics
/// As [`run`].
pub fn record(registry: &Registry, scenario: &Scenario, seed: u64) -> (Outcome, Case) {
    let plan = RunPlan { seed, ..RunPlan::default() };
    let (outcome, tape) =
        drive(registry, scenario, plan, Extra { record: true, ..Extra::default() });
    (outcome, Case::new(scenario.clone(), seed, &tape))
}

/// Returns once the trace has not grown for a while.
async fn until_quiet(world: &World) {
    let events = || world.trace().with(|events| events.len());
    let mut before = events();
    loop {
        world.sleep(QUIET).await;
        let now = events();
        if now == before {
            return;
        }
        before = now;
    }
}

/// What a run is given besides its plan.
#[derive(Default)]
struct Extra {
    beside: Option<Beside>,
    record: bool,
    tape: Vec<Choice>,
}

type Beside = Box<dyn FnOnce(World) -> durasim_sim::BoxFuture<'static, ()> + Send>;

fn drive(
    registry: &Registry,
    scenario: &Scenario,
    plan: RunPlan,
    extra: Extra,
) -> (Outcome, Vec<Choice>) {
    let entry = registry.graph_of(scenario).expect("a graph that can be built");
    let reported = Reported::default();
    let log = EffectLog::new();
    let leaky = (scenario.log == Log::Leaky).then(LeakyLog::new);
    let ledger = Ledger::new();
    let unknown: Arc<Mutex<Vec<UnknownCharge>>> = Arc::default();
    let threads: Arc<Mutex<BTreeMap<String, StoredThread>>> = Arc::default();

    let beside = extra.beside;
    let driver = {
        let (scenario, entry) = (Arc::new(scenario.clone()), entry.clone());
        let (models, reported) = (registry.models.clone(), reported.clone());
        let (ledger, unknown) = (ledger.clone(), unknown.clone());
        let (log, leaky, threads) = (log.clone(), leaky.clone(), threads.clone());
        move |world: World| -> durasim_sim::BoxFuture<'static, Result<(), String>> {
            Box::pin(async move {
                let (least, most) = bounds(scenario.delays.network_ms);
                world.net().set_default_link(LinkSpec::between(least, most));
                models.iter().for_each(|model| model.start(&world));
                if scenario.effects == Effects::Http {
                    PaymentProvider::start(&world, scenario.provider.clone(), ledger);
                }
                let faults = StoreFaults::new(&world, &scenario, plan.sabotage);
                let tick = leaky.as_ref().map(|_| TICK);
                let around = Around { tick, ..Around::default() };
                let program = Program {
                    scenario: scenario.clone(),
                    entry,
                    log: log.clone(),
                    leaky,
                    faults,
                    around: around.clone(),
                };
                let database = (scenario.store == Store::Postgres).then(|| {
                    let postgres = Postgres::new(PostgresSettings::default());
                    drop(postgres.serve(&world));
                    postgres
                });
                let fleet = Fleet::start(&world, &program, database);
                // Booted before anybody comes, so that "refused" means that it went down.
                fleet.booted().await;
                world.sleep(Duration::from_millis(1)).await;

                let strikes: Vec<_> = scenario
                    .faults
                    .iter()
                    .enumerate()
                    .map(|(i, fault)| {
                        world.spawn(
                            "fault",
                            strike(world.clone(), around.clocks.clone(), fault.clone(), i),
                        )
                    })
                    .collect();
                let players: Vec<_> = scenario
                    .clients
                    .iter()
                    .map(|client| {
                        let player = Player {
                            world: world.clone(),
                            scenario: scenario.clone(),
                            fleet: fleet.clone(),
                            holds: around.holds.clone(),
                            log: log.clone(),
                            client: client.clone(),
                            reported: reported.clone(),
                        };
                        world.spawn(&client.name, player.play())
                    })
                    .collect();
                let beside = beside.map(|program| world.spawn("beside", program(world.clone())));
                futures::future::join_all(players).await;
                futures::future::join_all(strikes).await;
                if let Some(beside) = beside {
                    let _ = beside.await;
                }
                until_quiet(&world).await;
                if scenario.effects == Effects::Http {
                    let found = unknown_charges(&world.driver(), world.trace()).await;
                    *unknown.lock().unwrap_or_else(PoisonError::into_inner) = found;
                }
                // Also of threads that no client names: an effect executed for one is judged, too.
                let effects = log.all();
                let clients = scenario.clients.iter().map(|client| client.thread.as_str());
                let of_effects = effects.iter().map(|effect| &*effect.thread);
                let names: BTreeSet<&str> = clients.chain(of_effects).collect();
                let names: Vec<&str> = names.into_iter().collect();
                let rows = fleet.rows(scenario.store, &names).await?;
                *threads.lock().unwrap_or_else(PoisonError::into_inner) = rows;
                Ok(())
            })
        }
    };
    let options =
        RunOptions { record_tape: extra.record, tape: extra.tape, ..RunOptions::default() };
    let finished = durasim_sim::run(plan.seed, options, driver);
    let crash = match finished.value {
        Ok(Ok(())) => None,
        Ok(Err(problem)) => Some(format!("the stored rows cannot be read: {problem}")),
        Err(crash) => Some(crash.to_string()),
    };
    let reports = std::mem::take(&mut *reported.lock().unwrap_or_else(PoisonError::into_inner));
    let threads = std::mem::take(&mut *threads.lock().unwrap_or_else(PoisonError::into_inner));
    let logged = |thread: &str| match &leaky {
        Some(leaky) => leaky.of_thread(thread),
        None => log.of_thread(thread).iter().map(|effect| effect.label.to_string()).collect(),
    };
    let outcome = Outcome {
        logged: threads.keys().map(|thread| (thread.clone(), logged(thread))).collect(),
        scenario: scenario.clone(),
        graph: entry,
        seed: plan.seed,
        trace: finished.trace,
        hash: finished.hash,
        virtual_time: finished.virtual_time,
        effects: log.all(),
        charges: ledger.charges(),
        unknown: std::mem::take(&mut *unknown.lock().unwrap_or_else(PoisonError::into_inner)),
        threads,
        sights: reports.sights,
        glimpses: reports.glimpses,
        leaked: finished.leaked_tasks,
        crash,
    };
    (outcome, finished.tape)
}
