//! What the checkpoint tests share: a runtime, files that go away, doors under the test's control.
#![allow(dead_code)] // every test file is a crate of its own and uses a part

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::{Duration, SystemTime};

use durasim_runtime::checkpoint::{
    Checkpoint, LAYOUT_VERSION, Metadata, PendingWrite, Source, ThreadKey,
};
use durasim_runtime::doors::{
    Clock, Controller, Doors, Entropy, Executor, Gate, Pass, Point, RawHandle,
};
use durasim_runtime::value::{self, Shared, Value};
use futures::future::BoxFuture;

/// Runs a test on the real runtime.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().expect("a runtime").block_on(future)
}

/// A SQLite file of one test, removed with its WAL when the test is over.
pub struct TestFile(PathBuf);

impl TestFile {
    pub fn new(test: &str) -> TestFile {
        let name = format!("durasim-{}-{test}.sqlite", std::process::id());
        let file = TestFile(std::env::temp_dir().join(name));
        file.remove();
        file
    }

    pub fn path(&self) -> &str {
        self.0.to_str().expect("a path that is text")
    }

    /// A connection of somebody else. It does not wait for locks.
    pub fn connect(&self) -> rusqlite::Connection {
        let connection = rusqlite::Connection::open(&self.0).expect("the file opens");
        connection.busy_timeout(Duration::ZERO).expect("no waiting");
        connection
    }

    fn remove(&self) {
        for end in ["", "-wal", "-shm", "-journal"] {
            let _ = std::fs::remove_file(format!("{}{end}", self.path()));
        }
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        self.remove();
    }
}

/// The path of a checked-in file.
pub fn vectors(name: &str) -> String {
    format!("{}/tests/vectors/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A clock that stands still; sleeping is noted and over at once.
#[derive(Default)]
pub struct StillClock {
    pub now: Mutex<Option<SystemTime>>,
    pub slept: Mutex<Vec<Duration>>,
    /// Called with the number of sleeps so far.
    pub at_sleep: Option<Box<dyn Fn(usize) + Send + Sync>>,
}

impl Clock for StillClock {
    fn now(&self) -> SystemTime {
        self.now.lock().unwrap().unwrap_or(SystemTime::UNIX_EPOCH)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let mut slept = self.slept.lock().unwrap();
        slept.push(duration);
        if let Some(at_sleep) = &self.at_sleep {
            at_sleep(slept.len());
        }
        Box::pin(std::future::ready(()))
    }
}

/// Gives the same bytes again and again.
pub struct FixedEntropy(pub u8);

impl Entropy for FixedEntropy {
    fn fill(&self, _label: &'static str, bytes: &mut [u8]) {
        bytes.fill(self.0);
    }
}

/// Blocking calls wait here until the test runs them.
#[derive(Default)]
pub struct HeldCalls {
    calls: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
    tasks: Mutex<Vec<BoxFuture<'static, ()>>>,
}

impl HeldCalls {
    /// Runs all tasks to their ends and takes the only call that waits.
    pub fn take(&self) -> Box<dyn FnOnce() + Send> {
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap());
        let mut tasks = futures::future::join_all(tasks);
        let mut nobody = Context::from_waker(Waker::noop());
        while Pin::new(&mut tasks).poll(&mut nobody).is_pending() {}
        let mut calls = self.calls.lock().unwrap();
        assert_eq!(calls.len(), 1, "calls waiting");
        calls.remove(0)
    }
}

impl Executor for HeldCalls {
    fn spawn_raw(&self, _actor: &str, future: BoxFuture<'static, ()>) -> Box<dyn RawHandle> {
        self.tasks.lock().unwrap().push(future);
        Box::new(Unheld)
    }

    fn blocking_raw(&self, actor: &str, call: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        assert_eq!(actor, "saver");
        self.calls.lock().unwrap().push(call);
        Box::pin(std::future::ready(()))
    }

    fn dispose(&self, call: Box<dyn FnOnce() + Send>) {
        self.calls.lock().unwrap().push(call);
    }
}

/// Of tasks that nobody aborts.
struct Unheld;

impl RawHandle for Unheld {
    fn abort(&self) {}
}

/// Lets everybody through and notes who came and who is still inside.
#[derive(Default)]
pub struct Log {
    pub came: Mutex<Vec<Point>>,
    pub inside: Arc<()>,
}

impl Log {
    /// How many passes are held.
    pub fn inside(&self) -> usize {
        Arc::strong_count(&self.inside) - 1
    }
}

impl Controller for Log {
    fn arrive(&self, point: Point) -> BoxFuture<'static, Pass> {
        self.came.lock().unwrap().push(point);
        Box::pin(std::future::ready(Pass::held(self.inside.clone())))
    }
}

pub fn doors_with_log() -> (Doors, Arc<Log>) {
    let log = Arc::new(Log::default());
    (Doors { gate: Gate::Controlled(log.clone()), ..Doors::production() }, log)
}

/// The `n`-th id of a series whose order is that of the numbers.
pub fn id(n: u32) -> String {
    format!("1f1ec26b-0000-6000-8000-{n:012x}")
}

pub fn key(thread: &str, namespace: &str) -> ThreadKey {
    ThreadKey { thread: thread.into(), namespace: namespace.into() }
}

pub fn shared(value: impl Into<Value>) -> Shared {
    Arc::new(value.into())
}

/// A checkpoint with a bit of everything.
pub fn checkpoint(n: u32) -> Checkpoint {
    let version: Arc<str> = format!("{:032}.0.5", n + 1).into();
    let versions =
        ["steps", "charge", "branch:to:b"].map(|channel| (channel.into(), version.clone()));
    Checkpoint {
        layout: LAYOUT_VERSION,
        ts: "2026-11-29T18:57:34.411469+00:00".to_owned(),
        id: id(n).into(),
        channel_values: [
            ("steps".into(), shared(Value::Array(vec!["a".into(), u64::from(n).into()]))),
            ("charge".into(), shared(value::map([("amount", 1250.into())]))),
            ("branch:to:b".into(), shared(Value::Nil)),
        ]
        .into_iter()
        .collect(),
        channel_versions: versions.clone().into_iter().collect(),
        versions_seen: [
            ("__input__".into(), Default::default()),
            ("a".into(), versions.into_iter().collect()),
        ]
        .into_iter()
        .collect(),
        updated_channels: Some(vec!["branch:to:b".into(), "steps".into()]),
    }
}

pub fn metadata(source: Source, step: i64) -> Metadata {
    Metadata { source, step, parents: Default::default(), extra: Default::default() }
}

/// Pending writes in short: task, channel, value.
pub fn short(writes: &[PendingWrite]) -> Vec<(&str, &str, String)> {
    writes.iter().map(|w| (&*w.task, &*w.channel, w.value.to_string())).collect()
}
