//! What a simulation binary knows: graphs, properties, models, scenarios, all by name.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use durasim_models::{Effect, EffectLog};
use durasim_runtime::{NodeContext, NodeError, StateGraph};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::model::{Call, Model};
use crate::payment::{self, Keying};
use crate::property::Property;
use crate::scenario::{Effects, Scenario, declared};

/// What a graph is given when it is built inside a server process of the world.
#[derive(Clone)]
pub struct GraphWorld {
    log: EffectLog,
    #[cfg(madsim)]
    process: Option<durasim_sim::Process>,
    #[cfg(madsim)]
    leaky: Option<durasim_models::LeakyLog>,
    effects: Effects,
    attempts: Arc<AtomicU64>,
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
            effects: Effects::Log,
            attempts: Arc::default(),
        }
    }

    #[cfg(madsim)]
    pub(crate) fn inside(
        process: durasim_sim::Process,
        log: EffectLog,
        leaky: Option<durasim_models::LeakyLog>,
        effects: Effects,
    ) -> GraphWorld {
        GraphWorld { log, process: Some(process), leaky, effects, attempts: Arc::default() }
    }

    /// Executes an effect: one line in the log of what really happened. Call it once per node
    /// execution, where the node does what cannot be undone.
    pub async fn effect(&self, context: &NodeContext) {
        self.effect_named(context, context.node()).await;
    }

    /// As [`GraphWorld::effect`], for a node with several effects: each has a label, and the node's
    /// labels are registered with [`Registry::effects_named`].
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

    /// Charges for `booking`: at the payment provider when the scenario's effects go over HTTP,
    /// and in the log of what really happened once that is known. Fails when the provider refuses
    /// or never answers.
    pub async fn charge(
        &self,
        context: &NodeContext,
        keying: Keying,
        booking: &str,
        cents: u64,
    ) -> Result<(), NodeError> {
        if self.effects == Effects::Http {
            let charging = payment::charge(self, context, keying, booking, cents);
            context.effect("payments", charging).await?;
        }
        self.effect(context).await;
        Ok(())
    }

    /// Names the next attempt at a charge, in this process.
    pub(crate) fn next_attempt(&self) -> String {
        let attempt = self.attempts.fetch_add(1, Ordering::Relaxed);
        #[cfg(madsim)]
        if let Some(process) = &self.process {
            return format!("{}#{}/{attempt}", process.name(), process.incarnation());
        }
        attempt.to_string()
    }

    /// Notes a step of a charge in the trace.
    pub(crate) fn note(
        &self,
        context: &NodeContext,
        name: &'static str,
        attempt: &str,
        booking: &str,
    ) {
        #[cfg(madsim)]
        if let Some(process) = &self.process {
            let id = |id: Option<&str>| id.map(Arc::from);
            let labels = durasim_sim::Labels {
                request: id(context.request()),
                run: id(context.run()),
                thread: id(context.thread()),
                checkpoint: Some(context.checkpoint().into()),
                task: Some(context.task().into()),
            };
            let fields = vec![("attempt", attempt.into()), ("booking", booking.into())];
            process.note(labels, name, fields);
        }
        #[cfg(not(madsim))]
        let _ = (context, name, attempt, booking);
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
