//! Delta channels: what comes back from stored rows is what the run had.
//!
//! Every node writes the same to a delta channel and to a plain reducer, of which each checkpoint
//! holds the value. So the reducer's is what the delta channel must be, at every checkpoint of a
//! thread, whatever has happened to it, read by a saver that was not there.
#![cfg(not(madsim))]

mod checkpoint_support;
mod postgres_support;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use checkpoint_support::{TestFile, block_on};
use durasim_runtime::channels::{ChannelSpec, DeltaReducer, Reducer, overwrite};
use durasim_runtime::checkpoint::memory::MemorySaver;
use durasim_runtime::checkpoint::postgres::PostgresSaver;
use durasim_runtime::checkpoint::saver::ListFilter;
use durasim_runtime::checkpoint::sqlite::{SqliteOptions, SqliteSaver, Synchronous};
use durasim_runtime::pregel::{Input, RunConfig, StateSnapshot, StateUpdate};
use durasim_runtime::value::{self, Value};
use durasim_runtime::{
    CompiledGraph, Doors, Durability, END, NodeError, Profile, START, Saver, State, StateGraph,
    Update,
};
use postgres_support::Server;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::RngSeed;

/// What happens to a thread.
#[derive(Debug, Clone)]
enum Deed {
    /// A new input, which the thread's `script` says what nodes make of.
    Send(Durability, Script),
    /// Goes on with what is unfinished, under another script.
    Resume(Durability, Script),
    /// From the n-th checkpoint of the history.
    TravelTo(usize, Durability, Script),
    /// An update from outside, as this node; to the n-th checkpoint of the history or to the head.
    Write(Option<usize>, &'static str, Item),
    /// An input or the end of what is unfinished, written from outside.
    WriteSpecial(Option<usize>, &'static str),
}

/// What nodes do in one run: each takes the next item, whichever comes first.
type Script = Vec<Item>;

#[derive(Debug, Clone)]
enum Item {
    Add(u8),
    Overwrite(u8),
    Nothing,
    Fail,
}

impl Item {
    fn update(&self, by: &str) -> Result<Update, NodeError> {
        let list = |n: &u8| vec![format!("{by}{n}")];
        Ok(match self {
            Item::Add(n) => Update::new().set("log", list(n)).set("plain", list(n)),
            Item::Overwrite(n) => {
                let whole = overwrite(&list(n)).expect("a list");
                Update::new().set_value("log", whole.clone()).set_value("plain", whole)
            }
            Item::Nothing => Update::new(),
            Item::Fail => return Err(NodeError::failed("ValueError", "told to fail")),
        })
    }
}

/// `first`, then `left`, `middle` and `right` beside each other, then `last`, twice. The order of
/// the three is that of their names, and neither that of their ids nor that of their ends.
fn graph(shape: Shape, frequency: u64, script: Arc<Mutex<Script>>) -> StateGraph {
    let count = Arc::new(AtomicU64::new(0));
    let node = move |name: &'static str| {
        let (script, count) = (script.clone(), count.clone());
        move |_: State, _| {
            let (script, count) = (script.clone(), count.clone());
            async move {
                // Ends in another order than it began in, now and then.
                for _ in 0..count.fetch_add(7, Ordering::Relaxed) % 4 {
                    tokio::task::yield_now().await;
                }
                let next = script.lock().unwrap().pop();
                next.unwrap_or(Item::Add(0)).update(name)
            }
        }
    };
    let mut graph = StateGraph::new("deltas")
        .channel("log", delta(frequency))
        .reduced_key("plain", Reducer::append());
    graph = match shape {
        Shape::Line => graph
            .node("first", node("f"))
            .node("middle", node("m"))
            .node("last", node("l"))
            .sequence(&[START, "first", "middle", "last", END]),
        Shape::Fan => graph
            .node("first", node("f"))
            .node("left", node("a"))
            .node("middle", node("b"))
            .node("right", node("c"))
            .node("last", node("l"))
            .sequence(&[START, "first", "left"])
            .edge("first", "middle")
            .edge("first", "right")
            .join(&["left", "middle", "right"], "last"),
    };
    graph
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Shape {
    Line,
    Fan,
}

fn delta(frequency: u64) -> ChannelSpec {
    ChannelSpec::Delta(DeltaReducer::append().snapshot_frequency(frequency))
}

struct Thread {
    graph: CompiledGraph,
    script: Arc<Mutex<Script>>,
}

impl Thread {
    fn new(
        shape: Shape,
        frequency: u64,
        profile: Profile,
        saver: Arc<dyn Saver>,
        doors: Doors,
    ) -> Thread {
        let script = Arc::default();
        let graph = graph(shape, frequency, Arc::clone(&script));
        let graph = graph.compile(Some(saver), &doors, profile.options()).expect("a graph");
        Thread { graph, script }
    }

    async fn history(&self) -> Vec<StateSnapshot> {
        self.graph.get_state_history("t", ListFilter::default()).await.expect("a history")
    }

    async fn nth(&self, n: usize) -> Option<Arc<str>> {
        let history = self.history().await;
        // Nothing can be said to a checkpoint that is only there for rows to hang on.
        let ids: Vec<_> = history
            .iter()
            .filter(|snapshot| snapshot.metadata.as_ref().is_some_and(|m| m.step > -2))
            .filter_map(|snapshot| snapshot.checkpoint.clone())
            .collect();
        (!ids.is_empty()).then(|| ids[n % ids.len()].clone())
    }

    /// Refusals are part of the game: what counts is what the thread is afterwards.
    async fn run(&self, input: Input, at: Option<Arc<str>>, durability: Durability, s: &Script) {
        self.script.lock().unwrap().clone_from(s);
        let mut config = RunConfig::new("t").durability(durability);
        config.checkpoint = at;
        let _ = self.graph.invoke(input, config).await;
    }

    async fn meet(&self, deed: &Deed) {
        match deed {
            Deed::Send(durability, script) => {
                let input = value::map([("log", list("in")), ("plain", list("in"))]);
                self.run(Input::New(input), None, *durability, script).await;
            }
            Deed::Resume(durability, script) => {
                self.run(Input::Resume, None, *durability, script).await;
            }
            Deed::TravelTo(n, durability, script) => {
                if let Some(at) = self.nth(*n).await {
                    self.run(Input::Resume, Some(at), *durability, script).await;
                }
            }
            Deed::Write(n, node, item) => {
                let Ok(update) = item.update("u") else { return };
                let update = StateUpdate::new(update).as_node(node);
                self.write(*n, update).await;
            }
            Deed::WriteSpecial(n, "input") => {
                let update = Update::new().set("log", vec!["i"]).set("plain", vec!["i"]);
                self.write(*n, StateUpdate::new(update).as_node("__input__")).await;
            }
            Deed::WriteSpecial(n, node) => {
                let update = StateUpdate { values: None, as_node: Some((*node).to_owned()) };
                self.write(*n, update).await;
            }
        }
    }

    async fn write(&self, n: Option<usize>, update: StateUpdate) {
        let at = match n {
            Some(n) => self.nth(n).await,
            None => None,
        };
        let _ = self.graph.update_state("t", at.as_deref(), update).await;
    }

    /// At every checkpoint, and at the head with what is pending.
    async fn check(&self, after: &Deed) -> Result<(), TestCaseError> {
        let mut seen = self.history().await;
        for checkpoint in seen.clone() {
            let id = checkpoint.checkpoint.as_deref();
            seen.push(self.graph.get_state("t", id).await.expect("a state"));
        }
        // Two overwrites in one step are refused, here as in the run.
        seen.extend(self.graph.get_state("t", None).await);
        for StateSnapshot { values, metadata, .. } in &seen {
            let empty = Value::Array(vec![]);
            let of = |key| values.value(key).unwrap_or(&empty);
            prop_assert_eq!(of("log"), of("plain"), "{:?} after {:?}", metadata, after);
        }
        Ok(())
    }
}

fn list(text: &str) -> Value {
    Value::Array(vec![text.into()])
}

fn durability() -> impl Strategy<Value = Durability> {
    select(vec![Durability::Sync, Durability::Async, Durability::Exit])
}

fn script(fails: bool) -> impl Strategy<Value = Script> {
    let item = prop_oneof![
        6 => (1..100u8).prop_map(Item::Add),
        1 => (1..100u8).prop_map(Item::Overwrite),
        1 => Just(Item::Nothing),
        1 => Just(if fails { Item::Fail } else { Item::Nothing }),
    ];
    vec(item, 0..7)
}

fn at() -> impl Strategy<Value = Option<usize>> {
    option::of(0..12usize)
}

/// Everything that there is.
fn any_deed() -> impl Strategy<Value = Deed> {
    let item = prop_oneof![
        3 => (1..100u8).prop_map(Item::Add),
        1 => (1..100u8).prop_map(Item::Overwrite),
    ];
    let node = select(vec!["first", "middle", "last"]);
    prop_oneof![
        4 => (durability(), script(true)).prop_map(|(d, s)| Deed::Send(d, s)),
        2 => (durability(), script(true)).prop_map(|(d, s)| Deed::Resume(d, s)),
        2 => (0..12usize, durability(), script(true)).prop_map(|(n, d, s)| Deed::TravelTo(n, d, s)),
        2 => (at(), node, item).prop_map(|(n, node, item)| Deed::Write(n, node, item)),
        1 => (at(), select(vec!["input", END, "__copy__"])).prop_map(|(n, s)| Deed::WriteSpecial(n, s)),
    ]
}

/// Runs to their end, one after the other, and updates to the head.
fn plain_deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        5 => (durability(), script(false)).prop_map(|(d, s)| Deed::Send(d, s)),
        1 => (1..100u8).prop_map(|n| Deed::Write(None, "last", Item::Add(n))),
    ]
}

fn keeps_its_value(
    test: &str,
    (shape, profile, frequency): (Shape, Profile, u64),
    deeds: &[Deed],
    url: Option<&str>,
) -> Result<(), TestCaseError> {
    let doors = Doors::production;
    block_on(async {
        let saver = Arc::new(MemorySaver::new(&doors()));
        let thread = Thread::new(shape, frequency, profile, saver, doors());
        for deed in deeds {
            thread.meet(deed).await;
            thread.check(deed).await?;
        }
        Ok::<_, TestCaseError>(())
    })?;
    block_on(async {
        let file = TestFile::new(test);
        let options =
            SqliteOptions { synchronous: Synchronous::Normal, ..SqliteOptions::default() };
        let open = || SqliteSaver::open_with(file.path(), &doors(), options);
        let saver = open().await.expect("the file opens");
        let thread = Thread::new(shape, frequency, profile, saver, doors());
        for deed in deeds {
            thread.meet(deed).await;
            let other = open().await.expect("the file opens");
            let reader = Thread::new(shape, frequency, profile, other, doors());
            reader.check(deed).await?;
        }
        Ok::<_, TestCaseError>(())
    })?;
    let Some(url) = url else { return Ok(()) };
    block_on(async {
        let saver = PostgresSaver::open(url, &doors()).await.expect("the database opens");
        saver.delete_thread("t").await.expect("the thread of the case before goes");
        let thread = Thread::new(shape, frequency, profile, saver.clone(), doors());
        let reader = Thread::new(shape, frequency, profile, saver, doors());
        for deed in deeds {
            thread.meet(deed).await;
            reader.check(deed).await?;
        }
        Ok(())
    })
}

/// The database of one property, where there is a server, and what keeps that alive.
fn database(label: &str) -> Option<(Arc<durasim_cluster::Cluster>, String)> {
    let server = Server::get()?;
    let url = server.database(label);
    Some((server, url))
}

/// The same cases every time; `PROPTEST_RNG_SEED` asks for others.
fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    let rng_seed = match default.rng_seed {
        RngSeed::Random => RngSeed::Fixed(0),
        asked => asked,
    };
    ProptestConfig { failure_persistence: None, cases: 48, rng_seed, ..default }
}

#[test]
fn a_cold_reload_gives_the_live_value() {
    let database = database("delta");
    let url = database.as_ref().map(|(_, url)| &**url);
    let deeds = vec(any_deed(), 1..8);
    let shape = select(vec![Shape::Line, Shape::Fan]);
    proptest!(config(), |(deeds in deeds, shape in shape, frequency in 1..6u64)| {
        keeps_its_value("delta", (shape, Profile::Safe, frequency), &deeds, url)?;
    });
}

/// What LangGraph keeps too, with the very same rows.
#[test]
fn so_it_does_in_the_faithful_profile_where_no_step_is_left_behind() {
    let database = database("delta_faithful");
    let url = database.as_ref().map(|(_, url)| &**url);
    let deeds = vec(plain_deed(), 1..8);
    proptest!(config(), |(deeds in deeds, frequency in 1..6u64)| {
        keeps_its_value("delta-faithful", (Shape::Line, Profile::Faithful, frequency), &deeds, url)?;
    });
}

/// Found by the property above: fork from a checkpoint without a snapshot of its own.
#[test]
fn a_fork_after_a_run_at_exit_keeps_its_value() {
    let database = database("delta_fork");
    let url = database.as_ref().map(|(_, url)| &**url);
    let deeds = [
        Deed::Send(Durability::Sync, vec![]),
        Deed::Write(None, "first", Item::Add(1)),
        Deed::Send(Durability::Exit, vec![]),
        Deed::TravelTo(2, Durability::Exit, vec![]),
    ];
    keeps_its_value("delta-fork", (Shape::Line, Profile::Safe, 3), &deeds, url).unwrap();
}

/// Found by the property above.
#[test]
fn finishing_what_an_older_checkpoint_left_keeps_its_value() {
    let database = database("delta_end");
    let url = database.as_ref().map(|(_, url)| &**url);
    let deeds = [
        Deed::Write(None, "first", Item::Add(1)),
        Deed::TravelTo(0, Durability::Exit, vec![]),
        Deed::TravelTo(5, Durability::Sync, vec![]),
        Deed::WriteSpecial(Some(11), "END"),
    ];
    keeps_its_value("delta-end", (Shape::Line, Profile::Safe, 1), &deeds, url).unwrap();
}
