//! The simulator against the measured tables.
#![cfg(madsim)]

use durasim_properties::Registry;
use durasim_properties::scenario::Store;
use durasim_properties::tables::{self, Stand, Table};
use durasim_properties::world::{RunPlan, Sabotage};
use durasim_runtime::Profile;

const SEEDS: std::ops::Range<u64> = 0..5;
const SAFE: Stand = Stand { profile: Profile::Safe, store: Store::Sqlite, workers: 1 };

/// Rows and cells of each table. A table that lost some would still agree.
const SIZES: [(&str, usize, usize); 6] = [
    ("streaming", 16, 80),
    ("interrupt", 4, 24),
    ("handlers", 9, 117),
    ("orphans", 12, 72),
    ("concurrent", 5, 30),
    ("loads", 7, 21),
];

fn rendered(tables: &[Table]) -> String {
    tables.iter().map(Table::render).collect::<Vec<_>>().join("\n")
}

/// Keys of the rows of the table `name` that differ somewhere.
fn differing<'a>(tables: &'a [Table], name: &str) -> Vec<Vec<&'a str>> {
    let table = tables.iter().find(|table| table.name == name).expect("a table of this name");
    let rows = table.rows.iter().filter(|row| row.differing() > 0);
    rows.map(|row| row.key.iter().map(String::as_str).collect()).collect()
}

#[test]
fn every_cell_agrees() {
    let registry = Registry::builtin();
    for seed in SEEDS {
        let tables = tables::all(&registry, seed);
        let sizes =
            tables.iter().map(|table| (&*table.name, table.rows.len(), table.cells().count()));
        assert_eq!(sizes.collect::<Vec<_>>(), SIZES, "seed {seed}");
        for table in &tables {
            assert_eq!(table.differing(), 0, "seed {seed}\n{}", table.render());
            assert!(table.rows.iter().all(|row| row.key.len() == table.keys.len()));
            assert!(table.rows.iter().all(|row| row.cells.len() == table.columns.len()));
        }
    }
}

/// The real stack was measured on PostgreSQL, too, with one worker and with four, and showed the same.
#[test]
fn every_cell_agrees_on_postgres() {
    let registry = Registry::builtin();
    for workers in [1, 4] {
        for seed in SEEDS {
            let stand = Stand { store: Store::Postgres, workers, ..Stand::default() };
            let plan = RunPlan { seed, ..RunPlan::default() };
            for table in &tables::all_on(&registry, stand, plan) {
                let text = table.render();
                assert_eq!(table.differing(), 0, "seed {seed}, {workers} workers\n{text}");
            }
        }
    }
}

/// The safe profile stores at exit, disconnect or not. That this shows, and nothing else with it,
/// says that the handlers' cells come from the run and not from the data.
#[test]
fn the_safe_profile_differs_at_exit() {
    let registry = Registry::builtin();
    for seed in SEEDS {
        let plan = RunPlan { seed, ..RunPlan::default() };
        let tables = tables::all_on(&registry, SAFE, plan);
        let found = differing(&tables, "handlers");
        assert_eq!(found, [["inline", "exit"]], "seed {seed}\n{}", rendered(&tables));
    }
}

/// A store that swallows one checkpoint shows in every row that has a second one.
#[test]
fn a_lost_checkpoint_differs() {
    let registry = Registry::builtin();
    let plan = RunPlan { seed: 0, sabotage: Sabotage::DropLoopPut { nth: 1 } };
    let tables = tables::all_on(&registry, Stand::default(), plan);
    let text = rendered(&tables);
    let stored = differing(&tables, "streaming");
    assert!(stored.len() >= 12, "{text}");
    assert!(differing(&tables, "interrupt").len() >= 3, "{text}");
    assert!(text.contains("≠"), "{text}");
}

/// A table is read in a terminal.
#[test]
fn tables_fit_a_terminal() {
    let registry = Registry::builtin();
    let plan = RunPlan::default();
    let safe = tables::all_on(&registry, SAFE, plan);
    for table in tables::all(&registry, 0).iter().chain(&safe) {
        let text = table.render();
        println!("{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 140), "{text}");
        let json = serde_json::to_value(table).expect("a table is plain data");
        assert_eq!(json["rows"].as_array().map(Vec::len), Some(table.rows.len()));
    }
}
