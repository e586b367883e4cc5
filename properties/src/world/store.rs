//! A saver that is late, fails, or lies: the faults that a scenario asks for, and the sabotage that
//! keeps the properties honest.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use durasim_runtime::Saver;
use durasim_runtime::checkpoint::layer::Layer;
use durasim_runtime::checkpoint::saver::{Fate, Landing, Put, PutWrites, SaverError};
use durasim_sim::{Process, World};
use futures::future::BoxFuture;

use super::run::Sabotage;
use crate::scenario::{Fault, Scenario, bounds};

/// What goes wrong between the runtime and its store. One per world: counts go on across restarts.
pub(super) struct StoreFaults {
    world: World,
    put_ms: [u64; 2],
    put_writes_ms: [u64; 2],
    failing_puts: Vec<u64>,
    failing_writes: Vec<u64>,
    sabotage: Sabotage,
    puts: AtomicU64,
    loop_puts: AtomicU64,
    put_writes: AtomicU64,
}

impl StoreFaults {
    pub fn new(world: &World, scenario: &Scenario, sabotage: Sabotage) -> Arc<StoreFaults> {
        let of =
            |pick: fn(&Fault) -> Option<u64>| scenario.faults.iter().filter_map(pick).collect();
        Arc::new(StoreFaults {
            world: world.clone(),
            put_ms: scenario.delays.put_ms,
            put_writes_ms: scenario.delays.put_writes_ms,
            failing_puts: of(|fault| match fault {
                Fault::FailPut { nth } => Some(*nth),
                _ => None,
            }),
            failing_writes: of(|fault| match fault {
                Fault::FailPutWrites { nth } => Some(*nth),
                _ => None,
            }),
            sabotage,
            puts: AtomicU64::new(0),
            loop_puts: AtomicU64::new(0),
            put_writes: AtomicU64::new(0),
        })
    }

    async fn delay(&self, label: &str, thread: &str, range: [u64; 2]) {
        if range[1] > 0 {
            let (least, most) = bounds(range);
            let delay = self.world.chance().stream(label, thread).duration(least, most);
            self.world.sleep(delay).await;
        }
    }
}

/// How late a put is that was acknowledged early.
const LATE: Duration = Duration::from_millis(500);

/// A saver as the runtime sees it in the world.
pub(super) struct FaultySaver {
    pub inner: Arc<dyn Saver>,
    pub faults: Arc<StoreFaults>,
    /// The server that it belongs to.
    pub process: Process,
}

/// The nth call, from 1.
fn count(counter: &AtomicU64) -> u64 {
    counter.fetch_add(1, Ordering::Relaxed) + 1
}

fn ended(end: Result<(), SaverError>) -> Landing {
    Landing::new(std::future::ready(end))
}

fn injected(fate: &Fate) -> Landing {
    let error = SaverError::Store("disk I/O error (injected)".to_owned());
    fate.lose(&error);
    ended(Err(error))
}

impl Layer for FaultySaver {
    fn inner(&self) -> &dyn Saver {
        &*self.inner
    }

    fn on_put(&self, put: Put) -> BoxFuture<'static, Landing> {
        let (inner, faults) = (self.inner.clone(), self.faults.clone());
        let process = self.process.clone();
        Box::pin(async move {
            let nth = count(&faults.puts);
            faults.delay("put", &put.key.thread, faults.put_ms).await;
            if let Some(refusal) = put.fate.refusal() {
                return ended(Err(refusal));
            }
            if faults.failing_puts.contains(&nth) {
                return injected(&put.fate);
            }
            let nth_of_loop = match put.metadata.source.name() {
                "loop" => count(&faults.loop_puts),
                _ => 0,
            };
            if faults.sabotage == (Sabotage::DropLoopPut { nth: nth_of_loop }) {
                return ended(Ok(()));
            }
            if faults.sabotage == Sabotage::AcknowledgeEarly {
                let late = inner.put(put);
                let world = faults.world.clone();
                // A task of the server: a kill takes it.
                drop(process.spawn("late put", async move {
                    world.sleep(LATE).await;
                    late.await
                }));
                return ended(Ok(()));
            }
            if faults.sabotage == (Sabotage::SwallowLoopPut { nth: nth_of_loop }) {
                std::future::pending::<()>().await;
            }
            // Made before the put, which takes the checkpoint with it.
            let twin =
                (faults.sabotage == (Sabotage::RepeatLoopPut { nth: nth_of_loop })).then(|| {
                    let mut twin = put.clone();
                    twin.checkpoint.id = twin_id(&twin.checkpoint.id);
                    twin
                });
            let landing = inner.submit_put(put).await;
            let Some(twin) = twin else { return landing };
            Landing::new(async move {
                landing.end().await?;
                inner.put(twin).await
            })
        })
    }

    fn on_writes(&self, mut put: PutWrites) -> BoxFuture<'static, Landing> {
        let (inner, faults) = (self.inner.clone(), self.faults.clone());
        Box::pin(async move {
            let nth = count(&faults.put_writes);
            faults.delay("put_writes", &put.key.thread, faults.put_writes_ms).await;
            if faults.failing_writes.contains(&nth) {
                return injected(&put.fate);
            }
            if faults.sabotage == (Sabotage::MisfileWrites { nth }) {
                put.task = format!("{:08x}{}", nth, &put.task[8..]).into();
            }
            inner.submit_writes(put).await
        })
    }
}

/// The same id with another first time digit: an older sibling, never the head.
fn twin_id(id: &str) -> Arc<str> {
    let first = if id.starts_with('0') { "1" } else { "0" };
    format!("{first}{}", &id[1..]).into()
}
