//! The tasks that meet at a store, and what they must find there.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use durasim_runtime::checkpoint::layer::Layer;
use durasim_runtime::checkpoint::saver::{Landing, ListFilter, Put, PutWrites, Saver, SaverResult};
use durasim_runtime::checkpoint::{
    Checkpoint, CheckpointTuple, LAYOUT_VERSION, Metadata, Source, ThreadKey,
};
use durasim_runtime::{Value, value};
use durasim_sim::{BoxFuture, Stream, World};

/// Writers of the threads that stay, each with a thread of its own that others read.
const WRITERS: u64 = 3;
const STEPS: u64 = 6;
/// Rows of one put_writes.
const ROWS: usize = 3;
/// A thread that comes and goes.
const FLEETING: &str = "fleeting";

#[derive(Debug, Default)]
pub struct Seen {
    pub problems: Vec<String>,
    /// Calls that began while another was under way.
    pub overlaps: u64,
    /// Checkpoints that readers found.
    pub read: u64,
}

/// One store and who uses it.
#[derive(Clone)]
struct Crowd {
    world: World,
    savers: Arc<Vec<Arc<dyn Saver>>>,
    under_way: Arc<AtomicU64>,
    seen: Arc<Mutex<Seen>>,
    /// Checkpoints whose put was acknowledged, of threads that stay.
    landed: Arc<Mutex<BTreeSet<(String, u64)>>>,
}

/// Lets everybody at the store, over these savers in turn, and looks at it when all are done.
pub async fn crowd(world: &World, savers: Vec<Arc<dyn Saver>>) -> Seen {
    let crowd = Crowd {
        world: world.clone(),
        savers: Arc::new(savers),
        under_way: Arc::default(),
        seen: Arc::default(),
        landed: Arc::default(),
    };
    let mut tasks = Vec::new();
    for nth in 0..WRITERS {
        tasks.push(world.spawn("writer", crowd.clone().write(nth)));
        tasks.push(world.spawn("reader", crowd.clone().read(nth)));
    }
    tasks.push(world.spawn("deleter", crowd.clone().come_and_go()));
    for task in tasks {
        task.await.expect("a task ends");
    }
    for nth in 0..WRITERS {
        crowd.look_at(nth, &thread(nth)).await;
    }
    let mut seen = crowd.seen.lock().unwrap();
    std::mem::take(&mut *seen)
}

fn thread(nth: u64) -> String {
    format!("thread-{nth}")
}

/// Text order is the order of steps.
fn id(step: u64) -> String {
    format!("1f1ec26b-0000-6000-8000-{step:012x}")
}

fn step_of(id: &str) -> u64 {
    u64::from_str_radix(&id[24..], 16).unwrap_or(u64::MAX)
}

/// Whose values say which thread and step they belong to.
fn checkpoint(thread: &str, step: u64) -> Checkpoint {
    let version: Arc<str> = format!("{:032}.0.5", step + 1).into();
    let whose = value::map([("thread", Value::from(thread)), ("step", Value::from(step))]);
    // Several pages, so that a torn row would show.
    let ballast = Value::from("x".repeat(6_000));
    Checkpoint {
        layout: LAYOUT_VERSION,
        ts: "2026-11-29T18:57:34.411469+00:00".to_owned(),
        id: id(step).into(),
        channel_values: [("whose".into(), whose.into()), ("ballast".into(), ballast.into())]
            .into_iter()
            .collect(),
        channel_versions: [("whose".into(), version.clone()), ("ballast".into(), version)]
            .into_iter()
            .collect(),
        versions_seen: Default::default(),
        updated_channels: None,
    }
}

pub fn put(thread: &str, step: u64) -> Put {
    let metadata = Metadata {
        source: Source::Loop,
        step: step as i64,
        parents: Default::default(),
        extra: Default::default(),
    };
    let parent = step.checked_sub(1).map(id);
    Put::new(&ThreadKey::root(thread), parent.as_deref(), checkpoint(thread, step), metadata)
}

fn writes(thread: &str, step: u64, task: &str) -> PutWrites {
    let row = |nth| (Arc::from(format!("channel-{nth}")), Arc::new(Value::from(nth as u64)));
    let rows = (0..ROWS).map(row).collect();
    PutWrites::new(&ThreadKey::root(thread), &id(step), task, "", rows)
}

impl Crowd {
    fn chance(&self, of: &str) -> Stream {
        self.world.chance().stream("crowd", of)
    }

    async fn pause(&self, chance: &Stream) {
        let most = [0, 200, 2_000][chance.below(3) as usize];
        if most > 0 {
            self.world.sleep(Duration::from_micros(chance.below(most))).await;
        }
    }

    fn saver(&self, chance: &Stream) -> &Arc<dyn Saver> {
        &self.savers[chance.below(self.savers.len() as u64) as usize]
    }

    fn problem(&self, problem: String) {
        self.seen.lock().unwrap().problems.push(problem);
    }

    /// The result of a call, which must not fail.
    async fn call<T>(&self, what: &str, call: SaverResult<T>) -> Option<T> {
        if self.under_way.fetch_add(1, Ordering::Relaxed) > 0 {
            self.seen.lock().unwrap().overlaps += 1;
        }
        let end = call.await;
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        end.map_err(|error| self.problem(format!("{what}: {error}"))).ok()
    }

    /// A run as a store sees it: two tasks' writes beside each checkpoint, some at the same time as
    /// the next checkpoint.
    async fn write(self, nth: u64) {
        let (thread, chance) = (thread(nth), self.chance(&format!("writer {nth}")));
        for step in 0..STEPS {
            self.pause(&chance).await;
            let saver = self.saver(&chance).clone();
            let first = saver.put_writes(writes(&thread, step, "a"));
            let second = saver.put_writes(writes(&thread, step, "b"));
            let put = saver.put(put(&thread, step));
            let (stored, ..) = match chance.ratio(1, 2) {
                true => {
                    let all = (
                        self.call("put", put),
                        self.call("put_writes", first),
                        self.call("put_writes", second),
                    );
                    futures::join!(all.0, all.1, all.2)
                }
                false => {
                    let first = self.call("put_writes", first).await;
                    let second = self.call("put_writes", second).await;
                    (self.call("put", put).await, first, second)
                }
            };
            if stored.is_some() {
                self.landed.lock().unwrap().insert((thread.clone(), step));
            }
        }
    }

    async fn read(self, nth: u64) {
        let (thread, chance) = (thread(nth), self.chance(&format!("reader {nth}")));
        for _ in 0..STEPS {
            self.pause(&chance).await;
            let saver = self.saver(&chance).clone();
            let landed: Vec<u64> = {
                let landed = self.landed.lock().unwrap();
                landed.iter().filter(|(of, _)| *of == thread).map(|(_, step)| *step).collect()
            };
            let tuples = match chance.ratio(1, 2) {
                true => {
                    let head = saver.get_tuple(&ThreadKey::root(&*thread), None);
                    let head = self.call("get_tuple", head).await.flatten();
                    if landed.last() > head.as_ref().map(|t| step_of(&t.checkpoint.id)).as_ref() {
                        self.problem(format!("{thread}: step {landed:?} landed and is no head"));
                    }
                    head.into_iter().collect()
                }
                false => {
                    let all = saver.list(&thread, None, ListFilter::default());
                    let all = self.call("list", all).await.unwrap_or_default();
                    self.miss(&thread, &landed, &all);
                    all
                }
            };
            tuples.iter().for_each(|tuple| self.check(tuple));
        }
    }

    fn miss(&self, thread: &str, landed: &[u64], found: &[CheckpointTuple]) {
        for step in landed {
            if !found.iter().any(|tuple| step_of(&tuple.checkpoint.id) == *step) {
                self.problem(format!("{thread}: step {step} is lost"));
            }
        }
    }

    /// A tuple is one that somebody stored, and of each task it has all rows or none.
    fn check(&self, tuple: &CheckpointTuple) {
        let (thread, step) = (&tuple.key.thread, step_of(&tuple.checkpoint.id));
        self.seen.lock().unwrap().read += 1;
        if tuple.checkpoint != checkpoint(thread, step) {
            self.problem(format!("{thread}: step {step} is not what was put"));
        }
        for task in ["a", "b"] {
            let rows = tuple.writes.iter().filter(|write| &*write.task == task).count();
            if rows != 0 && rows != ROWS {
                self.problem(format!("{thread}: {rows} rows of task {task} at step {step}"));
            }
        }
    }

    /// A thread that is written and deleted again and again.
    async fn come_and_go(self) {
        let chance = self.chance("fleeting");
        for step in 0..STEPS {
            let saver = self.saver(&chance).clone();
            let put = self.call("put", saver.put(put(FLEETING, step)));
            let rows = self.call("put_writes", saver.put_writes(writes(FLEETING, step, "a")));
            futures::join!(put, rows);
            self.pause(&chance).await;
            let saver = self.saver(&chance).clone();
            let found = saver.list(FLEETING, None, ListFilter::default());
            let found = self.call("list", found).await.unwrap_or_default();
            if found.len() != 1 {
                self.problem(format!("{} checkpoints of a fleeting thread", found.len()));
            }
            found.iter().for_each(|tuple| self.check(tuple));
            self.call("delete_thread", saver.delete_thread(FLEETING)).await;
            let gone = saver.list(FLEETING, None, ListFilter::default());
            if self.call("list", gone).await.is_some_and(|rest| !rest.is_empty()) {
                self.problem("a deleted thread is still there".to_owned());
            }
        }
    }

    /// When all is done: everything that was acknowledged, with all its rows.
    async fn look_at(&self, nth: u64, thread: &str) {
        let saver = &self.savers[nth as usize % self.savers.len()];
        let all = saver.list(thread, None, ListFilter::default()).await.unwrap_or_default();
        self.miss(thread, &(0..STEPS).collect::<Vec<_>>(), &all);
        for tuple in &all {
            self.check(tuple);
            if tuple.writes.len() != 2 * ROWS {
                let step = step_of(&tuple.checkpoint.id);
                self.problem(format!("{thread}: a row at step {step} is lost"));
            }
        }
    }
}

/// A saver that stores a put_writes in two parts, and may forget the second: sabotage.
pub struct Halves {
    pub inner: Arc<dyn Saver>,
    pub world: World,
    pub forgets: bool,
}

impl Layer for Halves {
    fn inner(&self) -> &dyn Saver {
        &*self.inner
    }

    fn on_writes(&self, put: PutWrites) -> BoxFuture<'static, Landing> {
        let (inner, world, forgets) = (self.inner.clone(), self.world.clone(), self.forgets);
        let fate = put.fate.clone();
        let write = async move {
            let first = PutWrites { writes: put.writes[..1].to_vec(), ..put.clone() };
            inner.put_writes(first).await?;
            world.sleep(Duration::from_micros(500)).await;
            if forgets {
                return Ok(());
            }
            inner.put_writes(put).await
        };
        Landing::of_writes(fate, write)
    }
}
