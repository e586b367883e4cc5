//! SQLite on the simulated disk: what kills and power cuts leave, who sees whose writes.
#![cfg(madsim)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use durasim_sim::{Process, RunOptions, World, run};
use rusqlite::{Connection, ErrorCode};

fn idle(world: &World, name: &str, host: &str) -> Process {
    world.process(name, host, |_| Box::pin(async {}))
}

fn wal(db: &Connection, synchronous: &str) {
    let mode: String = db.query_row("pragma journal_mode=wal", [], |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
    db.pragma_update(None, "synchronous", synchronous).unwrap();
}

fn count(db: &Connection) -> i64 {
    db.query_row("select count(*) from t", [], |row| row.get(0)).unwrap()
}

fn julian_now(db: &Connection) -> f64 {
    db.query_row("select julianday('now')", [], |row| row.get(0)).unwrap()
}

fn integrity(db: &Connection) -> String {
    db.query_row("pragma integrity_check", [], |row| row.get(0)).unwrap()
}

/// Commits a row a millisecond, some of them large, until killed; counts what was acknowledged.
fn writer(server: &Process, mode: &'static str, sync: &'static str) -> Arc<Mutex<i64>> {
    let acknowledged = Arc::new(Mutex::new(0));
    let (counter, me, world) = (acknowledged.clone(), server.clone(), server.world().clone());
    server.spawn("writer", async move {
        let db = me.open_sqlite("app.sqlite").unwrap();
        db.query_row(&format!("pragma journal_mode={mode}"), [], |_| Ok(())).unwrap();
        db.pragma_update(None, "synchronous", sync).unwrap();
        db.pragma_update(None, "wal_autocheckpoint", 20).unwrap();
        db.execute_batch("create table if not exists t (id integer primary key, x blob)").unwrap();
        for i in 0u64.. {
            let size = if i.is_multiple_of(5) { 9000 } else { 50 };
            db.execute("insert into t (x) values (zeroblob(?))", [size]).unwrap();
            *counter.lock().unwrap() += 1;
            world.sleep(Duration::from_millis(1)).await;
        }
    });
    acknowledged
}

#[test]
fn a_kill_keeps_what_the_os_had() {
    for (seed, sync) in [(1, "normal"), (2, "full"), (3, "off")] {
        let finished = run(seed, RunOptions::default(), move |world| {
            Box::pin(async move {
                let server = idle(&world, "server", "box");
                let acknowledged = writer(&server, "wal", sync);
                world.sleep(Duration::from_millis(50)).await;
                server.kill();
                world.sleep(Duration::from_millis(5)).await;
                server.restart();
                let db = server.open_sqlite("app.sqlite").unwrap();
                assert_eq!(integrity(&db), "ok");
                let acknowledged = *acknowledged.lock().unwrap();
                (acknowledged, count(&db))
            })
        });
        let (acknowledged, stored) = finished.value.unwrap();
        assert!(acknowledged >= 45);
        assert_eq!(acknowledged, stored, "{sync}");
    }
}

fn power_cut(seed: u64, mode: &'static str, sync: &'static str) -> (i64, i64) {
    let finished = run(seed, RunOptions::default(), move |world| {
        Box::pin(async move {
            let server = idle(&world, "server", "box");
            let acknowledged = writer(&server, mode, sync);
            let when = world.chance().stream("test.cut", "").between(1, 40);
            world.sleep(Duration::from_millis(when)).await;
            server.power_cut();
            world.sleep(Duration::from_millis(5)).await;
            server.restart();
            let db = server.open_sqlite("app.sqlite").unwrap();
            assert_eq!(integrity(&db), "ok");
            let there = "select count(*) from sqlite_master where name = 't'";
            let there: i64 = db.query_row(there, [], |row| row.get(0)).unwrap();
            let stored = if there == 1 { count(&db) } else { 0 };
            let acknowledged = *acknowledged.lock().unwrap();
            (acknowledged, stored)
        })
    });
    finished.value.unwrap()
}

#[test]
fn a_power_cut_with_full_keeps_every_committed_row() {
    for seed in 0..200 {
        let (acknowledged, stored) = power_cut(seed, "wal", "full");
        assert_eq!(acknowledged, stored, "seed {seed}");
    }
}

#[test]
fn a_power_cut_with_normal_may_lose_rows_and_never_integrity() {
    let (mut lost, mut all) = (0, 0);
    for seed in 0..200 {
        let (acknowledged, stored) = power_cut(seed, "wal", "normal");
        assert!(stored <= acknowledged, "seed {seed}");
        lost += i64::from(stored < acknowledged);
        all += i64::from(stored == acknowledged);
    }
    assert!(lost > 50 && all > 5, "lost some in {lost}, none in {all}");
}

#[test]
fn a_rollback_journal_keeps_all_but_the_last_commit() {
    // Deleting the journal is what commits, and FULL does not sync the deletion (EXTRA does).
    for (sync, may_lose) in [("full", 1), ("extra", 0)] {
        let mut undone = 0;
        for seed in 0..100 {
            let (acknowledged, stored) = power_cut(seed, "delete", sync);
            assert!(stored + may_lose >= acknowledged, "seed {seed}: {acknowledged} {stored}");
            undone += acknowledged - stored;
        }
        assert_eq!(undone > 0, may_lose > 0, "{sync}: {undone}");
    }
}

#[test]
fn destructors_of_a_killed_process_reach_nothing() {
    struct Guard(Connection, Process);
    impl Drop for Guard {
        fn drop(&mut self) {
            // Inside the open transaction, and as one of its own.
            let _ = self.0.execute("insert into t values (99)", []);
            let _ = self.0.execute_batch("commit");
            let _ = self.0.execute("insert into t values (100)", []);
            assert!(self.1.open_sqlite("other.sqlite").is_err());
            self.1.note(Default::default(), "test.destructor", vec![]);
            assert!(self.1.listen(9).is_err());
            self.1.spawn("late", async { panic!("ran in a dead process") });
        }
    }
    let finished = run(1, RunOptions::default(), |world| {
        Box::pin(async move {
            let server = idle(&world, "server", "box");
            let me = server.clone();
            server.spawn("writer", async move {
                let db = me.open_sqlite("app.sqlite").unwrap();
                wal(&db, "normal");
                db.execute_batch("create table t (x); insert into t values (1)").unwrap();
                db.execute_batch("begin immediate; insert into t values (2)").unwrap();
                let _guard = Guard(db, me.clone());
                std::future::pending::<()>().await;
            });
            world.sleep(Duration::from_millis(5)).await;
            let writes = server.disk().write_count();
            server.kill();
            world.sleep(Duration::from_millis(5)).await;
            assert_eq!(server.disk().write_count(), writes);
            assert!(server.disk().files().contains(&"app.sqlite-wal".to_owned()));
            let db = world.inspect_sqlite("box", "app.sqlite").unwrap();
            let rows = count(&db);
            // The lock died with the process.
            server.restart();
            let db = server.open_sqlite("app.sqlite").unwrap();
            db.execute("insert into t values (3)", []).unwrap();
            (rows, count(&db))
        })
    });
    assert_eq!(finished.value, Ok((1, 2)));
    assert!(!finished.trace.iter().any(|e| e.name == "test.destructor"));
    assert_eq!(finished.leaked_tasks, 0);
}

#[test]
fn two_processes_share_a_database() {
    let finished = run(1, RunOptions::default(), |world| {
        Box::pin(async move {
            let (a, b) = (idle(&world, "a", "box"), idle(&world, "b", "box"));
            let db_a = a.open_sqlite("app.sqlite").unwrap();
            wal(&db_a, "normal");
            db_a.execute_batch("create table t (x)").unwrap();
            let db_b = b.open_sqlite("app.sqlite").unwrap();
            for i in 0..50 {
                let db = if i % 2 == 0 { &db_a } else { &db_b };
                db.execute("insert into t values (?)", [i]).unwrap();
                assert_eq!((count(&db_a), count(&db_b)), (i + 1, i + 1));
            }
            // One dies in the middle of a transaction; the other goes on.
            db_a.execute_batch("begin immediate; insert into t values (0)").unwrap();
            a.kill();
            db_b.execute("insert into t values (51)", []).unwrap();
            drop(db_a);
            world.sleep(Duration::from_millis(1)).await;
            assert_eq!(integrity(&db_b), "ok");
            drop(db_b);
            // The last to close has folded the WAL into the database.
            (world.disk("box").files(), count(&world.inspect_sqlite("box", "app.sqlite").unwrap()))
        })
    });
    assert_eq!(finished.value, Ok((vec!["app.sqlite".to_owned()], 51)));
}

#[test]
fn the_second_writer_is_told_busy_while_a_transaction_spans_an_await() {
    let finished = run(1, RunOptions::default(), |world| {
        Box::pin(async move {
            let (a, b) = (idle(&world, "a", "box"), idle(&world, "b", "box"));
            let (me, clock) = (a.clone(), world.clone());
            a.spawn("holder", async move {
                let db = me.open_sqlite("app.sqlite").unwrap();
                wal(&db, "normal");
                db.execute_batch("create table t (x); begin immediate").unwrap();
                clock.sleep(Duration::from_millis(10)).await;
                db.execute_batch("commit").unwrap();
                std::future::pending::<()>().await;
            });
            world.sleep(Duration::from_millis(2)).await;
            let db = b.open_sqlite("app.sqlite").unwrap();
            let insert = "insert into t values (1)";
            let busy = db.execute(insert, []).unwrap_err().sqlite_error_code();
            world.sleep(Duration::from_millis(20)).await;
            (busy, db.execute(insert, []).is_ok())
        })
    });
    assert_eq!(finished.value, Ok((Some(ErrorCode::DatabaseBusy), true)));
}

#[test]
fn sql_time_is_virtual_and_plain_paths_mean_the_running_process() {
    let finished = run(1, RunOptions::default(), |world| {
        Box::pin(async move {
            let server = idle(&world, "server", "box");
            let clock = world.clone();
            let task = server.spawn("main", async move {
                let db = Connection::open("data/plain.sqlite").unwrap();
                db.execute_batch("create table t (x)").unwrap();
                let before = julian_now(&db);
                clock.sleep(Duration::from_secs(300)).await;
                (julian_now(&db) - before, clock.disk("box").files())
            });
            task.await.unwrap()
        })
    });
    let (days, files) = finished.value.unwrap();
    assert!((days - 300.0 / 86_400.0).abs() < 1e-6, "{days}");
    assert_eq!(files, ["data/plain.sqlite"]);
}
