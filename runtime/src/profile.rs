//! What a run does at its edges: when it stores, how it ends early, which hazards it keeps.

use serde::{Deserialize, Serialize};

use crate::checkpoint::saver::LateWrites;

/// When checkpoints are written (LangGraph's `durability`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Each step's checkpoint is awaited before the next step starts.
    Sync,
    /// Each step's checkpoint is written beside the next step. LangGraph's default.
    #[default]
    Async,
    /// One checkpoint, when the run leaves through its exit duties.
    Exit,
}

impl Durability {
    pub fn name(self) -> &'static str {
        match self {
            Durability::Sync => "sync",
            Durability::Async => "async",
            Durability::Exit => "exit",
        }
    }
}

/// The three ways in which the real stack ends a run early, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CancelStyle {
    /// The consumer stops between two chunks (`aclose()`): exit duties run, running nodes are
    /// cancelled. Dropped in the middle of a pull there is nothing to close, and it acts as
    /// [`CancelStyle::Task`].
    #[default]
    Close,
    /// One cancellation of the consuming task: what is awaited at that moment is cancelled, then
    /// exit duties run and running nodes are cancelled.
    Task,
    /// A scope that cancels again on every turn (what a disconnect does under Starlette): exit
    /// duties never start, and nodes that run as their own task run on as orphans.
    Scope,
}

impl CancelStyle {
    pub fn name(self) -> &'static str {
        match self {
            CancelStyle::Close => "close",
            CancelStyle::Task => "task",
            CancelStyle::Scope => "scope",
        }
    }
}

/// Which side of every hazard a graph runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// LangGraph 1.2.9 as recorded, hazards included.
    Faithful,
    /// A dropped run does its exit duties, cancels its nodes and loses nothing that was promised.
    #[default]
    Safe,
}

impl Profile {
    pub fn name(self) -> &'static str {
        match self {
            Profile::Faithful => "faithful",
            Profile::Safe => "safe",
        }
    }

    pub fn options(self) -> Options {
        match self {
            Profile::Faithful => Options {
                exit_duties: ExitDuties::SkippedByScope,
                orphans: Orphans::RunOn,
                awaited_put: AwaitedPut::Cancelled,
                write_order: WriteOrder::Unordered,
                write_turns: WriteTurns::Shared,
                id_order: IdOrder::ByClock,
                forks: Forks::Made,
                late_writes: LateWrites::Land,
                pending_list: PendingList::OneByOne,
                undeclared_keys: UndeclaredKeys::Dropped,
                finished_siblings: FinishedSiblings::RunAgain,
                found_writes: FoundWrites::StoredAgain,
                barriers_at_pause: BarriersAtPause::RunAhead,
                handled_failures: HandledFailures::RaisedAtEnd,
                unasked_answers: UnaskedAnswers::Taken,
                unknown_targets: UnknownTargets::Ignored,
                suspicions: Suspicions::Warned,
                delta_rows: DeltaRows::Trusted,
                max_inflight_puts: None,
            },
            Profile::Safe => Options {
                exit_duties: ExitDuties::Always,
                orphans: Orphans::Cancelled,
                awaited_put: AwaitedPut::Finished,
                write_order: WriteOrder::WritesFirst,
                write_turns: WriteTurns::Free,
                id_order: IdOrder::AboveHead,
                forks: Forks::Made,
                late_writes: LateWrites::Refused,
                pending_list: PendingList::OneByOne,
                undeclared_keys: UndeclaredKeys::Dropped,
                finished_siblings: FinishedSiblings::Kept,
                found_writes: FoundWrites::LeftAlone,
                barriers_at_pause: BarriersAtPause::AsTheyWere,
                handled_failures: HandledFailures::Settled,
                unasked_answers: UnaskedAnswers::Refused,
                unknown_targets: UnknownTargets::Refused,
                suspicions: Suspicions::Refused,
                delta_rows: DeltaRows::Checked,
                max_inflight_puts: Some(64),
            },
        }
    }
}

/// Each hazard as one named choice. Start from [`Profile::options`] and change what you mean to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    pub exit_duties: ExitDuties,
    pub orphans: Orphans,
    pub awaited_put: AwaitedPut,
    pub write_order: WriteOrder,
    pub write_turns: WriteTurns,
    pub id_order: IdOrder,
    pub forks: Forks,
    /// Do runs say since when they know their thread? Savers ask by the option of the same name, and
    /// refuse only those that do.
    pub late_writes: LateWrites,
    pub pending_list: PendingList,
    pub undeclared_keys: UndeclaredKeys,
    pub finished_siblings: FinishedSiblings,
    pub found_writes: FoundWrites,
    pub barriers_at_pause: BarriersAtPause,
    pub handled_failures: HandledFailures,
    pub unasked_answers: UnaskedAnswers,
    pub unknown_targets: UnknownTargets,
    pub suspicions: Suspicions,
    pub delta_rows: DeltaRows,
    /// At async durability: how many checkpoints a run may be ahead of its store. With so many
    /// submitted and not acknowledged, it waits for the oldest before its next super-step. That is
    /// also the most that a process takes along when it dies. `None`, as LangGraph: no limit, and a
    /// slow store lets the backlog grow, with a state in memory for each checkpoint.
    pub max_inflight_puts: Option<usize>,
}

/// Does a run that ends by [`CancelStyle::Scope`] still do its exit duties? And at exit durability,
/// does a run inside a node that is drained?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitDuties {
    /// As LangGraph (under Starlette): no. At exit durability effects then leave no record at all.
    SkippedByScope,
    /// Yes, by the finalizer. Costs one put after the client has gone.
    Always,
}

/// What becomes of a node that runs as its own task when the run ends by scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Orphans {
    /// As LangGraph: it runs on, its effects happen, nothing records them.
    RunOn,
    /// It is cancelled with its run.
    Cancelled,
}

/// What becomes of a checkpoint put that the loop is awaiting when the run is cancelled (task or
/// scope).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AwaitedPut {
    /// As LangGraph at sync durability: cancelled; the step stays behind as a pending write, which
    /// the next message drops.
    Cancelled,
    /// It is let finish.
    Finished,
}

/// The order between a step's pending writes and the checkpoint that supersedes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteOrder {
    /// As LangGraph: none (langgraph#8039).
    Unordered,
    /// A checkpoint lands after the writes of its step. In a store that keeps an order
    /// ([`Saver::submit_put`]), it is submitted when they have their places before it, and the next
    /// one when it has its own, so that they can share a commit; when one of them fails, no later
    /// checkpoint of the run lands, and the run ends with that failure before its next super-step. In
    /// others it waits until they were acknowledged or have failed.
    ///
    /// [`Saver::submit_put`]: crate::checkpoint::saver::Saver::submit_put
    WritesFirst,
}

/// In a run with `max_concurrency`: do writes wait for a turn, as nodes do?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteTurns {
    /// As LangGraph: checkpoints and pending writes queue up behind every node that waits. What a
    /// node wrote is not stored until those that were started after it have had their turns.
    Shared,
    /// No: only nodes count.
    Free,
}

/// Where a checkpoint's id comes from. LangGraph takes the greatest id of a thread as its head
/// (langgraph#7179).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdOrder {
    /// As LangGraph: from the process's clock. When the clock steps back, or another worker's is
    /// behind, a checkpoint sorts before its parent, and the next run goes on from the older one.
    ByClock,
    /// Greater than the thread's head when the run loaded it, too. A run or an update that starts
    /// from an older checkpoint reads the head as well.
    AboveHead,
}

/// What becomes of a checkpoint whose parent is not the head any more, as another run on the thread
/// has gone on from there (langgraph#8796).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Forks {
    /// As LangGraph: it is stored. The thread forks, and nobody is told; the branch with the smaller
    /// ids is not seen any more.
    Made,
    /// It is refused, and the run ends with [`SaverError::NotHead`]: what its nodes have done is
    /// done, and stays with their pending writes. A run or an update that was told to start from an
    /// older checkpoint makes its one fork; it should go with [`IdOrder::AboveHead`], or the checkpoint
    /// after the fork may be refused. No default, as a lock on the thread is the better cure: it
    /// refuses before anything is done. On PostgreSQL such a checkpoint shares its commit with no other
    /// write, so that async durability gains little.
    ///
    /// [`SaverError::NotHead`]: crate::checkpoint::saver::SaverError::NotHead
    Refused,
}

/// How the end of a task gets into its run's list of pending writes (langgraph#8115).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PendingList {
    /// As LangGraph's threads can do it: each task that ran beside others reads the list, and puts
    /// back a new one with its own writes. Of tasks that end together the last wins; at exit
    /// durability what the others wrote is then not stored, and they run again. LangGraph's async
    /// graphs cannot do it, so it is in no profile.
    Replaced,
    /// One task after the other.
    OneByOne,
}

/// What happens to keys of an input or update that no channel declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UndeclaredKeys {
    /// As LangGraph: silently left out.
    Dropped,
    /// The run fails with an error that names the key.
    Rejected,
}

/// Inside a subgraph that is resumed: what becomes of tasks of the interrupted or failed step that
/// had finished, and whose writes are stored? The same is asked of error handlers, there and in a
/// graph that is run on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishedSiblings {
    /// As LangGraph: they run again, effects included (FORMAT.md 9.5).
    RunAgain,
    /// Their stored writes are used, as in a graph that is run on its own.
    Kept,
}

/// What becomes of a failure that an error handler took care of, when the node ran as its own task
/// (beside others, or under a stream mode that shows what nodes emit)?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HandledFailures {
    /// As LangGraph: the run goes on to its end and stores it, and then reports the failure all the
    /// same. What it had to show last is lost. The caller cannot tell it from a run that failed.
    RaisedAtEnd,
    /// It is settled by its handler.
    Settled,
}

/// What becomes, at exit durability, of pending writes that a run found and did not use up?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FoundWrites {
    /// As LangGraph: they are stored again with the run's own. A task that had failed before it
    /// finished then has its writes under another index as well, and they are applied twice.
    StoredAgain,
    /// They stay as they are.
    LeftAlone,
}

/// What a join's barrier holds in the checkpoint that a pause stores at exit durability, when a node
/// of the join has finished beside the one that asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BarriersAtPause {
    /// As LangGraph, which hands out its live set: the finished node counts already. When the pause
    /// is answered the join is not noticed any more, and the node behind it never runs.
    RunAhead,
    /// What it held before the step, like every other channel.
    AsTheyWere,
}

/// What happens to an answer that nobody asked for: no interrupt waits, or none with that id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnaskedAnswers {
    /// As LangGraph: the thread goes on. A plain answer is kept for the next interrupt; one for an
    /// unknown id is lost.
    Taken,
    /// The run is refused with an error that says what waits, and the thread stays as it is.
    Refused,
}

/// What happens to a goto or a Send to a node that the graph does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnknownTargets {
    /// As LangGraph: silently left out.
    Ignored,
    /// The node that named it fails, and the error names both.
    Refused,
}

/// What [`crate::StateGraph::compile`] makes of a graph that is possible but looks like a mistake:
/// a node that no edge, branch or named destination leads to, or two nodes side by side that say
/// that they write one key which takes a single value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Suspicions {
    /// Logged, and kept in [`crate::CompiledGraph::warnings`].
    Warned,
    /// An error.
    Refused,
}

/// What happens where the rows beside a checkpoint's parent are not, in this order, the writes that
/// led to the checkpoint, so that a delta channel would be rebuilt as something else than it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeltaRows {
    /// As LangGraph: nothing. When the thread is loaded again, writes of tasks that a new input, a
    /// fork or an update from outside left behind count as well; those of tasks beside each other
    /// come in the order of their ids on SQLite, and everywhere at exit durability; and a step that
    /// exit durability resumes with some of its tasks finished counts these twice.
    Trusted,
    /// Such a checkpoint gets a snapshot. A run or an update that starts from an older checkpoint
    /// leaves no rows of delta channels beside it, where they would count for its other children; to
    /// know, it reads the head as well. Python, too, then reads the right value.
    ///
    /// Two runs at once on one thread can still mislead each other: nobody tells the one what the
    /// other stores after it has loaded.
    Checked,
}
