//! What the network shows to its users when things go wrong.
#![cfg(madsim)]

use std::io::ErrorKind;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use durasim_sim::{LinkSpec, Process, RunOptions, SimStream, World, run};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const MS: Duration = Duration::from_millis(1);

fn idle(world: &World, name: &str) -> Process {
    world.process(name, name, |_| Box::pin(async {}))
}

/// A client and a server with one connection between them.
struct Pair {
    client: Process,
    server: Process,
}

impl Pair {
    /// The client's and the server's end of a fresh connection.
    async fn connect(world: &World) -> (Pair, SimStream, SimStream) {
        let pair = Pair { client: idle(world, "client"), server: idle(world, "server") };
        let listener = pair.server.listen(80).unwrap();
        let accepting = pair.server.spawn("accept", async move { listener.accept().await });
        let near = pair.client.connect("server", 80).await.unwrap();
        let far = accepting.await.unwrap().unwrap();
        (pair, near, far)
    }
}

/// Reads until something other than data comes, and says what and when.
fn watch(owner: &Process, mut stream: SimStream) -> Arc<Mutex<Option<(Duration, String)>>> {
    let seen = Arc::new(Mutex::new(None));
    let (told, world) = (seen.clone(), owner.world().clone());
    owner.spawn("watch", async move {
        let mut buf = [0; 1024];
        let what = loop {
            match stream.read(&mut buf).await {
                Ok(0) => break "eof".to_owned(),
                Ok(_) => continue,
                Err(error) => break format!("{:?}", error.kind()),
            }
        };
        *told.lock().unwrap() = Some((world.now(), what));
    });
    seen
}

fn simulate<F>(f: impl FnOnce(World) -> F + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    let finished = run(1, RunOptions::default(), |world| Box::pin(f(world)));
    if let Err(crash) = finished.value {
        finished.trace.iter().for_each(|event| println!("{event}"));
        panic!("{crash}");
    }
    assert_eq!(finished.leaked_tasks, 0);
}

fn about(at: Duration, expected: Duration) -> bool {
    at >= expected && at < expected + Duration::from_micros(20)
}

#[test]
fn a_fin_takes_the_latency_of_its_link() {
    simulate(|world| async move {
        let (pair, near, far) = Pair::connect(&world).await;
        let seen = watch(&pair.server, far);
        world.sleep(MS).await;
        world.net().set_link("client", "server", LinkSpec::fixed(7 * MS));
        let sent = world.now();
        drop(near);
        world.sleep(20 * MS).await;
        let (at, what) = seen.lock().unwrap().clone().unwrap();
        assert_eq!(what, "eof");
        assert!(about(at - sent, 7 * MS), "{:?}", at - sent);
    });
}

#[test]
fn a_partition_holds_data_and_fin_until_healed() {
    simulate(|world| async move {
        let (pair, mut near, mut far) = Pair::connect(&world).await;
        // On the wire when it is cut: sent again later.
        near.write_all(b"one").await.unwrap();
        world.net().partition("client", "server");
        near.write_all(b"two").await.unwrap();
        drop(near);
        let got = pair.server.spawn("read", async move {
            let mut all = Vec::new();
            far.read_to_end(&mut all).await.unwrap();
            all
        });
        world.sleep(Duration::from_secs(30)).await;
        assert!(!got.is_finished());
        let healed = world.now();
        world.net().heal("client", "server");
        assert_eq!(got.await.unwrap(), b"onetwo");
        assert!(about(world.now() - healed, MS));
    });
}

#[test]
fn a_one_way_partition_lets_the_other_way_through() {
    simulate(|world| async move {
        let (_pair, mut near, mut far) = Pair::connect(&world).await;
        world.net().partition_one_way("client", "server");
        near.write_all(b"lost").await.unwrap();
        far.write_all(b"here").await.unwrap();
        let mut buf = [0; 4];
        near.read_exact(&mut buf).await.unwrap();
        assert_eq!(&buf, b"here");
        world.net().heal("server", "client");
        far.read_exact(&mut buf).await.unwrap();
        assert_eq!(&buf, b"lost");
    });
}

#[test]
fn silence_leaves_the_peer_half_open() {
    simulate(|world| async move {
        let (pair, mut near, far) = Pair::connect(&world).await;
        world.net().silence("server");
        let seen = watch(&pair.server, far);
        near.write_all(b"anyone?").await.unwrap();
        let seen_near = watch(&pair.client, near);
        world.sleep(Duration::from_secs(60)).await;
        assert!(seen.lock().unwrap().is_none() && seen_near.lock().unwrap().is_none());
        // Nobody can connect either; Linux gives up after 127 s.
        let failed = pair.client.connect("server", 80).await.unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::TimedOut);
        world.net().unsilence("server");
        pair.server.kill();
        world.sleep(2 * MS).await;
        assert_eq!(seen_near.lock().unwrap().clone().unwrap().1, "eof");
    });
}

#[test]
fn the_peer_of_a_killed_process_sees_eof_or_reset_after_the_latency() {
    simulate(|world| async move {
        let (pair, near, _far) = Pair::connect(&world).await;
        let seen = watch(&pair.client, near);
        let killed = world.now();
        pair.server.kill();
        world.sleep(5 * MS).await;
        let (at, what) = seen.lock().unwrap().clone().unwrap();
        assert!(about(at - killed, MS) && what == "eof", "{at:?} {what}");
        let refused = pair.client.connect("server", 80).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    });
    simulate(|world| async move {
        let (pair, mut near, _far) = Pair::connect(&world).await;
        near.write_all(b"never read").await.unwrap();
        let seen = watch(&pair.client, near);
        world.sleep(3 * MS).await;
        pair.server.kill();
        world.sleep(5 * MS).await;
        assert_eq!(seen.lock().unwrap().clone().unwrap().1, "ConnectionReset");
    });
}

#[test]
fn writing_to_a_closed_peer_is_answered_with_a_reset() {
    simulate(|world| async move {
        let (_pair, mut near, far) = Pair::connect(&world).await;
        drop(far);
        near.write_all(b"first").await.unwrap();
        world.sleep(MS).await;
        // The answer needs a round trip.
        near.write_all(b"second").await.unwrap();
        world.sleep(2 * MS).await;
        let reset = near.write_all(b"third").await.unwrap_err();
        assert_eq!(reset.kind(), ErrorKind::ConnectionReset);
        let broken = near.write_all(b"fourth").await.unwrap_err();
        assert_eq!(broken.kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn a_power_cut_is_silent_until_the_host_is_back() {
    simulate(|world| async move {
        let (pair, mut near, _far) = Pair::connect(&world).await;
        pair.server.power_cut();
        near.write_all(b"hello?").await.unwrap();
        let seen = watch(&pair.client, near);
        world.sleep(Duration::from_secs(10)).await;
        assert!(seen.lock().unwrap().is_none());
        let back = world.now();
        pair.server.restart();
        world.sleep(5 * MS).await;
        // What was never acknowledged is sent again, and the new kernel knows nothing of it.
        let (at, what) = seen.lock().unwrap().clone().unwrap();
        assert!(about(at - back, 2 * MS) && what == "ConnectionReset", "{:?} {what}", at - back);
    });
}

#[test]
fn a_full_window_holds_the_writer_until_the_reader_reads() {
    simulate(|world| async move {
        let (pair, mut near, mut far) = Pair::connect(&world).await;
        let sent = Arc::new(Mutex::new(0));
        let counter = sent.clone();
        pair.client.spawn("write", async move {
            loop {
                near.write_all(&[7; 1000]).await.unwrap();
                *counter.lock().unwrap() += 1000;
            }
        });
        world.sleep(50 * MS).await;
        assert_eq!(*sent.lock().unwrap(), 65_000);
        let mut buf = vec![0; 10_000];
        far.read_exact(&mut buf).await.unwrap();
        // The news of it has to travel back.
        world.sleep(MS / 2).await;
        assert_eq!(*sent.lock().unwrap(), 65_000);
        world.sleep(MS).await;
        assert_eq!(*sent.lock().unwrap(), 75_000);
    });
}

#[test]
fn a_half_closed_connection_still_answers() {
    simulate(|world| async move {
        let (pair, mut near, mut far) = Pair::connect(&world).await;
        pair.server.spawn("echo", async move {
            let mut all = Vec::new();
            far.read_to_end(&mut all).await.unwrap();
            far.write_all(&all).await.unwrap();
        });
        near.write_all(b"question").await.unwrap();
        near.shutdown().await.unwrap();
        assert_eq!(near.write_all(b"more").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        let mut answer = Vec::new();
        near.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer, b"question");
    });
}

#[test]
fn a_reset_reaches_both_ends() {
    simulate(|world| async move {
        let (pair, near, far) = Pair::connect(&world).await;
        let (a, b) = (watch(&pair.client, near), watch(&pair.server, far));
        world.net().reset("client");
        world.sleep(3 * MS).await;
        for seen in [a, b] {
            assert_eq!(seen.lock().unwrap().clone().unwrap().1, "ConnectionReset");
        }
        world.sleep(MS).await;
        assert_eq!(world.net().connections(), 0);
    });
}

#[test]
fn latency_is_drawn_per_segment_and_order_is_kept() {
    simulate(|world| async move {
        world.net().set_default_link(LinkSpec::between(MS, 50 * MS));
        let (pair, mut near, mut far) = Pair::connect(&world).await;
        let got = pair.server.spawn("read", async move {
            let mut all = Vec::new();
            far.read_to_end(&mut all).await.unwrap();
            all
        });
        for i in 0..100 {
            near.write_all(&[i]).await.unwrap();
            world.sleep(MS).await;
        }
        drop(near);
        assert_eq!(got.await.unwrap(), (0..100).collect::<Vec<u8>>());
    });
}
