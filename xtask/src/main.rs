//! The command line of this repository: `cargo xtask <command>`.
//!
//! What runs in the simulated world is done by the simulation binary (`durasim`, in `properties`),
//! which is built here with `--cfg madsim` and handed its arguments as they are.

mod ci;
mod peers;
mod server;
mod simulator;
mod soak;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand};

/// Simulate, replay and test.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run scenarios over many seeds and judge every run
    #[command(disable_help_flag = true)]
    Simulate(Passed),
    /// Print the interleaving of one seed, one event a line
    #[command(disable_help_flag = true)]
    Replay(Passed),
    /// Recompute the tables measured on the real stack; differing cells are marked
    #[command(disable_help_flag = true)]
    Tables(Passed),
    /// Run each seed in two processes and compare the whole traces; `--debug-vs-release` takes the
    /// two processes from two builds
    #[command(disable_help_flag = true)]
    CheckDeterminism(Passed),
    /// Measure what a seed costs, layer by layer; with `--runtime`, what the runtime costs on its own
    #[command(disable_help_flag = true)]
    Bench(Passed),
    /// Hold the runtime against recorded traces of LangGraph; with `--seeds` in the simulated world
    #[command(disable_help_flag = true)]
    Conformance(Passed),
    /// Hold the savers and the runtime against real LangGraph, which goes on where they stopped, and
    /// the reverse; needs Python
    Peers(peers::PeersArgs),
    /// The long versions of the simulated suites, with fresh seeds each time
    Soak(SoakArgs),
    /// Everything that CI checks
    Test(TestArgs),
}

/// Arguments for the simulation binary.
#[derive(Args)]
struct Passed {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

#[derive(Args)]
struct TestArgs {
    /// One check only
    #[arg(long)]
    only: Option<ci::Check>,
    /// One JSON object a check, the last a summary
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct SoakArgs {
    /// The first seed; drawn from the clock when absent
    #[arg(long)]
    from: Option<u64>,
    /// One JSON object a part, the last a summary
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => {
            let text = error.to_string();
            // Its first line says what is wrong; without a command, all of it is the help.
            let line = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
            match error.kind() {
                ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => eprintln!("{text}"),
                _ => eprintln!("error: {line}"),
            }
            return ExitCode::from(2);
        }
        Err(help) => {
            let _ = help.print();
            return ExitCode::SUCCESS;
        }
    };
    let done = match cli.task {
        Task::Simulate(passed) => simulator::start("simulate", passed.args),
        Task::Replay(passed) => simulator::start("replay", passed.args),
        Task::Tables(passed) => simulator::start("tables", passed.args),
        Task::CheckDeterminism(passed) => simulator::check_determinism(passed.args),
        Task::Bench(passed) => simulator::bench(passed.args),
        Task::Conformance(passed) => simulator::conformance(passed.args),
        Task::Peers(args) => peers::peers(&args),
        Task::Soak(args) => soak::soak(args.from, args.json),
        Task::Test(args) => ci::test(args.only, args.json),
    };
    done.unwrap_or_else(|problem| {
        eprintln!("error: {problem}");
        ExitCode::from(2)
    })
}
