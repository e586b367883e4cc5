//! What a graph is checked for before it is compiled.

use std::collections::BTreeSet;

use super::builder::{StateGraph, is_all_nodes};
use super::{END, GraphError, START};
use crate::channels::ChannelSpec;

impl StateGraph {
    /// The first mistake, in this graph or in one inside it.
    pub(super) fn check(&self) -> Result<(), GraphError> {
        if let Some(mistake) = self.mistakes.first() {
            return Err(mistake.clone());
        }
        if self.nodes.is_empty() {
            return Err(GraphError::Empty);
        }
        for (from, to) in &self.edges {
            self.check_edge(from, to)?;
        }
        for (from, to) in &self.joins {
            for from in from {
                self.check_edge(from, to)?;
            }
            let problem = if to == END {
                "a join cannot end at END; END needs no edge to wait for"
            } else if from.iter().any(|name| name == START) {
                "START cannot be part of a join"
            } else if from.is_empty() {
                "a join waits for at least one node"
            } else {
                continue;
            };
            return Err(GraphError::BadEdge { from: from.join("+"), to: to.clone(), problem });
        }
        for (from, _, targets) in &self.branches {
            self.check_edge(from, END)?;
            for to in targets.iter().flatten() {
                self.check_edge(from, to)?;
            }
        }
        self.check_names()?;
        if self.reached().len() == 1 {
            return Err(GraphError::NoEntry);
        }
        Ok(())
    }

    fn check_names(&self) -> Result<(), GraphError> {
        let unknown = |where_, name: &String| {
            let known = self.nodes.contains_key(name.as_str()) || is_all_nodes(name);
            (!known).then(|| GraphError::NoSuchNode { where_, node: name.clone() })
        };
        let lists = [
            ("interrupt_before", &self.interrupt_before),
            ("interrupt_after", &self.interrupt_after),
        ];
        for (where_, names) in lists {
            if let Some(error) = names.iter().find_map(|name| unknown(where_, name)) {
                return Err(error);
            }
        }
        for (place, keys) in [("input_keys", &self.input), ("output_keys", &self.output)] {
            self.check_keys(place, keys.iter().flatten())?;
        }
        for to in &self.defaults.destinations {
            self.check_edge(START, to)?;
        }
        for (name, node) in &self.nodes {
            let reads = node.options.reads.iter().flatten();
            self.check_keys(&format!("node {name:?}"), reads.chain(&node.options.writes))?;
            let limits = node.options.timeout.or(self.defaults.timeout);
            let limits = limits.map_or([None, None], |limits| [limits.run, limits.idle]);
            if limits.into_iter().flatten().any(|limit| limit.is_zero()) {
                return Err(GraphError::NoTime { node: name.to_string() });
            }
            for to in &node.options.destinations {
                self.check_edge(name, to)?;
            }
            if let Some(graph) = node.subgraph() {
                graph.check().map_err(|error| GraphError::InSubgraph {
                    node: name.to_string(),
                    error: Box::new(error),
                })?;
            }
        }
        Ok(())
    }

    fn check_keys<'k>(
        &self,
        place: &str,
        mut keys: impl Iterator<Item = &'k String>,
    ) -> Result<(), GraphError> {
        match keys.find(|key| !self.keys.contains_key(key.as_str())) {
            None => Ok(()),
            Some(key) => Err(GraphError::NoSuchKey { place: place.to_owned(), key: key.clone() }),
        }
    }

    /// What may be meant, and is a mistake more often.
    pub(super) fn suspicions(&self) -> Vec<GraphError> {
        let reached = self.reached();
        let lost = self.nodes.keys().filter(|name| !reached.contains(&***name));
        let lost = lost.map(|name| GraphError::Unreachable(name.to_string()));
        lost.chain(self.parallel_writers()).collect()
    }

    /// Nodes that run in one step, as plain edges lead to both from one place, and that both say
    /// that they write a key which takes one value per step.
    fn parallel_writers(&self) -> Vec<GraphError> {
        let mut found = Vec::new();
        for (at, (from, one)) in self.edges.iter().enumerate() {
            for (_, other) in self.edges[at + 1..].iter().filter(|(also, _)| also == from) {
                let nodes = (self.nodes.get(one.as_str()), self.nodes.get(other.as_str()));
                let (Some(first), Some(second)) = nodes else { continue };
                if one == other || first.options.defer != second.options.defer {
                    continue;
                }
                let shared = first.options.writes.iter().filter(|key| {
                    let takes_one = matches!(
                        self.keys.get(key.as_str()),
                        Some(ChannelSpec::LastValue | ChannelSpec::Untracked)
                    );
                    takes_one && second.options.writes.contains(key)
                });
                found.extend(shared.map(|key| GraphError::ParallelWriters {
                    key: key.clone(),
                    nodes: [one.clone(), other.clone()],
                    after: from.clone(),
                }));
            }
        }
        found
    }

    fn check_edge(&self, from: &str, to: &str) -> Result<(), GraphError> {
        let bad = |problem| {
            Err(GraphError::BadEdge { from: from.to_owned(), to: to.to_owned(), problem })
        };
        if from == END {
            return bad("no edge may leave END");
        }
        if to == START {
            return bad("no edge may enter START");
        }
        for name in [from, to] {
            if name != START && name != END && !self.nodes.contains_key(name) {
                return Err(GraphError::UnknownNode {
                    from: from.to_owned(),
                    to: to.to_owned(),
                    unknown: name.to_owned(),
                });
            }
        }
        Ok(())
    }

    /// Everything that a path of edges, branches and named destinations leads to.
    fn reached(&self) -> BTreeSet<&str> {
        let mut reached: BTreeSet<&str> = BTreeSet::from([START]);
        loop {
            let before = reached.len();
            for (from, to) in &self.edges {
                if reached.contains(from.as_str()) {
                    reached.insert(to);
                }
            }
            for (from, to) in &self.joins {
                if from.iter().any(|name| reached.contains(name.as_str())) {
                    reached.insert(to);
                }
            }
            for (from, _, targets) in &self.branches {
                match targets {
                    _ if !reached.contains(from.as_str()) => {}
                    Some(targets) => reached.extend(targets.iter().map(String::as_str)),
                    None => reached.extend(self.nodes.keys().map(|name| &**name)),
                }
            }
            for (name, node) in &self.nodes {
                if reached.contains(&**name) {
                    reached.extend(self.defaults.destinations.iter().map(String::as_str));
                    reached.extend(node.options.destinations.iter().map(String::as_str));
                }
            }
            if reached.len() == before {
                return reached;
            }
        }
    }
}
