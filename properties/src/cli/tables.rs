//! `tables`: what was measured on the real stack, recomputed.

use serde_json::json;

use super::args::TablesArgs;
use crate::registry::Registry;
use crate::tables::{self, Stand};
use crate::world::RunPlan;

/// True when every cell agrees.
pub fn tables(registry: &Registry, args: &TablesArgs) -> Result<bool, String> {
    let stand = Stand { store: args.store.into(), workers: args.workers, ..Stand::default() };
    let plan = RunPlan { seed: args.seed, ..RunPlan::default() };
    let tables = tables::all_on(registry, stand, plan);
    let cells: usize = tables.iter().flat_map(|t| &t.rows).map(|row| row.cells.len()).sum();
    let differing: usize = tables.iter().map(tables::Table::differing).sum();
    let ok = differing == 0;
    if args.json {
        for table in &tables {
            say!("{}", serde_json::to_string(table).map_err(|error| error.to_string())?);
        }
        say!(
            "{}",
            json!({ "summary": "tables", "ok": ok, "cells": cells, "differing": differing })
        );
    } else {
        tables.iter().for_each(|table| say!("{}\n", table.render()));
        match differing {
            0 => say!("All {cells} cells agree with the measurement."),
            _ => say!("{differing} of {cells} cells differ from the measurement."),
        }
    }
    Ok(ok)
}
