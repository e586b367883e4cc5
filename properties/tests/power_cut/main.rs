//! The host of a SQLite saver stops after any write and any sync that reaches its disk: by a power
//! cut, which keeps some of the unsynced pages, or by a kill, which keeps what the OS had.
//!
//! Each time the file must open and be whole, what was acknowledged before must be there, nothing
//! may be there in part, and the threads must go on to their ends.
#![cfg(madsim)]

mod judge;
mod witness;
mod workload;

use durasim_runtime::Durability;
use durasim_runtime::checkpoint::sqlite::Synchronous;
use durasim_sim::Replay;

use judge::{Promise, judge};
use witness::Acknowledges;
use workload::{Recording, record};

/// Choices of the surviving pages at each point.
const CUTS: u64 = 3;

/// What is wrong at all points together, and how many were looked at.
struct Looked {
    points: usize,
    problems: Vec<String>,
    /// Points at which something acknowledged was not there.
    losses: usize,
}

/// Looks at all points, or until `enough`.
fn look(
    recording: &Recording,
    mut replay: Replay<'_>,
    promise: Promise,
    enough: fn(&Looked) -> bool,
) -> Looked {
    let mut looked = Looked { points: 0, problems: vec![], losses: 0 };
    loop {
        let point = replay.done();
        looked.points += 1;
        let mut check = |how: &str, files, promise, seed| {
            let verdict = judge(recording, point, files, promise, seed);
            looked.losses += usize::from(verdict.lost > 0);
            let problems = verdict.problems.into_iter();
            let of = recording.log.len();
            looked.problems.extend(problems.map(|p| format!("{how} after {point} of {of}: {p}")));
        };
        check("kill", replay.kill(), Promise::Everything, 0);
        for seed in 0..CUTS {
            let seed = seed + CUTS * point as u64;
            check("power cut", replay.cut_power(seed), promise, seed);
        }
        if enough(&looked) || !replay.advance() {
            return looked;
        }
    }
}

fn never(_: &Looked) -> bool {
    false
}

/// Something acknowledged was found missing.
fn is_noticed(looked: &Looked) -> bool {
    looked.problems.iter().any(|problem| problem.contains("is not there"))
}

fn told(looked: &Looked) -> String {
    let first: Vec<&str> = looked.problems.iter().take(5).map(String::as_str).collect();
    format!("{} problems, the first of them:\n{}", looked.problems.len(), first.join("\n"))
}

#[test]
fn a_full_commit_outlives_a_power_cut_at_any_point() {
    let recording = record(0, Durability::Sync, Synchronous::Full, Acknowledges::Landed);
    assert!(recording.log.len() > 200, "{} operations", recording.log.len());
    assert!(recording.acknowledged() > 40, "{} writes", recording.acknowledged());
    let looked = look(&recording, recording.log.replay(), Promise::Everything, never);
    assert_eq!(looked.points, recording.log.len() + 1);
    assert!(looked.problems.is_empty(), "{}", told(&looked));
}

/// What waits is committed together: a cut must not leave the half of it.
#[test]
fn many_steps_in_one_commit_outlive_a_power_cut_at_any_point() {
    let recording = record(2, Durability::Async, Synchronous::Full, Acknowledges::Landed);
    let at_sync = record(2, Durability::Sync, Synchronous::Full, Acknowledges::Landed);
    assert_eq!(recording.acknowledged(), at_sync.acknowledged());
    let operations = [&recording, &at_sync].map(|recording| recording.log.len());
    assert!(operations[0] < operations[1] * 3 / 4, "operations: {operations:?}");
    let looked = look(&recording, recording.log.replay(), Promise::Everything, never);
    assert_eq!(looked.points, recording.log.len() + 1);
    assert!(looked.problems.is_empty(), "{}", told(&looked));
}

#[test]
fn without_full_a_power_cut_leaves_a_beginning() {
    let recording = record(1, Durability::Sync, Synchronous::Normal, Acknowledges::Landed);
    let looked = look(&recording, recording.log.replay(), Promise::Beginning, never);
    assert!(looked.problems.is_empty(), "{}", told(&looked));
    assert!(looked.losses > looked.points, "power cuts that take nothing prove nothing");
}

#[test]
fn syncs_that_do_nothing_are_noticed() {
    let recording = record(0, Durability::Sync, Synchronous::Full, Acknowledges::Landed);
    let lying = recording.log.replay().with_lying_syncs();
    let looked = look(&recording, lying, Promise::Everything, is_noticed);
    assert!(is_noticed(&looked), "{}", told(&looked));
}

#[test]
fn acknowledging_before_the_commit_is_noticed() {
    let recording = record(0, Durability::Sync, Synchronous::Full, Acknowledges::Submitted);
    // A kill alone shows it, too.
    let by_a_kill = |looked: &Looked| looked.problems.iter().any(|p| p.starts_with("kill"));
    let looked = look(&recording, recording.log.replay(), Promise::Everything, by_a_kill);
    assert!(is_noticed(&looked) && by_a_kill(&looked), "{}", told(&looked));
}
