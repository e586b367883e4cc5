//! The world of one run: its processes, network, disks, chance and trace.

mod clock;
mod fence;
mod meter;
mod process;
mod task;

pub use fence::Fence;
pub use process::{Incarnation, Process};
pub use task::{Cancelled, TaskHandle};

pub(crate) use clock::Clock;
pub(crate) use meter::Meter;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use madsim::runtime::Handle;
use madsim::task::NodeId;

use crate::lock::lock;
use crate::{BoxFuture, Chance, Disk, Labels, Net, Trace, Value};
use process::Slot;

/// A handle to the world; cloning gives another handle to the same world.
#[derive(Clone)]
pub struct World {
    inner: Arc<Inner>,
}

struct Inner {
    clock: Clock,
    chance: Chance,
    trace: Trace,
    net: Net,
    simulator: Handle,
    meter: Meter,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    slots: BTreeMap<Arc<str>, Arc<Slot>>,
    /// Which incarnation a simulator node carries, for [`Process::current`].
    nodes: BTreeMap<NodeId, (Arc<Slot>, Incarnation)>,
    disks: BTreeMap<Arc<str>, Disk>,
    /// The copy of a disk that is being opened for inspection, and its name.
    inspected: Option<(&'static str, Disk)>,
    /// What the driver, or a task of its, panicked with.
    driver_panic: Option<String>,
}

thread_local! {
    /// Every run has a thread of its own, so the thread tells the world, without a global registry.
    static CURRENT: RefCell<Option<World>> = const { RefCell::new(None) };
}

/// The process name under which the world itself notes events.
pub(crate) const WORLD: &str = "world";

impl World {
    /// Inside a simulation only; becomes the current world of this thread.
    pub(crate) fn start(chance: Chance, poll_limit: u64) -> Self {
        let clock = Clock::start();
        let trace = Trace::new();
        let net = Net::new(clock.clone(), chance.clone(), trace.clone());
        let (simulator, meter) = (Handle::current(), Meter::new(poll_limit));
        let state = Mutex::default();
        let inner = Inner { clock, chance, trace, net, simulator, meter, state };
        let world = World { inner: Arc::new(inner) };
        CURRENT.set(Some(world.clone()));
        world
    }

    /// The world of the run on this thread.
    ///
    /// # Panics
    /// Outside a run.
    pub fn current() -> World {
        Self::try_current()
            .expect("there is no simulated world on this thread; use durasim_sim::run")
    }

    pub fn try_current() -> Option<World> {
        // The slot is gone while the thread's own destructors run.
        CURRENT.try_with(|world| world.borrow().clone()).ok().flatten()
    }

    pub fn seed(&self) -> u64 {
        self.inner.chance.seed()
    }

    pub fn chance(&self) -> &Chance {
        &self.inner.chance
    }

    pub fn trace(&self) -> &Trace {
        &self.inner.trace
    }

    pub fn net(&self) -> &Net {
        &self.inner.net
    }

    /// Virtual time since the start of the world.
    pub fn now(&self) -> Duration {
        self.inner.clock.now()
    }

    /// The calendar time of the simulation, since 1970: what `SystemTime::now` and SQL's
    /// `datetime('now')` show in it.
    pub fn unix_time(&self) -> Duration {
        self.inner.clock.unix()
    }

    /// Sleeps in virtual time; exact, without the floor of a millisecond that tokio's sleep has.
    pub fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send + 'static {
        self.inner.clock.sleep(duration)
    }

    /// Notes an event of that process, whether it lives or not. Processes note through
    /// [`Process::note`], which their fence silences.
    pub fn note(
        &self,
        process: impl Into<Arc<str>>,
        labels: Labels,
        name: &'static str,
        fields: Vec<(&'static str, Value)>,
    ) {
        self.inner.trace.push(self.now(), process, labels, name, fields);
    }

    /// The process `world`, in which the driver runs and which nothing should kill.
    pub fn driver(&self) -> Process {
        self.find(WORLD).expect("the world is being torn down")
    }

    /// Spawns a task beside the driver. A panic in it ends the run.
    pub fn spawn<T: Send + 'static>(
        &self,
        actor: &str,
        future: impl Future<Output = T> + Send + 'static,
    ) -> TaskHandle<T> {
        self.driver().spawn(actor, future)
    }

    pub(crate) fn driver_panic(&self) -> Option<String> {
        lock(&self.inner.state).driver_panic.take()
    }

    /// Creates a named process on a host and starts it: `init` runs as its first task, now and after
    /// every restart. When `init` returns the process stays up.
    ///
    /// # Panics
    /// If a process of that name exists, or the name has a slash.
    pub fn process(
        &self,
        name: &str,
        host: &str,
        init: impl Fn(Process) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Process {
        let process = self.create(name, host, Arc::new(init));
        process.start();
        process
    }

    pub(crate) fn start_driver(&self) -> Process {
        let driver = self.create(WORLD, WORLD, Arc::new(|_| Box::pin(async {})));
        driver.start();
        driver
    }

    fn create(&self, name: &str, host: &str, init: process::Init) -> Process {
        assert!(!name.contains('/'), "a process name stands in paths; {name:?} has a slash");
        let slot = Slot::new(name, host, init);
        let known = lock(&self.inner.state).slots.insert(slot.name().clone(), slot.clone());
        assert!(known.is_none(), "there is already a process named {name:?}");
        self.inner.net.register(slot.name(), slot.host());
        Process::following(self.clone(), slot)
    }

    /// The process of that name, if there is one; the handle follows its restarts.
    pub fn find(&self, name: &str) -> Option<Process> {
        let slot = lock(&self.inner.state).slots.get(name).cloned();
        slot.map(|slot| Process::following(self.clone(), slot))
    }

    /// The disk of a host; made empty when first asked for.
    pub fn disk(&self, host: &str) -> Disk {
        let mut state = lock(&self.inner.state);
        if let Some(disk) = state.disks.get(host) {
            return disk.clone();
        }
        let disk = Disk::new(host, self.inner.chance.clone());
        state.disks.insert(host.into(), disk.clone());
        disk
    }

    pub(crate) fn inspect(&self, name: &'static str, copy: Option<Disk>) {
        let before = std::mem::replace(
            &mut lock(&self.inner.state).inspected,
            copy.map(|disk| (name, disk)),
        );
        drop(before);
    }

    pub(crate) fn inspected(&self, name: &str) -> Option<Disk> {
        let state = lock(&self.inner.state);
        state.inspected.as_ref().filter(|(known, _)| *known == name).map(|(_, disk)| disk.clone())
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.inner.clock
    }

    pub(crate) fn meter(&self) -> &Meter {
        &self.inner.meter
    }

    fn simulator(&self) -> &Handle {
        &self.inner.simulator
    }

    /// The process whose task is running.
    fn running(&self) -> Option<Process> {
        let node = Handle::try_current().ok().map(|_| madsim::plugin::node())?;
        let found = lock(&self.inner.state).nodes.get(&node).cloned();
        found.map(|(slot, incarnation)| Process::bound(self.clone(), slot, incarnation))
    }

    /// Ends the run: fences and kills everything, and breaks the cycles through which closures
    /// and wakers would keep the world alive. The caller then lets the simulator drop the tasks.
    pub(crate) fn shut_down(&self) {
        self.inner.trace.close();
        let slots = std::mem::take(&mut lock(&self.inner.state).slots);
        for slot in slots.values() {
            Process::following(self.clone(), slot.clone()).stop_quietly();
        }
        let init: Vec<_> = slots.values().map(|slot| slot.forget()).collect();
        drop(init);
        self.inner.net.clear();
        let state = std::mem::take(&mut *lock(&self.inner.state));
        drop(state);
    }

    pub(crate) fn leave(&self) {
        CURRENT.set(None);
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "World(seed {}, at {:?})", self.seed(), self.now())
    }
}
