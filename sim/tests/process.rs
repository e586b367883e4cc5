//! Processes live, die and come back; what is inside them stays inside.
#![cfg(madsim)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use durasim_sim::{Cancelled, Labels, Process, RunOptions, World, run};

fn idle(world: &World, name: &str) -> Process {
    world.process(name, name, |_| Box::pin(async {}))
}

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_panic_crashes_its_process_and_no_other() {
    let finished = run(1, RunOptions::default(), |world| {
        Box::pin(async move {
            let (a, b) = (idle(&world, "a"), idle(&world, "b"));
            let other = a.spawn("other", std::future::pending::<()>());
            let clock = world.clone();
            let failing = a.spawn("failing", async move {
                clock.sleep(MS).await;
                panic!("out of luck")
            });
            let clock = world.clone();
            let well = b.spawn("well", async move {
                clock.sleep(5 * MS).await;
                7
            });
            let failed: Result<(), _> = failing.await;
            let ended = (failed, other.await, well.await, a.is_alive(), b.is_alive());
            a.restart();
            (ended, a.is_alive(), a.incarnation())
        })
    });
    let ended = (Err(Cancelled), Err(Cancelled), Ok(7), false, true);
    assert_eq!(finished.value, Ok((ended, true, 2)));
    let crash = finished.trace.iter().find(|e| e.name == "process.panicked").unwrap();
    assert_eq!(&*crash.process, "a");
    assert_eq!(crash.get("actor").unwrap().as_str(), Some("failing"));
    assert!(crash.get("message").unwrap().as_str().unwrap().starts_with("out of luck, at "));
}

#[test]
fn a_panicking_destructor_crashes_its_process_too() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("boom");
        }
    }
    let finished = run(1, RunOptions::default(), |world| {
        Box::pin(async move {
            let (a, b) = (idle(&world, "a"), idle(&world, "b"));
            for process in [&a, &b] {
                let bomb = Bomb;
                process.spawn("holder", async move {
                    let _bomb = bomb;
                    std::future::pending::<()>().await
                });
            }
            let bomb = Bomb;
            let aborted = a.spawn("aborted", async move {
                let _bomb = bomb;
                std::future::pending::<()>().await
            });
            world.sleep(MS).await;
            aborted.abort();
            b.kill();
            world.sleep(MS).await;
            (a.is_alive(), b.is_alive())
        })
    });
    assert_eq!(finished.value, Ok((false, false)));
    let crashes = finished.trace.iter().filter(|e| e.name == "process.panicked");
    assert_eq!(crashes.map(|e| &*e.process).collect::<Vec<_>>(), ["a"]);
    assert_eq!(finished.leaked_tasks, 0);
}

#[test]
fn handles_given_to_init_are_bound_to_their_incarnation() {
    let finished = run(1, RunOptions::default(), |world| {
        Box::pin(async move {
            let (keep, kept) = std::sync::mpsc::channel();
            let keep = std::sync::Mutex::new(keep);
            let server = world.process("server", "box", move |me| {
                keep.lock().unwrap().send(me).unwrap();
                Box::pin(async {})
            });
            world.sleep(MS).await;
            server.restart();
            world.sleep(MS).await;
            let (first, second): (Process, Process) = (kept.recv().unwrap(), kept.recv().unwrap());
            first.note(Labels::none(), "test.first", vec![]);
            second.note(Labels::none(), "test.second", vec![]);
            let never = first.spawn("late", async {}).await;
            first.kill();
            (first.is_alive(), second.is_alive(), server.incarnation(), never)
        })
    });
    assert_eq!(finished.value, Ok((false, true, 2, Err(Cancelled))));
    let names: Vec<_> = finished.trace.iter().map(|e| e.name).collect();
    assert_eq!(names, ["process.started", "process.killed", "process.started", "test.second"]);
}

#[test]
fn a_paused_process_goes_on_where_it_stopped() {
    let finished = run(1, RunOptions::default(), |world| {
        Box::pin(async move {
            let server = idle(&world, "server");
            let (ticks, clock) = (Arc::new(AtomicU32::new(0)), world.clone());
            let counter = ticks.clone();
            server.spawn("ticker", async move {
                loop {
                    clock.sleep(MS).await;
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            });
            world.sleep(10 * MS + MS / 2).await;
            let before = ticks.load(Ordering::Relaxed);
            server.pause();
            world.sleep(100 * MS).await;
            let during = ticks.load(Ordering::Relaxed);
            server.resume();
            world.sleep(10 * MS).await;
            let after = ticks.load(Ordering::Relaxed);
            server.pause();
            server.kill();
            world.sleep(MS).await;
            (before, during, after, server.is_alive())
        })
    });
    assert_eq!(finished.value, Ok((10, 10, 20, false)));
    assert_eq!(finished.leaked_tasks, 0);
}

#[test]
fn a_blocking_operation_outlives_its_caller_but_not_its_process() {
    let finished = run(1, RunOptions::default(), |world| {
        Box::pin(async move {
            let server = idle(&world, "server");
            let done = Arc::new(AtomicU32::new(0));
            let count = |done: &Arc<AtomicU32>| {
                let done = done.clone();
                move || done.fetch_add(1, Ordering::Relaxed)
            };
            drop(server.blocking("put", 3 * MS, count(&done)));
            world.sleep(5 * MS).await;
            let outlived = done.load(Ordering::Relaxed);
            let answered = server.blocking("put", Duration::ZERO, count(&done)).await;
            let killed = server.blocking("put", 3 * MS, count(&done));
            world.sleep(MS).await;
            server.kill();
            (outlived, answered, killed.await, done.load(Ordering::Relaxed))
        })
    });
    assert_eq!(finished.value, Ok((1, Ok(1), Err(Cancelled), 2)));
}

#[test]
fn the_running_process_is_known() {
    let finished = run(1, RunOptions::default(), |world| {
        Box::pin(async move {
            let server = idle(&world, "server");
            let name = || Process::current().unwrap().name().to_owned();
            let direct = server.spawn("a", async move { name() }).await.unwrap();
            let nested =
                server.spawn("b", async move { tokio::spawn(async move { name() }).await });
            (name(), direct, nested.await.unwrap().unwrap(), World::current().seed())
        })
    });
    assert_eq!(finished.value, Ok(("world".into(), "server".into(), "server".into(), 1)));
}
