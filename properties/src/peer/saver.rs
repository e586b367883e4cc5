//! A saver as real LangGraph's adapter calls it.

use std::sync::Arc;

use durasim_runtime::Saver;
use durasim_runtime::checkpoint::saver::{Keep, ListFilter, Put, PutWrites};
use durasim_runtime::checkpoint::{CheckpointTuple, ThreadKey, codec};
use serde_json::{Value as Json, json};

use super::call::SaverCall;
use super::hex::{from_hex, to_hex};

pub async fn answer(saver: &dyn Saver, call: SaverCall) -> Result<Json, String> {
    let done = match call {
        SaverCall::Get { thread, ns, id } => {
            let found = saver.get_tuple(&key(thread, ns), id.as_deref()).await;
            let found = found.map_err(|error| error.to_string())?;
            return found.as_ref().map_or(Ok(Json::Null), tuple);
        }
        SaverCall::List { thread, ns, before, limit, metadata } => {
            let filter = ListFilter { before, limit, metadata };
            let found = saver.list(&thread, ns.as_deref(), filter).await;
            return found.map_err(|error| error.to_string())?.iter().map(tuple).collect();
        }
        SaverCall::Put { thread, ns, parent, checkpoint, metadata, new_versions } => {
            let (kind, bytes) = checkpoint;
            if kind != "msgpack" {
                return Err(format!("checkpoint: of type {kind:?}"));
            }
            let checkpoint = codec::decode_checkpoint(&from_hex(&bytes)?).map_err(text)?;
            let metadata = codec::decode_metadata(metadata.as_bytes()).map_err(text)?;
            let put = Put::new(&key(thread, ns), parent.as_deref(), checkpoint, metadata);
            saver.put(Put { new_versions: new_versions.into_iter().collect(), ..put }).await
        }
        SaverCall::PutWrites { thread, ns, checkpoint, task, path, writes } => {
            let write = |(channel, kind, bytes): (Arc<str>, String, String)| {
                let value = codec::decode(&kind, &from_hex(&bytes)?).map_err(text)?;
                Ok((channel, Arc::new(value)))
            };
            let writes = writes.into_iter().map(write).collect::<Result<_, String>>()?;
            let key = key(thread, ns);
            saver.put_writes(PutWrites::new(&key, &checkpoint, &task, &path, writes)).await
        }
        SaverCall::DeleteThread { thread } => saver.delete_thread(&thread).await,
        SaverCall::CopyThread { from, to } => saver.copy_thread(&from, &to).await,
        SaverCall::Prune { threads, latest } => {
            saver.prune(&threads, if latest { Keep::Latest } else { Keep::Nothing }).await
        }
        SaverCall::DeleteForRuns { runs } => saver.delete_for_runs(&runs).await,
    };
    done.map(|()| Json::Null).map_err(|error| error.to_string())
}

fn key(thread: String, namespace: String) -> ThreadKey {
    ThreadKey { thread: thread.into(), namespace: namespace.into() }
}

fn tuple(tuple: &CheckpointTuple) -> Result<Json, String> {
    let checkpoint = codec::encode_checkpoint(&tuple.checkpoint).map_err(|e| e.to_string())?;
    let metadata = codec::encode_metadata(&tuple.metadata);
    let mut writes = Vec::new();
    for write in &tuple.writes {
        let (kind, bytes) = codec::encode(&write.value).map_err(text)?;
        writes.push(json!([&*write.task, &*write.channel, kind, to_hex(&bytes)]));
    }
    Ok(json!({
        "thread": &*tuple.key.thread,
        "ns": &*tuple.key.namespace,
        "parent": tuple.parent.as_deref(),
        "checkpoint": ["msgpack", to_hex(&checkpoint)],
        "metadata": String::from_utf8_lossy(&metadata),
        "writes": writes,
    }))
}

fn text(error: codec::CodecError) -> String {
    error.to_string()
}
