//! Checkpoint ids, versions and hashed names, against what LangGraph made.
#![cfg(not(madsim))]

mod checkpoint_support;

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use checkpoint_support::{FixedEntropy, StillClock, vectors};
use durasim_runtime::Doors;
use durasim_runtime::checkpoint::id::{IdMint, Ids, timestamp, uuid6_bytes};
use durasim_runtime::checkpoint::task_id;
use durasim_runtime::checkpoint::version::{next_version, parse_version, version_number};

fn mint_at(nanos: u64) -> (IdMint, Arc<StillClock>) {
    let clock = Arc::new(StillClock::default());
    *clock.now.lock().unwrap() = Some(UNIX_EPOCH + Duration::from_nanos(nanos));
    let entropy = Arc::new(FixedEntropy(0xab));
    let doors = Doors { clock: clock.clone(), entropy, ..Doors::production() };
    (IdMint::new(&doors), clock)
}

/// The moment of an id that Python made: its 60 bits, back to nanoseconds since 1970.
#[test]
fn mints_the_id_that_python_mints() {
    // 1f1ec26b-cb56-6c53-bfff-fbb176e93de9, whose checkpoint says 18:57:34.411469: the time of its
    // id was read a moment later.
    let ticks = 0x1f1_ec26_bcb5_6c53_u64;
    let nanos = (ticks - 0x01b2_1dd2_1381_4000) * 100;
    let (mint, _) = mint_at(nanos);
    assert_eq!(&*mint.mint(-1), "1f1ec26b-cb56-6c53-bfff-abababababab");
    assert_eq!(
        timestamp(UNIX_EPOCH + Duration::from_nanos(nanos)),
        "2026-11-29T18:57:34.411477+00:00"
    );
}

#[test]
fn ids_rise_when_the_clock_does_not() {
    let (mint, clock) = mint_at(1_000_000_000);
    let first = mint.mint(5);
    let second = mint.mint(-2);
    *clock.now.lock().unwrap() = Some(UNIX_EPOCH);
    let third = mint.mint(0);
    *clock.now.lock().unwrap() = Some(UNIX_EPOCH + Duration::from_secs(2));
    let fourth = mint.mint(1 << 14);
    assert!(first < second && second < third && third < fourth);
    let clock_seqs: Vec<_> =
        [&first, &second, &third, &fourth].map(|id| id[19..23].to_owned()).into();
    assert_eq!(clock_seqs, ["8005", "bffe", "8000", "8000"]);
    let number = |id: &str| u128::from_be_bytes(uuid6_bytes(id).unwrap()) >> 64;
    assert_eq!(number(&second), number(&first) + 1);
}

#[test]
fn what_one_thread_asks_of_ids_is_no_others_affair() {
    let (mint, _) = mint_at(1_000_000_000);
    let mint = Arc::new(mint);
    let future = "3f1ec26b-cb56-6c53-bfff-abababababab";
    let (ahead, other) = (Ids::new(&mint), Ids::new(&mint));
    assert!(ahead.keep_above(future));
    let (first, second) = (ahead.mint(0), ahead.mint(1));
    assert!(*first > *future && second > first);
    let by_the_clock = [other.mint(0), mint.mint(0), Ids::new(&mint).mint(0)];
    assert!(by_the_clock.is_sorted() && *by_the_clock[2] < *future);
    // Also behind itself, when the clock stands.
    assert!(ahead.mint(2) > second);
}

/// Text order decides what a thread's head is, and anybody may have put anything there.
#[test]
fn an_id_is_above_any_head_or_there_is_none() {
    let (mint, _) = mint_at(1_000_000_000);
    let mint = Arc::new(mint);
    for head in [
        "00000000-0000-0000-0000-000000000000",
        "f47ac10b-58cc-4372-a567-0e02b2c3d479",
        "01890a5d-ac96-774b-bcce-b302099a8057",
        "F47AC10B-58CC-6372-A567-0E02B2C3D479",
        "0001",
        "",
    ] {
        let ids = Ids::new(&mint);
        assert!(ids.keep_above(head), "{head}");
        assert!(*ids.mint(0) > *head, "{head}");
    }
    for head in ["ffffffff-ffff-6fff-bfff-ffffffffffff", "zzz", "f47ac10b58cc6372a5670e02b2c3d479"]
    {
        assert!(!Ids::new(&mint).keep_above(head), "{head}");
    }
}

#[test]
fn a_clock_before_1970_still_gives_rising_ids() {
    let (mint, clock) = mint_at(0);
    *clock.now.lock().unwrap() = Some(UNIX_EPOCH - Duration::from_secs(1));
    let before = mint.mint(0);
    *clock.now.lock().unwrap() = Some(UNIX_EPOCH);
    assert!(before < mint.mint(0));
}

#[test]
fn reads_the_bytes_of_an_id() {
    let bytes = uuid6_bytes("1f1ebf27-e790-6833-bfff-727aed4c2af5").unwrap();
    assert_eq!(bytes[..4], [0x1f, 0x1e, 0xbf, 0x27]);
    for wrong in ["", "1f1ebf27", "+f1ebf27-e790-6833-bfff-727aed4c2af5", "é".repeat(16).as_str()]
    {
        assert_eq!(uuid6_bytes(wrong), None, "{wrong:?}");
    }
}

#[test]
fn timestamps_always_have_microseconds() {
    assert_eq!(timestamp(UNIX_EPOCH), "1970-01-01T00:00:00.000000+00:00");
    let late = UNIX_EPOCH + Duration::new(1_767_322_445, 123_456_789);
    assert_eq!(timestamp(late), "2026-01-02T02:54:05.123456+00:00");
}

#[test]
fn versions_count_on() {
    let zero = FixedEntropy(0);
    assert_eq!(&*next_version(None, &zero), "00000000000000000000000000000001.00000000000000.0");
    let half = FixedEntropy(0x80);
    let next = next_version(Some("00000000000000000000000000000009.0.9944108798103498"), &half);
    assert_eq!(&*next, "00000000000000000000000000000010.0.5019607843137255");
    assert_eq!(version_number(&next), 10);
    for wrong in ["", ".5", "x.5", "-1.5", "+1.5", " 1"] {
        assert_eq!(parse_version(wrong), None, "{wrong:?}");
    }
}

/// Recorded from rows of `writes` that LangGraph stored.
#[test]
fn task_ids_are_those_of_stored_rows() {
    let text = std::fs::read_to_string(vectors("ids_and_tables.json")).unwrap();
    let recorded: serde_json::Value = serde_json::from_str(&text).unwrap();
    let tasks = recorded["task_ids"].as_array().unwrap();
    assert_eq!(tasks.len(), 7);
    for task in tasks {
        let text = |key: &str| task[key].as_str().unwrap();
        let checkpoint = uuid6_bytes(text("checkpoint_id")).unwrap();
        let (step, node) = (task["step"].as_i64().unwrap(), text("name"));
        let mut parts: Vec<Arc<str>> = Vec::new();
        for part in task["parts"].as_array().unwrap() {
            parts.insert(0, part.as_str().unwrap().into()); // backwards: sorting is not the caller's
        }
        let id = match text("kind") {
            "__pregel_pull" => task_id::pull(&checkpoint, "", step, node, &parts),
            "__pregel_push" => {
                task_id::push(&checkpoint, "", step, node, parts[0].parse().unwrap())
            }
            other => panic!("{other}"),
        };
        assert_eq!(&*id, text("task_id"), "{node}");
    }
}

/// From the thread `asked` in python_mid_run.sqlite.
#[test]
fn interrupt_ids_are_those_of_stored_rows() {
    let namespace = task_id::task_namespace("", "notify", "aebe2df8-edc7-cf1a-30b9-a072fdfa3234");
    assert_eq!(namespace, "notify:aebe2df8-edc7-cf1a-30b9-a072fdfa3234");
    assert_eq!(task_id::interrupt_id(&namespace), "859a67cc6d0ead98e003eb546fb3d992");
    assert_eq!(task_id::task_namespace("a:1", "b", "2"), "a:1|b:2");
}

/// As recorded in rows of LangGraph's Postgres saver, the one that stores paths.
#[test]
fn task_paths_are_those_of_stored_rows() {
    assert_eq!(task_id::pull_path("charge"), "~__pregel_pull, charge");
    assert_eq!(task_id::push_path(0), "~__pregel_push, 0000000000, 0000000000");
    assert_eq!(task_id::push_path(12), "~__pregel_push, 0000000012, 0000000000");
}
