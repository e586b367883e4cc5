//! The world behind each of the runtime's doors. All of them belong to one incarnation of one
//! process, so that a restarted server gets fresh ones.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use durasim_runtime::doors::{
    Clock, Connector, Doors, Entropy, Executor, Gate, Io, Listener, Opener, RawHandle,
};
use durasim_sim::{Process, SimListener, TaskHandle};
use futures::future::BoxFuture;
use rusqlite::Connection;

use super::clocks::Clocks;
use super::hold::{HoldGate, Holds};
use super::observe::TraceObserver;

/// How long a blocking call waits for its thread, at least and at most.
const BLOCKING_LATENCY: [Duration; 2] = [Duration::from_micros(50), Duration::from_micros(500)];

/// What a scenario does to a process through its doors.
#[derive(Clone, Default)]
pub(super) struct Around {
    /// Requests that wait at the gate.
    pub holds: Holds,
    pub clocks: Clocks,
    /// Sleeps end on a multiple of it.
    pub tick: Option<Duration>,
}

/// All doors of `process`.
pub(super) fn doors(process: &Process, around: Around) -> Doors {
    let Around { holds, clocks, tick } = around;
    let world = Arc::new(InWorld {
        process: process.clone(),
        clocks,
        tick,
        actor: format!("{}#{}", process.name(), process.incarnation()),
    });
    Doors {
        opener: world.clone(),
        connector: world.clone(),
        executor: world.clone(),
        clock: world.clone(),
        entropy: world.clone(),
        gate: Gate::Controlled(Arc::new(HoldGate { world: process.world().clone(), holds })),
        observer: Arc::new(TraceObserver::new(process.clone())),
    }
}

/// All doors of `process`, with nothing done to it.
pub fn doors_of(process: &Process) -> Doors {
    doors(process, Around::default())
}

struct InWorld {
    process: Process,
    clocks: Clocks,
    tick: Option<Duration>,
    /// Names this life of the process in streams of chance.
    actor: String,
}

impl Opener for InWorld {
    fn open(&self, path: &str) -> rusqlite::Result<Connection> {
        self.process.open_sqlite(path)
    }
}

impl Connector for InWorld {
    fn connect(&self, authority: &str) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        let (process, authority) = (self.process.clone(), authority.to_owned());
        Box::pin(async move {
            let parsed = authority.rsplit_once(':').and_then(|(h, p)| Some((h, p.parse().ok()?)));
            let (host, port) = parsed.ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!("{authority:?} is not host:port"),
                )
            })?;
            Ok(Box::new(process.connect(host, port).await?) as Box<dyn Io>)
        })
    }
}

impl Executor for InWorld {
    fn spawn_raw(&self, actor: &str, future: BoxFuture<'static, ()>) -> Box<dyn RawHandle> {
        Box::new(Handle(self.process.spawn(actor, future)))
    }

    fn blocking_raw(&self, actor: &str, call: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        let [least, most] = BLOCKING_LATENCY;
        let chance = self.process.world().chance().stream("blocking", &self.actor);
        let call = self.process.blocking(actor, chance.duration(least, most), call);
        Box::pin(async move {
            let _ = call.await;
        })
    }
}

struct Handle(TaskHandle<()>);

impl RawHandle for Handle {
    fn abort(&self) {
        self.0.abort();
    }
}

impl Clock for InWorld {
    fn now(&self) -> SystemTime {
        self.clocks.show(self.process.name(), self.process.world().unix_time())
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let world = self.process.world();
        let now = world.now();
        let wakes = match self.tick {
            None => now + duration,
            Some(tick) => {
                let ticks = (now + duration).as_nanos().div_ceil(tick.as_nanos());
                tick * u32::try_from(ticks).unwrap_or(u32::MAX)
            }
        };
        Box::pin(world.sleep(wakes - now))
    }
}

impl Entropy for InWorld {
    fn fill(&self, label: &'static str, bytes: &mut [u8]) {
        self.process.world().chance().stream(label, &self.actor).fill(bytes);
    }
}

/// The server's side of the simulated network.
pub(super) struct Accepting(pub SimListener);

impl Listener for Accepting {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(Box<dyn Io>, String)>> {
        Box::pin(async move {
            let stream = self.0.accept().await?;
            let peer = stream.peer().to_string();
            Ok((Box::new(stream) as Box<dyn Io>, peer))
        })
    }
}
