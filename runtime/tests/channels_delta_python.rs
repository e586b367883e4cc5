//! Threads with delta channels that LangGraph 1.2.9 wrote (tests/vectors/README.md): they read the
//! same here, and the same graph leaves the same rows.
#![cfg(not(madsim))]

mod checkpoint_support;
mod postgres_support;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use checkpoint_support::{TestFile, block_on, key, vectors};
use durasim_runtime::channels::{ChannelSpec, DeltaReducer, Reducer, overwrite};
use durasim_runtime::checkpoint::codec::{
    decode, decode_checkpoint, decode_metadata, read_delta_snapshot, read_interrupt,
};
use durasim_runtime::checkpoint::memory::MemorySaver;
use durasim_runtime::checkpoint::postgres::PostgresSaver;
use durasim_runtime::checkpoint::saver::{Keep, ListFilter, Put, PutWrites, Saver, SaverResult};
use durasim_runtime::checkpoint::sqlite::{SqliteOptions, SqliteSaver, Synchronous};
use durasim_runtime::checkpoint::version::version_number;
use durasim_runtime::checkpoint::{ChannelVersions, CheckpointTuple, Source, ThreadKey};
use durasim_runtime::graph::Command;
use durasim_runtime::pregel::{Input, RunConfig, StateUpdate};
use durasim_runtime::value::{self, Shared, Value};
use durasim_runtime::{
    CompiledGraph, Doors, Durability, END, NodeContext, NodeError, Profile, State, StateGraph,
    Update,
};
use postgres_support::Server;
use serde::Deserialize;
use serde_json::{Value as Json, json};

#[derive(Deserialize)]
struct Case {
    name: String,
    frequency: u64,
    nodes: BTreeMap<String, Vec<Json>>,
    edges: Vec<(String, String)>,
    ops: Vec<Json>,
    checkpoints: Vec<CheckpointRow>,
    writes: Vec<WriteRow>,
    states: Vec<StateRow>,
    head: Json,
}

#[derive(Deserialize)]
struct CheckpointRow {
    id: String,
    parent: Option<String>,
    r#type: String,
    checkpoint: String,
    metadata: Json,
}

#[derive(Deserialize)]
struct WriteRow {
    checkpoint: String,
    task: String,
    idx: i64,
    channel: String,
    r#type: String,
    value: String,
}

#[derive(Deserialize)]
struct StateRow {
    id: String,
    values: Json,
}

fn cases() -> Vec<Case> {
    let text = std::fs::read_to_string(vectors("delta_threads.json")).expect("the recording");
    serde_json::from_str(&text).expect("cases")
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex");
    (0..text.len()).step_by(2).map(digit).collect()
}

/// Gives the items of a node in turn, the last one again and again.
type Turns = Arc<Mutex<BTreeMap<String, usize>>>;

fn graph(case: &Case, saver: Arc<dyn Saver>, profile: Profile) -> CompiledGraph {
    let delta = DeltaReducer::append().snapshot_frequency(case.frequency);
    let mut graph = StateGraph::new("deltas")
        .channel("log", ChannelSpec::Delta(delta))
        .reduced_key("plain", Reducer::append())
        .key("other");
    let turns = Turns::default();
    // The order of the recording's file; a map would sort the names.
    for (name, items) in &case.nodes {
        let (turns, node, items) = (turns.clone(), name.clone(), items.clone());
        graph = graph.node(name, move |_: State, context: NodeContext| {
            let turn = {
                let mut turns = turns.lock().unwrap();
                let turn = turns.entry(node.clone()).or_default();
                *turn += 1;
                *turn - 1
            };
            let item = items[turn.min(items.len() - 1)].clone();
            async move { act(item, context).await }
        });
    }
    for (from, to) in &case.edges {
        let name = |name: &str| match name {
            "START" => durasim_runtime::START.to_owned(),
            "END" => END.to_owned(),
            other => other.to_owned(),
        };
        graph = graph.edge(&name(from), &name(to));
    }
    graph.compile(Some(saver), &Doors::production(), profile.options()).expect("a graph")
}

async fn act(item: Json, context: NodeContext) -> Result<Update, NodeError> {
    if let Some(pause) = item["pause"].as_u64() {
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
    let both =
        |value: Value| Update::new().set_value("log", value.clone()).set_value("plain", value);
    let list = |item: &Json| Value::Array(vec![value::from_json(item.clone())]);
    let (kind, what) =
        match item.as_object().and_then(|item| item.iter().find(|(k, _)| *k != "pause")) {
            Some(found) => found,
            None => return Ok(Update::new()),
        };
    Ok(match kind.as_str() {
        "add" => both(list(what)),
        "overwrite" => both(overwrite(&vec![what]).expect("a list")),
        "other" => Update::new().set("other", what),
        "ask" => both(Value::Array(vec![context.interrupt(what)?])),
        "fail" => return Err(NodeError::failed("ValueError", what.as_str().unwrap_or_default())),
        kind => panic!("an item of kind {kind}"),
    })
}

fn update(values: &Json) -> Update {
    let entries = values.as_object().into_iter().flatten();
    entries.fold(Update::new(), |update, (key, value)| update.set(key, value))
}

async fn play(graph: &CompiledGraph, op: &Json) {
    let durability: Durability =
        serde_json::from_value(op["durability"].clone()).unwrap_or(Durability::Sync);
    let config = RunConfig::new("t").durability(durability);
    // Runs fail where the recorded ones did: it shows in their rows.
    match op["op"].as_str() {
        Some("run") if op["input"].is_null() => drop(graph.invoke(Input::Resume, config).await),
        Some("run") => {
            let input = value::from_json(op["input"].clone());
            drop(graph.invoke(Input::New(input), config).await);
        }
        Some("resume") => {
            let command = Command::resume(value::from_json(op["value"].clone()));
            let command = match &op["update"] {
                Json::Null => command,
                values => command.update(update(values)),
            };
            drop(graph.invoke(Input::Command(command), config).await);
        }
        Some("travel") => {
            let at = nth(graph, op["at"].as_i64().unwrap()).await;
            drop(graph.invoke(Input::Resume, config.checkpoint(at)).await);
        }
        Some("update") => {
            let at = match op["at"].as_i64() {
                Some(n) => Some(nth(graph, n).await),
                None => None,
            };
            let node = op["as_node"].as_str();
            let update = StateUpdate {
                values: (!op["values"].is_null()).then(|| update(&op["values"])),
                as_node: node.map(|node| if node == "END" { END } else { node }.to_owned()),
            };
            graph.update_state("t", at.as_deref(), update).await.expect("an update");
        }
        other => panic!("op {other:?}"),
    }
}

/// As an index of Python: from the end when it is negative.
async fn nth(graph: &CompiledGraph, n: i64) -> Arc<str> {
    let history = graph.get_state_history("t", ListFilter::default()).await.expect("a history");
    let at = if n < 0 { history.len() as i64 + n } else { n };
    history[at as usize].checkpoint.clone().expect("an id")
}

fn store(case: &Case, file: &TestFile) {
    let db = file.connect();
    for CheckpointRow { id, parent, r#type, checkpoint, metadata } in &case.checkpoints {
        let metadata = metadata.to_string().into_bytes();
        let row = rusqlite::params![id, parent, r#type, unhex(checkpoint), metadata];
        db.execute("INSERT INTO checkpoints VALUES ('t', '', ?, ?, ?, ?, ?)", row).expect("a row");
    }
    for WriteRow { checkpoint, task, idx, channel, r#type, value } in &case.writes {
        let row = rusqlite::params![checkpoint, task, idx, channel, r#type, unhex(value)];
        db.execute("INSERT INTO writes VALUES ('t', '', ?, ?, ?, ?, ?, ?)", row).expect("a row");
    }
}

async fn recorded(case: &Case, file: &TestFile) -> Arc<SqliteSaver> {
    let saver = open(file).await;
    store(case, file);
    saver
}

async fn open(file: &TestFile) -> Arc<SqliteSaver> {
    let options = SqliteOptions { synchronous: Synchronous::Normal, ..SqliteOptions::default() };
    let saver = SqliteSaver::open_with(file.path(), &Doors::production(), options);
    saver.await.expect("the file opens")
}

fn read(values: &State) -> Json {
    let keys = ["log", "plain"].into_iter();
    let held = keys.filter_map(|key| Some((key.to_owned(), value::to_json(values.value(key)?))));
    Json::Object(held.collect())
}

#[test]
fn what_python_wrote_reads_the_same() {
    for case in cases() {
        let file = TestFile::new(&format!("delta-python-{}", case.name));
        block_on(async {
            let saver = recorded(&case, &file).await;
            let graph = graph(&case, saver, Profile::Safe);
            let history = graph.get_state_history("t", ListFilter::default()).await.unwrap();
            let mine: Vec<_> =
                history.iter().map(|s| json!([s.checkpoint.as_deref(), read(&s.values)])).collect();
            let theirs: Vec<_> = case.states.iter().map(|s| json!([s.id, s.values])).collect();
            assert_eq!(json!(mine), json!(theirs), "history of {}", case.name);
            let head = graph.get_state("t", None).await.unwrap();
            assert_eq!(read(&head.values), case.head, "head of {}", case.name);
        });
    }
}

/// Continued here: what the next run has is what the thread then reads as.
#[test]
fn what_python_wrote_goes_on() {
    for case in cases() {
        let file = TestFile::new(&format!("delta-go-on-{}", case.name));
        block_on(async {
            let saver = recorded(&case, &file).await;
            let graph = graph(&case, saver, Profile::Safe);
            let before = graph.get_state("t", None).await.unwrap();
            let input = value::from_json(json!({"log": ["next"], "plain": ["next"]}));
            for durability in [Durability::Sync, Durability::Exit] {
                let config = RunConfig::new("t").durability(durability);
                let _ = graph.invoke(Input::New(input.clone()), config).await;
            }
            let after = graph.get_state("t", None).await.unwrap();
            let added = |key: &str| -> Vec<String> {
                let of = |s: &State| s.get_or::<Vec<String>>(key, vec![]).unwrap();
                let (before, after) = (of(&before.values), of(&after.values));
                after.strip_prefix(&before[..]).map_or(after.clone(), <[String]>::to_vec)
            };
            // Unfinished steps of the recording are left out of both.
            assert_eq!(added("log").last(), added("plain").last(), "{}", case.name);
            assert!(added("plain").contains(&"next".to_owned()), "{}", case.name);
            if case.head["log"] == case.head["plain"] && before.next.is_empty() {
                assert_eq!(added("log"), added("plain"), "{}", case.name);
            }
        });
    }
}

#[test]
fn the_same_graph_leaves_the_same_rows() {
    for case in cases() {
        let file = TestFile::new(&format!("delta-rows-{}", case.name));
        block_on(async {
            let saver = open(&file).await;
            let graph = graph(&case, saver, Profile::Faithful);
            for op in &case.ops {
                play(&graph, op).await;
            }
        });
        let recorded = TestFile::new(&format!("delta-rows-of-python-{}", case.name));
        block_on(async { recorded_rows(&case, &recorded).await });
        assert_eq!(rows(&file), rows(&recorded), "{}", case.name);
    }
}

async fn recorded_rows(case: &Case, file: &TestFile) {
    drop(recorded(case, file).await);
}

/// All rows of a file: ids as numbers in their order, versions without their tails, tasks by what
/// they wrote, as their ids are hashed from the checkpoints'.
fn rows(file: &TestFile) -> Vec<Json> {
    let db = file.connect();
    let mut checkpoints = db
        .prepare("SELECT checkpoint_id, parent_checkpoint_id, checkpoint, metadata FROM checkpoints ORDER BY checkpoint_id")
        .unwrap();
    let mut ids: Vec<String> = vec![];
    let mut all = vec![];
    let mut found = checkpoints.query([]).unwrap();
    while let Some(row) = found.next().unwrap() {
        let id: String = row.get(0).unwrap();
        let parent: Option<String> = row.get(1).unwrap();
        let checkpoint = decode_checkpoint(row.get_ref(2).unwrap().as_blob().unwrap()).unwrap();
        let metadata = decode_metadata(row.get_ref(3).unwrap().as_bytes().unwrap()).unwrap();
        let parent = parent.and_then(|parent| ids.iter().position(|id| *id == parent));
        ids.push(id.clone());
        all.push(json!({
            "parent": parent,
            "source": metadata.source.name(),
            "step": metadata.step,
            "extra": metadata.extra,
            "values": checkpoint.channel_values.iter().map(|(k, v)| (k.to_string(), shown(v))).collect::<BTreeMap<_, _>>(),
            "versions": numbers(&checkpoint.channel_versions),
            "seen": checkpoint.versions_seen.iter().map(|(k, v)| (k.to_string(), json!(numbers(v)))).collect::<BTreeMap<_, _>>(),
            "updated": checkpoint.updated_channels,
            "writes": writes(&db, &id),
        }));
    }
    all
}

fn numbers(versions: &ChannelVersions) -> BTreeMap<String, u64> {
    versions.iter().map(|(k, v)| (k.to_string(), version_number(v) as u64)).collect()
}

/// Snapshots and interrupts are told by what is in them.
fn shown(value: &Value) -> Json {
    if let Ok(Some(whole)) = read_delta_snapshot(value) {
        return json!({ "snapshot": value::to_json(&whole) });
    }
    let interrupts =
        value.as_array().map(|all| all.iter().filter_map(read_interrupt).collect::<Vec<_>>());
    match interrupts {
        Some(asked) if !asked.is_empty() => {
            json!(asked.iter().map(|(question, _)| value::to_json(question)).collect::<Vec<_>>())
        }
        _ => value::to_json(value),
    }
}

/// The writes beside a checkpoint, by task: whose they are by kind (no task, a step of exit
/// durability, a plain task), and the rows. Several edges out of one node are a set in Python, so
/// that the index of such a row says nothing.
fn writes(db: &rusqlite::Connection, checkpoint: &str) -> Json {
    let mut select = db
        .prepare("SELECT task_id, idx, channel, type, value FROM writes WHERE checkpoint_id = ? ORDER BY task_id, idx")
        .unwrap();
    let mut found = select.query([checkpoint]).unwrap();
    let mut tasks: BTreeMap<String, Vec<Json>> = BTreeMap::new();
    while let Some(row) = found.next().unwrap() {
        let (task, index, channel): (String, i64, String) =
            (row.get(0).unwrap(), row.get(1).unwrap(), row.get(2).unwrap());
        let type_name: String = row.get(3).unwrap();
        let bytes: Vec<u8> = row.get::<_, Option<Vec<u8>>>(4).unwrap().unwrap_or_default();
        let value = shown(&decode(&type_name, &bytes).unwrap());
        let index = (!channel.starts_with("branch:to:")).then_some(index);
        tasks.entry(task).or_default().push(json!([index, channel, value]));
    }
    let kind = |task: &str| match task.split('-').next() {
        _ if task == durasim_runtime::checkpoint::reserved::NULL_TASK => "null".to_owned(),
        Some(first) if first.starts_with("0000") => format!("step {first}"),
        _ => "task".to_owned(),
    };
    let mut groups: Vec<String> = tasks
        .into_iter()
        .map(|(task, mut rows)| {
            rows.sort_by_key(Json::to_string);
            json!([kind(&task), rows]).to_string()
        })
        .collect();
    groups.sort();
    json!(groups)
}

/// A saver that has no walk of its own.
struct Plain(Arc<dyn Saver>);

impl Saver for Plain {
    fn get_tuple(&self, key: &ThreadKey, id: Option<&str>) -> SaverResult<Option<CheckpointTuple>> {
        self.0.get_tuple(key, id)
    }

    fn list(
        &self,
        thread: &str,
        namespace: Option<&str>,
        filter: ListFilter,
    ) -> SaverResult<Vec<CheckpointTuple>> {
        self.0.list(thread, namespace, filter)
    }

    fn put(&self, put: Put) -> SaverResult<()> {
        self.0.put(put)
    }

    fn put_writes(&self, put: PutWrites) -> SaverResult<()> {
        self.0.put_writes(put)
    }

    fn delete_thread(&self, thread: &str) -> SaverResult<()> {
        self.0.delete_thread(thread)
    }

    fn copy_thread(&self, from: &str, to: &str) -> SaverResult<()> {
        self.0.copy_thread(from, to)
    }

    fn prune(&self, threads: &[Arc<str>], keep: Keep) -> SaverResult<()> {
        self.0.prune(threads, keep)
    }

    fn delete_for_runs(&self, runs: &[Arc<str>]) -> SaverResult<()> {
        self.0.delete_for_runs(runs)
    }
}

/// Of every recorded checkpoint: the walk tuple by tuple, and that of each saver.
#[test]
fn every_saver_finds_the_same_past() {
    let channels: Vec<Arc<str>> = ["log", "plain", "no such channel"].map(Arc::from).to_vec();
    let at = key("t", "");
    let server = Server::get();
    for case in cases() {
        let file = TestFile::new(&format!("delta-walk-{}", case.name));
        block_on(async {
            let sqlite = recorded(&case, &file).await;
            let memory: Arc<dyn Saver> = Arc::new(MemorySaver::new(&Doors::production()));
            let mut copies = vec![memory];
            if let Some(server) = &server {
                let saver = PostgresSaver::open(&server.database("walk"), &Doors::production());
                copies.push(saver.await.expect("the database opens"));
            }
            let tuples = sqlite.list("t", None, ListFilter::default()).await.unwrap();
            for CheckpointTuple { checkpoint, metadata, parent, writes, .. } in tuples {
                let id = checkpoint.id.clone();
                let mut tasks: BTreeMap<Arc<str>, Vec<(Arc<str>, Shared)>> = BTreeMap::new();
                for write in writes {
                    tasks.entry(write.task).or_default().push((write.channel, write.value));
                }
                for copy in &copies {
                    let (checkpoint, metadata) = (checkpoint.clone(), metadata.clone());
                    let put = Put::new(&at, parent.as_deref(), checkpoint, metadata);
                    copy.put(put).await.unwrap();
                    for (task, writes) in &tasks {
                        let writes = PutWrites::new(&at, &id, task, "", writes.clone());
                        copy.put_writes(writes).await.unwrap();
                    }
                }
            }
            let plain = Plain(sqlite.clone());
            let ids = case.checkpoints.iter().map(|row| Some(row.id.as_str()));
            for id in ids.chain([None, Some("no such id")]) {
                let one = plain.get_delta_channel_history(&at, id, &channels).await.unwrap();
                let sqlite = sqlite.get_delta_channel_history(&at, id, &channels).await.unwrap();
                assert_eq!(one, sqlite, "{} at {id:?}", case.name);
                for copy in &copies {
                    let copy = copy.get_delta_channel_history(&at, id, &channels).await.unwrap();
                    assert_eq!(one, copy, "{} at {id:?}", case.name);
                }
                let is_stored = id != Some("no such id");
                assert_eq!(one.len(), if is_stored { 3 } else { 0 });
            }
            let none = sqlite.get_delta_channel_history(&at, None, &[]).await.unwrap();
            assert!(none.is_empty());
        });
    }
}

#[test]
fn an_anchor_is_stored_without_a_source() {
    let case = cases().into_iter().find(|case| case.name == "line_exit_1000").expect("the case");
    let file = TestFile::new("delta-anchor");
    block_on(async {
        let saver = recorded(&case, &file).await;
        let tuples = saver.list("t", None, ListFilter::default()).await.unwrap();
        let anchor = tuples.last().expect("the oldest");
        assert_eq!((anchor.metadata.source, anchor.metadata.step), (Source::Anchor, -2));
        assert!(anchor.checkpoint.channel_versions.is_empty());
        let mut filter = ListFilter::default();
        filter.metadata.insert("source".to_owned(), Json::Null);
        assert_eq!(saver.list("t", None, filter).await.unwrap().len(), 1);
    });
    let refused = decode_metadata(br#"{"step": 3, "parents": {}}"#);
    assert!(refused.is_err(), "only an anchor may do without");
}
