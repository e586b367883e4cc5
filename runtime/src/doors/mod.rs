//! The doors: every way in which the world outside enters the runtime.
//!
//! They travel in one value, handed in at construction; only the [`Listener`] is handed to whoever
//! accepts on it. [`Doors::production`] is tokio, the real clock and the real file system; a
//! simulated world hands in its own.

mod clock;
mod entropy;
mod executor;
mod gate;
mod net;
mod observer;
mod opener;

use std::sync::Arc;

pub use clock::{Clock, TokioClock};
pub use entropy::{Entropy, OsEntropy};
pub(crate) use executor::one_turn;
pub use executor::{Cancelled, Executor, RawHandle, TaskHandle, TokioExecutor};
pub use gate::{Controller, Gate, Operation, Pass, Point};
pub use net::{Connector, Io, Listener, TcpConnector, TcpDoor};
pub use observer::{Event, Labels, Observer, SilentObserver, What};
pub use opener::{FileOpener, Opener, Taken, Turn};

/// Everything that the runtime may ask of the world. Cheap to clone.
#[derive(Clone)]
pub struct Doors {
    pub opener: Arc<dyn Opener>,
    pub connector: Arc<dyn Connector>,
    pub executor: Arc<dyn Executor>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub gate: Gate,
    pub observer: Arc<dyn Observer>,
}

impl Doors {
    /// Real files, sockets, tasks, time and randomness; nobody watches and nothing is held.
    pub fn production() -> Doors {
        Doors {
            opener: Arc::new(FileOpener),
            connector: Arc::new(TcpConnector),
            executor: Arc::new(TokioExecutor),
            clock: Arc::new(TokioClock),
            entropy: Arc::new(OsEntropy),
            gate: Gate::Open,
            observer: Arc::new(SilentObserver),
        }
    }
}
