//! Runs the script of a case.

use std::sync::Arc;

use durasim_runtime::{Doors, Options};

use super::case::Case;
use super::freeze::Freeze;
use super::observed::Observed;
use super::prepare::Prepared;
use super::script::{Happenings, Script, Stage};
use super::store::Store;
use crate::declarative::Raises;

/// Runs a case to its end. The error says why it could not be run; an error of a run inside the
/// case is part of what is observed.
pub(super) async fn run(
    case: &Case,
    prepared: &Prepared,
    doors: &Doors,
    store: &Store,
    options: Options,
) -> Result<Observed, String> {
    let happenings = Happenings::default();
    let script = Script::open(Stage {
        name: &case.name,
        prepared,
        doors,
        store,
        options,
        durability: None,
        freeze: Arc::new(Freeze::never()),
        happenings: happenings.clone(),
        raises: Raises::default(),
    })?;
    let mut operations = Vec::new();
    for operation in &prepared.operations {
        let before = happenings.count();
        let mut observed = script.perform(operation).await?;
        observed.name = operation.name();
        observed.effects = happenings.texts_from(before);
        operations.push(observed);
    }
    let mut threads = Vec::new();
    for thread in &prepared.threads {
        threads.push(script.look_at(thread, store).await?);
    }
    Ok(Observed { effects: happenings.texts_from(0), operations, threads })
}
