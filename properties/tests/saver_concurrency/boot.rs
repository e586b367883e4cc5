//! Workers that boot at once behind a pooler, on a database with nothing in it: one of them makes
//! the tables, and all of them go on.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use durasim_models::postgres::{Pooler, PoolerSettings};
use durasim_models::{Postgres, PostgresSettings};
use durasim_properties::world::doors_of;
use durasim_runtime::checkpoint::ThreadKey;
use durasim_runtime::checkpoint::postgres::{PostgresOptions, PostgresSaver, ServerProblem};
use durasim_runtime::checkpoint::saver::{Saver, SaverError};
use durasim_sim::{BoxFuture, Finished, RunOptions, World, run};

use crate::crowd::put;

const SEEDS: Range<u64> = 0..100;
const WORKERS: [&str; 4] = ["one", "two", "three", "four"];

/// A server with nothing in it, and a pooler in front of it.
fn serve(world: &World, pool_size: usize) -> Postgres {
    let postgres = Postgres::new(PostgresSettings::default());
    drop(postgres.serve(world));
    drop(Pooler::serve(world, PoolerSettings { pool_size, ..PoolerSettings::default() }));
    postgres
}

fn pooler() -> String {
    format!("{}:{}", Pooler::NAME, Pooler::PORT)
}

/// As one process more.
async fn open(
    world: &World,
    process: &str,
    server: &str,
) -> Result<Arc<PostgresSaver>, SaverError> {
    let process = world.process(process, process, |_| Box::pin(std::future::pending()));
    let url = format!("postgres://durasim@{server}/durasim");
    PostgresSaver::open_with(&url, &doors_of(&process), PostgresOptions::default()).await
}

/// Stores something and finds it again.
async fn use_it(saver: &PostgresSaver, thread: &str) -> Result<(), SaverError> {
    let put = put(thread, 0);
    let expected = put.checkpoint.clone();
    saver.put(put).await?;
    let found = saver.get_tuple(&ThreadKey::root(thread), None).await?;
    assert_eq!(found.map(|tuple| tuple.checkpoint), Some(expected), "{thread}");
    Ok(())
}

/// Lets all workers boot, and gives what became of each.
async fn boot(world: &World) -> Vec<Result<(), SaverError>> {
    let chance = world.chance().stream("boot", "");
    let workers = WORKERS.map(|worker| {
        // At one moment, or a little apart.
        let delay = Duration::from_micros([0, chance.below(5_000)][chance.below(2) as usize]);
        let own = world.clone();
        world.spawn(worker, async move {
            own.sleep(delay).await;
            let saver = open(&own, worker, &pooler()).await?;
            use_it(&saver, worker).await
        })
    });
    let mut ends = vec![];
    for worker in workers {
        ends.push(worker.await.expect("a task ends"));
    }
    ends
}

fn each<T: Send + 'static>(
    play: impl Fn(World) -> BoxFuture<'static, T> + Copy + Send + 'static,
) -> Vec<Finished<T>> {
    SEEDS.map(|seed| run(seed, RunOptions::default(), play)).collect()
}

#[test]
fn workers_that_boot_at_once_behind_a_pooler() {
    for pool_size in [2, 4] {
        let all = each(move |world| {
            Box::pin(async move {
                let postgres = serve(&world, pool_size);
                let ends = boot(&world).await;
                (ends, postgres.rows("checkpoint_migrations").len())
            })
        });
        let mut took = BTreeSet::new();
        for finished in &all {
            let case = format!("pool of {pool_size}, seed {}", finished.seed);
            let (ends, migrations) = finished.value.as_ref().expect("a run ends");
            assert!(ends.iter().all(Result::is_ok), "{case}: {ends:?}");
            assert_eq!(*migrations, 10, "{case}");
            let time = finished.virtual_time;
            assert!(time < Duration::from_secs(2), "{case}: {time:?}");
            took.insert(time);
        }
        assert!(took.len() > 90, "they met in few ways: it proves little");
    }
}

/// Who makes the tables holds a lock over one connection and works over another. Where the pooler
/// has but one there is no way, and nobody waits for ever. Once the tables are there, one will do.
#[test]
fn workers_that_boot_behind_a_pooler_with_one_connection() {
    let all = each(|world| {
        Box::pin(async move {
            let postgres = serve(&world, 1);
            let ends = boot(&world).await;
            let (took, migrations) = (world.now(), postgres.rows("checkpoint_migrations").len());
            open(&world, "direct", Postgres::NAME).await.expect("with as many as it wants");
            let later = open(&world, "later", &pooler()).await.expect("the tables are there");
            use_it(&later, "later").await.expect("one connection will do");
            (ends, took, migrations)
        })
    });
    for finished in &all {
        let seed = finished.seed;
        let (ends, took, migrations) = finished.value.as_ref().expect("a run ends");
        for end in ends {
            let Err(SaverError::Server { problem, text, .. }) = end else {
                panic!("seed {seed}: {end:?}")
            };
            assert_eq!(*problem, ServerProblem::Unknown, "seed {seed}: {text}");
            assert!(text.contains("no answer within 60s"), "seed {seed}: {text}");
        }
        assert_eq!(*migrations, 0, "seed {seed}");
        assert!(*took < Duration::from_secs(65), "seed {seed}: {took:?}");
    }
}
