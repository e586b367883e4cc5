//! `peers`: the savers and the runtime against real LangGraph.
//!
//! The Python side lies in `properties/peers`. It runs in an environment of its own, made from a list
//! of exact versions and kept for as long as that list stays the same.

use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use clap::{Args, ValueEnum};

use crate::server::Server;
use crate::simulator::{plain_binary, plain_cargo, root, target};

#[derive(Args)]
pub struct PeersArgs {
    /// One part only
    #[arg(long)]
    only: Option<Part>,
    /// On this store only
    #[arg(long)]
    store: Option<Store>,
    /// Of the recorded cases, only this one
    #[arg(long, value_name = "NAME")]
    case: Option<String>,
    /// The first seed of generated values; drawn from the clock when absent
    #[arg(long)]
    seed: Option<u64>,
    /// One JSON object a check, the last a summary
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// LangGraph's own suite for savers
    Conformance,
    /// Threads that one side begins and the other goes on with, and values on their way
    Interop,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Store {
    Memory,
    Sqlite,
    Postgres,
}

/// Exit code 1 when anything differs.
pub fn peers(args: &PeersArgs) -> Result<ExitCode, String> {
    let python = environment()?;
    let binary = build()?;
    let folder = root().join("properties");
    let mut command = Command::new(python);
    // Compiled modules would lie between the sources.
    command.arg("-B").arg(folder.join("peers/main.py"));
    command.arg("--binary").arg(binary).arg("--cases").arg(folder.join("conformance/cases"));
    if let Some(part) = args.only {
        command.args(["--only", &name(part)]);
    }
    if let Some(store) = args.store {
        command.args(["--store", &name(store)]);
    }
    if let Some(case) = &args.case {
        command.args(["--case", case]);
    }
    if let Some(seed) = args.seed {
        command.args(["--seed", &seed.to_string()]);
    }
    if args.json {
        command.arg("--json");
    }
    let wants_postgres = args.store.is_none_or(|store| store == Store::Postgres);
    let server = wants_postgres.then(|| Server::start(&[])).transpose();
    match &server {
        Ok(Some(server)) => drop(command.args(["--postgres", &server.url])),
        Ok(None) => {}
        // In CI one is installed.
        Err(reason) if std::env::var_os("CI").is_some() => return Err(reason.clone()),
        Err(reason) => drop(command.args(["--no-postgres", reason])),
    }
    let status = command.status().map_err(|error| format!("python: {error}"))?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, Into::into))
}

fn name(choice: impl ValueEnum) -> String {
    choice.to_possible_value().expect("no choice is hidden").get_name().to_owned()
}

/// The interpreter of an environment that has just what the list names.
fn environment() -> Result<PathBuf, String> {
    let list = root().join("properties/peers/requirements.txt");
    let wanted = std::fs::read_to_string(&list).map_err(|e| format!("{}: {e}", list.display()))?;
    let folder = target().join("peers/venv");
    let (python, installed) = (folder.join("bin/python"), folder.join("requirements.txt"));
    if std::fs::read_to_string(&installed).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    eprintln!("Making a Python environment with LangGraph; this is needed once.");
    let advice =
        "peers needs python3 (3.11 or newer) with venv; on Debian: apt-get install python3-venv";
    let is_new_enough = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))";
    run(Command::new("python3").args(["-c", is_new_enough]), advice)?;
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder), advice)?;
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]);
    run(install.arg("-r").arg(&list), "the packages of requirements.txt could not be installed")?;
    std::fs::write(&installed, wanted).map_err(|e| format!("{}: {e}", installed.display()))?;
    Ok(python)
}

fn run(command: &mut Command, problem: &str) -> Result<(), String> {
    match command.stdout(Stdio::from(std::io::stderr())).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(problem.to_owned()),
        Err(error) => Err(format!("{problem} ({error})")),
    }
}

/// Builds `durasim` plainly and gives its path.
fn build() -> Result<PathBuf, String> {
    let mut build = plain_cargo(&["build", "--quiet", "--package", "durasim-properties"]);
    match build.args(["--bin", "durasim"]).status() {
        Ok(status) if status.success() => Ok(plain_binary("durasim")),
        Ok(_) => Err("the build failed".to_owned()),
        Err(error) => Err(format!("cargo: {error}")),
    }
}
