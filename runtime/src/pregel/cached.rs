//! Tasks whose node is cached: what they wrote before is used, and what they write is kept.

use std::sync::Arc;

use super::RunError;
use super::core::{RunCore, RunState};
use crate::cache::{CacheError, CacheKey, CachedNode, CachedWrites};
use crate::graph::{CompiledGraph, GraphInner};

impl RunCore {
    /// Gives the step's tasks what the cache has for them. Nothing of it is stored beside the
    /// checkpoint, as in LangGraph: a run that goes on from there asks the cache again.
    pub(super) async fn use_cached(&self) -> Result<(), RunError> {
        let Some(cache) = &self.graph.cache else { return Ok(()) };
        let (tasks, keys): (Vec<Arc<str>>, Vec<CacheKey>) = {
            let state = self.state.lock().unwrap();
            let unfinished = state.tasks.values().filter(|task| task.writes.is_empty());
            unfinished.filter_map(|task| Some((task.id.clone(), self.cache_key(task)?))).unzip()
        };
        if keys.is_empty() {
            return Ok(());
        }
        let found = cache.get(keys).await?;
        let mut state = self.state.lock().unwrap();
        for (task, writes) in tasks.into_iter().zip(found) {
            let Some(writes) = writes else { continue };
            self.show_writes(&state, &task, &writes, true);
            state.deltas.note_rowless(&self.graph, &writes);
            state.tasks[&task].writes = writes;
        }
        Ok(())
    }

    fn cache_key(&self, task: &super::task::Task) -> Option<CacheKey> {
        let policy = self.graph.nodes[&task.node].cache.as_ref()?;
        let digest = policy.digest(&task.input)?;
        Some(CacheKey { of: cached_node(&self.graph, &task.node), digest })
    }

    /// Submits what a finished task wrote, if its node is cached.
    pub(super) fn keep_writes(
        self: &Arc<Self>,
        state: &mut RunState,
        task: &str,
        writes: &CachedWrites,
    ) {
        let Some(cache) = &self.graph.cache else { return };
        let Some(task) = state.tasks.get(task) else { return };
        let Some(policy) = &self.graph.nodes[&task.node].cache else { return };
        let Some(key) = self.cache_key(task) else { return };
        let kept = cache.set(key, writes.clone(), policy.ttl);
        self.submit_cached(state, kept);
    }
}

fn cached_node(graph: &GraphInner, node: &Arc<str>) -> CachedNode {
    CachedNode { graph: graph.name.clone(), node: node.clone() }
}

impl CompiledGraph {
    /// Forgets what these nodes of the graph wrote; with no names, what all of its nodes did. Graphs
    /// inside it are not touched.
    pub async fn clear_cache(&self, nodes: &[&str]) -> Result<(), RunError> {
        let cache = self.inner.cache.as_ref().ok_or(RunError::NoCache)?;
        let is_named = |name: &&Arc<str>| nodes.is_empty() || nodes.contains(&&***name);
        let named = self.inner.nodes.keys().filter(is_named);
        let named = named.map(|name| cached_node(&self.inner, name)).collect();
        Ok(cache.clear(Some(named)).await?)
    }
}

impl From<CacheError> for RunError {
    fn from(error: CacheError) -> RunError {
        RunError::Cache(error)
    }
}
