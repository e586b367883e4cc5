//! Cases that once failed, as scenario files.

use std::path::{Path, PathBuf};

use durasim_properties::Scenario;
use durasim_properties::scenario::{Expect, load as load_scenario};
use xxhash_rust::xxh3::xxh3_64;

/// From the root of the repository, where commands are typed.
const FOLDER: &str = "snapshots/corpus";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every case, with its file as a command would name it, in the order of their names.
pub fn load() -> Vec<(String, Scenario)> {
    let folder = root().join(FOLDER);
    let entries = std::fs::read_dir(&folder).expect("the folder of the corpus is there");
    let names = entries.map(|entry| entry.expect("it can be listed").file_name());
    let mut names: Vec<String> = names
        .filter_map(|name| name.into_string().ok())
        .filter(|name| !name.starts_with('.'))
        .collect();
    names.sort();
    let cases = names.into_iter().map(|name| {
        let scenario = load_scenario(&folder.join(&name)).unwrap_or_else(|bad| panic!("{bad}"));
        (format!("{FOLDER}/{name}"), scenario)
    });
    cases.collect()
}

/// Writes a failing case down, under a name of its own.
pub fn keep(
    kind: &str,
    scenario: Scenario,
    hold: Vec<String>,
    broken: &[String],
) -> (String, Scenario) {
    let text = serde_json::to_string(&scenario).expect("a scenario is plain data");
    let name = format!("{kind}-{:08x}", xxh3_64(text.as_bytes()) as u32);
    let about = format!("Once failed: {}", broken.join("; "));
    let expect = Expect { hold, ..Expect::default() };
    let scenario = Scenario { name: name.clone(), about, expect, ..scenario };
    let text = serde_json::to_string_pretty(&scenario).expect("a scenario is plain data");
    let file = format!("{FOLDER}/{name}.json");
    std::fs::write(root().join(&file), text + "\n").expect("the corpus can be written");
    (file, scenario)
}
