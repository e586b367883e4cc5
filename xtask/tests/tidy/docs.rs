//! Documents must not speak of what is not there.

use std::collections::BTreeSet;

use crate::{assert_tidy, tree};

const DOCUMENTS: [&str; 2] = ["README.md", "ARCHITECTURE.md"];
const ROOMS: [&str; 6] = ["runtime", "sim", "models", "properties", "snapshots", "xtask"];

/// Parts of `line` between single backticks.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The target of every link of a line.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// Does this text mean a file of the repository?
fn is_path(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    if !text.chars().all(plain) {
        return false;
    }
    match text.split_once('/') {
        Some((first, _)) => ROOMS.contains(&first) || matches!(first, ".ci" | ".cargo"),
        None => [".rs", ".md", ".toml", ".lock"].iter().any(|ending| text.ends_with(ending)),
    }
}

/// `exists` tells of a path from the root whether there is such a file or folder.
fn dead_paths(document: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut in_block = false;
    for (index, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            in_block = !in_block;
        }
        if in_block {
            continue;
        }
        let named = quoted(line).filter(|text| is_path(text));
        let linked = links(line).filter(|link| !link.contains("://") && !link.starts_with('#'));
        for path in named.chain(linked) {
            if !exists(path.split('#').next().unwrap_or(path)) {
                complaints.push(format!(
                    "{document}:{}: `{path}` does not exist; name the file where it is now (paths \
                     count from the root), or write what is only planned without backticks",
                    index + 1
                ));
            }
        }
    }
    complaints
}

#[test]
fn documents_name_what_exists() {
    let mut complaints = Vec::new();
    for document in DOCUMENTS {
        let exists = |path: &str| tree::root().join(path).exists();
        complaints.extend(dead_paths(document, &tree::read(document), exists));
    }
    assert_tidy(complaints);
    let of = |text: &str| dead_paths("a.md", text, |path| path == "sim/src/lib.rs").len();
    assert_eq!(of("see `sim/src/lib.rs` and [it](sim/src/lib.rs#top), `--seeds N`, `a/b`"), 0);
    assert_eq!(of("```\nsim/src/gone.rs `sim/src/gone.rs`\n```"), 0);
    assert_eq!(of("see `sim/src/gone.rs`"), 1);
    assert_eq!(of("see `gone.rs`"), 1);
    assert_eq!(of("see [it](sim/src/gone.rs)"), 1);
}

/// The first word of each line of the first code block under the heading `## room`.
fn listed<'a>(text: &'a str, room: &str) -> Vec<&'a str> {
    let heading = format!("## {room}");
    let section = text.lines().skip_while(|line| *line != heading).skip(1);
    let section = section.take_while(|line| !line.starts_with("## "));
    let block = section.skip_while(|line| !line.starts_with("```")).skip(1);
    let block = block.take_while(|line| !line.starts_with("```"));
    block.filter(|line| !line.starts_with(' ')).filter_map(|line| line.split(' ').next()).collect()
}

/// `modules`: folders (with a slash) and files below the room's `src`.
fn misdrawn(room: &str, listed: &[&str], modules: &BTreeSet<String>) -> Vec<String> {
    let mut complaints = Vec::new();
    for name in listed.iter().filter(|name| !modules.contains(**name)) {
        complaints.push(format!(
            "ARCHITECTURE.md, section {room}: {room}/src/{name} does not exist; move its line to \
             \"Planned\""
        ));
    }
    for name in modules.iter().filter(|name| !listed.contains(&name.as_str())) {
        complaints.push(format!(
            "{room}/src/{name} has no line in ARCHITECTURE.md, section {room}; say what it is for"
        ));
    }
    complaints
}

#[test]
fn the_rooms_are_drawn_as_they_are() {
    let (text, files) = (tree::read("ARCHITECTURE.md"), tree::files(true));
    let mut complaints = Vec::new();
    for room in ["runtime", "sim", "models", "properties", "xtask"] {
        let source = format!("{room}/src/");
        let mut modules = BTreeSet::new();
        for file in files.iter().filter_map(|file| file.strip_prefix(&source)) {
            match file.split_once('/') {
                Some((folder, _)) => modules.insert(format!("{folder}/")),
                None => !matches!(file, "lib.rs" | "main.rs") && modules.insert(file.to_owned()),
            };
        }
        complaints.extend(misdrawn(room, &listed(&text, room), &modules));
    }
    assert_tidy(complaints);
    let text =
        "## sim\n\n```\nnet/  TCP\n      and more\ndisk/ SQLite\n```\n\n## models\n```\nx/\n```";
    let modules = BTreeSet::from(["net/".to_owned(), "lock.rs".to_owned()]);
    assert_eq!(listed(text, "sim"), ["net/", "disk/"]);
    assert_eq!(misdrawn("sim", &listed(text, "sim"), &modules).len(), 2);
}
