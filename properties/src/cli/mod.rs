//! The command line of a simulation binary.
//!
//! Exit codes: 0 when nothing was found beyond what scenarios declare, 1 on a finding, 2 on bad
//! arguments or files, said in one line that names the field.

/// Prints a line for people or programs. Whoever has stopped reading (`| head`) wants no more.
macro_rules! say {
    ($($line:tt)*) => {
        if std::io::Write::write_fmt(
            &mut std::io::stdout().lock(),
            format_args!("{}\n", format_args!($($line)*)),
        )
        .is_err()
        {
            std::process::exit(0)
        }
    };
}

pub(crate) mod args;
#[cfg(madsim)]
mod bench;
#[cfg(not(madsim))]
mod bench_runtime;
mod conformance;
#[cfg(madsim)]
mod determinism;
#[cfg(not(madsim))]
mod launch;
#[cfg(madsim)]
mod pool;
#[cfg(madsim)]
mod recheck;
#[cfg(madsim)]
mod replay;
#[cfg(madsim)]
mod report;
#[cfg(madsim)]
mod select;
#[cfg(madsim)]
mod simulate;
#[cfg(madsim)]
mod tables;
#[cfg(madsim)]
mod worker;

use std::process::ExitCode;

use clap::Parser;

use crate::registry::Registry;
use args::Cli;

/// Bad arguments or files.
const MISUSE: u8 = 2;
/// Something was found.
const FOUND: u8 = 1;

/// The whole of a simulation binary: reads the command line and does what it says.
///
/// Built without `--cfg madsim`, it builds itself again with it and starts that, so that a plain
/// `cargo run` is the one command.
pub fn main(registry: Registry) -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => return misuse(one_line(&error)),
        Err(help) => {
            let _ = help.print();
            return ExitCode::SUCCESS;
        }
    };
    run(registry, cli)
}

#[cfg(not(madsim))]
fn run(_registry: Registry, cli: Cli) -> ExitCode {
    if let Some(args::Task::Conformance(args)) = &cli.task
        && args.seeds.is_none()
        && args.kills.is_none()
    {
        return conclude(conformance::conformance(args));
    }
    if let Some(args::Task::Bench(args)) = &cli.task
        && args.runtime
    {
        return conclude(bench_runtime::bench(args));
    }
    if let Some(args::Task::Peer(args)) = &cli.task {
        return conclude(crate::peer::serve(args).map(|()| true));
    }
    match launch::build_and_start() {
        Ok(code) => code,
        Err(problem) => misuse(problem),
    }
}

#[cfg(madsim)]
fn run(registry: Registry, cli: Cli) -> ExitCode {
    use args::Task;
    let result = match cli.task.unwrap_or_default() {
        Task::Simulate(args) => simulate::simulate(&registry, &args),
        Task::Replay(args) => replay::replay(&registry, &args),
        Task::Tables(args) => tables::tables(&registry, &args),
        Task::CheckDeterminism(args) => determinism::check(&registry, &args),
        Task::Bench(args) if args.runtime => {
            Err("--runtime is measured without a simulator: start the plain build".to_owned())
        }
        Task::Bench(args) => bench::bench(&registry, &args),
        Task::Conformance(args) => conformance::conformance(&args),
        Task::Peer(_) => Err("a peer has no simulator: start the plain build".to_owned()),
        Task::Worker => worker::work(&registry),
    };
    conclude(result)
}

fn conclude(result: Result<bool, String>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(FOUND),
        Err(problem) => misuse(problem),
    }
}

fn misuse(problem: impl std::fmt::Display) -> ExitCode {
    eprintln!("error: {problem}");
    ExitCode::from(MISUSE)
}

/// clap's message without its usage and hints.
fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    let mut line = first.trim_start_matches("error: ").to_owned();
    // "the following required arguments were not provided:" names them on the next lines.
    if line.ends_with(':') {
        let named = text.lines().skip(1).take_while(|line| !line.is_empty());
        line.extend(named.map(|name| format!(" {}", name.trim())));
    }
    if let Some(choices) = text.lines().map(str::trim).find(|l| l.starts_with("[possible values")) {
        line.extend([" ", choices]);
    }
    line
}
