//! What lies where.

use serde_json::Value as Json;

use crate::{assert_tidy, tree};

/// The entries of the top level. A name that begins with a dot is a tool's own and always allowed.
const TOP: [&str; 16] = [
    "ARCHITECTURE.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "clippy.toml",
    "models",
    "properties",
    "runtime",
    "rust-toolchain.toml",
    "rustfmt.toml",
    "sim",
    "snapshots",
    "xtask",
];

fn top_level(files: &[&str]) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut found: Vec<&str> = files.iter().filter_map(|file| file.split('/').next()).collect();
    found.dedup();
    for entry in found.iter().filter(|entry| !entry.starts_with('.') && !TOP.contains(entry)) {
        complaints.push(format!(
            "{entry}: a new entry at the top level; put it into one of the rooms of ARCHITECTURE.md"
        ));
    }
    for entry in TOP.iter().filter(|entry| !found.contains(entry)) {
        complaints.push(format!(
            "{entry}: missing at the top level; bring it back, or change ARCHITECTURE.md and the \
             list TOP (xtask/tests/tidy/layout.rs) together"
        ));
    }
    complaints
}

#[test]
fn the_top_level_is_fixed() {
    let files = tree::files(false);
    assert_tidy(top_level(&files.iter().map(String::as_str).collect::<Vec<_>>()));
    let mut files: Vec<String> = TOP.iter().map(|entry| format!("{entry}/x")).collect();
    files.extend([".ci/run".to_owned(), "notes.txt".to_owned()]);
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    assert_eq!(top_level(&files).len(), 1);
    assert_eq!(top_level(&files[1..files.len() - 1]).len(), 1);
}

/// Endings of what editors, tests and databases leave behind.
const LEFTOVERS: [&str; 12] = [
    ".bak",
    ".orig",
    ".pending-snap",
    ".pyc",
    ".rej",
    ".rs.bk",
    ".snap.new",
    ".swo",
    ".swp",
    ".tmp",
    "-shm",
    "-wal",
];

/// Folders whose name says nothing about what is in them.
const NAMELESS: [&str; 4] = ["helpers", "misc", "util", "utils"];

fn strays(files: &[&str]) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in files {
        let mut parts: Vec<&str> = file.split('/').collect();
        let name = parts.pop().unwrap_or_default();
        let stray = LEFTOVERS.iter().any(|ending| name.ends_with(ending))
            || name.ends_with('~')
            || name.starts_with(".#")
            || name == ".DS_Store"
            || parts.iter().any(|part| matches!(*part, ".idea" | ".vscode" | "__pycache__"));
        if stray {
            complaints.push(format!(
                "{file}: left over by a tool; `git rm --cached` it and name it in .gitignore"
            ));
        }
        let nameless = |part: &str| NAMELESS.contains(&part.trim_end_matches(".rs"));
        if parts.iter().any(|part| nameless(part)) || (name.ends_with(".rs") && nameless(name)) {
            complaints.push(format!("{file}: name the folder or module after the idea it holds"));
        }
        if parts.contains(&"target") {
            complaints.push(format!("{file}: built, not written; `git rm -r --cached` its folder"));
        }
    }
    complaints
}

#[test]
fn nothing_stray_is_tracked() {
    let files = tree::files(false);
    assert_tidy(strays(&files.iter().map(String::as_str).collect::<Vec<_>>()));
    let bad = [
        "snapshots/a.snap.new",
        "sim/src/lib.rs.orig",
        "sim/src/.lib.rs.swp",
        "README.md~",
        "runtime/tests/vectors/a.sqlite-wal",
        "runtime/tests/vectors/a.sqlite-shm",
        "runtime/tests/vectors/__pycache__/make.py",
        "runtime/src/utils/mod.rs",
        "runtime/src/utils.rs",
        "properties/examples/own-graph/target/x",
    ];
    assert_eq!(strays(&bad).len(), bad.len());
    assert_eq!(strays(&["sim/src/net/mod.rs", "snapshots/a.snap"]), [] as [String; 0]);
}

const SCENARIOS: &str = "properties/scenarios/";
const BUILTIN: &str = "properties/src/scenario/builtin.rs";

/// `scenarios`: path and text of each file.
fn unlisted(scenarios: &[(String, String)], builtin: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in scenarios {
        let Some(stem) = path.strip_prefix(SCENARIOS).and_then(|name| name.strip_suffix(".json"))
        else {
            complaints.push(format!("{path}: {SCENARIOS} holds scenario files only (NAME.json)"));
            continue;
        };
        if !builtin.contains(&format!("{stem:?}")) {
            complaints.push(format!("{path}: nobody runs it; list {stem:?} in {BUILTIN}"));
        }
        let json: Json = serde_json::from_str(text).unwrap_or_default();
        if json["name"] != *stem {
            let name = &json["name"];
            complaints.push(format!(
                "{path}: its `name` is {name}; call it {stem:?}, as its file is what `--scenario` \
                 names"
            ));
        }
    }
    complaints
}

#[test]
fn every_scenario_is_run() {
    let mut scenarios: Vec<(String, String)> = Vec::new();
    for path in tree::files(true).into_iter().filter(|path| path.starts_with(SCENARIOS)) {
        let text = tree::read(&path);
        scenarios.push((path, text));
    }
    assert!(!scenarios.is_empty(), "no scenario was found in {SCENARIOS}");
    assert_tidy(unlisted(&scenarios, &tree::read(BUILTIN)));
    let file = |name: &str, text: &str| [(format!("{SCENARIOS}{name}"), text.to_owned())];
    let builtin = r#"files!["a"]"#;
    assert_eq!(unlisted(&file("a.json", r#"{"name": "a"}"#), builtin), [] as [String; 0]);
    assert_eq!(unlisted(&file("b.json", r#"{"name": "b"}"#), builtin).len(), 1);
    assert_eq!(unlisted(&file("a.json", r#"{"name": "c"}"#), builtin).len(), 1);
    assert_eq!(unlisted(&file("a.txt", ""), builtin).len(), 1);
}
