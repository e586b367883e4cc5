//! A simulation binary that was built plainly builds itself again for the simulator.
//!
//! The simulator's cfg gates dependencies of other crates, so it cannot be a feature and no build
//! script can set it: only rustc's flags can. It is added to whatever flags the user has, and the
//! result goes to a target directory of its own, so that the two builds do not evict each other.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Builds this crate's binary of the same name with `--cfg madsim`, and runs it with the same
/// arguments.
pub fn build_and_start() -> Result<ExitCode, String> {
    let Some(manifest_dir) = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from) else {
        return Err(
            "this build has no simulator in it; start it with `cargo run`, which builds one"
                .to_owned(),
        );
    };
    let own =
        std::env::current_exe().map_err(|error| format!("the path of this program: {error}"))?;
    let name = own.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let target = sim_target(&own);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build
        .args(["build", "--release", "--bin", &name, "--manifest-path"])
        .arg(manifest_dir.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .env("CARGO_ENCODED_RUSTFLAGS", flags());
    // What `cargo run` set for this process would make the inner build look different each time.
    for (key, _) in std::env::vars_os() {
        let key_text = key.to_string_lossy();
        if key_text.starts_with("CARGO_PKG_") || key_text == "CARGO_MANIFEST_DIR" {
            build.env_remove(&key);
        }
    }
    let binary = target.join("release").join(&name).with_extension(std::env::consts::EXE_EXTENSION);
    if binary.exists() {
        build.arg("--quiet");
    } else {
        eprintln!("Building {name} for the simulator; the first time takes a few minutes.");
    }
    let built = build.status().map_err(|error| format!("cargo: {error}"))?;
    if !built.success() {
        return Err("the build for the simulator failed".to_owned());
    }
    let status = Command::new(&binary).args(std::env::args_os().skip(1)).status();
    let status = status.map_err(|error| format!("{}: {error}", binary.display()))?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, Into::into))
}

/// `target/sim` beside the profile directory that this program was built into.
fn sim_target(own: &Path) -> PathBuf {
    let target = own.parent().and_then(Path::parent).unwrap_or(Path::new("target"));
    target.join("sim")
}

/// The user's own flags and the simulator's, in cargo's encoding.
fn flags() -> String {
    let separator = '\u{1f}';
    let encoded = std::env::var("CARGO_ENCODED_RUSTFLAGS").ok();
    let plain = || {
        let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
        flags.split_whitespace().collect::<Vec<_>>().join(&separator.to_string())
    };
    let mut flags = encoded.unwrap_or_else(plain);
    if !flags.is_empty() {
        flags.push(separator);
    }
    flags + "--cfg" + &separator.to_string() + "madsim"
}
