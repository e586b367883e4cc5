//! `check-determinism`: the same seed, in two processes, to the byte.
//!
//! One process runs the seeds upwards, the other downwards, so that anything that leaks from one
//! seed to the next shows too.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::args::DeterminismArgs;
use super::pool::Worker;
use super::select;
use super::simulate::{now, own_binary, progress};
use super::worker::{Job, Verdict};
use crate::registry::Registry;
use crate::scenario::Scenario;

/// Seeds whose hashes are kept at most.
const MOST_SEEDS: u64 = 10_000_000;
/// How many differing seeds are shown in full.
const SHOWN: usize = 3;

/// True when no trace differs.
pub fn check(registry: &Registry, args: &DeterminismArgs) -> Result<bool, String> {
    let variants: Vec<Scenario> =
        select::sweep(registry, &args.choice)?.into_iter().flatten().collect();
    let count = args.seeds.0.end - args.seeds.0.start;
    if count > MOST_SEEDS {
        return Err(format!("--seeds: {count} are more than the {MOST_SEEDS} that fit in memory"));
    }
    // Seeds go round the variants, so that a count of seeds covers all of them alike.
    let mut jobs: Vec<Job> = args
        .seeds
        .0
        .clone()
        .map(|seed| {
            let id = (seed % variants.len() as u64) as usize;
            Job { id, scenario: variants[id].clone(), seeds: vec![seed] }
        })
        .collect();
    let first = own_binary()?;
    let second = args.against.clone().unwrap_or_else(|| first.clone());
    let total = jobs.len();
    let bar = progress(2 * total as u64, args.json);
    let started = now();
    let upwards = jobs.clone();
    jobs.reverse();
    let (up, down) = std::thread::scope(|scope| {
        let up = scope.spawn(|| hashes(&first, &upwards, &bar));
        let down = scope.spawn(|| hashes(&second, &jobs, &bar));
        (up.join(), down.join())
    });
    let died = |_| "a thread of the check died".to_owned();
    let (up, down) = (up.map_err(died)??, down.map_err(died)??);
    bar.finish_and_clear();
    let differing: Vec<&Job> =
        upwards.iter().filter(|job| up.get(&job.seeds[0]) != down.get(&job.seeds[0])).collect();
    let ok = differing.is_empty();
    let rate = 2.0 * total as f64 / started.elapsed().as_secs_f64().max(1e-9);
    for job in differing.iter().take(if args.json { usize::MAX } else { SHOWN }) {
        let seed = job.seeds[0];
        let named = args.choice.name_of(&job.scenario);
        let arguments = job.scenario.replay_arguments(registry, named, seed);
        let command = job.scenario.replay_command(registry, named, seed);
        let difference = first_difference(&arguments, &first, &second)?;
        if args.json {
            let name = &job.scenario.name;
            say!("{}", json!({ "scenario": name, "seed": seed, "difference": difference }));
        } else {
            say!("{command}");
            say!("{difference}\n");
        }
    }
    if args.json {
        say!(
            "{}",
            json!({
                "summary": "check-determinism", "ok": ok, "seeds": total,
                "findings": differing.len(), "seeds_per_second": (rate * 10.0).round() / 10.0,
            })
        );
    } else if ok {
        say!("{total} seeds, each in two processes: no trace differs.");
    } else {
        say!("{} of {total} seeds differ between two processes.", differing.len());
    }
    Ok(ok)
}

fn hashes(
    binary: &Path,
    jobs: &[Job],
    bar: &indicatif::ProgressBar,
) -> Result<BTreeMap<u64, Verdict>, String> {
    let mut worker = Worker::start(binary)?;
    let mut verdicts = BTreeMap::new();
    for job in jobs {
        for verdict in worker.run(job)? {
            bar.inc(1);
            verdicts.insert(verdict.seed, verdict);
        }
    }
    Ok(verdicts)
}

/// Both whole traces from fresh processes, compared line by line.
fn first_difference(arguments: &[String], first: &Path, second: &Path) -> Result<String, String> {
    let trace = |binary: &Path| -> Result<Vec<String>, String> {
        let output = Command::new(binary).args(arguments).arg("--json").output();
        let output = output.map_err(|error| format!("{}: {error}", binary.display()))?;
        Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
    };
    let (a, b) = (trace(first)?, trace(second)?);
    let differs = (0..a.len().max(b.len())).find(|i| a.get(*i) != b.get(*i));
    Ok(match differs {
        None => "the traces agree in fresh processes: something leaked from an earlier seed".into(),
        Some(i) => {
            let line = |lines: &[String]| lines.get(i).cloned().unwrap_or("(the end)".to_owned());
            format!("first difference, event {i}:\n  {}\n  {}", line(&a), line(&b))
        }
    })
}
