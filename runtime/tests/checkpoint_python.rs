//! A database that LangGraph 1.2.9 wrote (tests/vectors/make.py): three threads, stopped mid-run.
#![cfg(not(madsim))]

mod checkpoint_support;

use std::sync::Arc;

use checkpoint_support::{TestFile, block_on, key, short, vectors};
use durasim_runtime::Doors;
use durasim_runtime::checkpoint::id::uuid6_bytes;
use durasim_runtime::checkpoint::saver::{ListFilter, Put, Saver};
use durasim_runtime::checkpoint::sqlite::SqliteSaver;
use durasim_runtime::checkpoint::version::version_number;
use durasim_runtime::checkpoint::{CheckpointTuple, Source, codec, task_id};
use durasim_runtime::value::{self, Value};

/// The database in a file of its own: opening one leaves traces in it.
fn python_file(test: &str) -> TestFile {
    let file = TestFile::new(test);
    std::fs::copy(vectors("python_mid_run.sqlite"), file.path()).expect("the recorded database");
    file
}

async fn latest(saver: &dyn Saver, thread: &str) -> CheckpointTuple {
    saver.get_tuple(&key(thread, ""), None).await.expect("a read").expect("a checkpoint")
}

fn texts(texts: &[&str]) -> Value {
    Value::Array(texts.iter().map(|&text| text.into()).collect())
}

fn names<'a>(names: impl Iterator<Item = &'a Arc<str>>) -> Vec<&'a str> {
    names.map(|name| &**name).collect()
}

#[test]
fn reads_a_run_that_failed_in_its_third_node() {
    let file = python_file("python-failed");
    block_on(async {
        let saver = SqliteSaver::open(file.path(), &Doors::production()).await.unwrap();
        let tuple = latest(&*saver, "failed").await;
        let checkpoint = &tuple.checkpoint;
        assert_eq!(&*checkpoint.id, "1f1ec26b-cb64-6625-8002-e8e6eec9229c");
        assert_eq!(tuple.parent.as_deref(), Some("1f1ec26b-cb5f-691a-8001-b3aa9324a3c6"));
        assert_eq!(checkpoint.ts, "2026-11-29T18:57:34.416995+00:00");
        assert_eq!((tuple.metadata.source, tuple.metadata.step), (Source::Loop, 2));
        assert!(tuple.metadata.parents.is_empty());
        assert_eq!(
            serde_json::json!(tuple.metadata.extra),
            serde_json::json!({"request": "r-failed"})
        );

        let values = &checkpoint.channel_values;
        assert_eq!(
            names(values.keys()),
            ["order", "steps", "charge", "receipt", "paid_at", "tags", "branch:to:notify"]
        );
        assert_eq!(*values["order"], "A-1".into());
        assert_eq!(*values["steps"], texts(&["in", "plan", "charge"]));
        let charge = [("amount", 1250.into()), ("ok", true.into()), ("rate", 0.25.into())];
        assert_eq!(*values["charge"], value::map(charge));
        assert_eq!(*values["receipt"], Value::Binary(vec![0, 255]));
        assert!(matches!(*values["paid_at"], Value::Ext(3, _)));
        assert_eq!(codec::read_set(&values["tags"]), Some(vec!["paid".into()]));
        assert_eq!(*values["branch:to:notify"], Value::Nil);

        let versions = &checkpoint.channel_versions;
        assert_eq!(&*versions["steps"], "00000000000000000000000000000004.0.14776650538384184");
        assert_eq!(version_number(&versions["branch:to:charge"]), 4);
        assert_eq!(version_number(&versions["branch:to:plan"]), 3);
        let seen = &checkpoint.versions_seen;
        assert_eq!(names(seen.keys()), ["__input__", "__start__", "plan", "charge"]);
        assert!(seen["__input__"].is_empty());
        assert_eq!(version_number(&seen["charge"]["branch:to:charge"]), 3);
        let updated = checkpoint.updated_channels.as_ref().unwrap();
        assert_eq!(
            names(updated.iter()),
            ["branch:to:notify", "charge", "paid_at", "receipt", "steps", "tags"]
        );

        let bytes = uuid6_bytes(&checkpoint.id).unwrap();
        let notify = task_id::pull(&bytes, "", 3, "notify", &["branch:to:notify".into()]);
        let error = "\"RuntimeError('smtp is down')\"".to_owned();
        assert_eq!(short(&tuple.writes), [(&*notify, "__error__", error)]);
    });
}

#[test]
fn reads_the_history_with_its_writes() {
    let file = python_file("python-history");
    block_on(async {
        let saver = SqliteSaver::open(file.path(), &Doors::production()).await.unwrap();
        let history = saver.list("failed", None, ListFilter::default()).await.unwrap();
        let steps: Vec<_> =
            history.iter().map(|t| (t.metadata.source.name(), t.metadata.step)).collect();
        assert_eq!(steps, [("loop", 2), ("loop", 1), ("loop", 0), ("input", -1)]);
        for (child, parent) in history.iter().zip(&history[1..]) {
            assert_eq!(child.parent.as_ref(), Some(&parent.checkpoint.id));
        }
        let [_, one, _, input] = &history[..] else { panic!("four checkpoints") };
        assert_eq!(input.parent, None);
        let given = value::map([("steps", texts(&["in"]))]);
        assert_eq!(*input.checkpoint.channel_values["__start__"], given);
        assert_eq!(input.writes[1].channel, "branch:to:plan".into());
        assert_eq!(*input.writes[1].value, Value::Nil);
        let channels: Vec<_> = one.writes.iter().map(|write| &*write.channel).collect();
        assert_eq!(channels, ["steps", "charge", "receipt", "paid_at", "tags", "branch:to:notify"]);
        assert_eq!(*one.writes[2].value, Value::Binary(vec![0, 255]));
    });
}

#[test]
fn reads_an_interrupt() {
    let file = python_file("python-asked");
    block_on(async {
        let saver = SqliteSaver::open(file.path(), &Doors::production()).await.unwrap();
        let tuple = latest(&*saver, "asked").await;
        let [write] = &tuple.writes[..] else { panic!("one write") };
        assert_eq!(
            (&*write.task, &*write.channel),
            ("aebe2df8-edc7-cf1a-30b9-a072fdfa3234", "__interrupt__")
        );
        let Value::Array(interrupts) = &*write.value else { panic!("a list") };
        let question = value::map([("question", "send it?".into())]);
        let interrupt = codec::read_interrupt(&interrupts[0]).unwrap();
        assert_eq!(interrupt, (question.clone(), "859a67cc6d0ead98e003eb546fb3d992".to_owned()));
        assert_eq!(codec::interrupt_value(question, &interrupt.1).unwrap(), interrupts[0]);
    });
}

#[test]
fn reads_a_barrier_that_waits() {
    let file = python_file("python-joining");
    block_on(async {
        let saver = SqliteSaver::open(file.path(), &Doors::production()).await.unwrap();
        let tuple = latest(&*saver, "joining").await;
        let barrier = &tuple.checkpoint.channel_values["join:a+b2:c"];
        assert_eq!(**barrier, codec::set_value(["a"]));
        assert_eq!(tuple.metadata.step, 1);
    });
}

#[test]
fn writes_again_what_python_wrote_byte_for_byte() {
    let file = python_file("python-bytes");
    let connection = file.connect();
    let mut checkpoints =
        connection.prepare("SELECT checkpoint, metadata FROM checkpoints").unwrap();
    let rows = checkpoints.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let rows: Vec<(Vec<u8>, Vec<u8>)> = rows.collect::<Result<_, _>>().unwrap();
    assert_eq!(rows.len(), 11);
    for (checkpoint, metadata) in rows {
        let read = codec::decode_checkpoint(&checkpoint).unwrap();
        assert_eq!(codec::encode_checkpoint(&read).unwrap(), checkpoint, "{}", read.id);
        // Of JSON only the spaces differ, and the order of keys is kept.
        let ours = codec::encode_metadata(&codec::decode_metadata(&metadata).unwrap());
        let python = String::from_utf8(metadata).unwrap().replace(": ", ":").replace(", ", ",");
        assert_eq!(String::from_utf8(ours).unwrap(), python);
    }
    let mut writes = connection.prepare("SELECT type, value FROM writes").unwrap();
    let rows = writes.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let rows: Vec<(String, Vec<u8>)> = rows.collect::<Result<_, _>>().unwrap();
    assert_eq!(rows.len(), 32);
    for (type_name, bytes) in rows {
        let value = codec::decode(&type_name, &bytes).unwrap();
        assert_eq!(codec::encode(&value).unwrap(), (&*type_name, bytes));
    }
}

#[test]
fn every_task_id_of_the_database_is_derived() {
    let file = python_file("python-tasks");
    block_on(async {
        let saver = SqliteSaver::open(file.path(), &Doors::production()).await.unwrap();
        let mut found = 0;
        for thread in ["failed", "asked", "joining"] {
            for tuple in saver.list(thread, None, ListFilter::default()).await.unwrap() {
                let bytes = uuid6_bytes(&tuple.checkpoint.id).unwrap();
                let step = tuple.metadata.step + 1;
                let triggers =
                    ["__start__", "plan", "charge", "notify", "a", "b1", "b2"].map(|node| {
                        let start = node == "__start__";
                        (node, if start { node.to_owned() } else { format!("branch:to:{node}") })
                    });
                let ids = triggers.map(|(node, trigger)| {
                    task_id::pull(&bytes, "", step, node, &[trigger.into()])
                });
                for write in &tuple.writes {
                    assert!(ids.contains(&write.task), "{thread} {step} {}", write.channel);
                    found += 1;
                }
            }
        }
        assert_eq!(found, 32);
    });
}

#[test]
fn adds_to_what_python_wrote() {
    let file = python_file("python-add");
    block_on(async {
        let saver = SqliteSaver::open(file.path(), &Doors::production()).await.unwrap();
        let tuple = latest(&*saver, "failed").await;
        let mut next = tuple.checkpoint.clone();
        next.id = "1f1ec26b-ffff-6000-8003-000000000000".into();
        let parent = tuple.checkpoint.id.clone();
        let put = saver.put(Put::new(&tuple.key, Some(&parent), next.clone(), tuple.metadata));
        put.await.unwrap();
        let read = latest(&*saver, "failed").await;
        assert_eq!((read.checkpoint, read.parent), (next, Some(parent)));
        assert_eq!(saver.list("failed", None, ListFilter::default()).await.unwrap().len(), 5);
    });
}
