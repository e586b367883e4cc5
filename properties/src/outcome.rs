//! What one run of a scenario leaves to be judged. All of it comes from outside the runtime: the
//! effect log, the stored rows, what clients saw, and the world's own trace.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use durasim_models::{Charge, Effect};
use durasim_sim::Event;
use serde::Serialize;
use serde_json::Value as Json;

use crate::registry::GraphEntry;
use crate::scenario::Scenario;

/// One finished run.
#[derive(Clone)]
pub struct Outcome {
    pub scenario: Scenario,
    pub graph: GraphEntry,
    pub seed: u64,
    pub trace: Vec<Event>,
    /// Of the trace: equal for equal scenario and seed.
    pub hash: u64,
    pub virtual_time: Duration,
    pub effects: Vec<Effect>,
    /// The provider's ledger; empty unless effects go over HTTP.
    pub charges: Vec<Charge>,
    /// Charges whose sender never read a reply, and what a look-up says of each.
    pub unknown: Vec<UnknownCharge>,
    /// What the scenario's log shows, by thread; the truth again unless that log leaks.
    pub logged: BTreeMap<String, Vec<String>>,
    /// What is stored at the end, by thread.
    pub threads: BTreeMap<String, StoredThread>,
    pub sights: Vec<Sight>,
    pub glimpses: Vec<Glimpse>,
    /// Tasks and connections that outlived the run.
    pub leaked: u64,
    /// The run itself broke down: a panic of the driver, or no end within the time limit.
    pub crash: Option<String>,
}

/// What one client saw of one request.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sight {
    pub client: String,
    pub thread: String,
    pub request: String,
    /// Mode and data of each chunk, in order.
    pub chunks: Vec<(String, Json)>,
    /// `complete`, `failed`, `refused`, `left` or `broken`.
    pub ending: String,
    /// The error class of a failed run, or what broke.
    pub problem: Option<String>,
}

/// A charge request that may have left its socket and whose reply was never read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnknownCharge {
    pub thread: String,
    pub request: String,
    pub booking: String,
    pub sent_at: Duration,
    /// Ids of the succeeded charges that a look-up by the booking finds afterwards; `None` when the
    /// provider did not answer.
    pub charges: Option<Vec<String>>,
}

/// What a reload showed, and what was there at that moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Glimpse {
    pub client: String,
    pub at: Duration,
    /// The head's values, `next` and tasks as the state endpoint gives them; null when the reload
    /// failed.
    pub state: Json,
    pub checkpoints: usize,
    pub writes: usize,
    /// Nodes of the thread's effects so far, in order.
    pub executed: Vec<String>,
}

/// The rows of one thread, decoded here and not by the runtime.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StoredThread {
    /// In id order, which is time order.
    pub checkpoints: Vec<StoredCheckpoint>,
    pub writes: Vec<StoredWrite>,
}

/// Versions by channel.
pub type Versions = BTreeMap<String, String>;

/// One checkpoint row.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredCheckpoint {
    pub namespace: String,
    pub id: String,
    pub parent: Option<String>,
    pub source: String,
    pub step: i64,
    /// The request that the run belonged to, read back from the metadata.
    pub request: Option<String>,
    pub values: BTreeMap<String, rmpv::Value>,
    pub versions: Versions,
    /// By node. Shared between the checkpoints where they are the same.
    pub versions_seen: BTreeMap<String, Arc<Versions>>,
}

/// One pending-write row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredWrite {
    pub namespace: String,
    pub checkpoint: String,
    pub task: String,
    pub channel: String,
}

impl StoredThread {
    /// The checkpoint with the greatest id of the root namespace.
    pub fn head(&self) -> Option<&StoredCheckpoint> {
        self.checkpoints.iter().rfind(|checkpoint| checkpoint.namespace.is_empty())
    }

    pub fn find(&self, id: &str) -> Option<&StoredCheckpoint> {
        self.checkpoints.iter().find(|checkpoint| checkpoint.id == id)
    }
}

impl StoredCheckpoint {
    /// The strings of a list-valued key; empty while the key is.
    pub fn names(&self, key: &str) -> Vec<String> {
        let items = self.values.get(key).and_then(|value| value.as_array());
        let items = items.into_iter().flatten();
        items.map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned)).collect()
    }
}

impl Outcome {
    /// The effects of one thread, in order of execution.
    pub fn executed(&self, thread: &str) -> Vec<&Effect> {
        self.effects.iter().filter(|effect| &*effect.thread == thread).collect()
    }

    /// What the head's transcript of a thread says was done.
    pub fn transcript(&self, thread: &str) -> Vec<String> {
        let key = self.graph.transcript.as_deref().unwrap_or_default();
        let head = self.threads.get(thread).and_then(StoredThread::head);
        head.map(|head| head.names(key)).unwrap_or_default()
    }

    /// Threads that clients of this scenario talk to, and any other that an effect was executed
    /// for, each once.
    pub fn thread_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        let clients = self.scenario.clients.iter().map(|client| client.thread.as_str());
        for name in clients.chain(self.effects.iter().map(|effect| &*effect.thread)) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}
