//! What a simulation binary knows: graphs, properties, models, scenarios, all by name.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use durasim_models::{Effect, EffectLog};
use durasim_runtime::{NodeContext, StateGraph};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::model::{Call, Model};
use crate::property::Property;
use crate::scenario::Scenario;

/// What a graph is given when it is built inside a server process of the world.
#[derive(Clone)]
pub struct GraphWorld {
    log: EffectLog,
    #[cfg(madsim)]
    process: Option<durasim_sim::Process>,
    #[cfg(madsim)]
    leaky: Option<durasim_models::LeakyLog>,
}

impl GraphWorld {
    /// For building a graph outside any world, to look at its shape.
    pub fn nowhere() -> GraphWorld {
        GraphWorld {
            log: EffectLog::new(),
            #[cfg(madsim)]
            process: None,
            #[cfg(madsim)]
            leaky: None,
        }
    }

    #[cfg(madsim)]
    pub(crate) fn inside(
        process: durasim_sim::Process,
        log: EffectLog,
        leaky: Option<durasim_models::LeakyLog>,
    ) -> GraphWorld {
        GraphWorld { log, process: Some(process), leaky }
    }

    /// Executes an effect: one line in the log of what really happened. Call it once per node
    /// execution, where the node does what cannot be undone.
    pub async fn effect(&self, context: &NodeContext) {
        self.effect_named(context, context.node()).await;
    }

    /// As [`GraphWorld::effect`], for a node with several effects: each has a label.
    pub async fn effect_named(&self, context: &NodeContext, label: &str) {
        context.effect(label, self.append(context, label)).await;
    }

    #[cfg(madsim)]
    async fn append(&self, context: &NodeContext, label: &str) {
        let Some(process) = &self.process else { return };
        let name = |id: Option<&str>| id.map(Arc::from);
        let effect = Effect {
            at: process.world().now(),
            process: process.name().into(),
            incarnation: process.incarnation(),
            thread: context.thread().unwrap_or_default().into(),
            request: name(context.request()),
            run: name(context.run()),
            node: context.node().into(),
            label: label.into(),
            task: context.task().into(),
            checkpoint: context.checkpoint().into(),
            step: context.step(),
        };
        self.log.append(process, effect);
        if let Some(leaky) = &self.leaky {
            leaky.append(process, context.thread().unwrap_or_default(), label).await;
        }
    }

    #[cfg(not(madsim))]
    async fn append(&self, _context: &NodeContext, _label: &str) {
        let _: Option<Effect> = None;
        let _ = &self.log;
    }

    /// Sends one line to a party at `authority` (`host:port`) and reads the line it answers. Fails
    /// when there is no answer: whether the party has acted is then unknown.
    pub async fn ask(
        &self,
        context: &NodeContext,
        authority: &str,
        line: &str,
    ) -> std::io::Result<String> {
        let call = async {
            let mut stream = context.doors().connector.connect(authority).await?;
            stream.write_all(format!("{line}\n").as_bytes()).await?;
            let mut answer = String::new();
            while !answer.ends_with('\n') {
                let mut byte = [0];
                stream.read_exact(&mut byte).await?;
                answer.push(char::from(byte[0]));
            }
            Ok(answer.trim_end().to_owned())
        };
        context.effect(authority, call).await
    }

    /// The simulated process that the graph runs in.
    #[cfg(madsim)]
    pub fn process(&self) -> Option<&durasim_sim::Process> {
        self.process.as_ref()
    }
}

type BuildGraph = Arc<dyn Fn(&GraphWorld) -> StateGraph + Send + Sync>;

/// A graph by name, and what its accounts need to know about it.
#[derive(Clone)]
pub struct GraphEntry {
    pub build: BuildGraph,
    /// The state key in which every node that executes an effect leaves its own name.
    pub transcript: Option<String>,
    /// Nodes that execute each of their effects once when they run; all nodes when `None`.
    pub effects: Option<Vec<String>>,
}

impl GraphEntry {
    pub fn has_effect(&self, node: &str) -> bool {
        self.effects.as_ref().is_none_or(|nodes| nodes.iter().any(|name| name == node))
    }
}

/// Everything that a simulation binary can name.
#[derive(Clone, Default)]
pub struct Registry {
    pub(crate) graphs: BTreeMap<String, GraphEntry>,
    pub(crate) properties: Vec<Property>,
    /// Each with whether a sweep varies it.
    pub(crate) scenarios: Vec<(Scenario, bool)>,
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
        crate::scenario::builtin().into_iter().fold(registry, Registry::sweep)
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
        let entry = GraphEntry { build: Arc::new(build), transcript: None, effects: None };
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
    pub fn scenario(mut self, scenario: Scenario) -> Registry {
        self.scenarios.push((scenario, false));
        self
    }

    /// As [`Registry::scenario`]; the default sweep runs it in every durability, store and profile.
    pub fn sweep(mut self, scenario: Scenario) -> Registry {
        self.scenarios.push((scenario, true));
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

    pub fn find_property(&self, name: &str) -> Option<&Property> {
        self.properties.iter().find(|property| property.name == name)
    }

    pub fn find_scenario(&self, name: &str) -> Option<&Scenario> {
        self.scenarios.iter().map(|(scenario, _)| scenario).find(|scenario| scenario.name == name)
    }

    pub(crate) fn program_name(&self) -> &str {
        self.program.as_deref().unwrap_or("cargo run --")
    }
}
