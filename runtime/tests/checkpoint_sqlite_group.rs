//! Writes that share a commit, and runs that do not wait for one.
#![cfg(not(madsim))]

mod checkpoint_support;

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use checkpoint_support::{HeldCalls, TestFile, block_on, checkpoint, id, key, metadata, shared};
use durasim_runtime::checkpoint::Source;
use durasim_runtime::checkpoint::codec::MAX_DEPTH;
use durasim_runtime::checkpoint::layer::Layer;
use durasim_runtime::checkpoint::memory::MemorySaver;
use durasim_runtime::checkpoint::saver::{
    Fate, Landing, ListFilter, Put, PutWrites, Saver, SaverError, SaverResult,
};
use durasim_runtime::checkpoint::sqlite::SqliteSaver;
use durasim_runtime::pregel::{Input, RunConfig, RunError};
use durasim_runtime::{
    CompiledGraph, Doors, Durability, END, NodeError, Profile, START, State, StateGraph, Update,
    Value, value,
};
use futures::future::BoxFuture;

fn poll<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Poll<T> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// A saver whose shifts wait for the test.
fn held(file: &TestFile) -> (Arc<SqliteSaver>, Arc<HeldCalls>) {
    let held = Arc::new(HeldCalls::default());
    let doors = Doors { executor: held.clone(), ..Doors::production() };
    let mut opening = Box::pin(SqliteSaver::open(file.path(), &doors));
    assert!(poll(&mut opening).is_pending());
    held.take()();
    let Poll::Ready(Ok(saver)) = poll(&mut opening) else { panic!("the saver is open") };
    (saver, held)
}

fn put(n: u32) -> Put {
    let parent = n.checked_sub(1).map(id);
    Put::new(&key("t", ""), parent.as_deref(), checkpoint(n), metadata(Source::Loop, n.into()))
}

fn rows(n: u32, value: Value) -> PutWrites {
    let writes = vec![("x".into(), shared(1)), ("y".into(), Arc::new(value))];
    PutWrites::new(&key("t", ""), &id(n), "a", "", writes)
}

/// Nested deeper than can be stored; the row before it can.
fn unstorable() -> Value {
    (0..=MAX_DEPTH).fold(Value::Nil, |inside, _| Value::Array(vec![inside]))
}

fn commits(file: &TestFile) -> usize {
    // https://www.sqlite.org/fileformat2.html#walformat: the page size is at byte 8 of the header; a
    // frame that commits has the size of the database at byte 4.
    const HEADER: usize = 32;
    const FRAME_HEADER: usize = 24;
    let wal = std::fs::read(format!("{}-wal", file.path())).unwrap_or_default();
    let number = |at: usize| u32::from_be_bytes(wal[at..at + 4].try_into().unwrap());
    let frame = FRAME_HEADER + if wal.len() < HEADER { 0 } else { number(8) as usize };
    let frames = (HEADER..).step_by(frame).take_while(|at| at + frame <= wal.len());
    frames.filter(|at| number(at + 4) != 0).count()
}

#[test]
fn what_waits_shares_one_commit() {
    let file = TestFile::new("one-commit");
    let (saver, held) = held(&file);
    let before = commits(&file);
    let mut calls: Vec<SaverResult<()>> =
        (0..4).flat_map(|n| [saver.put_writes(rows(n, 2.into())), saver.put(put(n))]).collect();
    calls.push(saver.delete_thread("other"));
    assert!(calls.iter_mut().all(|call| poll(call).is_pending()));
    held.take()();
    assert!(calls.iter_mut().all(|call| matches!(poll(call), Poll::Ready(Ok(())))));
    assert_eq!(commits(&file), before + 1);
}

#[test]
fn one_that_fails_fails_alone() {
    let file = TestFile::new("fails-alone");
    let (saver, held) = held(&file);
    let mut calls = [
        saver.put(put(0)),
        saver.put_writes(rows(0, unstorable())),
        saver.copy_thread("t", "t"),
        saver.put_writes(rows(1, 2.into())),
        saver.put(put(1)),
    ];
    assert!(calls.iter_mut().all(|call| poll(call).is_pending()));
    held.take()();
    let [first, deep, occupied, rows, second] = calls.each_mut().map(poll);
    assert!(matches!(deep, Poll::Ready(Err(SaverError::Unstorable { .. }))), "{deep:?}");
    assert!(matches!(occupied, Poll::Ready(Err(SaverError::Occupied { .. }))), "{occupied:?}");
    for landed in [first, rows, second] {
        assert!(matches!(landed, Poll::Ready(Ok(()))), "{landed:?}");
    }
    let mut list = saver.list("t", None, ListFilter::default());
    assert!(poll(&mut list).is_pending());
    held.take()();
    let Poll::Ready(Ok(tuples)) = poll(&mut list) else { panic!("a listing") };
    let writes: Vec<usize> = tuples.iter().map(|tuple| tuple.writes.len()).collect();
    assert_eq!(writes, [2, 0], "all rows of the one, and none of the other");
}

#[test]
fn a_checkpoint_is_refused_after_a_failure_that_it_shares() {
    let file = TestFile::new("fate");
    let (saver, held) = held(&file);
    let (fate, other) = (Fate::shared(), Fate::shared());
    let mut calls = [
        saver.put(Put { fate: fate.clone(), ..put(0) }),
        saver.put_writes(PutWrites { fate: fate.clone(), ..rows(0, unstorable()) }),
        saver.put(Put { fate: fate.clone(), ..put(1) }),
        saver.put(Put { fate: fate.clone(), ..put(2) }),
        saver.put(Put { fate: other.clone(), ..put(3) }),
    ];
    assert!(calls.iter_mut().all(|call| poll(call).is_pending()));
    held.take()();
    let ends = calls.each_mut().map(|call| match poll(call) {
        Poll::Ready(Ok(())) => "landed",
        Poll::Ready(Err(SaverError::Unstorable { .. })) => "unstorable",
        Poll::Ready(Err(SaverError::Unfounded { .. })) => "unfounded",
        other => panic!("{other:?}"),
    });
    assert_eq!(ends, ["landed", "unstorable", "unfounded", "unfounded", "landed"]);
    assert!(fate.is_lost() && !other.is_lost());
}

#[test]
fn nothing_lands_behind_what_was_thrown_away() {
    let file = TestFile::new("thrown-away");
    let (saver, held) = held(&file);
    let fate = Fate::shared();
    let mut calls = [
        saver.put_writes(PutWrites { fate: fate.clone(), ..rows(0, 2.into()) }),
        saver.put(Put { fate: fate.clone(), ..put(0) }),
    ];
    assert!(calls.iter_mut().all(|call| poll(call).is_pending()));
    drop(held.take());
    for call in &mut calls {
        let end = poll(call);
        assert!(matches!(end, Poll::Ready(Err(SaverError::Cancelled))), "{end:?}");
    }
    assert!(fate.is_lost());
    let mut next = saver.put(Put { fate, ..put(1) });
    assert!(poll(&mut next).is_pending());
    held.take()();
    let end = poll(&mut next);
    assert!(matches!(end, Poll::Ready(Err(SaverError::Unfounded { .. }))), "{end:?}");
}

#[test]
fn a_saver_that_is_dropped_closes_its_file_off_the_workers() {
    let file = TestFile::new("off-the-workers");
    let (saver, held) = held(&file);
    let mut call = saver.put(put(0));
    assert!(poll(&mut call).is_pending());
    let is_open = || std::fs::exists(format!("{}-wal", file.path())).unwrap();
    let shift = held.take();
    drop(saver);
    shift();
    assert!(matches!(poll(&mut call), Poll::Ready(Ok(()))));
    drop(call);
    assert!(is_open());
    held.take()();
    assert!(!is_open());
}

#[test]
fn a_saver_may_be_dropped_with_or_without_a_runtime() {
    let file = TestFile::new("with-or-without");
    let open = || block_on(SqliteSaver::open(file.path(), &Doors::production())).unwrap();
    let is_open = || std::fs::exists(format!("{}-wal", file.path())).unwrap();
    let saver = open();
    assert!(is_open());
    drop(saver);
    assert!(!is_open());
    let saver = open();
    // A runtime that ends waits for what it has begun.
    block_on(async move { drop(saver) });
    assert!(!is_open());
}

/// A store that keeps order and lands its writes one after the other, each after a while.
struct Slow {
    inner: MemorySaver,
    waiting: Arc<AtomicUsize>,
    most_waiting: Arc<AtomicUsize>,
    /// Which put fails, counted from 0.
    fails: Option<usize>,
    lane: Arc<tokio::sync::Mutex<()>>,
    puts: Arc<AtomicUsize>,
    landed: Arc<Mutex<Vec<i64>>>,
}

impl Slow {
    fn new(fails: Option<usize>) -> Arc<Slow> {
        Arc::new(Slow {
            inner: MemorySaver::new(&Doors::production()),
            waiting: Arc::default(),
            most_waiting: Arc::default(),
            fails,
            lane: Arc::default(),
            puts: Arc::default(),
            landed: Arc::default(),
        })
    }
}

impl Layer for Slow {
    fn inner(&self) -> &dyn Saver {
        &self.inner
    }

    fn on_put(&self, put: Put) -> BoxFuture<'static, Landing> {
        let (inner, landed) = (self.inner.clone(), self.landed.clone());
        let (waiting, most) = (self.waiting.clone(), self.most_waiting.clone());
        let fails = self.fails == Some(self.puts.fetch_add(1, Ordering::Relaxed));
        let (lane, step) = (self.lane.clone(), put.metadata.step);
        let now = waiting.fetch_add(1, Ordering::Relaxed) + 1;
        most.fetch_max(now, Ordering::Relaxed);
        let landing = async move {
            // Fair, and asked for in the order of places by tasks that are woken in it.
            let _lane = lane.lock_owned().await;
            tokio::time::sleep(Duration::from_millis(1)).await;
            waiting.fetch_sub(1, Ordering::Relaxed);
            if let Some(refusal) = put.fate.refusal() {
                return Err(refusal);
            }
            if fails {
                let error = SaverError::Store("no luck".to_owned());
                put.fate.lose(&error);
                return Err(error);
            }
            inner.put(put).await?;
            landed.lock().unwrap().push(step);
            Ok(())
        };
        Box::pin(std::future::ready(Landing::new(landing)))
    }
}

/// Counts to 40, a step each.
fn counting(saver: Arc<dyn Saver>, most: Option<usize>, ran: &Arc<AtomicUsize>) -> CompiledGraph {
    let ran = ran.clone();
    let graph = StateGraph::new("counting")
        .key("n")
        .node("count", move |state: State, _| {
            ran.fetch_add(1, Ordering::Relaxed);
            async move {
                let n: u64 = state.get_or("n", 0)?;
                Ok::<_, NodeError>(Update::new().set_value("n", Value::from(n + 1)))
            }
        })
        .edge(START, "count")
        .branch("count", &["count", END], |state| {
            Ok(vec![if state.get::<u64>("n")? < 40 { "count" } else { END }])
        });
    let options = durasim_runtime::Options { max_inflight_puts: most, ..Profile::Safe.options() };
    graph.compile(Some(saver), &Doors::production(), options).expect("a graph")
}

/// Time passes only where everybody waits for it, so that the machine's speed has no say.
fn block_on_in_still_time<T>(future: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().expect("a runtime").block_on(future)
}

async fn run(graph: &CompiledGraph) -> Result<Value, RunError> {
    let config = RunConfig::new("t").durability(Durability::Async);
    graph.invoke(Input::New(value::map([("n", 0.into())])), config).await
}

#[test]
fn a_run_is_no_further_ahead_than_it_may_be() {
    for (most, seen) in [(1, 1), (5, 5), (20, 20), (1_000, 42)] {
        let (saver, ran) = (Slow::new(None), Arc::default());
        let played = async { run(&counting(saver.clone(), Some(most), &ran)).await };
        block_on_in_still_time(played).unwrap();
        // A checkpoint for the input, one for the entry and one for each of 40 steps.
        assert_eq!(*saver.landed.lock().unwrap(), (-1..=40).collect::<Vec<_>>());
        assert_eq!(saver.most_waiting.load(Ordering::Relaxed), seen, "at most {most}");
    }
}

#[test]
fn a_run_ends_soon_after_a_put_was_lost_and_nothing_lands_behind_it() {
    let (saver, ran) = (Slow::new(Some(7)), Arc::new(AtomicUsize::new(0)));
    let end = block_on_in_still_time(async { run(&counting(saver.clone(), Some(5), &ran)).await });
    let error = end.unwrap_err();
    assert!(
        matches!(&error, RunError::Saver(SaverError::Store(text)) if text == "no luck"),
        "{error}"
    );
    assert_eq!(*saver.landed.lock().unwrap(), (-1..=5).collect::<Vec<_>>());
    // It was at most five checkpoints ahead.
    assert!(ran.load(Ordering::Relaxed) <= 6 + 5, "{ran:?} steps");
}

/// A store whose workers are thrown away with what they have to write.
struct ShutDown(MemorySaver);

impl Layer for ShutDown {
    fn inner(&self) -> &dyn Saver {
        &self.0
    }

    fn on_put(&self, put: Put) -> BoxFuture<'static, Landing> {
        Landing::of_checkpoint(put.fate, std::future::ready(Err(SaverError::Cancelled)))
    }
}

#[test]
fn a_run_of_which_nothing_was_stored_has_failed() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let saver = Arc::new(ShutDown(MemorySaver::new(&Doors::production())));
        let played = async {
            let config = RunConfig::new("t").durability(durability);
            let input = Input::New(value::map([("n", 0.into())]));
            counting(saver, None, &Arc::default()).invoke(input, config).await
        };
        let error = block_on(played).unwrap_err();
        assert!(matches!(error, RunError::Saver(SaverError::Cancelled)), "{durability:?}: {error}");
    }
}
