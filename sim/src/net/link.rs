//! Which packets arrive, and how long they travel.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// The latency of a link, one way. Each segment draws its own in `min..=max`; order is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    pub min: Duration,
    pub max: Duration,
}

impl LinkSpec {
    pub fn fixed(latency: Duration) -> Self {
        LinkSpec { min: latency, max: latency }
    }

    /// # Panics
    /// If `min > max`.
    pub fn between(min: Duration, max: Duration) -> Self {
        assert!(min <= max, "the least latency {min:?} exceeds the greatest {max:?}");
        LinkSpec { min, max }
    }
}

impl Default for LinkSpec {
    fn default() -> Self {
        Self::fixed(Duration::from_millis(1))
    }
}

pub(super) type Name = Arc<str>;

#[derive(Default)]
pub(super) struct Links {
    default: LinkSpec,
    pairs: BTreeMap<(Name, Name), LinkSpec>,
    /// Directed: packets from the first to the second are lost.
    cut: BTreeSet<(Name, Name)>,
    /// Nothing from or to these arrives.
    silent: BTreeSet<Name>,
}

impl Links {
    pub(super) fn set_default(&mut self, spec: LinkSpec) {
        self.default = spec;
    }

    pub(super) fn set(&mut self, a: &str, b: &str, spec: LinkSpec) {
        self.pairs.insert((a.into(), b.into()), spec);
        self.pairs.insert((b.into(), a.into()), spec);
    }

    pub(super) fn spec(&self, from: &Name, to: &Name) -> LinkSpec {
        if self.pairs.is_empty() {
            return self.default;
        }
        self.pairs.get(&(from.clone(), to.clone())).copied().unwrap_or(self.default)
    }

    pub(super) fn is_up(&self, from: &Name, to: &Name) -> bool {
        (self.cut.is_empty() || !self.cut.contains(&(from.clone(), to.clone())))
            && (self.silent.is_empty() || !self.silent.contains(from) && !self.silent.contains(to))
    }

    /// The latency, if packets arrive at all.
    pub(super) fn open_spec(&self, from: &Name, to: &Name) -> Option<LinkSpec> {
        self.is_up(from, to).then(|| self.spec(from, to))
    }

    pub(super) fn cut(&mut self, from: &str, to: &str) {
        self.cut.insert((from.into(), to.into()));
    }

    pub(super) fn mend(&mut self, a: &str, b: &str) {
        self.cut.remove(&(a.into(), b.into()));
        self.cut.remove(&(b.into(), a.into()));
    }

    pub(super) fn set_silent(&mut self, process: &str, silent: bool) {
        if silent {
            self.silent.insert(process.into());
        } else {
            self.silent.remove(process);
        }
    }
}
