//! `test`: everything that CI checks, one check after the other.

use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde_json::json;

use crate::simulator::{cargo, plain_cargo, root, target};

/// One thing that CI checks.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Check {
    /// The code is formatted
    Format,
    /// No lint fires, in plain and in simulated builds
    Lint,
    /// The suites that run on real tokio, on files and in threads
    Plain,
    /// The suites that run in the simulated world
    Simulated,
    /// The same seed in two processes, and in a debug against a release build
    Determinism,
    /// The tables measured on the real stack
    Tables,
    /// The default sweep
    Sweep,
    /// Savers and runtime against real LangGraph
    Peers,
    /// A user's own crate, outside the workspace, comes to its finding
    Example,
}

const ALL: [Check; 9] = [
    Check::Format,
    Check::Lint,
    Check::Simulated,
    Check::Determinism,
    Check::Plain,
    Check::Tables,
    Check::Sweep,
    Check::Peers,
    Check::Example,
];

/// Tells the plain suites that the simulated ones have their own turn.
pub const SIMULATED_HAVE_A_TURN: &str = "DURASIM_SIMULATED_HAVE_A_TURN";

/// Runs all checks, or one, and goes on after a failure.
pub fn test(only: Option<Check>, as_json: bool) -> Result<ExitCode, String> {
    let (mut failed, mut durations) = (Vec::new(), Vec::new());
    let checks: Vec<Check> = ALL.into_iter().filter(|c| only.is_none_or(|o| o == *c)).collect();
    for check in &checks {
        let name = check.name();
        if !as_json {
            println!("\n== {name}");
        }
        let started = now();
        let mut ok = true;
        for mut command in check.commands() {
            if as_json {
                // Standard output is for our own objects; what the checks print goes beside it.
                command.stdout(Stdio::from(std::io::stderr()));
            }
            let status = command.status().map_err(|error| format!("{name}: {error}"))?;
            ok &= status.code() == Some(check.exit_code());
        }
        let took = started.elapsed();
        if as_json {
            println!("{}", json!({ "check": name, "ok": ok, "seconds": took.as_secs() }));
        }
        if !ok {
            failed.push(name.clone());
        }
        durations.push((name, took));
    }
    let ok = failed.is_empty();
    let (passed, count) = (checks.len() - failed.len(), failed.len());
    if as_json {
        println!("{}", json!({ "summary": "test", "ok": ok, "passed": passed, "failed": count }));
    } else {
        println!();
        durations.iter().for_each(|(name, took)| println!("{name:<12} {:>9}", shown(*took)));
        failed
            .iter()
            .for_each(|name| println!("failed: {name} (again: cargo xtask test --only {name})"));
        println!("\nchecks: {passed} passed, {count} failed");
    }
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn shown(took: Duration) -> String {
    let seconds = took.as_secs();
    format!("{} min {:02} s", seconds / 60, seconds % 60)
}

#[allow(clippy::disallowed_methods)] // How long a check really took is for people to see.
fn now() -> Instant {
    Instant::now()
}

impl Check {
    fn name(self) -> String {
        let value = self.to_possible_value().expect("no check is hidden");
        value.get_name().to_owned()
    }

    /// The example is there to find something.
    fn exit_code(self) -> i32 {
        i32::from(self == Check::Example)
    }

    fn commands(self) -> Vec<Command> {
        const LINT: [&str; 2] = ["--", "-Dwarnings"];
        let with = |mut command: Command, args: &[&str]| {
            command.args(args);
            command
        };
        // Through the front door, as a person would.
        let xtask = |args: &[&str]| {
            with(plain_cargo(&["run", "--quiet", "--package", "xtask", "--"]), args)
        };
        match self {
            Check::Format => vec![plain_cargo(&["fmt", "--all", "--check"])],
            Check::Lint => {
                let lint = ["clippy", "--workspace", "--all-targets"];
                vec![
                    with(plain_cargo(&lint), &LINT),
                    with(cargo(&[&lint[..], &["--release"]].concat()), &LINT),
                ]
            }
            Check::Plain => {
                let mut test = plain_cargo(&["test", "--workspace"]);
                test.env(SIMULATED_HAVE_A_TURN, "1");
                vec![test]
            }
            Check::Simulated => {
                let suites = ["durasim-sim", "durasim-models", "durasim-properties"];
                let mut test = cargo(&["test", "--profile", "suites"]);
                suites.iter().for_each(|suite| {
                    test.args(["--package", suite]);
                });
                vec![test]
            }
            Check::Determinism => vec![
                xtask(&["check-determinism", "--seeds", "1000"]),
                xtask(&["check-determinism", "--seeds", "1000", "--debug-vs-release"]),
            ],
            Check::Tables => vec![xtask(&["tables"])],
            Check::Sweep => vec![xtask(&["simulate"])],
            Check::Peers => vec![xtask(&["peers"])],
            Check::Example => {
                let mut example =
                    plain_cargo(&["run", "--quiet", "--", "simulate", "--seeds", "50"]);
                example
                    .current_dir(root().join("properties/examples/own-graph"))
                    // What the workspace has built need not be built again.
                    .env("CARGO_TARGET_DIR", target());
                vec![example]
            }
        }
    }
}
