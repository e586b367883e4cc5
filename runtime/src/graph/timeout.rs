//! How long one attempt of a node may take, and how long it may show nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Context;
use std::time::Duration;

use futures::task::AtomicWaker;

/// Limits of one attempt; each retry begins anew. LangGraph's `TimeoutPolicy`. An attempt that
/// exceeds one fails as `NodeTimeoutError`: retry policies and the error handler see it as any other
/// failure. It is dropped where it stands, and what it emits later is dropped too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimeoutPolicy {
    /// From the attempt's start to its end, whatever it does.
    pub run: Option<Duration>,
    /// From one sign of progress to the next.
    pub idle: Option<Duration>,
    pub refresh: Refresh,
}

/// What counts as progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Refresh {
    /// What the node emits, the starts and ends of nodes in graphs that it runs, and
    /// [`super::NodeContext::heartbeat`]. What those nodes emit counts only in a stream that shows
    /// subgraphs, as in LangGraph.
    #[default]
    Auto,
    /// [`super::NodeContext::heartbeat`] only, of the node or of nodes in graphs that it runs,
    /// unless these have an idle limit of their own.
    Heartbeat,
}

impl TimeoutPolicy {
    pub fn run(limit: Duration) -> TimeoutPolicy {
        TimeoutPolicy { run: Some(limit), ..TimeoutPolicy::default() }
    }

    pub fn idle(limit: Duration) -> TimeoutPolicy {
        TimeoutPolicy { idle: Some(limit), ..TimeoutPolicy::default() }
    }

    pub fn refresh(mut self, refresh: Refresh) -> TimeoutPolicy {
        self.refresh = refresh;
        self
    }

    pub(crate) fn has_limit(&self) -> bool {
        self.run.is_some() || self.idle.is_some()
    }
}

/// One attempt that has a limit, as those see it who show progress in it.
pub(crate) struct TimedAttempt {
    /// What refreshes its idle limit, if it has one.
    idle: Option<Refresh>,
    /// The timed attempt of a node around it.
    around: Option<Arc<TimedAttempt>>,
    is_over: AtomicBool,
    has_progressed: AtomicBool,
    waiting: AtomicWaker,
}

impl TimedAttempt {
    pub fn new(policy: &TimeoutPolicy, around: Option<Arc<TimedAttempt>>) -> TimedAttempt {
        TimedAttempt {
            idle: policy.idle.map(|_| policy.refresh),
            around,
            is_over: AtomicBool::new(false),
            has_progressed: AtomicBool::new(false),
            waiting: AtomicWaker::new(),
        }
    }

    /// Nothing of this attempt counts any more.
    pub fn close(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Asks to be woken on progress, and says whether there was any since this was asked before.
    pub fn watch(&self, cx: &Context<'_>) -> bool {
        self.waiting.register(cx.waker());
        self.has_progressed.swap(false, Ordering::AcqRel)
    }

    fn refresh(&self) {
        self.has_progressed.store(true, Ordering::Release);
        self.waiting.wake();
    }

    /// Something that counts under [`Refresh::Auto`] happened in this very attempt.
    pub fn progress(&self) {
        if self.idle == Some(Refresh::Auto) {
            self.refresh();
        }
    }

    fn chain(self: &Arc<Self>) -> impl Iterator<Item = &Arc<TimedAttempt>> {
        std::iter::successors(Some(self), |attempt| attempt.around.as_ref())
    }

    /// As [`TimedAttempt::progress`], for this attempt and those around it.
    pub fn progress_all(self: &Arc<Self>) {
        self.chain().for_each(|attempt| attempt.progress());
    }

    /// Is this attempt, or one around it, over?
    pub fn is_any_over(self: &Arc<Self>) -> bool {
        self.chain().any(|attempt| attempt.is_over())
    }

    /// The nearest attempt with an idle limit goes on.
    pub fn heartbeat(self: &Arc<Self>) {
        if let Some(attempt) = self.chain().find(|attempt| attempt.idle.is_some()) {
            attempt.refresh();
        }
    }
}
