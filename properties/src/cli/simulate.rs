//! `simulate`: many seeds, one table per question, a verdict.

use std::path::PathBuf;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::args::SimulateArgs;
use super::recheck::Recheck;
use super::report::{Question, print_questions};
use super::worker::Job;
use super::{pool, select};
use crate::registry::Registry;
use crate::scenario::Scenario;

/// Seeds per variant of the default sweep.
const DEFAULT_SEEDS: u64 = 50;
/// Worker processes at most.
const MOST_JOBS: u32 = 256;
/// Seeds that a worker is handed at once.
const BATCH: u64 = 20;

/// True when nothing was found beyond what the scenarios declare.
pub fn simulate(registry: &Registry, args: &SimulateArgs) -> Result<bool, String> {
    if args.jobs.is_some_and(|jobs| jobs == 0 || jobs > MOST_JOBS) {
        return Err(format!("--jobs: takes 1 to {MOST_JOBS}"));
    }
    let seeds = args.seeds.clone().map_or(0..DEFAULT_SEEDS, |seeds| seeds.0);
    let mut questions: Vec<Question> =
        select::sweep(registry, &args.choice)?.into_iter().map(Question::new).collect();
    // A job's id says which question and which variant its answers belong to.
    let places: Vec<(usize, usize)> = questions
        .iter()
        .enumerate()
        .flat_map(|(q, question)| (0..question.variants.len()).map(move |v| (q, v)))
        .collect();
    let scenarios: Vec<Scenario> =
        places.iter().map(|&(q, v)| questions[q].variants[v].scenario.clone()).collect();
    let batches = (seeds.end - seeds.start).div_ceil(BATCH);
    let jobs = scenarios.iter().enumerate().flat_map(|(id, scenario)| {
        let seeds = seeds.clone();
        (0..batches).map(move |batch| {
            let first = seeds.start + batch * BATCH;
            let seeds = first..seeds.end.min(first.saturating_add(BATCH));
            Job { id, scenario: scenario.clone(), seeds: seeds.collect() }
        })
    });
    let total = (seeds.end - seeds.start).saturating_mul(places.len() as u64);
    let batches = batches.saturating_mul(places.len() as u64);
    let workers = workers(args.jobs).min(usize::try_from(batches).unwrap_or(usize::MAX));
    let mut again = Recheck::default();
    let bar = progress(total, args.json);
    let started = now();
    let mut findings = 0;
    pool::run(&own_binary()?, workers, jobs, |verdict| {
        let (q, v) = places[verdict.job];
        bar.inc(1);
        let variant = &mut questions[q].variants[v];
        if !verdict.findings.is_empty() {
            findings += 1;
            bar.set_message(format!("{findings} findings"));
        }
        if args.json {
            let scenario = &variant.scenario;
            say!(
                "{}",
                json!({
                    "scenario": scenario.name,
                    "durability": scenario.durability,
                    "store": scenario.store,
                    "profile": scenario.profile,
                    "shape": scenario.shape,
                    "seed": verdict.seed,
                    "hash": format!("{:016x}", verdict.hash),
                    "executed": verdict.executed,
                    "recorded": verdict.recorded,
                    "explained": verdict.explained,
                    "findings": verdict.findings,
                    "demonstrated": verdict.demonstrated,
                })
            );
        }
        again.consider(&variant.scenario, &verdict);
        variant.take(verdict);
    })?;
    bar.finish_and_clear();
    let seconds = started.elapsed().as_secs_f64();
    let findings_again = again.findings;
    let (rechecked, differing) = again.run(workers)?;
    for (scenario, seed) in &differing {
        let command = scenario.replay_command(registry, args.choice.name_of(scenario), *seed);
        match args.json {
            true => say!("{}", json!({ "differs_in_a_fresh_process": command })),
            false => say!("\nFinding: another trace in a fresh process\n  replay: {command}"),
        }
    }
    findings += differing.len();
    let ok = findings == 0;
    let rate = total as f64 / seconds.max(1e-9);
    if args.json {
        let rate = (rate * 10.0).round() / 10.0;
        say!(
            "{}",
            json!({
                "summary": "simulate", "ok": ok, "seeds": total, "findings": findings,
                "seeds_per_second": rate, "rechecked": rechecked,
            })
        );
    } else {
        print_questions(registry, &args.choice, &questions);
        say!("{total} runs in {seconds:.1} s, {rate:.0} a second.");
        say!(
            "{rechecked} of them, {findings_again} findings included, ran again in a fresh process: {} \
             other traces.",
            differing.len()
        );
        match ok {
            true => say!("Nothing was found beyond what the scenarios declare."),
            false => say!("{findings} findings."),
        }
    }
    Ok(ok)
}

pub(super) fn own_binary() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|error| format!("the path of this program: {error}"))
}

fn workers(jobs: Option<u32>) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get());
    jobs.map_or_else(cores, |jobs| jobs as usize)
}

pub(super) fn progress(total: u64, hidden: bool) -> ProgressBar {
    if hidden {
        return ProgressBar::hidden();
    }
    let style = "{bar:40} {pos}/{len} seeds, {per_sec}, {eta} left  {msg}";
    let style = ProgressStyle::with_template(style).expect("a valid template");
    ProgressBar::new(total).with_style(style)
}

/// Real time, for telling people how long it took. Never part of a result.
#[allow(clippy::disallowed_methods)]
pub(super) fn now() -> Instant {
    Instant::now()
}
