//! Who leans on whom: what Cargo.toml files say and what the table of ARCHITECTURE.md says.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value as Json;

use crate::rust::{code, words};
use crate::{assert_tidy, tree};

type Names = BTreeSet<String>;

/// What one crate uses.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Uses {
    /// Crates of this workspace, by folder.
    ours: Names,
    outside: Names,
    /// Beyond those, for tests and examples.
    tests: Names,
}

type Table = BTreeMap<String, Uses>;

const OURS: &str = "durasim-";
const HEADER: [&str; 4] = ["crate", "ours", "from outside", "in tests only"];

/// The crates as Cargo sees them, with their folders' names.
fn from_cargo(metadata: &Json) -> Table {
    let mut table = Table::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let text = |json: &Json| json.as_str().unwrap_or_default().to_owned();
        let mut uses = Uses::default();
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            // tokio is a rename: what the code says counts.
            let name = dependency["rename"].as_str().unwrap_or_default();
            let name = if name.is_empty() { text(&dependency["name"]) } else { name.to_owned() };
            match (dependency["kind"].as_str(), name.strip_prefix(OURS)) {
                (Some("dev"), _) => uses.tests.insert(name),
                (_, Some(ours)) => uses.ours.insert(ours.to_owned()),
                (_, None) => uses.outside.insert(name),
            };
        }
        uses.tests.retain(|name| !uses.outside.contains(name));
        let name = text(&package["name"]);
        table.insert(name.strip_prefix(OURS).unwrap_or(&name).to_owned(), uses);
    }
    table
}

/// The table of a document: names in backticks, under [`HEADER`].
fn from_document(text: &str) -> Table {
    let cells = |line: &str| -> Vec<String> {
        let line = line.trim().trim_start_matches('|').trim_end_matches('|');
        line.split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let names =
        |cell: &str| -> Names { cell.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    let mut table = Table::new();
    let rows = text.lines().skip_while(|line| cells(line) != HEADER).skip(2);
    for row in rows.take_while(|line| line.starts_with('|')).map(cells) {
        let [of, ours, outside, tests] = &row[..] else { continue };
        let uses = Uses { ours: names(ours), outside: names(outside), tests: names(tests) };
        for of in names(of) {
            table.insert(of, uses.clone());
        }
    }
    table
}

/// Where each crate lies, from the root.
fn folders(metadata: &Json) -> BTreeMap<String, String> {
    let root = metadata["workspace_root"].as_str().unwrap_or_default();
    let mut folders = BTreeMap::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let text = |of: &str| package[of].as_str().unwrap_or_default().to_owned();
        let (name, manifest) = (text("name"), text("manifest_path"));
        let folder = manifest.trim_start_matches(root).trim_end_matches("/Cargo.toml");
        let name = name.strip_prefix(OURS).unwrap_or(&name).to_owned();
        folders.insert(name, folder.trim_start_matches('/').to_owned());
    }
    folders
}

fn differences(cargo: &Table, document: &Table) -> Vec<String> {
    let mut complaints = Vec::new();
    let crates: BTreeSet<&String> = cargo.keys().chain(document.keys()).collect();
    for name in crates {
        let (Some(real), Some(written)) = (cargo.get(name), document.get(name)) else {
            complaints.push(format!(
                "{name}: in the workspace or in the table of ARCHITECTURE.md, but not in both; \
                 add or delete its row"
            ));
            continue;
        };
        for (column, real, written) in [
            ("ours", &real.ours, &written.ours),
            ("from outside", &real.outside, &written.outside),
            ("in tests only", &real.tests, &written.tests),
        ] {
            for used in real.difference(written) {
                complaints.push(format!(
                    "{name}/Cargo.toml uses `{used}`, which its row in ARCHITECTURE.md (column \
                     \"{column}\") does not allow; do without, or change the plan first and say why"
                ));
            }
            for unused in written.difference(real) {
                complaints.push(format!(
                    "ARCHITECTURE.md, row {name}, column \"{column}\": `{unused}` is not used any \
                     more; take it out"
                ));
            }
        }
    }
    complaints
}

fn metadata() -> Json {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--offline", "--no-deps", "--format-version", "1"])
        .current_dir(tree::root())
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

#[test]
fn dependencies_are_those_of_the_plan() {
    let cargo = from_cargo(&metadata());
    assert!(cargo.contains_key("runtime"), "the workspace has no runtime: {cargo:?}");
    assert_tidy(differences(&cargo, &from_document(&tree::read("ARCHITECTURE.md"))));
}

#[test]
fn a_dependency_too_many_is_found() {
    let document = "| crate | ours | from outside | in tests only |\n|---|---|---|---|\n\
                    | `sim` | - | `tokio`, `serde` | `bytes` |\n\nmore";
    let document = from_document(document);
    let cargo = |dependencies: &str| {
        let text = format!(
            r#"{{"packages": [{{"name": "durasim-sim", "dependencies": [{dependencies}]}}]}}"#
        );
        from_cargo(&serde_json::from_str(&text).unwrap())
    };
    let tokio = r#"{"name": "madsim-tokio", "rename": "tokio", "kind": null}"#;
    let serde = r#"{"name": "serde", "rename": null, "kind": null}"#;
    let bytes = r#"{"name": "bytes", "rename": null, "kind": "dev"}"#;
    let runtime = r#"{"name": "durasim-runtime", "rename": null, "kind": null}"#;
    let count = |all: &[&str]| differences(&cargo(&all.join(",")), &document).len();
    assert_eq!(count(&[tokio, serde, bytes]), 0);
    assert_eq!(count(&[tokio, serde, bytes, runtime]), 1);
    assert_eq!(count(&[tokio, bytes]), 1);
    assert_eq!(count(&[tokio, serde, bytes, r#"{"name": "x", "kind": "dev"}"#]), 1);
    assert_eq!(differences(&cargo(tokio), &Table::new()).len(), 1);
    assert_eq!(differences(&Table::new(), &document).len(), 1);
}

/// Names of `outside` that no path in the code begins with.
fn unused(of: &str, outside: &Names, code: &[String]) -> Vec<String> {
    let mut complaints = Vec::new();
    for name in outside {
        let word = name.replace('-', "_");
        let is_path = |code: &str, at: usize| {
            let (before, after) = (&code[..at], &code[at + word.len()..]);
            !before.ends_with("::") && (after.starts_with("::") || before.ends_with("use "))
        };
        if !code.iter().any(|code| words(code, &word).any(|at| is_path(code, at))) {
            complaints.push(format!("{of}/Cargo.toml: `{name}` is used nowhere; take it out"));
        }
    }
    complaints
}

#[test]
fn every_dependency_is_used() {
    let (files, metadata) = (tree::texts(&[".rs"]), metadata());
    let folders = folders(&metadata);
    assert_eq!(folders["derive"], "runtime/derive");
    let mut complaints = Vec::new();
    for (name, uses) in from_cargo(&metadata) {
        let source = format!("{}/src/", folders[&name]);
        let mine = files.iter().filter(|(path, _)| path.starts_with(&source));
        let mine: Vec<String> = mine.map(|(_, text)| code(text)).collect();
        complaints.extend(unused(&name, &uses.outside, &mine));
    }
    assert_tidy(complaints);
    let names = Names::from(["serde-json".to_owned(), "bytes".to_owned()]);
    let code = ["use serde_json::json;".to_owned(), "let bytes = body::bytes::f();".to_owned()];
    assert_eq!(unused("sim", &names, &code).len(), 1);
}
