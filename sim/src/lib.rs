//! The simulated world: processes, network, disk, chance, trace, runner.
//!
//! A run is a function of a seed: the same seed gives the same [`Trace`], event for event, in any
//! OS process and on any thread. Nothing here knows what a graph is.
//!
//! Built without `--cfg madsim` only the pure parts exist ([`Chance`], [`Trace`]).

pub mod chance;
mod lock;
pub mod trace;

#[cfg(madsim)]
pub mod disk;
#[cfg(madsim)]
pub mod net;
#[cfg(madsim)]
pub mod runner;
#[cfg(madsim)]
pub mod world;

pub use chance::{Chance, Choice, Stream};
pub use trace::{Event, Labels, Trace, Value};

#[cfg(madsim)]
pub use disk::{Disk, DiskLog, Files, Replay};
#[cfg(madsim)]
pub use net::{LinkSpec, Net, SimListener, SimStream};
#[cfg(madsim)]
pub use runner::{Crash, Finished, Heap, RunOptions, run};
#[cfg(madsim)]
pub use world::{Cancelled, Fence, Incarnation, Process, TaskHandle, World};

/// A boxed future that may move between tasks, as every future given to the world must.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn std::future::Future<Output = T> + Send + 'a>>;
