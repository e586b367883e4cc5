//! What a simulation binary knows: graphs, properties, models, scenarios, all by name.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use durasim_runtime::StateGraph;

use crate::graph_world::GraphWorld;
use crate::model::{Call, Model};
use crate::property::Property;
use crate::scenario::{Scenario, declared};

type BuildGraph = Arc<dyn Fn(&GraphWorld) -> StateGraph + Send + Sync>;

/// A graph by name, and what its accounts need to know about it.
#[derive(Clone)]
pub struct GraphEntry {
    pub build: BuildGraph,
    /// The state key in which every node that executes an effect leaves its own name.
    pub transcript: Option<String>,
    /// Nodes that execute each of their effects once when they run; all nodes when `None`.
    pub effects: Option<Vec<String>>,
    /// By node, the labels of its effects; a node that is not here has one, labelled as itself.
    pub labels: BTreeMap<String, Vec<String>>,
}

impl GraphEntry {
    pub fn has_effect(&self, node: &str) -> bool {
        self.effects.as_ref().is_none_or(|nodes| nodes.iter().any(|name| name == node))
    }

    /// What a node executes whenever it runs to its end.
    pub fn labels<'a>(&'a self, node: &'a str) -> Vec<&'a str> {
        match self.labels.get(node) {
            Some(labels) => labels.iter().map(String::as_str).collect(),
            None => vec![node],
        }
    }
}

/// What the default sweep varies about a question's scenarios.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vary {
    Nothing,
    /// Both profiles.
    Profile,
    /// Every durability, store and profile.
    Everything,
}

/// Everything that a simulation binary can name.
#[derive(Clone, Default)]
pub struct Registry {
    pub(crate) graphs: BTreeMap<String, GraphEntry>,
    pub(crate) properties: Vec<Property>,
    /// By question: scenarios that are asked the same thing, and what a sweep varies about them.
    pub(crate) questions: Vec<(Vec<Scenario>, Vary)>,
    pub(crate) models: Vec<Model>,
    pub(crate) program: Option<String>,
}

impl Registry {
    /// An empty registry with the properties that come with the library.
    pub fn new() -> Registry {
        Registry { properties: crate::property::standard(), ..Registry::default() }
    }

    /// The graphs and scenarios of this repository.
    pub fn builtin() -> Registry {
        let registry = crate::graphs::register(Registry::new());
        let questions = crate::scenario::builtin().into_iter();
        questions.fold(registry, |registry, (scenarios, vary)| registry.question(scenarios, vary))
    }

    /// How commands that are printed for people start; `cargo run --` unless said otherwise.
    pub fn program(mut self, program: &str) -> Registry {
        self.program = Some(program.to_owned());
        self
    }

    /// A graph under a name. `build` is called once per life of a server process.
    pub fn graph(
        mut self,
        name: &str,
        build: impl Fn(&GraphWorld) -> StateGraph + Send + Sync + 'static,
    ) -> Registry {
        let entry = GraphEntry {
            build: Arc::new(build),
            transcript: None,
            effects: None,
            labels: BTreeMap::new(),
        };
        self.graphs.insert(name.to_owned(), entry);
        self
    }

    /// Says of the graph `name` in which state key its nodes leave their names; only then can its
    /// effects be matched with its record.
    pub fn transcript(mut self, name: &str, key: &str) -> Registry {
        self.entry(name).transcript = Some(key.to_owned());
        self
    }

    /// Says of the graph `name` which nodes execute effects.
    pub fn effects(mut self, name: &str, nodes: &[&str]) -> Registry {
        let nodes = nodes.iter().map(|&node| node.to_owned()).collect();
        self.entry(name).effects = Some(nodes);
        self
    }

    /// Says of a node of the graph `name` which labels its effects have, all of which it executes
    /// whenever it runs to its end. Needed where it calls [`GraphWorld::effect_named`].
    pub fn effects_named(mut self, name: &str, node: &str, labels: &[&str]) -> Registry {
        let labels = labels.iter().map(|&label| label.to_owned()).collect();
        self.entry(name).labels.insert(node.to_owned(), labels);
        self
    }

    fn entry(&mut self, name: &str) -> &mut GraphEntry {
        let known = self.graphs.get_mut(name);
        known.unwrap_or_else(|| panic!("register the graph {name:?} before describing it"))
    }

    /// A property that scenarios can name.
    pub fn property(mut self, property: Property) -> Registry {
        self.properties.push(property);
        self
    }

    /// A scenario that can be named on the command line and is part of the default sweep, as it
    /// is.
    pub fn scenario(self, scenario: Scenario) -> Registry {
        self.question(vec![scenario], Vary::Nothing)
    }

    /// As [`Registry::scenario`]; the default sweep runs it in every durability, store and profile.
    pub fn sweep(self, scenario: Scenario) -> Registry {
        self.question(vec![scenario], Vary::Everything)
    }

    /// Several scenarios that are asked the same thing, for one table of answers.
    pub fn question(mut self, scenarios: Vec<Scenario>, vary: Vary) -> Registry {
        self.questions.push((scenarios, vary));
        self
    }

    /// A scenario written as JSON.
    ///
    /// # Panics
    /// If it does not read as a scenario, with the line that says why.
    pub fn scenario_json(self, text: &str) -> Registry {
        match crate::scenario::from_json(text, "registered scenario") {
            Ok(scenario) => self.scenario(scenario),
            Err(error) => panic!("{error}"),
        }
    }

    /// A party of the user's own: a process of that name that listens on `port`, in every world.
    /// `answer` is run once per call made to it.
    pub fn model<F, Fut>(mut self, name: &str, port: u16, answer: F) -> Registry
    where
        F: Fn(Call) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.models.push(Model::new(name, port, answer));
        self
    }

    pub fn find_graph(&self, name: &str) -> Option<&GraphEntry> {
        self.graphs.get(name)
    }

    /// The graph of a scenario: its own, or the registered one that it names.
    pub fn graph_of(&self, scenario: &Scenario) -> Result<GraphEntry, String> {
        if let Some(spec) = &scenario.declared {
            return declared::entry(&scenario.graph, spec);
        }
        self.find_graph(&scenario.graph).cloned().ok_or_else(|| {
            let known: Vec<&str> = self.graphs.keys().map(String::as_str).collect();
            format!("graph: {:?} is not one of {}", scenario.graph, known.join(", "))
        })
    }

    pub fn find_property(&self, name: &str) -> Option<&Property> {
        self.properties.iter().find(|property| property.name == name)
    }

    /// All registered scenarios, in the order of their questions.
    pub fn scenarios(&self) -> impl Iterator<Item = &Scenario> {
        self.questions.iter().flat_map(|(scenarios, _)| scenarios)
    }

    pub fn find_scenario(&self, name: &str) -> Option<&Scenario> {
        self.scenarios().find(|scenario| scenario.name == name)
    }

    pub(crate) fn program_name(&self) -> &str {
        self.program.as_deref().unwrap_or("cargo run --")
    }
}
