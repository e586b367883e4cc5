//! The thinnest path through everything: a server, a client, an echo.
#![cfg(madsim)]

use std::time::Duration;

use durasim_sim::{BoxFuture, Process, RunOptions, World, run};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn echo_server(me: Process) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let listener = me.listen(80).unwrap();
        loop {
            let mut stream = listener.accept().await.unwrap();
            me.spawn("connection", async move {
                let mut buf = [0; 64];
                while let Ok(n @ 1..) = stream.read(&mut buf).await {
                    stream.write_all(&buf[..n]).await.unwrap();
                }
            });
        }
    })
}

async fn scenario(world: World) -> Vec<u8> {
    world.process("server", "server", echo_server);
    let client = world.process("client", "client", |_| Box::pin(async {}));
    let connecting = client.connect("server", 80);
    let task = client.spawn("main", async move {
        let mut stream = connecting.await.unwrap();
        stream.write_all(b"hello").await.unwrap();
        let mut buf = vec![0; 5];
        stream.read_exact(&mut buf).await.unwrap();
        buf
    });
    task.await.unwrap()
}

#[test]
fn an_echo_comes_back_after_two_round_trips() {
    let finished = run(1, RunOptions::default(), |world| Box::pin(scenario(world)));
    assert_eq!(finished.value.as_deref(), Ok(&b"hello"[..]));
    let ms = finished.virtual_time.as_micros();
    assert!((4000..4100).contains(&ms), "{:?}", finished.virtual_time);
    assert_eq!(finished.leaked_tasks, 0);
    let names: Vec<_> = finished.trace.iter().map(|e| e.name).collect();
    assert_eq!(names, ["process.started", "process.started", "net.connected", "net.fin"]);
}

#[test]
fn a_panic_in_the_driver_is_a_result() {
    let finished = run(1, RunOptions::default(), |_| Box::pin(async { panic!("no luck") }));
    let crash = finished.value.map(|(): ()| ()).unwrap_err();
    assert!(crash.to_string().contains("no luck, at sim/tests/smoke.rs"), "{crash}");
}

#[test]
fn a_deadlock_ends_at_the_time_limit() {
    let options = RunOptions { time_limit: Duration::from_secs(5), ..RunOptions::default() };
    let finished = run(1, options, |_| Box::pin(std::future::pending::<()>()));
    assert_eq!(finished.value.unwrap_err(), durasim_sim::Crash::TimeLimit(Duration::from_secs(5)));
    assert_eq!(finished.leaked_tasks, 0);
}

#[test]
fn a_livelock_ends_at_the_poll_limit() {
    let options = RunOptions { poll_limit: 1000, ..RunOptions::default() };
    let finished = run(1, options, |_| {
        Box::pin(async {
            loop {
                tokio::task::yield_now().await;
            }
        })
    });
    let ended: Result<(), _> = finished.value;
    assert_eq!(ended.unwrap_err(), durasim_sim::Crash::PollLimit(1000));
}

#[test]
fn a_panic_in_a_task_spawned_past_the_world_ends_the_run_and_leaks_nothing() {
    let finished = run(1, RunOptions::default(), |world| {
        Box::pin(async move {
            world.process("server", "server", |_| {
                Box::pin(async {
                    tokio::spawn(async { panic!("unseen") });
                    std::future::pending::<()>().await
                })
            });
            std::future::pending::<()>().await
        })
    });
    let crash = finished.value.unwrap_err();
    assert!(crash.to_string().contains("unseen, at "), "{crash}");
    assert_eq!(finished.leaked_tasks, 0);
}
