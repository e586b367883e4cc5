//! Running a node's actions.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use durasim_runtime::graph::{Command, Destination};
use durasim_runtime::value::{from_json, to_json};
use durasim_runtime::{NodeContext, NodeError, State, Update, Value};

use super::EffectSink;
use super::direction::Direction;
use super::expression::Surroundings;
use super::raises::Raises;
use super::spec::{Action, TargetGraph};

/// A node's actions, and how often it has raised. The count lives as long as the graph, over all
/// runs: that is how a node fails once and then works.
pub(super) struct Program {
    pub node: String,
    /// The node's name behind those of the nodes that its graph is in.
    pub path: String,
    pub actions: Vec<Action>,
    pub raises: Raises,
    pub sink: EffectSink,
}

impl Program {
    pub async fn run(
        self: Arc<Self>,
        input: State,
        context: NodeContext,
    ) -> Result<Command, NodeError> {
        let mut update = Update::new();
        let mut command = Command::new();
        let mut answers: Vec<Value> = Vec::new();
        let mut todo: VecDeque<&Action> = self.actions.iter().collect();
        while let Some(action) = todo.pop_front() {
            let around = Surroundings { node: &self.node, input: &input, answers: &answers };
            match action {
                Action::Sleep { ms } => context.sleep(Duration::from_millis(*ms)).await,
                Action::Emit { value } => context.emit(to_json(&value.value(&around)?))?,
                Action::Effect { label } => (self.sink)(&context, label).await,
                Action::Write { values } => {
                    for (key, value) in values {
                        update = update.set_value(key, value.value(&around)?);
                    }
                }
                Action::Interrupt { payload } => {
                    let question = to_json(&payload.value(&around)?);
                    answers.push(context.interrupt(question)?);
                }
                Action::Raise { error, message, times } => {
                    if self.raises.raises_again(&self.path, *times) {
                        return Err(NodeError::failed(error.clone(), message));
                    }
                }
                Action::If { channel, eq, then, otherwise } => {
                    let value = input.value(channel).cloned().unwrap_or(Value::Nil);
                    let chosen = if value == from_json(eq.clone()) { then } else { otherwise };
                    for action in chosen.iter().rev() {
                        todo.push_front(action);
                    }
                }
                Action::Goto { to, graph } => {
                    command.goto = to.as_slice().iter().map(Direction::goto).collect();
                    command.graph = match graph {
                        None => Destination::Current,
                        Some(TargetGraph::Parent) => Destination::Parent,
                    };
                }
            }
        }
        Ok(command.update(update))
    }
}
