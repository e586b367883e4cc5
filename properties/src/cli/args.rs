use std::ops::Range;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueEnum};
use durasim_runtime::{Durability, Profile};

use crate::scenario::{Shape, Store};

/// Deterministic simulation of durable agent graphs behind HTTP.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub task: Option<Task>,
}

#[derive(Subcommand)]
pub enum Task {
    /// Run scenarios over many seeds and judge every run; the default
    Simulate(SimulateArgs),
    /// Print the interleaving of one seed, one event a line
    Replay(ReplayArgs),
    /// Recompute the tables measured on the real stack; differing cells are marked
    Tables(TablesArgs),
    /// Run each seed in two processes and compare the whole traces
    CheckDeterminism(DeterminismArgs),
    /// Measure what a seed costs, layer by layer, and how two workers scale
    Bench(BenchArgs),
    /// Hold the runtime against recorded traces of LangGraph
    Conformance(ConformanceArgs),
    /// Serve a saver and a graph runner over standard input and output; for `cargo xtask peers`
    #[command(hide = true)]
    Peer(PeerArgs),
    /// Run seeds as told on standard input; for the other commands' own use
    #[command(hide = true)]
    Worker,
}

impl Default for Task {
    fn default() -> Task {
        Task::Simulate(SimulateArgs::default())
    }
}

/// Which scenario, and what to change about it.
#[derive(Args, Clone, Default)]
pub struct Choice {
    /// A scenario by name, or a file; without it, the default sweep
    #[arg(long, value_name = "NAME|FILE")]
    pub scenario: Option<String>,
    /// Replaces the scenario's handler shape
    #[arg(long)]
    pub shape: Option<ShapeArg>,
    /// Replaces the scenario's durability
    #[arg(long)]
    pub durability: Option<DurabilityArg>,
    /// Replaces the scenario's checkpoint store
    #[arg(long)]
    pub store: Option<StoreArg>,
    /// Replaces the scenario's profile
    #[arg(long)]
    pub profile: Option<ProfileArg>,
}

impl Choice {
    /// How a scenario that this choice led to is named on a command line.
    #[cfg(madsim)]
    pub fn name_of<'a>(&'a self, scenario: &'a crate::scenario::Scenario) -> &'a str {
        self.scenario.as_deref().unwrap_or(&scenario.name)
    }
}

#[derive(Args, Default)]
pub struct SimulateArgs {
    #[command(flatten)]
    pub choice: Choice,
    /// Seeds for each variant: a count from 0, or a range
    #[arg(long, value_name = "N|A..B")]
    pub seeds: Option<Seeds>,
    /// Worker processes; one per core when absent
    #[arg(long)]
    pub jobs: Option<u32>,
    /// One JSON object a line, the last a summary
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct ReplayArgs {
    /// A case file: scenario, seed and tape
    #[arg(value_name = "CASE", conflicts_with_all = ["scenario", "seed", "shape", "durability", "store", "profile", "save"])]
    pub case: Option<PathBuf>,
    #[command(flatten)]
    pub choice: Choice,
    /// The seed; the scenario's own when absent
    #[arg(long)]
    pub seed: Option<u64>,
    /// Also write a case file with the tape of every choice that was made
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// One JSON object a line, the last a summary
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct TablesArgs {
    /// The seed of the simulated runs; no cell depends on it
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Where checkpoints are kept; no cell depends on it either
    #[arg(long, value_enum, default_value = "sqlite")]
    pub store: SharedStoreArg,
    /// Server processes, where clients come over HTTP
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub workers: u32,
    /// One JSON object a line, the last a summary
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct DeterminismArgs {
    #[command(flatten)]
    pub choice: Choice,
    /// Seeds: a count from 0, or a range
    #[arg(long, value_name = "N|A..B", default_value = "100")]
    pub seeds: Seeds,
    /// Compare against this build of the same binary instead of a second process of this one
    #[arg(long, value_name = "BINARY")]
    pub against: Option<PathBuf>,
    /// One JSON object a line, the last a summary
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Default)]
pub struct ConformanceArgs {
    /// A folder of cases; those that come with the project when absent
    #[arg(value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// On this store only
    #[arg(long)]
    pub store: Option<CasesOn>,
    /// Of the database that `--store postgres` uses in real time; a schema is made in it, and removed
    #[arg(long, conflicts_with_all = ["seeds", "kills"])]
    pub url: Option<String>,
    /// Runs in the simulated world, once for each seed
    #[arg(long, value_name = "N|A..B")]
    pub seeds: Option<Seeds>,
    /// In the simulated world, kills the process between any two durable writes, at this durability
    #[arg(long, value_name = "DURABILITY")]
    pub kills: Option<DurabilityArg>,
    /// With kills, in this profile instead of LangGraph's own
    #[arg(long, requires = "kills")]
    pub profile: Option<ProfileArg>,
    /// One JSON object a line, the last a summary
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct BenchArgs {
    /// The runtime on its own, on real tokio: loops, chains and fans
    #[arg(long)]
    pub runtime: bool,
    /// An empty database on a PostgreSQL server, to be measured, too
    #[arg(long, value_name = "URL", requires = "runtime")]
    pub postgres: Option<String>,
    /// Rounds that medians are taken over
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// One JSON object a line, the last a summary
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct PeerArgs {
    #[arg(long)]
    pub store: PeerStore,
    /// The store's file, or its database
    #[arg(long, value_name = "PATH|URL", required_if_eq_any([("store", "sqlite"), ("store", "postgres")]))]
    pub at: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum PeerStore {
    Memory,
    Sqlite,
    Postgres,
}

/// A range of seeds, never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seeds(pub Range<u64>);

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Seeds, String> {
        let number =
            |text: &str| text.parse::<u64>().map_err(|_| format!("{text:?} is not a whole number"));
        let range = match text.split_once("..") {
            Some((from, to)) => number(from)?..number(to)?,
            None => 0..number(text)?,
        };
        if range.start > range.end {
            return Err(format!("the range runs backwards, from {} to {}", range.start, range.end));
        }
        if range.is_empty() {
            return Err("the range is empty".to_owned());
        }
        Ok(Seeds(range))
    }
}

macro_rules! choice {
    ($name:ident => $of:ident { $($variant:ident),* }) => {
        #[derive(Clone, Copy, ValueEnum)]
        pub enum $name { $($variant),* }

        impl From<$name> for $of {
            fn from(choice: $name) -> $of {
                match choice { $($name::$variant => $of::$variant),* }
            }
        }
    };
}

choice!(ShapeArg => Shape { Direct, Inline, Background, Shielded });
choice!(DurabilityArg => Durability { Sync, Async, Exit });
choice!(StoreArg => Store { Memory, Sqlite, Postgres });
// One that several processes can have.
choice!(SharedStoreArg => Store { Sqlite, Postgres });
choice!(ProfileArg => Profile { Faithful, Safe });

/// What recorded cases can run on.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum CasesOn {
    Memory,
    Sqlite,
    /// A server: a real one, in real time but for the cases' own, or with seeds one of the world
    Postgres,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_a_count_or_a_range() {
        assert_eq!("20".parse(), Ok(Seeds(0..20)));
        assert_eq!("5..8".parse(), Ok(Seeds(5..8)));
        for bad in ["8..5", "0", "3..3", "x", "1..x", "-1", "", ".."] {
            assert!(bad.parse::<Seeds>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_command_line_is_sound() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
