//! Building and starting the simulation binary.
//!
//! The simulator's cfg reaches the dependencies, so only rustc's flags can set it. It is added to
//! the user's own flags, and the result lives in `target/sim`, so that plain and simulated builds
//! do not evict each other.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::server::Server;

/// Separates flags in `CARGO_ENCODED_RUSTFLAGS`.
const SEPARATOR: &str = "\u{1f}";

/// The folder of the workspace. Asked at run time: checkouts that share a target folder share this
/// program, too.
pub fn root() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest.parent().expect("xtask lies in the workspace").to_owned()
}

/// Where plain builds go.
pub fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(target) => root().join(target),
        None => root().join("target"),
    }
}

/// A program of a plain debug build.
pub fn plain_binary(name: &str) -> PathBuf {
    target().join("debug").join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
}

/// A cargo command whose build is for the simulator.
pub fn cargo(args: &[&str]) -> Command {
    let mut command = plain_cargo(args);
    command.arg("--target-dir").arg(target().join("sim")).env("CARGO_ENCODED_RUSTFLAGS", flags());
    command
}

/// A cargo command in the workspace.
pub fn plain_cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    // What `cargo run` set for this process would make every inner build look different.
    for (key, _) in std::env::vars_os() {
        let text = key.to_string_lossy();
        let ours = ["CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH", "CARGO_TARGET_DIR"];
        if text.starts_with("CARGO_PKG_") || ours.contains(&&*text) {
            command.env_remove(&key);
        }
    }
    if let Some(target) = std::env::var_os("CARGO_TARGET_DIR") {
        command.env("CARGO_TARGET_DIR", root().join(target));
    }
    command
}

/// Builds `durasim` in the given profile (`dev` or `release`) and gives its path.
pub fn build(profile: &str) -> Result<PathBuf, String> {
    let mut build = cargo(&["build", "--package", "durasim-properties", "--bin", "durasim"]);
    build.args(["--profile", profile]);
    let folder = target().join("sim").join(if profile == "dev" { "debug" } else { profile });
    let binary = folder.join(format!("durasim{}", std::env::consts::EXE_SUFFIX));
    if binary.exists() {
        build.arg("--quiet");
    } else {
        eprintln!("Building the simulator; the first time takes a few minutes.");
    }
    match build.status() {
        Ok(status) if status.success() => Ok(binary),
        Ok(_) => Err("the build for the simulator failed".to_owned()),
        Err(error) => Err(format!("cargo: {error}")),
    }
}

/// Starts the release build with a command and its arguments; its exit code is ours.
pub fn start(command: &str, args: Vec<String>) -> Result<ExitCode, String> {
    run(&build("release")?, command, &args)
}

/// As [`start`], with one option more: `--debug-vs-release` compares against a debug build.
pub fn check_determinism(mut args: Vec<String>) -> Result<ExitCode, String> {
    let option = args.iter().position(|arg| arg == "--debug-vs-release");
    if let Some(option) = option {
        args.remove(option);
        let debug = build("dev")?;
        args.extend(["--against".to_owned(), debug.display().to_string()]);
    }
    start("check-determinism", args)
}

/// Recorded traces need no simulator, unless seeds are asked for.
pub fn conformance(args: Vec<String>) -> Result<ExitCode, String> {
    if args.iter().any(|arg| arg.starts_with("--seeds") || arg.starts_with("--kills")) {
        return start("conformance", args);
    }
    // A folder is named from where the caller stands.
    let args: Vec<String> = args.iter().map(|arg| absolute(arg)).collect();
    start_plainly(&[], "conformance", &args)
}

/// The layers of a seed in the simulator; with `--runtime`, the runtime on its own, without one, and
/// with a PostgreSQL server that waits for its disk: of our own, unless one is named.
pub fn bench(mut args: Vec<String>) -> Result<ExitCode, String> {
    let has = |option: &str| args.iter().any(|arg| arg.split('=').next() == Some(option));
    if !has("--runtime") {
        return start("bench", args);
    }
    if has("--postgres") || has("--help") {
        return start_plainly(&["--release"], "bench", &args);
    }
    let server = Server::start(&["--durable"]);
    match &server {
        Ok(server) => args.extend(["--postgres".to_owned(), server.url.clone()]),
        Err(reason) => eprintln!("Without PostgreSQL: {reason}"),
    }
    start_plainly(&["--release"], "bench", &args)
}

fn start_plainly(flags: &[&str], command: &str, args: &[String]) -> Result<ExitCode, String> {
    let mut run = plain_cargo(&["run", "--quiet", "--package", "durasim-properties"]);
    run.args(flags).args(["--bin", "durasim", "--", command]).args(args);
    let status = run.status().map_err(|error| format!("cargo: {error}"))?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, Into::into))
}

fn absolute(arg: &str) -> String {
    match std::path::absolute(arg) {
        Ok(path) if !arg.starts_with('-') && path.is_dir() => path.display().to_string(),
        _ => arg.to_owned(),
    }
}

fn run(binary: &Path, command: &str, args: &[impl AsRef<OsStr>]) -> Result<ExitCode, String> {
    let status = Command::new(binary).arg(command).args(args).status();
    let status = status.map_err(|error| format!("{}: {error}", binary.display()))?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, Into::into))
}

/// The user's own flags and the simulator's.
fn flags() -> String {
    let user = std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_else(|_| {
        let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
        flags.split_whitespace().collect::<Vec<_>>().join(SEPARATOR)
    });
    let own = ["--cfg", "madsim"].join(SEPARATOR);
    if user.is_empty() { own } else { [user, own].join(SEPARATOR) }
}
