//! How often a run waits for PostgreSQL: at sync durability once for each step, whatever it stores.
#![cfg(not(madsim))]

mod checkpoint_support;
mod postgres_support;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use checkpoint_support::block_on;
use durasim_runtime::checkpoint::postgres::{PostgresOptions, PostgresSaver};
use durasim_runtime::doors::{Connector, Io, TcpConnector};
use durasim_runtime::pregel::{Input, RunConfig};
use durasim_runtime::profile::Forks;
use durasim_runtime::{
    Doors, Durability, END, NodeError, Options, Profile, START, State, StateGraph, Update, Value,
    value,
};
use futures::future::BoxFuture;
use postgres_support::Server;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How often somebody wrote to the server who had heard from it since they last wrote.
#[derive(Clone, Default)]
struct Turns {
    count: Arc<AtomicUsize>,
    has_heard: Arc<AtomicBool>,
    connections: Arc<AtomicUsize>,
}

impl Connector for Turns {
    fn connect(&self, authority: &str) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        let (connecting, turns) = (TcpConnector.connect(authority), self.clone());
        turns.connections.fetch_add(1, Ordering::SeqCst);
        Box::pin(
            async move { Ok(Box::new(Counted { inner: connecting.await?, turns }) as Box<dyn Io>) },
        )
    }
}

struct Counted {
    inner: Box<dyn Io>,
    turns: Turns,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.turns.has_heard.store(true, Ordering::SeqCst);
        }
        read
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, bytes);
        if let Poll::Ready(Ok(1..)) = written
            && self.turns.has_heard.swap(false, Ordering::SeqCst)
        {
            self.turns.count.fetch_add(1, Ordering::SeqCst);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// Turns of a run that counts to `to`, a step each, on a database of its own.
async fn turns(url: &str, to: u64, prepared_statements: bool, options: Options) -> usize {
    let turns = Turns::default();
    let doors = Doors { connector: Arc::new(turns.clone()), ..Doors::production() };
    let saver_options =
        PostgresOptions { max_connections: 1, prepared_statements, ..PostgresOptions::default() };
    let saver = PostgresSaver::open_with(url, &doors, saver_options).await.expect("it opens");
    let graph = StateGraph::new("counting")
        .key("n")
        .node("count", |state: State, _| async move {
            let n: u64 = state.get_or("n", 0)?;
            Ok::<_, NodeError>(Update::new().set_value("n", Value::from(n + 1)))
        })
        .edge(START, "count")
        .branch("count", &["count", END], move |state| {
            Ok(vec![if state.get::<u64>("n")? < to { "count" } else { END }])
        })
        .compile(Some(saver), &doors, options)
        .expect("a graph");
    let (count, connections) = (turns.count, turns.connections);
    let before = (count.load(Ordering::SeqCst), connections.load(Ordering::SeqCst));
    let config = RunConfig::new("t").durability(Durability::Sync);
    graph.invoke(Input::New(value::map([("n", 0.into())])), config).await.expect("an end");
    assert_eq!(connections.load(Ordering::SeqCst) - before.1, 1, "all over one connection");
    count.load(Ordering::SeqCst) - before.0
}

/// What 20 steps more cost.
async fn of_twenty_steps(label: &str, prepared_statements: bool, options: Options) -> usize {
    let server = Server::get().expect("it was there before");
    let mut counted = vec![];
    for to in [20, 40] {
        let url = server.database(&format!("{label}_{to}"));
        counted.push(turns(&url, to, prepared_statements, options).await);
    }
    counted[1] - counted[0]
}

#[test]
fn a_step_at_sync_is_one_round_trip() {
    let Some(_server) = Server::get() else { return };
    block_on(async {
        let safe = Profile::Safe.options();
        assert_eq!(of_twenty_steps("trips", false, safe).await, 20);
        assert_eq!(of_twenty_steps("trips_prepared", true, safe).await, 20);
    });
}

/// A checkpoint that must find its parent at the head goes by itself, behind its step's writes.
#[test]
fn a_step_that_refuses_forks_is_two() {
    let Some(_server) = Server::get() else { return };
    block_on(async {
        let options = Options { forks: Forks::Refused, ..Profile::Safe.options() };
        assert_eq!(of_twenty_steps("trips_head", false, options).await, 40);
        assert_eq!(of_twenty_steps("trips_head_prepared", true, options).await, 40);
    });
}
