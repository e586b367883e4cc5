//! Values on their way through both savers.

mod chance;
mod make;

use std::sync::Arc;

use durasim_runtime::checkpoint::id::{IdMint, Ids, timestamp};
use durasim_runtime::checkpoint::saver::{Put, PutWrites};
use durasim_runtime::checkpoint::{
    Checkpoint, CheckpointTuple, LAYOUT_VERSION, Metadata, PendingWrite, Source, ThreadKey, codec,
};
use durasim_runtime::value::Shared;
use durasim_runtime::{Doors, Saver, Value};
use serde_json::{Value as Json, json};

use super::call::ValuesCall;
use super::hex::to_hex;
use make::Made;

/// Channels of a checkpoint that is made from a seed.
const CHANNELS: u64 = 12;
/// The task that the pending writes belong to.
const TASK: &str = "11111111-2222-3333-4444-555555555555";
const TASK_PATH: &str = "~__pregel_pull, made";

pub struct Values {
    doors: Doors,
    mint: Arc<IdMint>,
    /// The store keeps scalars as JSON, which cannot say all that msgpack can.
    pub scalars_are_json: bool,
}

impl Values {
    pub fn new(doors: &Doors, scalars_are_json: bool) -> Values {
        Values { doors: doors.clone(), mint: Arc::new(IdMint::new(doors)), scalars_are_json }
    }

    pub async fn answer(&self, saver: &dyn Saver, call: ValuesCall) -> Result<Json, String> {
        match call {
            ValuesCall::Write { thread, seed } => self.write(saver, thread, seed).await,
            ValuesCall::Compare { thread, seed } => self.compare(saver, thread, seed).await,
            ValuesCall::Carry { thread } => self.carry(saver, thread).await,
        }
    }

    fn made(&self, seed: u64) -> Vec<(Arc<str>, Made)> {
        make::named(seed, CHANNELS, self.scalars_are_json)
    }

    async fn write(&self, saver: &dyn Saver, thread: String, seed: u64) -> Result<Json, String> {
        let made = self.made(seed);
        let checkpoint = Checkpoint {
            layout: LAYOUT_VERSION,
            ts: timestamp(self.doors.clock.now()),
            id: self.mint.mint(0),
            channel_values: made
                .iter()
                .map(|(name, made)| (name.clone(), Arc::new(made.value.clone())))
                .collect(),
            channel_versions: made
                .iter()
                .map(|(name, _)| (name.clone(), format!("{:032}.0.5", 1).into()))
                .collect(),
            versions_seen: Default::default(),
            updated_channels: None,
        };
        let metadata = Metadata {
            source: Source::Loop,
            step: 0,
            parents: Default::default(),
            extra: Default::default(),
        };
        self.store(saver, &ThreadKey::root(thread), None, checkpoint, metadata).await?;
        Ok(made.into_iter().map(|(name, made)| json!([&*name, made.said])).collect())
    }

    /// A checkpoint, and its own values once more as pending writes beside it.
    async fn store(
        &self,
        saver: &dyn Saver,
        key: &ThreadKey,
        parent: Option<&str>,
        checkpoint: Checkpoint,
        metadata: Metadata,
    ) -> Result<(), String> {
        let id = checkpoint.id.clone();
        let values = checkpoint.channel_values.iter();
        let writes = values.map(|(name, value)| (name.clone(), value.clone())).collect();
        let put = saver.put(Put::new(key, parent, checkpoint, metadata)).await;
        put.map_err(|error| error.to_string())?;
        let writes = saver.put_writes(PutWrites::new(key, &id, TASK, TASK_PATH, writes)).await;
        writes.map_err(|error| error.to_string())
    }

    /// Names what came back as something else.
    async fn compare(&self, saver: &dyn Saver, thread: String, seed: u64) -> Result<Json, String> {
        let tuple = newest(saver, &ThreadKey::root(thread)).await?;
        let mut differences = Vec::new();
        for (name, made) in self.made(seed) {
            let wanted = make::canonical(&made.value);
            let write = |write: &&PendingWrite| write.channel == name;
            let written = tuple.writes.iter().find(write).map(|write| &write.value);
            for (place, found) in
                [("channel", tuple.checkpoint.channel_values.get(&name)), ("write", written)]
            {
                let found = found.map(|found| make::canonical(found));
                // Bytes, as two NaN are not equal.
                if found.as_ref().map(bytes).transpose()? != Some(bytes(&wanted)?) {
                    let found = found.map(|found| found.to_string());
                    differences.push(json!({
                        "place": place, "name": &*name, "said": made.said, "found": found,
                    }));
                }
            }
        }
        Ok(differences.into())
    }

    async fn carry(&self, saver: &dyn Saver, thread: String) -> Result<Json, String> {
        let key = ThreadKey::root(thread);
        let CheckpointTuple { checkpoint, metadata, writes, .. } = newest(saver, &key).await?;
        let parent = checkpoint.id.clone();
        let ids = Ids::new(&self.mint);
        if !ids.keep_above(&parent) {
            return Err(format!("no id is greater than {parent}"));
        }
        let id = ids.mint(metadata.step + 1);
        let versions = checkpoint.channel_versions.keys();
        let channel_versions =
            versions.map(|name| (name.clone(), format!("{:032}.0.25", 2).into())).collect();
        let written: Vec<(Arc<str>, Shared)> =
            writes.into_iter().map(|write| (write.channel, write.value)).collect();
        let next = Checkpoint { id: id.clone(), channel_versions, ..checkpoint };
        let put = saver.put(Put::new(&key, Some(&parent), next, metadata)).await;
        put.map_err(|error| error.to_string())?;
        let writes = saver.put_writes(PutWrites::new(&key, &id, TASK, TASK_PATH, written)).await;
        writes.map(|()| (*id).into()).map_err(|error| error.to_string())
    }
}

async fn newest(saver: &dyn Saver, key: &ThreadKey) -> Result<CheckpointTuple, String> {
    let tuple = saver.get_tuple(key, None).await.map_err(|error| error.to_string())?;
    tuple.ok_or_else(|| format!("thread {:?} has no checkpoint", key.thread))
}

fn bytes(value: &Value) -> Result<String, String> {
    codec::pack(value).map(|bytes| to_hex(&bytes)).map_err(|error| error.to_string())
}
