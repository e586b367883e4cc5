//! This side of `cargo xtask peers`: a process that real LangGraph talks to.
//!
//! One JSON object a line comes on standard input, one goes back on standard output. A saver can be
//! called through it, as Python would call its own, and a part of a recorded case can be performed,
//! of which Python performs the rest. Values cross as the type and bytes that a database row has, so
//! that everything goes through the codec.

mod call;
mod hex;
mod saver;
mod values;

use std::io::{BufRead, Write};
use std::sync::Arc;

use durasim_runtime::checkpoint::memory::MemorySaver;
use durasim_runtime::checkpoint::postgres::PostgresSaver;
use durasim_runtime::checkpoint::sqlite::SqliteSaver;
use durasim_runtime::{Doors, Saver};
use serde_json::{Value as Json, json};

use crate::cli::args::{PeerArgs, PeerStore};
use crate::conformance::{Part, Performed};
use call::{Begin, Call};
use values::Values;

/// Answers calls until standard input ends.
pub fn serve(args: &PeerArgs) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let mut peer = Peer::open(args).await?;
        while let Some(line) = peer.next_line().await? {
            let answer = match peer.answer(&line).await {
                Ok(answer) => json!({ "ok": answer }),
                Err(problem) => json!({ "error": problem }),
            };
            let mut out = std::io::stdout().lock();
            let told = writeln!(out, "{answer}").and_then(|()| out.flush());
            told.map_err(|error| error.to_string())?;
        }
        Ok(())
    })
}

struct Peer {
    doors: Doors,
    saver: Arc<dyn Saver>,
    values: Values,
    /// The case that has begun.
    part: Option<Part>,
}

impl Peer {
    async fn open(args: &PeerArgs) -> Result<Peer, String> {
        let doors = Doors::production();
        let at = args.at.as_deref().unwrap_or_default();
        let saver: Arc<dyn Saver> = match args.store {
            PeerStore::Memory => Arc::new(MemorySaver::new(&doors)),
            PeerStore::Sqlite => {
                SqliteSaver::open(at, &doors).await.map_err(|error| error.to_string())?
            }
            PeerStore::Postgres => {
                PostgresSaver::open(at, &doors).await.map_err(|error| error.to_string())?
            }
        };
        let values = Values::new(&doors, matches!(args.store, PeerStore::Postgres));
        Ok(Peer { doors, saver, values, part: None })
    }

    /// Waits off the runtime, so that what a run left behind can go on.
    async fn next_line(&self) -> Result<Option<String>, String> {
        let read = || std::io::stdin().lock().lines().next().transpose();
        let line = self.doors.executor.blocking("peer/input", read).await;
        line.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
    }

    async fn answer(&mut self, line: &str) -> Result<Json, String> {
        let call: Call = serde_json::from_str(line).map_err(|error| error.to_string())?;
        match call {
            Call::Saver(call) => saver::answer(&*self.saver, call).await,
            Call::Values(call) => self.values.answer(&*self.saver, call).await,
            Call::Begin(begin) => self.begin(begin),
            Call::Perform { place } => {
                let performed = self.part()?.perform(place).await?;
                let part = self.part()?;
                let (trace, is_frozen) = match performed {
                    Performed::Whole(trace) => (trace, false),
                    Performed::Frozen => (Json::Null, true),
                };
                Ok(json!({
                    "trace": trace,
                    "frozen": is_frozen,
                    "executions": part.executions(),
                    "raises": part.raises(),
                }))
            }
            Call::Look => self.part()?.look().await,
        }
    }

    fn begin(&mut self, begin: Begin) -> Result<Json, String> {
        let durability = begin.durability()?;
        let (saver, freeze) = (self.saver.clone(), begin.freeze_after);
        self.part = Some(Part::open(&begin.case, &self.doors, saver, durability, freeze)?);
        Ok(Json::Null)
    }

    fn part(&self) -> Result<&Part, String> {
        self.part.as_ref().ok_or_else(|| "no case has begun".to_owned())
    }
}
