//! Bad arguments and bad scenario files: refused in one line that names the culprit, before anything
//! runs.
#![cfg(madsim)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use durasim_properties::scenario::from_json;
use serde_json::{Value as Json, json};

fn durasim(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_durasim")).args(arguments).output().expect("it starts")
}

/// Exit code 2, nothing on stdout, and on stderr one line that has each of these in it.
fn refuses(arguments: &[&str], named: &[&str]) {
    let output = durasim(arguments);
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {out}{err}");
    assert_eq!(out, "", "{arguments:?}");
    assert_eq!(err.trim_end().lines().count(), 1, "{arguments:?}: {err}");
    assert!(err.starts_with("error: "), "{arguments:?}: {err}");
    for name in named {
        assert!(err.contains(name), "{arguments:?} does not name {name:?}: {err}");
    }
}

#[test]
fn options_that_make_no_sense() {
    for (arguments, named) in [
        (
            &["simulate", "--scenario", "nonsense"][..],
            &["--scenario", "nonsense", "kill-then-message"][..],
        ),
        (&["simulate", "--seeds", "8..5"], &["--seeds", "backwards", "8", "5"]),
        (&["simulate", "--seeds", "0"], &["--seeds", "empty"]),
        (&["simulate", "--seeds", "7..7"], &["--seeds", "empty"]),
        (&["simulate", "--seeds", "many"], &["--seeds", "many"]),
        (&["simulate", "--seeds", "-3"], &["-3"]),
        (&["simulate", "--seeds", "99999999999999999999"], &["--seeds", "99999999999999999999"]),
        (&["simulate", "--jobs", "0"], &["--jobs"]),
        (&["simulate", "--jobs", "two"], &["--jobs", "two"]),
        (&["simulate", "--store", "paper"], &["--store", "paper"]),
        (&["simulate", "--durability", "maybe"], &["--durability", "maybe"]),
        (&["simulate", "--profile", "reckless"], &["--profile", "reckless"]),
        (&["simulate", "--shape", "round"], &["--shape", "round"]),
        (
            &["simulate", "--shape", "direct", "--scenario", "kill-then-message"],
            &["faults[0]", "direct"],
        ),
        (&["replay"], &["--scenario"]),
        (&["replay", "--scenario", "nonsense"], &["--scenario", "nonsense"]),
        (&["replay", "--scenario", "approval", "--seed", "x"], &["--seed", "x"]),
        (&["replay", "--scenario", "approval", "--seed"], &["--seed"]),
        (&["check-determinism", "--seeds", "0"], &["--seeds", "empty"]),
        (&["guess"], &["guess"]),
        (&["simulate", "--speed", "11"], &["--speed"]),
    ] {
        refuses(arguments, named);
    }
}

/// The same machinery says yes to what is right.
#[test]
fn good_arguments_are_taken() {
    let output = durasim(&[
        "simulate",
        "--scenario",
        "approval",
        "--seeds",
        "3..5",
        "--jobs",
        "1",
        "--json",
    ]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let lines = String::from_utf8_lossy(&output.stdout).lines().count();
    assert_eq!(lines, 3, "two seeds and a summary");
    assert_eq!(durasim(&["--help"]).status.code(), Some(0));
}

#[test]
fn files_that_cannot_be_read() {
    refuses(&["simulate", "--scenario", "no/such/file.json"], &["no/such/file.json"]);
    let folder = env!("CARGO_TARGET_TMPDIR");
    refuses(&["simulate", "--scenario", folder], &[folder]);
    for (name, content, named) in [
        ("empty", "", "not JSON"),
        ("torn", r#"{ "version": 1, "name": "#, "not JSON"),
        ("list", "[]", "version"),
        ("version", r#"{ "version": 2 }"#, "version"),
    ] {
        let path = file(name, content.as_bytes());
        refuses(&["simulate", "--scenario", text(&path)], &[text(&path), named]);
        refuses(&["replay", "--scenario", text(&path)], &[text(&path), named]);
    }
    let path = file("latin-1", b"{ \"name\": \"caf\xe9\" }");
    refuses(&["simulate", "--scenario", text(&path)], &[text(&path), "UTF-8"]);
}

/// What only the registry can know is said by the command, with the names that there are.
#[test]
fn files_that_name_what_is_not_there() {
    for (pointer, value, named) in [
        ("/graph", json!("bokking"), &["graph", "bokking", "booking"][..]),
        ("/expect", json!({ "hold": ["acounted"] }), &["expect.hold", "acounted", "accounted"]),
        (
            "/expect",
            json!({ "demonstrates": ["twice"] }),
            &["expect.demonstrates", "twice", "once"],
        ),
    ] {
        let path = file("unknown-name", altered(pointer, value).to_string().as_bytes());
        refuses(&["simulate", "--scenario", text(&path)], named);
    }
}

#[test]
fn files_with_a_mistake_in_one_field() {
    let step = json!({ "do": "send", "input": {} });
    for (pointer, value, named) in [
        ("/version", json!("1"), "version"),
        ("/version", json!(2), "version"),
        ("/version", json!(1.5), "version"),
        ("/version", Json::Null, "version"),
        ("/name", json!(""), "name"),
        ("/name", json!("a\u{7}b"), "name"),
        ("/name", json!(7), "name"),
        ("/graph", json!(["booking"]), "graph"),
        ("/colour", json!("red"), "colour"),
        ("/workers", json!(0), "workers"),
        ("/workers", json!(1_000_000), "workers"),
        ("/workers", json!(-1), "workers"),
        ("/store", json!("paper"), "store"),
        ("/durability", json!("maybe"), "durability"),
        ("/shape", json!("round"), "shape"),
        ("/cancel", json!("shout"), "cancel"),
        ("/profile", json!("reckless"), "profile"),
        ("/stream_modes", json!(["updates", "telepathy"]), "stream_modes[1]"),
        ("/stream_modes", json!("updates"), "stream_modes"),
        ("/delays", json!({ "put_ms": [9, 3] }), "delays.put_ms"),
        ("/delays", json!({ "put_writes_ms": [1, 0] }), "delays.put_writes_ms"),
        ("/delays", json!({ "network_ms": [5, 4] }), "delays.network_ms"),
        ("/delays", json!({ "network_ms": [5] }), "delays.network_ms"),
        ("/delays", json!({ "put_ms": [-1, 4] }), "delays.put_ms"),
        ("/delays", json!({ "lunch_ms": [0, 1] }), "lunch_ms"),
        ("/clients", json!([]), "clients"),
        ("/clients/0/name", json!(""), "clients[0].name"),
        ("/clients/0/thread", json!("a\nb"), "clients[0].thread"),
        ("/clients/0/mood", json!("calm"), "mood"),
        ("/clients/0/name", json!("server-1"), "clients[0].name"),
        ("/clients/0/name", json!("payments"), "clients[0].name"),
        (
            "/clients/0/script",
            json!([{ "do": "wait_for", "moment": { "event": "node.entered", "nth": 0 } }]),
            "clients[0].script[0].moment.nth",
        ),
        (
            "/clients/0/script",
            json!([{ "do": "hold", "until": { "event": "node.entered", "nth": 0 } }]),
            "clients[0].script[0].until.nth",
        ),
        ("/clients/0/script", json!([{ "do": "wait", "ms": u64::MAX }]), "clients[0].script[0].ms"),
        (
            "/clients",
            json!([
                { "name": "a", "thread": "t", "script": [] },
                { "name": "a", "thread": "u", "script": [] },
            ]),
            "clients[1].name",
        ),
        ("/clients/0/script", json!([{ "do": "dance" }]), "clients[0].script[0]"),
        ("/clients/0/script", json!([step, { "do": "send" }]), "clients[0].script[1]"),
        ("/clients/0/script", json!([{ "do": "wait" }]), "ms"),
        (
            "/clients/0/script",
            json!([{ "do": "continue", "leave": { "within_ms": [3, 1] } }]),
            "clients[0].script[0].leave.within_ms",
        ),
        (
            "/clients/0/script",
            json!([{ "do": "continue", "leave": { "after_chunk": 0 } }]),
            "clients[0].script[0].leave.after_chunk",
        ),
        (
            "/clients/0/script",
            json!([{ "do": "continue", "leave": "sometimes" }]),
            "clients[0].script[0]",
        ),
        ("/faults", json!([{ "do": "kill" }]), "faults[0]"),
        ("/faults", json!([{ "do": "flood" }]), "faults[0]"),
        ("/options", json!({ "id_ordr": "by_clock" }), "options"),
        ("/options", json!({ "id_order": "backwards" }), "options.id_order"),
        ("/options", json!({ "forks": 1 }), "options.forks"),
        ("/faults", json!([{ "do": "step_clock", "process": "server-1" }]), "faults[0]"),
        (
            "/faults",
            json!([{ "do": "step_clock", "process": "x", "by_ms": 1, "when": { "at_ms": 1 } }]),
            "faults[0].process",
        ),
        ("/faults", kill("server-9", json!({ "at_ms": 1 })), "faults[0].process"),
        ("/faults", kill("server-1", json!({ "within_ms": [2, 1] })), "faults[0].when.within_ms"),
        ("/faults", kill("server-1", json!("noon")), "faults[0]"),
        ("/faults", json!([{ "do": "fail_put", "nth": 0 }]), "faults[0].nth"),
        ("/faults", json!([{ "do": "fail_put_writes", "nth": 0 }]), "faults[0].nth"),
        ("/expect", json!({ "hope": [] }), "hope"),
        ("/seed", json!(-1), "seed"),
    ] {
        let text = altered(pointer, value).to_string();
        let problem = match from_json(&text, "a file") {
            Ok(scenario) => panic!("{pointer} was taken: {scenario:?}"),
            Err(error) => error.to_string(),
        };
        assert_eq!(problem.lines().count(), 1, "{problem}");
        assert!(problem.starts_with("a file: "), "{problem}");
        let said = problem.trim_start_matches("a file: ");
        assert!(said.contains(named), "{pointer}: does not name {named:?}: {problem}");
    }
    for missing in ["version", "name", "graph", "clients"] {
        let mut scenario = good();
        scenario.as_object_mut().expect("an object").remove(missing);
        let problem = from_json(&scenario.to_string(), "a file").expect_err(missing).to_string();
        assert!(problem.contains(missing), "{problem}");
    }
    assert!(from_json(&good().to_string(), "a file").is_ok(), "what the table alters is sound");
}

fn good() -> Json {
    json!({
        "version": 1, "name": "small", "graph": "booking",
        "clients": [{ "name": "alice", "thread": "t", "script": [] }],
    })
}

/// The good scenario with one field set.
fn altered(pointer: &str, value: Json) -> Json {
    let mut scenario = good();
    let (parent, field) = pointer.rsplit_once('/').expect("a pointer has a slash");
    scenario.pointer_mut(parent).expect("the parent is there")[field] = value;
    scenario
}

fn kill(process: &str, when: Json) -> Json {
    json!([{ "do": "kill", "process": process, "when": when, "restart_after_ms": 1 }])
}

fn file(name: &str, content: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bad-{name}.json"));
    std::fs::write(&path, content).expect("the folder for tests can be written");
    path
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of plain text")
}
