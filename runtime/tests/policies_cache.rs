//! Cached nodes. What is expected was measured on langgraph 1.2.9 with its InMemoryCache.
#![cfg(not(madsim))]

mod policies_support;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use durasim_runtime::cache::{Cache, CacheError, CacheKey, CachePolicy, CacheResult, MemoryCache};
use durasim_runtime::cache::{CachedNode, CachedWrites};
use durasim_runtime::doors::Clock;
use durasim_runtime::graph::{Command, NodeOptions};
use durasim_runtime::pregel::{Input, RunConfig, RunError};
use durasim_runtime::value::Value;
use durasim_runtime::{CompiledGraph, Doors, NodeContext, START, State, StateGraph, StreamMode};
use futures::future::BoxFuture;
use policies_support::{
    BOTH, Log, Recorder, UPDATES, Waits, boom, compiled, faithful, graph, input, ms, paused, run,
    says,
};

/// Wall-clock time that moves with the paused one.
struct PausedClock(tokio::time::Instant);

impl Clock for PausedClock {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000) + self.0.elapsed()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

fn cached() -> NodeOptions {
    NodeOptions::new().cache(CachePolicy::new())
}

fn memory() -> Arc<MemoryCache> {
    Arc::new(MemoryCache::new(&Doors::production()))
}

/// `a` is cached and leads to `b`, which is not.
fn line(log: &Log, options: NodeOptions, cache: Arc<dyn Cache>) -> StateGraph {
    graph("g")
        .waiting("a", log, Duration::ZERO, options)
        .waiting("b", log, Duration::ZERO, NodeOptions::new())
        .edge(START, "a")
        .edge("a", "b")
        .cache(cache)
}

fn on(thread: &str, modes: &[StreamMode]) -> RunConfig {
    RunConfig::new(thread).modes(modes)
}

fn starts(log: &Log) -> Vec<String> {
    log.take().into_iter().filter(|line| line.ends_with("starts")).collect()
}

const FOUND: &str = r#"updates {"a":{"log":["a"]},"__metadata__":{"cached":true}}"#;

#[test]
fn what_was_written_before_is_used() {
    paused(async {
        let log = Log::default();
        let (graph, saver) = compiled(line(&log, cached(), memory()));
        run(&graph, input(), on("1", UPDATES)).await;
        assert_eq!(starts(&log), ["a starts", "b starts"]);
        saver.log.take();
        let modes = [StreamMode::Updates, StreamMode::Values, StreamMode::Tasks];
        let seen = run(&graph, input(), on("2", &modes)).await;
        assert_eq!(starts(&log), ["b starts"]);
        // The task shows as started and never as ended.
        assert!(seen[1].starts_with("tasks") && seen[1].contains(r#""name":"a""#), "{seen:?}");
        assert_eq!(seen[2..4], [FOUND, r#"values {"log":["a"],"x":0}"#]);
        assert!(seen[4].contains(r#""name":"b""#), "{seen:?}");
        // It has no rows of its own.
        let stored = [
            "put input -1",
            "~__pregel_pull, __start__: 0 x=0, 1 branch:to:a=null",
            "put loop 0",
            "put loop 1",
            "~__pregel_pull, b: 0 log=[\"b\"]",
            "put loop 2",
        ];
        assert_eq!(saver.log.take(), stored);
        let other = Input::New(durasim_runtime::value::map([("x", Value::from(1))]));
        run(&graph, other, on("3", UPDATES)).await;
        assert_eq!(starts(&log), ["a starts", "b starts"]);
    });
}

#[test]
fn it_can_be_forgotten() {
    paused(async {
        let log = Log::default();
        let (graph, _) = compiled(line(&log, cached(), memory()));
        for (nodes, runs_again) in [(&["a"][..], true), (&["b"], false), (&[], true)] {
            run(&graph, input(), on("1", UPDATES)).await;
            graph.clear_cache(nodes).await.unwrap();
            starts(&log);
            run(&graph, input(), on("2", UPDATES)).await;
            assert_eq!(starts(&log).contains(&"a starts".to_owned()), runs_again);
        }
        let (uncached, _) = compiled(graph_without_cache());
        assert!(matches!(uncached.clear_cache(&[]).await, Err(RunError::NoCache)));
    });
}

fn graph_without_cache() -> StateGraph {
    graph("g").node("a", |_, _| async { Ok(()) }).edge(START, "a")
}

#[test]
fn it_lasts_as_long_as_the_policy_says() {
    paused(async {
        let clock = Arc::new(PausedClock(tokio::time::Instant::now()));
        let doors = Doors { clock, ..Doors::production() };
        let log = Log::default();
        let options = NodeOptions::new().cache(CachePolicy::new().ttl(Duration::from_secs(1)));
        let graph = line(&log, options, Arc::new(MemoryCache::new(&doors)));
        let graph = graph.compile(None, &doors, faithful()).unwrap();
        let again = |wait| {
            let (graph, log) = (graph.clone(), log.clone());
            async move {
                tokio::time::sleep(wait).await;
                run(&graph, input(), on("t", UPDATES)).await;
                starts(&log).len()
            }
        };
        assert_eq!(again(ms(0)).await, 2);
        assert_eq!(again(ms(900)).await, 1);
        assert_eq!(again(ms(200)).await, 2);
    });
}

#[test]
fn a_key_says_what_of_the_input_counts() {
    paused(async {
        let log = Log::default();
        let parity = |state: &State| vec![(state.get_or("x", 0u8).unwrap_or_default()) % 2];
        let options = NodeOptions::new().cache(CachePolicy::new().key(parity));
        let (graph, _) = compiled(line(&log, options, memory()));
        let mut runs = Vec::new();
        for x in [0, 2, 1, 4] {
            let input = Input::New(durasim_runtime::value::map([("x", Value::from(x))]));
            run(&graph, input, on(&x.to_string(), UPDATES)).await;
            runs.push(starts(&log).len());
        }
        assert_eq!(runs, [2, 1, 2, 1]);
    });
}

#[test]
fn only_what_finished_is_kept() {
    paused(async {
        let log = Log::default();
        let node = log.clone();
        let graph = graph("g")
            .node_with("f", cached(), move |_, context: NodeContext| {
                node.add("f");
                let is_first = node.take().len() == 1;
                node.add("before");
                async move {
                    if is_first {
                        return Err(boom());
                    }
                    let answer = context.interrupt("q")?;
                    Ok(says(answer.as_str().unwrap_or_default()))
                }
            })
            .edge(START, "f")
            .cache(memory());
        let (graph, _) = compiled(graph);
        assert_eq!(run(&graph, input(), on("t", UPDATES)).await, ["! ValueError: boom"]);
        let seen = run(&graph, Input::Resume, on("t", UPDATES)).await;
        assert!(seen[0].contains("__interrupt__"), "{seen:?}");
        let answer = Input::Command(Command::resume(Value::from("yes")));
        let seen = run(&graph, answer, on("t", UPDATES)).await;
        assert_eq!(seen, [r#"updates {"f":{"log":["yes"]}}"#]);
        // Another thread gets the answer that was given on this one, as in LangGraph.
        let seen = run(&graph, input(), on("u", UPDATES)).await;
        let found = r#"updates {"f":{"log":["yes"]},"__metadata__":{"cached":true}}"#;
        assert_eq!(seen, [found]);
    });
}

#[test]
fn a_run_that_goes_on_asks_the_cache_again() {
    paused(async {
        let log = Log::default();
        let failing = Log::default();
        let graph = graph("g")
            .waiting("a", &log, Duration::ZERO, cached())
            .node("z", move |_, _| {
                failing.add("z");
                let runs = failing.take();
                runs.iter().chain([&"z".to_owned()]).for_each(|line| failing.add(line));
                let fails = runs.len() == 3;
                async move { if fails { Err(boom()) } else { Ok(says("z")) } }
            })
            .edge(START, "a")
            .edge(START, "z")
            .cache(memory());
        let (graph, _) = compiled(graph);
        run(&graph, input(), on("t", UPDATES)).await;
        assert_eq!(starts(&log), ["a starts"]);
        let seen = run(&graph, input(), on("u", UPDATES)).await;
        assert_eq!(seen, [FOUND, "! ValueError: boom"]);
        // It has no rows, so it still counts as unfinished.
        assert_eq!(graph.get_state("u", None).await.unwrap().next.len(), 2);
        let seen = run(&graph, Input::Resume, on("u", BOTH)).await;
        assert_eq!(seen[1], FOUND);
        assert_eq!(seen.last().unwrap(), r#"values {"log":["a","z"],"x":0}"#);
        assert_eq!(starts(&log), Vec::<String>::new());
    });
}

#[test]
fn graphs_inside_have_caches_of_their_own() {
    paused(async {
        for (own, runs) in [(false, 2), (true, 1)] {
            let log = Log::default();
            let mut inner =
                graph("inner").waiting("a", &log, Duration::ZERO, cached()).edge(START, "a");
            if own {
                inner = inner.cache(memory());
            }
            let outer = graph("outer").subgraph("sub", inner).edge(START, "sub").cache(memory());
            let (outer, _) = compiled(outer);
            for thread in ["1", "2"] {
                run(&outer, input(), on(thread, UPDATES)).await;
            }
            assert_eq!(starts(&log).len(), runs);
        }
    });
}

/// A cache that fails.
struct Broken;

impl Cache for Broken {
    fn get(&self, keys: Vec<CacheKey>) -> CacheResult<Vec<Option<CachedWrites>>> {
        Box::pin(async move { Ok(vec![None; keys.len()]) })
    }

    fn set(&self, _: CacheKey, _: CachedWrites, _: Option<Duration>) -> CacheResult<()> {
        Box::pin(async { Err(CacheError("full".to_owned())) })
    }

    fn clear(&self, _: Option<Vec<CachedNode>>) -> CacheResult<()> {
        Box::pin(async { Ok(()) })
    }
}

/// In LangGraph too, a write to the cache that fails ends the run with its error.
#[test]
fn a_broken_cache_is_told_at_the_end() {
    paused(async {
        let doors = Doors::production();
        let log = Log::default();
        let graph = line(&log, cached(), Arc::new(Broken));
        let saver = Arc::new(Recorder::new(&doors));
        let graph: CompiledGraph = graph.compile(Some(saver), &doors, faithful()).unwrap();
        let seen = run(&graph, input(), on("t", UPDATES)).await;
        assert!(seen.last().unwrap().contains("the cache failed: full"), "{seen:?}");
        assert_eq!(starts(&log).len(), 2);
    });
}
