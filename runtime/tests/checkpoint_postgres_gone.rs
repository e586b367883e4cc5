//! Whole runs while their server goes away: none is said to be stored that is not.
#![cfg(not(madsim))]

mod checkpoint_support;
mod postgres_support;

use std::collections::BTreeSet;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use checkpoint_support::block_on;
use durasim_cluster::Cluster;
use durasim_runtime::checkpoint::postgres::{PostgresOptions, PostgresSaver, ServerProblem};
use durasim_runtime::checkpoint::saver::SaverError;
use durasim_runtime::doors::{Connector, Event, Io, Observer, TcpConnector, What};
use durasim_runtime::pregel::{Input, RunConfig, RunError};
use durasim_runtime::{
    CompiledGraph, Doors, Durability, END, NodeError, Profile, START, State, StateGraph, Update,
    Value, value,
};
use futures::future::BoxFuture;
use postgres_support::{connect, rows};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::{JoinHandle, spawn_blocking};

/// How the server goes away, from the fifth step on.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Leaves {
    /// The step waits until it is gone.
    First,
    /// While the run goes on.
    Beside,
    /// Without a word, while the run goes on, and comes back: nobody waits for that.
    Crashing,
    /// When it has stored what the run is not told of any more.
    Unheard,
}

/// A line to the server on which nothing is heard for a while. Clones share it.
#[derive(Clone, Default)]
struct Line(Arc<Mutex<Hearing>>);

#[derive(Default)]
enum Hearing {
    #[default]
    Good,
    /// With who waits to be told when it is over.
    Deaf(Vec<Waker>),
    Cut,
}

impl Line {
    fn set(&self, hearing: Hearing) {
        if let Hearing::Deaf(waiting) = std::mem::replace(&mut *self.0.lock().unwrap(), hearing) {
            waiting.into_iter().for_each(Waker::wake);
        }
    }
}

impl Connector for Line {
    fn connect(&self, authority: &str) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        let (connecting, line) = (TcpConnector.connect(authority), self.clone());
        Box::pin(async move { Ok(Box::new(End { far: connecting.await?, line }) as Box<dyn Io>) })
    }
}

struct End {
    far: Box<dyn Io>,
    line: Line,
}

impl AsyncRead for End {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self.line.0.lock().unwrap() {
            Hearing::Good => {}
            Hearing::Deaf(waiting) => {
                waiting.push(cx.waker().clone());
                return Poll::Pending;
            }
            Hearing::Cut => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
        }
        Pin::new(&mut self.far).poll_read(cx, buffer)
    }
}

impl AsyncWrite for End {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.far).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.far).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.far).poll_shutdown(cx)
    }
}

struct Outage {
    server: Arc<Cluster>,
    url: String,
    said: Arc<Said>,
    line: Line,
    leaves: Leaves,
    durability: Durability,
    /// So much was acknowledged before.
    before: AtomicUsize,
    under_way: Mutex<Option<JoinHandle<()>>>,
    is_over: AtomicBool,
}

impl Outage {
    /// Between steps of which something has landed, unless all of it waits for the end.
    async fn begin(self: Arc<Self>) {
        let before = self.before.load(Ordering::SeqCst);
        while self.durability != Durability::Exit && self.said.acknowledged().len() <= before {
            tokio::task::yield_now().await;
        }
        let outage = self.clone();
        let leaving = match self.leaves {
            Leaves::First => return self.stop().await,
            Leaves::Beside => tokio::spawn(async move { outage.stop().await }),
            Leaves::Crashing => spawn_blocking(move || {
                // One crash that fell between two calls would have been none to the run.
                while !outage.is_over.load(Ordering::SeqCst) {
                    outage.server.crash().unwrap();
                }
            }),
            Leaves::Unheard => {
                self.line.set(Hearing::Deaf(vec![]));
                tokio::spawn(async move {
                    while stored(&outage.url).await.is_subset(&outage.said.acknowledged()) {}
                    outage.stop().await;
                    outage.line.set(Hearing::Cut);
                })
            }
        };
        *self.under_way.lock().unwrap() = Some(leaving);
    }

    async fn stop(&self) {
        let server = self.server.clone();
        spawn_blocking(move || server.stop()).await.unwrap().unwrap();
    }

    /// Afterwards the server is there again.
    async fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        let leaving = self.under_way.lock().unwrap().take();
        if let Some(leaving) = leaving {
            leaving.await.unwrap();
        }
        self.line.set(Hearing::Good);
        if self.leaves != Leaves::Crashing {
            let server = self.server.clone();
            spawn_blocking(move || server.go_on()).await.unwrap().unwrap();
        }
    }
}

/// What a run said of its writes: of a checkpoint by its id, of rows by that and their task.
#[derive(Default)]
struct Said(Mutex<Vec<What>>);

impl Observer for Said {
    fn observe(&self, event: Event) {
        self.0.lock().unwrap().push(event.what);
    }
}

impl Said {
    fn each(&self, names: impl Fn(&What) -> Option<String>) -> BTreeSet<String> {
        self.0.lock().unwrap().iter().filter_map(names).collect()
    }

    fn begun(&self) -> BTreeSet<String> {
        self.each(|what| match what {
            What::PutBegun { checkpoint, .. } => Some(checkpoint.to_string()),
            What::WritesBegun { checkpoint, task } => Some(format!("{checkpoint} {task}")),
            _ => None,
        })
    }

    fn acknowledged(&self) -> BTreeSet<String> {
        self.each(|what| match what {
            What::PutAcknowledged { checkpoint, .. } => Some(checkpoint.to_string()),
            What::WritesAcknowledged { checkpoint, task } => Some(format!("{checkpoint} {task}")),
            _ => None,
        })
    }

    fn failed(&self) -> BTreeSet<String> {
        self.each(|what| match what {
            What::PutFailed { checkpoint, .. } => Some(checkpoint.to_string()),
            What::WritesFailed { checkpoint, task, .. } => Some(format!("{checkpoint} {task}")),
            _ => None,
        })
    }

    /// What was acknowledged and is not stored, and what is stored and never was sent.
    fn wrong(&self, stored: &BTreeSet<String>) -> Vec<String> {
        let (begun, acknowledged) = (self.begun(), self.acknowledged());
        let lost = acknowledged.difference(stored).map(|name| format!("lost: {name}"));
        lost.chain(stored.difference(&begun).map(|name| format!("from nowhere: {name}"))).collect()
    }
}

/// Everything of all threads, by the names that [`Said`] has for it.
async fn stored(url: &str) -> BTreeSet<String> {
    let all = "SELECT checkpoint_id FROM checkpoints \
         UNION SELECT checkpoint_id || ' ' || task_id FROM checkpoint_writes";
    rows(&connect(url).await, all).await.into_iter().collect()
}

/// Counts to `to`, a step each.
fn counting(
    doors: &Doors,
    saver: &Arc<PostgresSaver>,
    to: u64,
    gone: &Arc<Outage>,
) -> CompiledGraph {
    let gone = gone.clone();
    let graph = StateGraph::new("counting")
        .key("n")
        .node("count", move |state: State, _| {
            let gone = gone.clone();
            async move {
                let n: u64 = state.get_or("n", 0)?;
                if n == 4 && !gone.is_over.load(Ordering::SeqCst) {
                    gone.begin().await;
                }
                Ok::<_, NodeError>(Update::new().set_value("n", Value::from(n + 1)))
            }
        })
        .edge(START, "count")
        .branch("count", &["count", END], move |state| {
            Ok(vec![if state.get::<u64>("n")? < to { "count" } else { END }])
        });
    let options = Profile::Safe.options();
    graph.compile(Some(saver.clone()), doors, options).expect("a graph")
}

async fn run(graph: &CompiledGraph, input: Input, durability: Durability) -> Result<u64, RunError> {
    let mut config = RunConfig::new("t").durability(durability);
    // Some go on for as long as their server does.
    config.recursion_limit = u64::MAX;
    let end = graph.invoke(input, config).await?;
    Ok(end["n"].as_u64().expect("a number"))
}

fn from_the_start() -> Input {
    Input::New(value::map([("n", 0.into())]))
}

async fn go_away(server: &Arc<Cluster>, leaves: Leaves, durability: Durability) {
    let case = format!("{leaves:?} {durability:?}");
    let url = server.database("gone");
    let said = Arc::new(Said::default());
    let line = Line::default();
    let connector = Arc::new(line.clone());
    let doors = Doors { observer: said.clone(), connector, ..Doors::production() };
    let outage_limit = match leaves {
        Leaves::Crashing => Duration::ZERO,
        _ => Duration::from_millis(300),
    };
    let options = PostgresOptions { outage_limit, ..PostgresOptions::default() };
    let saver = PostgresSaver::open_with(&url, &doors, options).await.expect("it opens");
    let gone = Arc::new(Outage {
        server: server.clone(),
        url: url.clone(),
        said: said.clone(),
        line,
        leaves,
        durability,
        under_way: Mutex::default(),
        before: AtomicUsize::default(),
        is_over: AtomicBool::default(),
    });
    // One run before there is any trouble, by which there is a connection.
    let quick = counting(&doors, &saver, 3, &gone);
    assert_eq!(run(&quick, from_the_start(), Durability::Sync).await.unwrap(), 3, "{case}");
    gone.before.store(said.acknowledged().len(), Ordering::SeqCst);
    let to = match leaves {
        Leaves::First | Leaves::Unheard => 10,
        Leaves::Beside | Leaves::Crashing => u64::MAX,
    };
    let graph = counting(&doors, &saver, to, &gone);
    let end = run(&graph, from_the_start(), durability);
    let end = tokio::time::timeout(Duration::from_secs(60), end).await.expect("it ends");
    let Err(RunError::Saver(SaverError::Server { problem, text, .. })) = end else {
        panic!("{case}: {end:?}")
    };
    // What was sent may have landed, though nothing could be sent after it. At async the run may tell
    // of something that was not.
    let was_sent = leaves == Leaves::Unheard && durability != Durability::Async;
    let is_unreachable = problem == ServerProblem::Unreachable && !was_sent;
    assert!(is_unreachable || problem == ServerProblem::Unknown, "{case}: {problem:?}: {text}");
    gone.end().await;

    let there = stored(&url).await;
    assert_eq!(said.wrong(&there), [""; 0], "{case}");
    let (begun, acknowledged, failed) = (said.begun(), said.acknowledged(), said.failed());
    assert!(acknowledged.is_disjoint(&failed), "{case}");
    assert_eq!(begun, &acknowledged | &failed, "{case}: of each write it is said how it ended");
    let unsaid = there.difference(&acknowledged).count();
    assert!(!failed.is_empty(), "{case}");
    assert!(unsaid > 0 || leaves != Leaves::Unheard, "{case}");
    match durability {
        // A step's rows and its checkpoint.
        Durability::Sync => assert!(failed.len() <= 2, "{case}: {failed:?}"),
        Durability::Async => {}
        // All of the run in one checkpoint.
        Durability::Exit => assert_eq!(failed.len(), 1, "{case}"),
    }

    // And the thread is as good as ever.
    let graph = counting(&doors, &saver, 10, &gone);
    let head = graph.get_state("t", None).await.unwrap();
    let n: u64 = head.values.get("n").unwrap();
    let (input, expected) = match head.next.is_empty() {
        // Nothing was stored of the run that failed.
        true => (from_the_start(), 10),
        false => (Input::Resume, 10.max(n + 1)),
    };
    assert_eq!(run(&graph, input, durability).await.unwrap(), expected, "{case}");
    assert_eq!(said.wrong(&stored(&url).await), [""; 0], "{case}");

    // With less in the tables it would have been noticed.
    let less = "DELETE FROM checkpoints WHERE checkpoint_id = \
         (SELECT max(checkpoint_id) FROM checkpoints) RETURNING checkpoint_id";
    let gone = rows(&connect(&url).await, less).await.remove(0);
    assert_eq!(said.wrong(&stored(&url).await), [format!("lost: {gone}")], "{case}");
}

#[test]
fn a_run_whose_server_stops_says_so() {
    let Some(server) = Cluster::private_for_test() else { return };
    block_on(async {
        let server = Arc::new(server);
        for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
            go_away(&server, Leaves::First, durability).await;
        }
        // At exit nothing is stored before the end, which never comes there.
        for durability in [Durability::Sync, Durability::Async] {
            go_away(&server, Leaves::Beside, durability).await;
        }
    });
}

#[test]
fn what_was_stored_unheard_is_not_said_to_be_stored() {
    let Some(server) = Cluster::private_for_test() else { return };
    block_on(async {
        let server = Arc::new(server);
        for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
            go_away(&server, Leaves::Unheard, durability).await;
        }
    });
}

/// Nothing is tried again there, so that what was lost on the way may be stored or not.
#[test]
fn a_run_whose_server_crashes_says_so() {
    let Some(server) = Cluster::private_for_test() else { return };
    block_on(async {
        let server = Arc::new(server);
        for durability in [Durability::Sync, Durability::Async] {
            go_away(&server, Leaves::Crashing, durability).await;
        }
    });
}
