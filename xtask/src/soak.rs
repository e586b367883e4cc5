//! `soak`: the long versions of the simulated suites, with fresh seeds each time.

use std::process::{Command, ExitCode, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;

use crate::simulator::{build, cargo};

/// Seeds of each recorded case, on each store.
const SEEDS_A_CASE: u64 = 200;
/// Seeds of the default sweep, and of its determinism.
const SWEEP: u64 = 1_000;
/// Seeds of each kind of crowd at a store.
const CONCURRENCY: u64 = 10_000;
/// Generated graphs with their scenarios.
const GENERATED: &str = "100000";

/// Runs every part, and goes on after a failure. Each part is printed as the command that repeats
/// it.
pub fn soak(from: Option<u64>, as_json: bool) -> Result<ExitCode, String> {
    let from = from.unwrap_or_else(fresh);
    let seeds = |count: u64| format!("{from}..{}", from + count);
    let cases = seeds(SEEDS_A_CASE);
    let mut parts: Vec<Vec<String>> = vec![words(&format!("conformance --seeds {cases}"))];
    // At exit durability LangGraph's own profile is known to apply found writes twice.
    let kills = [("sync", "faithful"), ("async", "faithful")];
    let safe = ["sync", "async", "exit"].map(|durability| (durability, "safe"));
    for (durability, profile) in kills.into_iter().chain(safe) {
        let few = seeds(3);
        for store in ["sqlite", "postgres"] {
            parts.push(words(&format!(
                "conformance --kills {durability} --profile {profile} --store {store} --seeds {few}"
            )));
        }
    }
    parts.push(words(&format!("simulate --seeds {}", seeds(SWEEP))));
    parts.push(words(&format!("check-determinism --seeds {}", seeds(2 * SWEEP))));
    let binary = build("release")?;
    let mut failed = 0;
    for part in parts {
        let mut command = Command::new(&binary);
        command.args(&part).env("CARGO_MANIFEST_DIR", crate::simulator::root().join("properties"));
        failed += u32::from(!run(command, &part.join(" "), as_json)?);
    }
    let suite = |name: &str| {
        let mut test = cargo(&["test", "--profile", "suites", "--package", "durasim-properties"]);
        test.args(["--test", name]);
        test
    };
    let mut generated = suite("generated");
    generated.env("DURASIM_GENERATED", GENERATED);
    failed += u32::from(!run(generated, "the generated suites", as_json)?);
    let mut concurrency = suite("saver_concurrency");
    concurrency.env("DURASIM_CONCURRENCY", seeds(CONCURRENCY));
    failed += u32::from(!run(concurrency, "a crowd at one store", as_json)?);
    let ok = failed == 0;
    match as_json {
        true => {
            println!("{}", json!({ "summary": "soak", "ok": ok, "from": from, "failed": failed }))
        }
        false => println!("\nseeds from {from}: {failed} parts failed"),
    }
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run(mut command: Command, name: &str, as_json: bool) -> Result<bool, String> {
    if as_json {
        command.stdout(Stdio::from(std::io::stderr()));
    } else {
        println!("\n== {name}");
    }
    let ok = command.status().map_err(|error| format!("{name}: {error}"))?.success();
    if as_json {
        println!("{}", json!({ "part": name, "ok": ok }));
    } else if !ok {
        println!("failed: {name}");
    }
    Ok(ok)
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// Seconds since 1970: nobody has run these before.
#[allow(clippy::disallowed_methods)] // Outside every world.
fn fresh() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
