//! Runs one seed.
//!
//! Each run gets a fresh OS thread, because std seeds the keys of hash maps once a thread. One
//! warm-up run comes first in every OS process, because lazy statics that draw randomness would
//! otherwise shift the simulator's generator in whichever run touches them first.

mod heap;
pub(crate) mod quiet;

pub use heap::Heap;

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Mutex, Once};
use std::task::Poll;
use std::time::Duration;

use madsim::runtime::Runtime;

use crate::chance::{Chance, Choice};
use crate::lock::lock;
use crate::trace::{self, Event};
use crate::{BoxFuture, World};

/// The knobs of a run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Record every draw of [`Chance`] on the tape.
    pub record_tape: bool,
    /// Values that draws are given instead of the seed's; see [`Chance::replaying`].
    pub tape: Vec<Choice>,
    /// Virtual time after which the run ends as [`Crash::TimeLimit`].
    pub time_limit: Duration,
    /// Polls after which the run ends as [`Crash::PollLimit`]: a livelock hardly moves the clock.
    pub poll_limit: u64,
    /// Stack of the thread, in bytes.
    pub stack_size: usize,
}

impl Default for RunOptions {
    fn default() -> Self {
        RunOptions {
            record_tape: false,
            tape: Vec::new(),
            time_limit: Duration::from_secs(600),
            poll_limit: 20_000_000,
            stack_size: 4 << 20,
        }
    }
}

/// Why a run has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Crash {
    /// The driver, or a task of its, panicked.
    #[error("the driver panicked: {0}")]
    Panic(String),
    /// Often a deadlock: nothing but the limit was left to wait for.
    #[error("the run was not over after {0:?} of virtual time")]
    TimeLimit(Duration),
    #[error("the run was not over after {0} polls")]
    PollLimit(u64),
}

/// What a run leaves behind.
#[derive(Debug)]
pub struct Finished<T> {
    pub seed: u64,
    pub value: Result<T, Crash>,
    pub trace: Vec<Event>,
    /// Of the trace; equal for equal seeds.
    pub hash: u64,
    /// How long the run took, in virtual time.
    pub virtual_time: Duration,
    /// Empty unless [`RunOptions::record_tape`].
    pub tape: Vec<Choice>,
    /// Polls of tasks that were spawned through the world.
    pub polls: u64,
    /// Tasks whose futures outlived the world. Anything but 0 is a leak.
    pub leaked_tasks: u64,
}

/// Runs `f` as the driver of a fresh world with this seed, and waits for the end.
///
/// # Panics
/// If the OS gives no thread.
pub fn run<T: Send + 'static>(
    seed: u64,
    options: RunOptions,
    f: impl FnOnce(World) -> BoxFuture<'static, T> + Send + 'static,
) -> Finished<T> {
    static WARM: Once = Once::new();
    WARM.call_once(|| {
        crate::disk::install();
        on_fresh_thread(0, RunOptions::default(), |world| Box::pin(warm_up(world)));
    });
    on_fresh_thread(seed, options, f)
}

/// Touches everything of ours that is set up lazily.
async fn warm_up(world: World) {
    let server = world.process("server", "server", |me| {
        Box::pin(async move {
            let listener = me.listen(1).expect("a free port");
            let _ = listener.accept().await;
        })
    });
    let client = world.process("client", "client", |_| Box::pin(async {}));
    let _ = client.connect("server", 1).await;
    let opened = server.open_sqlite("warm-up.sqlite").expect("an empty disk");
    opened.execute_batch("create table t (x)").expect("an empty database");
}

#[allow(clippy::disallowed_methods)] // A run is outside every simulated world; it needs a real thread.
fn on_fresh_thread<T: Send + 'static>(
    seed: u64,
    options: RunOptions,
    f: impl FnOnce(World) -> BoxFuture<'static, T> + Send + 'static,
) -> Finished<T> {
    std::thread::Builder::new()
        .name(format!("seed-{seed}"))
        .stack_size(options.stack_size)
        .spawn(move || here(seed, &options, f))
        .expect("the OS gives no thread")
        .join()
        .unwrap_or_else(|payload| std::panic::resume_unwind(payload))
}

/// Runs on this thread, which must not have run anything else.
fn here<T: Send + 'static>(
    seed: u64,
    options: &RunOptions,
    f: impl FnOnce(World) -> BoxFuture<'static, T> + Send + 'static,
) -> Finished<T> {
    let _memory = heap::borrow();
    quiet::this_thread();
    let chance = Chance::replaying(seed, &options.tape);
    chance.record(options.record_tape);
    crate::disk::begin_run();
    let runtime = Runtime::with_seed_and_config(seed, madsim::Config::default());
    // Where the simulator itself gives up, what is left is found here.
    let left: Mutex<Option<World>> = Mutex::new(None);
    let ended = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(async {
            let world = World::start(chance.clone(), options.poll_limit);
            *lock(&left) = Some(world.clone());
            let value = drive(&world, options, f).await;
            let virtual_time = world.now();
            world.shut_down();
            // The killed tasks are dropped while this sleeps; those still pending would leak.
            world.sleep(Duration::from_millis(1)).await;
            (value, virtual_time)
        })
    }));
    let world = lock(&left).take();
    let (value, virtual_time) = ended.unwrap_or_else(|payload| {
        let said = quiet::message(payload);
        let at = world.as_ref().map_or(Duration::ZERO, World::now);
        clean_up_after_panic(&runtime, world.as_ref());
        (Err(Crash::Panic(said)), at)
    });
    let events = world.as_ref().map(|w| w.trace().take()).unwrap_or_default();
    let meter = world.as_ref().map(|w| (w.meter().polls(), w.meter().alive()));
    let (polls, leaked_tasks) = meter.unwrap_or_default();
    if let Some(world) = world {
        world.leave();
    }
    let hash = trace::hash(&events);
    let tape = chance.tape();
    Finished { seed, value, trace: events, hash, virtual_time, tape, polls, leaked_tasks }
}

/// A panic that no task of ours caught (in a task spawned past [`World`]) ended the simulator's loop.
/// Its second loop drops what the first one left.
fn clean_up_after_panic(runtime: &Runtime, world: Option<&World>) {
    let Some(world) = world else { return };
    let _ = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(async {
            world.shut_down();
            world.sleep(Duration::from_millis(1)).await;
        });
    }));
}

async fn drive<T: Send + 'static>(
    world: &World,
    options: &RunOptions,
    f: impl FnOnce(World) -> BoxFuture<'static, T> + Send + 'static,
) -> Result<T, Crash> {
    let given = world.clone();
    let driver = world.start_driver();
    let mut task = driver.spawn("driver", async move { f(given).await });
    let mut limit = pin!(world.sleep(options.time_limit));
    let mut armed = false;
    poll_fn(|cx| {
        if let Poll::Ready(ended) = std::pin::Pin::new(&mut task).poll(cx) {
            let said = || world.driver_panic().unwrap_or_else(|| "it was killed".to_owned());
            return Poll::Ready(ended.map_err(|_| Crash::Panic(said())));
        }
        if world.meter().exhausted() {
            return Poll::Ready(Err(Crash::PollLimit(options.poll_limit)));
        }
        world.meter().watch(cx.waker());
        if !std::mem::replace(&mut armed, true) || world.now() >= options.time_limit {
            return limit.as_mut().poll(cx).map(|()| Err(Crash::TimeLimit(options.time_limit)));
        }
        Poll::Pending
    })
    .await
}
