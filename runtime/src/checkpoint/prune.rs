//! Which ancestors a thread cannot do without when only its newest checkpoint is kept.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Checkpoint, Metadata, Source};

/// Key in a checkpoint's metadata under which LangGraph 1.2.9 keeps, for each delta channel, how much
/// was written to it since its last snapshot. Missing where a graph has no delta channels.
pub(crate) const COUNTERS: &str = "counters_since_delta_snapshot";

/// The delta channels of a checkpoint that are rebuilt from its ancestors. Feed it ancestors, nearest
/// first, and keep them, for as long as there are some left.
pub(super) struct InPart(BTreeSet<String>);

impl InPart {
    pub fn of(checkpoint: &Checkpoint, metadata: &Metadata) -> InPart {
        let counters = metadata.extra.get(COUNTERS).and_then(Value::as_object);
        let mut in_part = match counters {
            Some(counters) => {
                // One that was never written has no past, and steps are counted for it all the same.
                let is_written = |(name, count): &(&String, &Value)| {
                    let updates = count.get(0).and_then(Value::as_u64);
                    updates != Some(0) || checkpoint.channel_versions.contains_key(&***name)
                };
                InPart(counters.iter().filter(is_written).map(|(name, _)| name.clone()).collect())
            }
            None if metadata.source == Source::Loop => InPart(BTreeSet::new()),
            // Some updates from outside forget the counters. What has a version and no value may be a
            // delta channel then, unless its name says that it is none.
            None => {
                let names = checkpoint.channel_versions.keys();
                InPart(
                    names.filter(|name| !is_internal(name)).map(|name| name.to_string()).collect(),
                )
            }
        };
        in_part.visit(checkpoint);
        in_part
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn visit(&mut self, checkpoint: &Checkpoint) {
        self.0.retain(|channel| !checkpoint.channel_values.contains_key(&**channel));
    }

    /// The channels that no checkpoint so far holds.
    pub fn channels(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|channel| &**channel)
    }

    /// The checkpoint that is visited holds this channel, although it does not say so itself.
    pub fn found(&mut self, channel: &str) {
        self.0.remove(channel);
    }
}

/// The channels that a graph has of its own: they hold nothing for most of the time.
fn is_internal(channel: &str) -> bool {
    ["__", "branch:", "join:"].iter().any(|start| channel.starts_with(start))
}
