//! Which files there are.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The workspace's own folder. Cargo says where it is when it runs a test; what it said when it
/// built one may be another checkout with the same target folder.
pub fn root() -> PathBuf {
    let told = std::env::var_os("CARGO_MANIFEST_DIR");
    let xtask = told.map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    xtask.parent().expect("xtask lies in the workspace").to_owned()
}

/// Every file that belongs to the repository, by path from its root, sorted. With `new`, also files
/// that are neither tracked nor ignored, so that a check speaks up before the commit.
pub fn files(new: bool) -> Vec<String> {
    let mut files = match git_files(new) {
        Some(files) => files,
        // An unpacked source archive: whatever lies there belongs to it.
        None => {
            let mut found = Vec::new();
            walk(&root(), "", &mut found);
            found
        }
    };
    files.retain(|file| root().join(file).is_file());
    files.sort();
    assert!(files.len() > 50, "only {} files were found: is this the repository?", files.len());
    files
}

/// The text of a file of the repository.
pub fn read(file: &str) -> String {
    match std::fs::read_to_string(root().join(file)) {
        Ok(text) => text,
        Err(error) => panic!("{file}: {error}"),
    }
}

/// Path and text of every file that ends in one of `endings`.
pub fn texts(endings: &[&str]) -> Vec<(String, String)> {
    let wanted = |file: &String| endings.iter().any(|ending| file.ends_with(ending));
    files(true).into_iter().filter(wanted).map(|file| (file.clone(), read(&file))).collect()
}

fn git_files(new: bool) -> Option<Vec<String>> {
    let mut git = Command::new("git");
    git.arg("-C").arg(root()).args(["ls-files", "-z", "--cached"]);
    if new {
        git.args(["--others", "--exclude-standard"]);
    }
    // A clone without its own .git must not be taken for a part of the repository around it.
    if !root().join(".git").exists() {
        return None;
    }
    let output = git.output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.split('\0').filter(|file| !file.is_empty()).map(str::to_owned).collect())
}

fn walk(folder: &Path, prefix: &str, found: &mut Vec<String>) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = entry.path();
        match path.is_dir() {
            true if name == "target" || name == ".git" => {}
            true => walk(&path, &format!("{prefix}{name}/"), found),
            false => found.push(format!("{prefix}{name}")),
        }
    }
}
