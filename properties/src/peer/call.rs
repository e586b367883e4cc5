//! What can be asked of a peer.

use std::sync::Arc;

use durasim_runtime::Durability;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use crate::conformance::Case;

/// One line of standard input.
#[derive(Deserialize)]
#[serde(tag = "call", rename_all = "snake_case")]
pub enum Call {
    Saver(SaverCall),
    Values(ValuesCall),
    Begin(Begin),
    /// Performs the operation at this place of the case's script.
    Perform {
        place: usize,
    },
    /// What has become of the case's threads.
    Look,
}

/// The type and the bytes (in hexadecimal digits) of a stored value.
pub type Typed = (String, String);

/// A call of the saver. `ns` is the namespace.
#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum SaverCall {
    Get {
        thread: String,
        ns: String,
        id: Option<String>,
    },
    List {
        thread: String,
        ns: Option<String>,
        before: Option<Arc<str>>,
        limit: Option<usize>,
        metadata: Map<String, Json>,
    },
    Put {
        thread: String,
        ns: String,
        parent: Option<String>,
        checkpoint: Typed,
        /// JSON text.
        metadata: String,
        new_versions: Vec<(Arc<str>, Arc<str>)>,
    },
    PutWrites {
        thread: String,
        ns: String,
        checkpoint: String,
        task: String,
        path: String,
        /// Channel, type, bytes.
        writes: Vec<(Arc<str>, String, String)>,
    },
    DeleteThread {
        thread: String,
    },
    CopyThread {
        from: String,
        to: String,
    },
    Prune {
        threads: Vec<Arc<str>>,
        /// Whether the newest checkpoint stays.
        latest: bool,
    },
    DeleteForRuns {
        runs: Vec<Arc<str>>,
    },
}

/// Values that are made from a seed, or carried from one checkpoint to another.
#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum ValuesCall {
    /// Stores a checkpoint with the values of a seed, and pending writes of the same. Answers with a
    /// description of each.
    Write { thread: String, seed: u64 },
    /// Compares a thread's newest checkpoint and its pending writes with the values of a seed.
    Compare { thread: String, seed: u64 },
    /// Stores a thread's newest checkpoint again under a new id, and its pending writes beside it.
    Carry { thread: String },
}

/// A case of which a part is to be performed here.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Begin {
    pub case: Case,
    /// In place of what each operation says.
    durability: Option<String>,
    /// Freezes after so many durable writes.
    pub freeze_after: Option<u64>,
}

impl Begin {
    pub fn durability(&self) -> Result<Option<Durability>, String> {
        let Some(name) = &self.durability else { return Ok(None) };
        match [Durability::Sync, Durability::Async, Durability::Exit]
            .iter()
            .find(|d| d.name() == name)
        {
            Some(durability) => Ok(Some(*durability)),
            None => Err(format!("durability: {name:?} is not one")),
        }
    }
}
