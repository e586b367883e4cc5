//! What must not stand in source files.

use crate::rust::{code, line, words};
use crate::{assert_tidy, tree};

/// Lines that a file may have. A longer one wants to become two, one idea each.
const LONGEST: usize = 500;

/// Files that may be longer, each with its reason.
const LONGER: [(&str, &str); 0] = [];

type File = (String, String);

fn rust_files(of: impl Fn(&str) -> bool) -> Vec<File> {
    let files: Vec<File> = tree::texts(&[".rs"]).into_iter().filter(|(path, _)| of(path)).collect();
    assert!(!files.is_empty(), "no file is checked; the filter of this test is out of date");
    files
}

fn in_src(path: &str) -> bool {
    path.split('/').any(|folder| folder == "src")
}

/// The runtime and its derive.
fn of_runtime(path: &str) -> bool {
    path.starts_with("runtime/") && in_src(path)
}

/// Every place in the code of `files` where one of `banned` stands.
fn places(files: &[File], banned: &[&str], what_to_do: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in files {
        let code = code(text);
        for word in banned {
            for at in words(&code, word) {
                let line = line(&code, at);
                complaints.push(format!("{path}:{line}: `{word}`: {what_to_do}"));
            }
        }
    }
    complaints
}

fn knows_a_simulator(files: &[File]) -> Vec<String> {
    let to_do = "the runtime knows no simulator; take what differs through a door \
                 (runtime/src/doors/mod.rs)";
    places(files, &["madsim", "durasim_sim", "durasim_models", "durasim_properties"], to_do)
}

#[test]
fn the_runtime_knows_no_simulator() {
    assert_tidy(knows_a_simulator(&rust_files(of_runtime)));
    assert!(of_runtime("runtime/src/lib.rs") && of_runtime("runtime/derive/src/lib.rs"));
    let bad = [("a.rs".to_owned(), "// madsim\n#[cfg(madsim)]\nfn f() {}".to_owned())];
    assert_eq!(knows_a_simulator(&bad).len(), 1);
}

/// The runtime's tests may be left out of a simulated build, as they use real files and threads;
/// no more than that.
fn simulates(files: &[File]) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in files {
        let code = code(text).replace("#![cfg(not(madsim))]", "");
        if words(&code, "madsim").next().is_some() {
            complaints.push(format!(
                "{path}: only `#![cfg(not(madsim))]` is allowed here; a test that needs the \
                 simulator belongs to properties/tests"
            ));
        }
    }
    complaints
}

#[test]
fn the_runtimes_tests_do_not_simulate() {
    assert_tidy(simulates(&rust_files(|path| path.starts_with("runtime/tests/"))));
    let file = |text: &str| [("t.rs".to_owned(), text.to_owned())];
    assert!(simulates(&file("#![cfg(not(madsim))]\nfn f() {}")).is_empty());
    assert_eq!(simulates(&file("#[cfg(madsim)]\nfn f() {}")).len(), 1);
}

/// What a process shares behind the doors to the real world; no simulated process comes by them.
const STATICS: [&str; 1] = ["runtime/src/doors/opener.rs"];

fn statics(files: &[File]) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in files {
        let code = code(text);
        for at in words(&code, "static").filter(|at| !code[..*at].ends_with('\'')) {
            complaints.push(format!(
                "{path}:{}: a `static` outlives the simulated process that filled it and leaks \
                 from seed to seed; keep it in a value that the graph or the run owns",
                line(&code, at)
            ));
        }
    }
    complaints
}

#[test]
fn the_runtime_holds_no_statics() {
    assert_tidy(statics(&rust_files(|path| of_runtime(path) && !STATICS.contains(&path))));
    for path in STATICS {
        assert!(!statics(&rust_files(|file| file == path)).is_empty(), "{path} has no static");
    }
    let bad = "const OK: &'static str = \"static\";\nstatic COUNT: AtomicU64 = AtomicU64::new(0);";
    let bad = [("a.rs".to_owned(), bad.to_owned())];
    assert_eq!(statics(&bad).len(), 1);
    assert!(statics(&bad)[0].starts_with("a.rs:2:"));
}

fn unordered(files: &[File]) -> Vec<String> {
    let to_do = "its order differs from process to process; use BTreeMap, BTreeSet, IndexMap or \
                 IndexSet";
    places(files, &["HashMap", "HashSet"], to_do)
}

#[test]
fn nothing_is_kept_in_hash_order() {
    assert_tidy(unordered(&rust_files(in_src)));
    let bad = "use std::collections::HashMap; // HashSet\nlet i: IndexMap<_, _>;";
    assert_eq!(unordered(&[("a.rs".to_owned(), bad.to_owned())]).len(), 1);
}

fn unbiased(files: &[File]) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in files {
        let code = code(text);
        for at in words(&code, "select!") {
            let body = code[at + "select!".len()..].trim_start();
            let first = body.strip_prefix(['{', '(', '[']).unwrap_or_default().trim_start();
            if !first.starts_with("biased;") {
                complaints.push(format!(
                    "{path}:{}: `select!` draws its order from a counter of the OS process, so a \
                     run would depend on earlier seeds; begin it with `biased;`",
                    line(&code, at)
                ));
            }
        }
    }
    complaints
}

#[test]
fn every_select_is_biased() {
    assert_tidy(unbiased(&rust_files(|_| true)));
    let of = |text: &str| unbiased(&[("a.rs".to_owned(), text.to_owned())]).len();
    assert_eq!(of("tokio::select! {\n biased;\n x = y => {} }"), 0);
    assert_eq!(of("select_biased! { x = y => {} }"), 0);
    assert_eq!(of("tokio::select! {\n // biased;\n x = y => {} }"), 1);
    assert_eq!(of("tokio::select!(x = y => {})"), 1);
}

fn too_long(files: &[File], longer: &[(&str, &str)]) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in files {
        let lines = text.lines().count();
        let allowed = longer.iter().any(|(name, _)| name == path);
        if lines > LONGEST && !allowed {
            complaints.push(format!(
                "{path}: {lines} lines; split it by idea, or list it in LONGER \
                 (xtask/tests/tidy/sources.rs) with the reason"
            ));
        }
        if lines <= LONGEST && allowed {
            complaints.push(format!("{path}: {lines} lines; take it off the list LONGER"));
        }
    }
    for (name, reason) in longer {
        if reason.is_empty() || !files.iter().any(|(path, _)| path == name) {
            complaints.push(format!("{name}: listed in LONGER without a reason or a file"));
        }
    }
    complaints
}

#[test]
fn files_are_small() {
    assert_tidy(too_long(&tree::texts(&[".rs", ".md", ".py", ".toml", ".sh"]), &LONGER));
    let files =
        [("long.rs".to_owned(), "x\n".repeat(501)), ("short.rs".to_owned(), "x".to_owned())];
    assert_eq!(too_long(&files, &[]).len(), 1);
    assert_eq!(too_long(&files, &[("long.rs", "generated")]), [] as [String; 0]);
    assert_eq!(too_long(&files, &[("long.rs", "")]).len(), 1);
    assert_eq!(too_long(&files, &[("long.rs", "why"), ("short.rs", "why")]).len(), 1);
    assert_eq!(too_long(&files, &[("long.rs", "why"), ("gone.rs", "why")]).len(), 1);
}

/// A test that is not run proves nothing and looks as if it did.
fn skipped(files: &[File]) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in files {
        let code = code(text);
        for at in words(&code, "ignore").filter(|at| code[..*at].ends_with("#[")) {
            complaints.push(format!(
                "{path}:{}: an ignored test; mend it, or delete it and say why in the commit",
                line(&code, at)
            ));
        }
    }
    complaints
}

#[test]
fn no_test_is_ignored() {
    assert_tidy(skipped(&rust_files(|_| true)));
    let of = |text: &str| skipped(&[("a.rs".to_owned(), text.to_owned())]).len();
    assert_eq!(of("#[test]\n#[ignore = \"slow\"]\nfn f() {}"), 1);
    assert_eq!(of("// #[ignore]\nlet ignore = 1;"), 0);
}
