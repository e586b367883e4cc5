use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use futures::{Stream, StreamExt};

use super::{Chunk, Outlet};
use crate::doors::Labels;
use crate::pregel::{Family, RunCore, RunError, Start};
use crate::profile::CancelStyle;

/// A run in progress: a stream of chunks, then its end or its error.
///
/// The run goes on only while this is polled. Dropping it before its end cancels it in the style
/// that its config names; [`RunStream::close`] ends it in an orderly way and waits for it.
pub struct RunStream {
    run: Option<BoxFuture<'static, Result<(), RunError>>>,
    outlet: Arc<Outlet>,
    labels: Labels,
    started: futures::channel::oneshot::Receiver<Arc<RunCore>>,
    core: Option<Arc<RunCore>>,
    /// Stays when the run is over.
    family: Option<Arc<Family>>,
    cancel: CancelStyle,
    /// The last poll had to wait: a chunk is on its way.
    is_pulled: bool,
}

impl RunStream {
    pub(crate) fn new(start: Start) -> RunStream {
        let outlet = Outlet::new(start.config.modes.clone(), start.config.subgraphs);
        RunStream::into_outlet(start, outlet)
    }

    /// Drives a run to its end and gives its last chunk.
    pub(crate) async fn last(start: Start) -> Result<Option<Chunk>, RunError> {
        let outlet = Outlet::of_last(start.config.modes.clone(), start.config.subgraphs);
        let mut stream = RunStream::into_outlet(start, outlet);
        match stream.next().await {
            Some(end) => end.map(Some),
            None => Ok(stream.outlet.take_last()),
        }
    }

    fn into_outlet(start: Start, outlet: Outlet) -> RunStream {
        let outlet = Arc::new(outlet);
        let cancel = start.config.cancel;
        let labels = start.labels.clone();
        let (sender, started) = futures::channel::oneshot::channel();
        let run = crate::pregel::run(start, outlet.clone(), sender);
        RunStream {
            run: Some(Box::pin(run)),
            outlet,
            labels,
            started,
            core: None,
            family: None,
            cancel,
            is_pulled: false,
        }
    }

    /// The ids under which this run shows in events.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Stops here and does the exit duties: what must be stored is stored when this returns.
    pub async fn close(mut self) -> Result<(), RunError> {
        self.take_core();
        let Some(run) = self.run.take() else { return Ok(()) };
        self.tell_style(CancelStyle::Close);
        drop(run);
        let Some(core) = self.core.take() else { return Ok(()) };
        core.observe(|| crate::doors::What::RunEnded { outcome: "closed" });
        core.begin_exit();
        core.settle().await?;
        Ok(())
    }

    /// How often each node was entered so far, by name: once for every attempt of every task, and
    /// not for tasks whose writes were found. Nodes of graphs inside have the names of the nodes
    /// around them and `|` in front.
    pub fn entered(&mut self) -> BTreeMap<Arc<str>, u64> {
        self.take_core();
        self.family.as_ref().map_or_else(BTreeMap::new, |family| family.entered.by_name())
    }

    /// Is the run between two yield points, with somebody having asked for the next chunk?
    pub fn is_pulled(&self) -> bool {
        self.is_pulled
    }

    /// Runs inside the one that is dropped end in the same way, and they end first.
    fn tell_style(&self, style: CancelStyle) {
        if let Some(core) = &self.core {
            let _ = core.family.style.set(style);
        }
    }

    fn take_core(&mut self) {
        if self.family.is_none() {
            self.core = self.started.try_recv().ok().flatten();
            self.family = self.core.as_ref().map(|core| core.family.clone());
        }
    }
}

impl Stream for RunStream {
    type Item = Result<Chunk, RunError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            self.is_pulled = false;
            if let Some(chunk) = self.outlet.take() {
                return Poll::Ready(Some(Ok(chunk)));
            }
            let Some(run) = &mut self.run else { return Poll::Ready(None) };
            match run.as_mut().poll(cx) {
                Poll::Ready(end) => {
                    self.take_core();
                    self.run = None;
                    self.core = None;
                    return Poll::Ready(end.err().map(Err));
                }
                Poll::Pending if self.outlet.has_ready() => {}
                Poll::Pending => {
                    self.is_pulled = true;
                    return Poll::Pending;
                }
            }
        }
    }
}

impl Drop for RunStream {
    fn drop(&mut self) {
        self.take_core();
        let Some(run) = self.run.take() else { return };
        self.tell_style(self.cancel);
        // The loop goes first: what it awaits or polls itself ends with it.
        drop(run);
        if let Some(core) = self.core.take() {
            core.abandon(self.cancel);
        }
    }
}
