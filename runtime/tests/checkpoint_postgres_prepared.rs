//! Prepared statements are an option that changes what a step costs the server, and nothing else.
#![cfg(not(madsim))]

mod checkpoint_support;
mod postgres_support;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use checkpoint_support::{block_on, checkpoint, id, key, metadata, shared};
use durasim_runtime::Doors;
use durasim_runtime::checkpoint::Source;
use durasim_runtime::checkpoint::postgres::{PostgresOptions, PostgresSaver};
use durasim_runtime::checkpoint::saver::{Put, PutWrites, Saver};
use durasim_runtime::doors::{Connector, Io, TcpConnector};
use futures::future::BoxFuture;
use postgres_support::{Server, connect, rows};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How often the server was given a statement to read: the Parse messages that went to it.
#[derive(Clone, Default)]
struct Parses(Arc<AtomicUsize>);

impl Parses {
    fn so_far(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// Connections that are listened in on.
struct Tapped(Parses);

impl Connector for Tapped {
    fn connect(&self, authority: &str) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        let (connecting, parses) = (TcpConnector.connect(authority), self.0.clone());
        Box::pin(async move {
            let tap = Tap { inner: connecting.await?, sent: vec![], parses };
            Ok(Box::new(tap) as Box<dyn Io>)
        })
    }
}

struct Tap {
    inner: Box<dyn Io>,
    /// What is not a whole message yet.
    sent: Vec<u8>,
    parses: Parses,
}

impl Tap {
    /// A message is a letter, but for those that open a connection, and a length, which counts itself
    /// (<https://www.postgresql.org/docs/current/protocol-message-formats.html>).
    fn hear(&mut self, bytes: &[u8]) {
        self.sent.extend(bytes);
        loop {
            let letter = usize::from(self.sent.first().is_some_and(|first| *first != 0));
            let Some(length) = self.sent.get(letter..letter + 4) else { return };
            let length = u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
            if self.sent.len() < letter + length {
                return;
            }
            let parses = usize::from(self.sent[0] == b'P');
            self.parses.0.fetch_add(parses, Ordering::SeqCst);
            self.sent.drain(..letter + length);
        }
    }
}

impl AsyncRead for Tap {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Tap {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, bytes);
        if let Poll::Ready(Ok(count)) = &written {
            self.hear(&bytes[..*count]);
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

async fn open(url: &str, prepared_statements: bool) -> (Arc<PostgresSaver>, Parses) {
    let parses = Parses::default();
    let mut doors = Doors::production();
    doors.connector = Arc::new(Tapped(parses.clone()));
    let options =
        PostgresOptions { max_connections: 1, prepared_statements, ..PostgresOptions::default() };
    let saver = PostgresSaver::open_with(url, &doors, options).await.expect("the database opens");
    (saver, parses)
}

/// A checkpoint, and what stands beside it.
async fn step(saver: &PostgresSaver, n: u32) {
    let parent = n.checked_sub(1).map(id);
    let put =
        Put::new(&key("t", ""), parent.as_deref(), checkpoint(n), metadata(Source::Loop, n.into()));
    saver.put(put).await.expect("a checkpoint");
    let writes = vec![("a".into(), shared(n)), ("b".into(), shared("same"))];
    let writes = PutWrites::new(&key("t", ""), &id(n), "task", "path", writes);
    saver.put_writes(writes).await.expect("rows");
}

/// What is in the tables, but for the moments at which it came there.
async fn stored(url: &str) -> Vec<String> {
    let client = connect(url).await;
    let mut all = Vec::new();
    for table in ["checkpoints", "checkpoint_blobs", "checkpoint_writes"] {
        all.extend(rows(&client, &format!("SELECT t::text FROM {table} t ORDER BY t")).await);
    }
    all
}

#[test]
fn what_is_prepared_is_read_no_more_and_stores_the_same() {
    let Some(server) = Server::get() else { return };
    block_on(async {
        let mut left = Vec::new();
        for prepared in [false, true] {
            let url = server.database(&format!("prepared_{prepared}"));
            let (saver, parses) = open(&url, prepared).await;
            step(&saver, 0).await;
            step(&saver, 1).await;
            let before = parses.so_far();
            for n in 2..7 {
                step(&saver, n).await;
            }
            let expected = if prepared { 0 } else { 2 * 5 };
            assert_eq!(parses.so_far() - before, expected, "prepared: {prepared}");
            left.push(stored(&url).await);
        }
        assert!(left[0].len() > 3 * 7, "{left:?}");
        assert_eq!(left[0], left[1]);
    });
}

/// Prepared is what comes a second time, and what stores rows: reads are planned each time.
#[test]
fn what_comes_once_is_not_prepared() {
    let Some(server) = Server::get() else { return };
    block_on(async {
        let (saver, parses) = open(&server.database("prepared_once"), true).await;
        let before = parses.so_far();
        step(&saver, 0).await;
        assert_eq!(parses.so_far() - before, 2, "both unnamed");
        for reads in 1..5 {
            saver.get_tuple(&key("t", ""), None).await.unwrap();
            assert_eq!(parses.so_far() - before, 2 + reads);
        }
        step(&saver, 1).await;
        assert_eq!(parses.so_far() - before, 2 + 4 + 2, "both for keeps");
        step(&saver, 2).await;
        assert_eq!(parses.so_far() - before, 2 + 4 + 2);
    });
}

/// A reader does not wait for what a writer would have prepared.
#[test]
fn a_read_has_nothing_to_do_with_it() {
    let Some(server) = Server::get() else { return };
    block_on(async {
        let url = server.database("prepared_locked");
        let (saver, _) = open(&url, true).await;
        step(&saver, 0).await;
        let client = connect(&url).await;
        client.batch_execute("BEGIN; LOCK TABLE checkpoints IN SHARE MODE").await.unwrap();
        let read = saver.get_tuple(&key("t", ""), None);
        let read = tokio::time::timeout(Duration::from_secs(10), read).await.expect("no waiting");
        assert!(read.unwrap().is_some());
        client.batch_execute("COMMIT").await.unwrap();
        step(&saver, 1).await;
    });
}

/// Somebody tells the session to forget its statements: nothing is lost, and it prepares them again.
#[test]
fn a_session_may_lose_its_statements() {
    let Some(server) = Server::get() else { return };
    block_on(async {
        let url = server.database("prepared_lost");
        let (saver, parses) = open(&url, true).await;
        for n in 0..3 {
            step(&saver, n).await;
        }
        let client = connect(&url).await;
        let forget = "CREATE FUNCTION forget() RETURNS trigger LANGUAGE plpgsql
             AS $$ BEGIN DEALLOCATE ALL; RETURN NEW; END $$;
             CREATE TRIGGER forget AFTER INSERT ON checkpoints
             FOR EACH STATEMENT EXECUTE FUNCTION forget()";
        client.batch_execute(forget).await.unwrap();
        step(&saver, 3).await;
        client.batch_execute("DROP TRIGGER forget ON checkpoints").await.unwrap();
        for n in 4..7 {
            step(&saver, n).await;
        }
        let before = parses.so_far();
        step(&saver, 7).await;
        assert_eq!(parses.so_far(), before, "all are there again");
        assert_eq!(rows(&client, "SELECT count(*) FROM checkpoints").await, ["8"]);
        assert_eq!(rows(&client, "SELECT count(*) FROM checkpoint_writes").await, ["16"]);
    });
}

#[test]
fn a_session_that_ended_takes_its_statements_along() {
    let Some(server) = Server::get() else { return };
    block_on(async {
        let url = server.database("prepared_ended");
        let (saver, parses) = open(&url, true).await;
        for n in 0..3 {
            step(&saver, n).await;
        }
        let client = connect(&url).await;
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE datname = current_database() AND pid <> pg_backend_pid()";
        assert_eq!(rows(&client, end).await, ["t"]);
        let before = parses.so_far();
        for n in 3..6 {
            step(&saver, n).await;
        }
        assert_eq!(parses.so_far() - before, 4, "each once unnamed and once for keeps");
        let count = "SELECT count(*) FROM checkpoints";
        assert_eq!(rows(&client, count).await, ["6"]);
    });
}

/// The tables may be made anew under a session that has prepared what goes into them.
#[test]
fn a_table_may_go_and_come_back() {
    let Some(server) = Server::get() else { return };
    block_on(async {
        let url = server.database("prepared_tables");
        let (saver, _) = open(&url, true).await;
        for n in 0..3 {
            step(&saver, n).await;
        }
        let client = connect(&url).await;
        client.batch_execute("ALTER TABLE checkpoint_writes RENAME TO gone").await.unwrap();
        let writes = vec![("a".into(), shared(3)), ("b".into(), shared("same"))];
        let writes = PutWrites::new(&key("t", ""), &id(3), "task", "path", writes);
        let refused = saver.put_writes(writes.clone()).await.unwrap_err().to_string();
        assert!(refused.contains("42P01"), "{refused}");
        client.batch_execute("ALTER TABLE gone RENAME TO checkpoint_writes").await.unwrap();
        saver.put_writes(writes).await.unwrap();
        assert_eq!(rows(&client, "SELECT count(*) FROM checkpoint_writes").await, ["8"]);
    });
}
