//! A plain `cargo test` also runs the suites of the simulated world, which only exist in builds
//! with the simulator's cfg: it builds and runs them in `target/sim`.
#![cfg(not(madsim))]

use std::process::Command;

#[test]
fn the_simulated_suites_pass() {
    // Set by `cargo xtask test`, which runs them as a check of their own.
    if std::env::var_os("DURASIM_SIMULATED_HAVE_A_TURN").is_some() {
        println!("not here: the simulated suites run as a check of their own");
        return;
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["run", "--quiet", "--package", "xtask", "--", "test", "--only", "simulated"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .status()
        .expect("cargo starts");
    assert!(status.success(), "see above; again: cargo xtask test --only simulated");
}
