//! `conformance`: the runtime held against recorded traces of LangGraph.
//!
//! Without seeds it runs on tokio, whose time stands still while anything can run: there is one
//! order, and all of a trace is compared. With seeds it runs in the simulated world, in an order
//! that each seed chooses, and what must not depend on it is compared.

use std::path::PathBuf;

use serde_json::json;

use super::args::{CasesOn, ConformanceArgs};
use crate::conformance::{Case, Verdict, load_cases};
#[cfg(madsim)]
use crate::conformance::{Keeps, check_simulated};

/// The stores that cases are run on when none is named.
const STORES: &[CasesOn] = match cfg!(madsim) {
    true => &[CasesOn::Memory, CasesOn::Sqlite, CasesOn::Postgres],
    // A real server has to be named.
    false => &[CasesOn::Memory, CasesOn::Sqlite],
};

/// True when every case passes everywhere.
pub fn conformance(args: &ConformanceArgs) -> Result<bool, String> {
    let checked_in = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("conformance/cases");
    let folder = args.folder.clone().unwrap_or_else(checked_in);
    let cases = load_cases(&folder)?;
    if cases.is_empty() {
        return Err(format!("{}: there is no case in it", folder.display()));
    }
    #[cfg(madsim)]
    if let Some(durability) = args.kills {
        return kills(&cases, durability.into(), args);
    }
    let stores = args.store.map_or(STORES.to_vec(), |store| vec![store]);
    let runner = Runner::new(args)?;
    let (mut passed, mut failed) = (0, 0);
    for case in &cases {
        for &store in &stores {
            let runs = runner.run(case, store)?;
            // One line a case: the first run that fails, or how all of them passed.
            let first = runs.iter().find(|(_, verdict)| !verdict.passes()).or(runs.first());
            let Some((seed, verdict)) = first else { continue };
            match verdict.passes() {
                true => passed += 1,
                false => failed += 1,
            }
            tell(case, store, *seed, verdict, args.json);
        }
    }
    let ok = failed == 0;
    match args.json {
        true => say!(
            "{}",
            json!({
                "summary": "conformance", "ok": ok, "cases": cases.len(),
                "passed": passed, "failed": failed,
            })
        ),
        false => say!("\n{} cases, {passed} times passed, {failed} times failed.", cases.len()),
    }
    Ok(ok)
}

fn tell(case: &Case, store: CasesOn, seed: Option<u64>, verdict: &Verdict, as_json: bool) {
    let store = match store {
        CasesOn::Memory => "memory",
        CasesOn::Sqlite => "sqlite",
        CasesOn::Postgres => "postgres",
    };
    if as_json {
        let (ok, verdict) = (verdict.passes(), verdict.to_string());
        say!(
            "{}",
            json!({ "case": case.name, "store": store, "seed": seed, "ok": ok, "verdict": verdict })
        );
        return;
    }
    let at =
        seed.filter(|_| !verdict.passes()).map_or(String::new(), |seed| format!(" seed {seed}"));
    say!("{:<44} {store:<8}{at} {verdict}", case.name);
}

#[cfg(not(madsim))]
const NO_SERVER: &str =
    "--store postgres wants the --url of a server, or --seeds for one in the simulated world";

/// Runs cases in the one order there is, on each store.
#[cfg(not(madsim))]
struct Runner {
    /// Of SQLite files, removed at the end.
    folder: PathBuf,
    postgres: Option<Box<crate::conformance::StoreFactory>>,
}

#[cfg(not(madsim))]
impl Runner {
    fn new(args: &ConformanceArgs) -> Result<Runner, String> {
        let name = format!("durasim-conformance-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let postgres = args.url.as_deref().map(crate::conformance::postgres_store).transpose()?;
        Ok(Runner { folder, postgres })
    }

    fn run(&self, case: &Case, store: CasesOn) -> Result<Vec<(Option<u64>, Verdict)>, String> {
        use crate::conformance::{check, doors, memory_store, sqlite_store};
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .map_err(|error| error.to_string())?;
        let at = |error: std::io::Error| format!("{}: {error}", self.folder.display());
        let (memory, sqlite);
        let factory = match (store, &self.postgres) {
            (CasesOn::Memory, _) => {
                memory = memory_store();
                &memory
            }
            (CasesOn::Sqlite, _) => {
                std::fs::create_dir_all(&self.folder).map_err(at)?;
                sqlite = sqlite_store(&self.folder.display().to_string());
                &sqlite
            }
            (CasesOn::Postgres, Some(postgres)) => postgres,
            (CasesOn::Postgres, None) => return Err(NO_SERVER.to_owned()),
        };
        let verdict = runtime.block_on(async { check(case, &doors(), &**factory).await });
        drop(runtime);
        if self.folder.exists() {
            std::fs::remove_dir_all(&self.folder).map_err(at)?;
        }
        Ok(vec![(None, verdict)])
    }
}

#[cfg(madsim)]
impl From<CasesOn> for Keeps {
    fn from(store: CasesOn) -> Keeps {
        match store {
            CasesOn::Memory => Keeps::Memory,
            CasesOn::Sqlite => Keeps::Sqlite,
            CasesOn::Postgres => Keeps::Postgres,
        }
    }
}

/// Runs cases in the simulated world, in an order that each seed chooses.
#[cfg(madsim)]
struct Runner {
    seeds: std::ops::Range<u64>,
}

#[cfg(madsim)]
impl Runner {
    fn new(args: &ConformanceArgs) -> Result<Runner, String> {
        Ok(Runner { seeds: args.seeds.clone().map_or(0..1, |seeds| seeds.0) })
    }

    /// The verdict of each seed.
    fn run(&self, case: &Case, store: CasesOn) -> Result<Vec<(Option<u64>, Verdict)>, String> {
        let verdict = |seed| (Some(seed), check_simulated(case, seed, store.into()));
        Ok(self.seeds.clone().map(verdict).collect())
    }
}

/// True when no kill did harm.
#[cfg(madsim)]
fn kills(
    cases: &[Case],
    durability: durasim_runtime::Durability,
    args: &ConformanceArgs,
) -> Result<bool, String> {
    let seeds = args.seeds.clone().map_or(0..1, |seeds| seeds.0);
    let keeps = args.store.map_or(Keeps::Sqlite, Into::into);
    if keeps == Keeps::Memory {
        return Err("--kills wants a store that outlives its process; memory does not".to_owned());
    }
    let profile = args.profile.map_or(durasim_runtime::Profile::Faithful, Into::into);
    let (mut points, mut failed) = (0, 0);
    for case in cases {
        for seed in seeds.clone() {
            let kills = crate::conformance::check_kills(case, keeps, durability, profile, seed)
                .map_err(|problem| format!("{}: {problem}", case.name))?;
            points += kills.points;
            failed += kills.violations.len();
            for problem in &kills.violations {
                match args.json {
                    true => {
                        say!("{}", json!({ "case": case.name, "seed": seed, "violation": problem }))
                    }
                    false => say!("{} seed {seed}: {problem}", case.name),
                }
            }
        }
    }
    let ok = failed == 0;
    let durability = durability.name();
    match args.json {
        true => say!(
            "{}",
            json!({
                "summary": "conformance", "ok": ok, "cases": cases.len(), "kills": points,
                "durability": durability, "failed": failed,
            })
        ),
        false => say!(
            "{} cases at durability {durability}, {points} kills, {failed} violations.",
            cases.len()
        ),
    }
    Ok(ok)
}
