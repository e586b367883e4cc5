//! Named processes: start, kill, power cut, pause, restart.
//!
//! Every incarnation is a simulator node of its own, so a handle of an earlier one can reach
//! nothing of the next, and no port stays bound.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use madsim::runtime::NodeHandle;

use super::task::Guarded;
use super::{Fence, TaskHandle, WORLD, World};
use crate::lock::lock;
use crate::{BoxFuture, Disk, Labels, SimListener, SimStream, Value};

pub(super) type Init = Arc<dyn Fn(Process) -> BoxFuture<'static, ()> + Send + Sync>;

/// What stays when a process dies: its name, its host, its program.
pub(super) struct Slot {
    name: Arc<str>,
    host: Arc<str>,
    state: Mutex<SlotState>,
}

struct SlotState {
    init: Option<Init>,
    current: Option<Incarnation>,
    paused: bool,
}

impl Slot {
    pub(super) fn new(name: &str, host: &str, init: Init) -> Arc<Self> {
        let state = Mutex::new(SlotState { init: Some(init), current: None, paused: false });
        Arc::new(Slot { name: name.into(), host: host.into(), state })
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(super) fn host(&self) -> &Arc<str> {
        &self.host
    }

    /// Takes the program out; its captures usually hold the world.
    pub(super) fn forget(&self) -> Option<Init> {
        lock(&self.state).init.take()
    }
}

/// One life of a process, from a start to the next kill.
#[derive(Clone)]
pub struct Incarnation {
    fence: Fence,
    node: NodeHandle,
}

impl Incarnation {
    /// From 1.
    pub fn number(&self) -> u32 {
        self.fence.incarnation()
    }

    pub fn fence(&self) -> &Fence {
        &self.fence
    }
}

/// A handle to a process. The one that [`World::process`] returns follows restarts; the one given to
/// `init` is bound to its incarnation.
#[derive(Clone)]
pub struct Process {
    world: World,
    slot: Arc<Slot>,
    bound: Option<Incarnation>,
}

const STARTED: &str = "a process starts when it is created";

impl Process {
    pub(super) fn following(world: World, slot: Arc<Slot>) -> Self {
        Process { world, slot, bound: None }
    }

    pub(super) fn bound(world: World, slot: Arc<Slot>, incarnation: Incarnation) -> Self {
        Process { world, slot, bound: Some(incarnation) }
    }

    /// The process whose task is running; in the driver, the process `world`.
    pub fn current() -> Option<Process> {
        World::try_current()?.running()
    }

    pub fn world(&self) -> &World {
        &self.world
    }

    pub fn name(&self) -> &str {
        &self.slot.name
    }

    pub fn host(&self) -> &str {
        &self.slot.host
    }

    /// The incarnation this handle means: its own if bound, else the latest.
    pub fn life(&self) -> Incarnation {
        self.look(Incarnation::clone)
    }

    /// As [`Process::life`], without a copy: most questions are asked at every event.
    fn look<T>(&self, at: impl FnOnce(&Incarnation) -> T) -> T {
        match &self.bound {
            Some(life) => at(life),
            None => at(lock(&self.slot.state).current.as_ref().expect(STARTED)),
        }
    }

    /// From 1.
    pub fn incarnation(&self) -> u32 {
        self.look(Incarnation::number)
    }

    pub fn fence(&self) -> Fence {
        self.look(|life| life.fence.clone())
    }

    /// False once the incarnation is fenced.
    pub fn is_alive(&self) -> bool {
        self.look(|life| life.fence.is_up())
    }

    /// Notes an event of this process; nothing once it is fenced.
    pub fn note(&self, labels: Labels, name: &'static str, fields: Vec<(&'static str, Value)>) {
        if self.is_alive() {
            self.world.note(self.slot.name.clone(), labels, name, fields);
        }
    }

    /// Spawns a task of this process, from anywhere. A panic in it crashes the process.
    pub fn spawn<T: Send + 'static>(
        &self,
        actor: &str,
        future: impl Future<Output = T> + Send + 'static,
    ) -> TaskHandle<T> {
        self.spawn_in(&self.life(), actor, future)
    }

    fn spawn_in<T: Send + 'static>(
        &self,
        life: &Incarnation,
        actor: &str,
        future: impl Future<Output = T> + Send + 'static,
    ) -> TaskHandle<T> {
        if !life.fence.is_up() {
            return TaskHandle::new(None);
        }
        let guarded = Guarded::new(self.world.clone(), life.clone(), actor, future);
        TaskHandle::new(Some(life.node.spawn(guarded)))
    }

    /// Runs a blocking operation: after `latency` of virtual time, in one piece. It is a task of its
    /// own, so it goes on when its caller is dropped; only a kill stops it.
    pub fn blocking<T: Send + 'static>(
        &self,
        actor: &str,
        latency: Duration,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> TaskHandle<T> {
        let clock = self.world.clock().clone();
        self.spawn(actor, async move {
            if !latency.is_zero() {
                clock.sleep(latency).await;
            }
            f()
        })
    }

    /// SIGKILL. The host and its page cache live on; the kernel closes the sockets.
    pub fn kill(&self) {
        self.stop(&self.life(), "process.killed", Vec::new(), Sockets::Close);
    }

    /// An orderly end by the process itself. The same as a kill to the world, by another name.
    pub fn exit(&self) {
        self.stop(&self.life(), "process.exited", Vec::new(), Sockets::Close);
    }

    /// The power fails: every process of the host dies, sockets fall silent, and the disk keeps what
    /// was synced plus a seeded part of the rest.
    pub fn power_cut(&self) {
        let victims: Vec<_> = {
            let state = lock(&self.world.inner.state);
            state.slots.values().filter(|slot| slot.host == self.slot.host).cloned().collect()
        };
        for slot in victims {
            let process = Process::following(self.world.clone(), slot);
            process.stop(&process.life(), "process.power_cut", Vec::new(), Sockets::Vanish);
            // Of those that were dead already the kernel goes now.
            self.world.net().vanish(&process.fence());
        }
        let lost = self.disk().cut_power();
        self.world.note(WORLD, Labels::none(), "disk.power_cut", {
            let mut fields = vec![("host", Value::from(&self.slot.host))];
            fields.extend(lost.fields());
            fields
        });
    }

    /// Stops the scheduling of its tasks (SIGSTOP); its kernel goes on: sockets fill, locks stay.
    pub fn pause(&self) {
        if self.is_alive() && !std::mem::replace(&mut lock(&self.slot.state).paused, true) {
            self.note(Labels::none(), "process.paused", Vec::new());
            self.world.simulator().pause(self.life().node.id());
        }
    }

    pub fn resume(&self) {
        if self.is_alive() && std::mem::take(&mut lock(&self.slot.state).paused) {
            self.note(Labels::none(), "process.resumed", Vec::new());
            self.world.simulator().resume(self.life().node.id());
        }
    }

    /// Starts the program again as the next incarnation, after a kill if it is still alive.
    pub fn restart(&self) {
        let following = Process::following(self.world.clone(), self.slot.clone());
        following.kill();
        following.start();
    }

    /// Listens on a port of this process.
    ///
    /// # Errors
    /// `AddrInUse` if the port is taken, `BrokenPipe` if the process is dead.
    pub fn listen(&self, port: u16) -> std::io::Result<SimListener> {
        self.world.net().listen(&self.fence(), port)
    }

    /// Connects to a port of a process or host, by name.
    ///
    /// # Errors
    /// `ConnectionRefused` after a round trip when nobody listens, `TimedOut` when no answer comes,
    /// `NotFound` when there is no such name.
    pub fn connect(
        &self,
        target: &str,
        port: u16,
    ) -> impl Future<Output = std::io::Result<SimStream>> + Send + 'static {
        self.world.net().clone().connect(self.fence(), target.into(), port)
    }

    /// The disk of this process's host.
    pub fn disk(&self) -> Disk {
        self.world.disk(&self.slot.host)
    }

    pub(super) fn start(&self) {
        let (number, init) = {
            let state = lock(&self.slot.state);
            (state.current.as_ref().map_or(0, Incarnation::number) + 1, state.init.clone())
        };
        // No program left: the world is being torn down.
        let Some(init) = init else { return };
        let fence = Fence::new(self.slot.name.clone(), number);
        let node = self.world.simulator().create_node().name(&*self.slot.name).build();
        let life = Incarnation { fence, node };
        {
            let mut state = lock(&self.slot.state);
            state.current = Some(life.clone());
            state.paused = false;
        }
        let entry = (self.slot.clone(), life.clone());
        lock(&self.world.inner.state).nodes.insert(life.node.id(), entry);
        let bound = Process::bound(self.world.clone(), self.slot.clone(), life.clone());
        if *self.slot.name != *WORLD {
            let fields = vec![("incarnation", number.into()), ("host", (&self.slot.host).into())];
            bound.note(Labels::none(), "process.started", fields);
        }
        self.world.net().started(&self.slot.name);
        let program = bound.clone();
        bound.spawn_in(&life, "init", async move { init(program).await });
    }

    /// Fence first, then the kernel's part, then the simulator's kill with its destructors.
    fn stop(
        &self,
        life: &Incarnation,
        event: &'static str,
        mut fields: Vec<(&'static str, Value)>,
        sockets: Sockets,
    ) {
        if !life.fence.lower() {
            return;
        }
        fields.insert(0, ("incarnation", life.number().into()));
        self.world.note(self.slot.name.clone(), Labels::none(), event, fields);
        self.disk().fence(&life.fence);
        match sockets {
            Sockets::Close => self.world.net().close_all(&life.fence),
            Sockets::Vanish => self.world.net().vanish(&life.fence),
        }
        let simulator = self.world.simulator();
        if std::mem::take(&mut lock(&self.slot.state).paused) {
            // A paused node's tasks would be dropped inside the simulator's lock.
            simulator.resume(life.node.id());
        }
        simulator.kill(life.node.id());
    }

    /// For the end of a run, when the trace is closed already.
    pub(super) fn stop_quietly(&self) {
        self.stop(&self.life(), "process.killed", Vec::new(), Sockets::Vanish);
    }
}

enum Sockets {
    Close,
    Vanish,
}

impl World {
    /// A task of that incarnation panicked.
    pub(super) fn crash(&self, life: &Incarnation, actor: &str, message: &str) {
        let slot = lock(&self.inner.state).slots.get(life.fence.process()).cloned();
        // Once fenced, a panic in a destructor is nobody's business: a real kill runs none.
        let Some(slot) = slot else { return };
        if **slot.name() == *WORLD && life.fence.is_up() {
            lock(&self.inner.state).driver_panic = Some(message.into());
        }
        let fields = vec![("actor", actor.into()), ("message", message.into())];
        let process = Process::following(self.clone(), slot);
        process.stop(life, "process.panicked", fields, Sockets::Close);
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fence = self.fence();
        write!(f, "Process({}#{}", fence.process(), fence.incarnation())?;
        f.write_str(if fence.is_up() { ")" } else { ", dead)" })
    }
}
