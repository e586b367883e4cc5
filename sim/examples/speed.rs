//! How long a run takes, on this machine.
//!
//! `RUSTFLAGS="--cfg madsim" cargo run --release -p durasim-sim --example speed`

#[cfg(madsim)]
#[path = "../tests/common/mod.rs"]
mod common;

#[cfg(not(madsim))]
fn main() {
    eprintln!("needs the simulator: build with RUSTFLAGS=\"--cfg madsim\"");
}

#[cfg(madsim)]
fn main() {
    measure("empty run", |_| Box::pin(async {}));
    measure("one idle process", |world| {
        Box::pin(async move {
            world.process("server", "box", |_| Box::pin(async {}));
        })
    });
    measure("database: open, schema, 12 rows", |world| {
        Box::pin(async move {
            let server = world.process("server", "box", |_| Box::pin(async {}));
            let db = server.open_sqlite("app.sqlite").unwrap();
            db.pragma_update(None, "journal_mode", "wal").unwrap();
            db.pragma_update(None, "synchronous", "normal").unwrap();
            db.execute_batch("create table t (name text)").unwrap();
            let mut insert = db.prepare("insert into t values ('x')").unwrap();
            (0..12).for_each(|_| drop(insert.execute([])));
        })
    });
    for requests in [1, 3] {
        let name = format!("{requests} streaming request(s) with a row each");
        measure(&name, move |world| {
            Box::pin(async move {
                let pause = std::time::Duration::from_millis(5);
                world.process("server", "box", common::server(4, pause));
                let mut clients = Vec::new();
                for i in 0..requests {
                    let me = world.process(&format!("client-{i}"), "out", |_| Box::pin(async {}));
                    let get = common::get(me.clone(), format!("/{i}"), usize::MAX);
                    clients.push(me.spawn("main", get));
                }
                for client in clients {
                    assert_eq!(client.await.unwrap(), Ok(32));
                }
            })
        });
    }
}

#[cfg(madsim)]
#[allow(clippy::disallowed_methods)] // Real time is what is measured.
fn measure(
    name: &str,
    f: impl Fn(durasim_sim::World) -> durasim_sim::BoxFuture<'static, ()> + Clone + Send + 'static,
) {
    // The best of several batches: other programs on the machine only ever add.
    const BATCH: u32 = 200;
    let options = durasim_sim::RunOptions::default;
    let batch = |_| {
        let start = std::time::Instant::now();
        for seed in 0..BATCH {
            durasim_sim::run(seed.into(), options(), f.clone()).value.unwrap();
        }
        start.elapsed() / BATCH
    };
    let each = (0..20).map(batch).min().unwrap();
    let last = durasim_sim::run(0, options(), f.clone());
    let (events, polls) = (last.trace.len(), last.polls);
    println!("{name:<42} {:>6} us {events:>4} events {polls:>4} polls", each.as_micros());
}
