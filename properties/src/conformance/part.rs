//! Performs a part of a case's script, where somebody else performs the rest on the same database.
//!
//! What it observes keeps its ids: labels can be given out only when all of the case is over.

use std::collections::BTreeMap;
use std::sync::Arc;

use durasim_runtime::{Doors, Durability, Profile, Saver};
use futures::future::{Either, select};
use serde_json::{Map, Value as Json};

use super::case::Case;
use super::freeze::Freeze;
use super::prepare::{Prepared, prepare};
use super::script::{Happened, Happenings, Script, Stage};
use super::store::{Rows, Store};
use super::trace::{operation_with_ids, thread_with_ids};
use crate::declarative::Raises;

/// A case under way in this process, in LangGraph's own profile.
pub struct Part {
    prepared: Prepared,
    script: Script,
    store: Store,
    freeze: Arc<Freeze>,
    happenings: Happenings,
    raises: Raises,
}

/// How an operation ended.
pub enum Performed {
    /// With this trace.
    Whole(Json),
    /// Never: the process froze after the write it was to freeze after.
    Frozen,
}

impl Part {
    /// `freeze_after` a durable write of this number nothing of this process lasts any more.
    pub fn open(
        case: &Case,
        doors: &Doors,
        saver: Arc<dyn Saver>,
        durability: Option<Durability>,
        freeze_after: Option<u64>,
    ) -> Result<Part, String> {
        let prepared = prepare(case).map_err(|reasons| reasons.join("; "))?;
        let store = Store { saver, rows: Rows::Saver };
        let freeze = Arc::new(freeze_after.map_or_else(Freeze::never, Freeze::after));
        let (happenings, raises) = (Happenings::default(), Raises::default());
        let script = Script::open(Stage {
            name: &case.name,
            prepared: &prepared,
            doors,
            store: &store,
            options: Profile::Faithful.options(),
            durability,
            freeze: freeze.clone(),
            happenings: happenings.clone(),
            raises: raises.clone(),
        })?;
        Ok(Part { prepared, script, store, freeze, happenings, raises })
    }

    /// Performs the operation at this place of the script.
    pub async fn perform(&self, place: usize) -> Result<Performed, String> {
        let operation = self.prepared.operations.get(place);
        let operation = operation.ok_or_else(|| format!("there is no operation {place}"))?;
        let before = self.happenings.count();
        let performing = Box::pin(self.script.perform(operation));
        let mut observed = match select(performing, Box::pin(self.freeze.frozen())).await {
            Either::Left((observed, _)) => observed?,
            Either::Right(_) => return Ok(Performed::Frozen),
        };
        observed.name = operation.name();
        observed.effects = self.happenings.texts_from(before);
        Ok(Performed::Whole(operation_with_ids(&observed)))
    }

    /// What has become of the threads of the script.
    pub async fn look(&self) -> Result<Json, String> {
        let mut threads = Map::new();
        for name in &self.prepared.threads {
            let thread = self.script.look_at(name, &self.store).await?;
            threads.insert(name.clone(), thread_with_ids(&thread));
        }
        Ok(threads.into())
    }

    /// Node, label and task of every effect so far.
    pub fn executions(&self) -> Vec<[String; 3]> {
        let parts = |effect: Happened| [effect.node, effect.label, effect.task];
        self.happenings.all().into_iter().map(parts).collect()
    }

    /// How often each node has raised, by its path.
    pub fn raises(&self) -> BTreeMap<String, u64> {
        self.raises.counts()
    }
}
