//! One call of a saver on its way through the queue.

use std::time::Duration;

use futures::channel::oneshot;

use super::connection::{Failure, OpenFile};
use crate::checkpoint::saver::{Fate, SaverError};
use crate::doors::Pass;

/// A call that waits. Whoever made it is told its end, or, if this is dropped without one, that it
/// was cancelled.
pub(super) struct Call {
    pub(super) kind: Kind,
    /// What it shares with the other writes of its run.
    pub(super) fate: Fate,
    /// For how long it has waited for other connections' locks.
    pub(super) waited: Duration,
    /// `None` when it has ended.
    work: Option<Box<dyn Work>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    /// A checkpoint: it is refused when a write before it that shares its fate failed.
    Put,
    Write,
    Close,
}

impl Call {
    /// A call of `work`, which is tried again when the file was locked, and what tells its end.
    /// The point is left when it is over.
    pub(super) fn new<T: Send + 'static>(
        kind: Kind,
        fate: Fate,
        pass: Pass,
        work: impl FnMut(&OpenFile) -> Result<T, Failure> + Send + 'static,
    ) -> (Call, End<T>) {
        let (done, end) = oneshot::channel();
        let work = Box::new(Typed { work, value: None, pass, done });
        (Call { kind, fate, waited: Duration::ZERO, work: Some(work) }, End(end))
    }

    /// What closes the file. Only its place in the queue and its end matter.
    pub(super) fn close() -> (Call, End<()>) {
        let (done, end) = oneshot::channel();
        let nothing = |_: &OpenFile| Ok(());
        let work = Box::new(Typed { work: nothing, value: Some(()), pass: Pass::free(), done });
        let (kind, fate, work) = (Kind::Close, Fate::default(), Some::<Box<dyn Work>>(work));
        (Call { kind, fate, waited: Duration::ZERO, work }, End(end))
    }

    pub(super) fn attempt(&mut self, file: &OpenFile) -> Result<(), Failure> {
        if self.kind == Kind::Put
            && let Some(error) = self.fate.refusal()
        {
            return Err(error.into());
        }
        self.work.as_mut().map_or(Ok(()), |work| work.attempt(file))
    }

    pub(super) fn end(mut self, end: Result<(), SaverError>) {
        if let Err(error) = &end {
            self.lose(error);
        }
        if let Some(work) = self.work.take() {
            work.end(end);
        }
    }

    /// What comes after a write that failed is to be refused.
    fn lose(&self, error: &SaverError) {
        if matches!(self.kind, Kind::Put | Kind::Write) {
            self.fate.lose(error);
        }
    }
}

impl Drop for Call {
    /// Nobody knows whether what was dropped without an end has landed.
    fn drop(&mut self) {
        if self.work.is_some() {
            self.lose(&SaverError::Cancelled);
        }
    }
}

/// Tells the end of a call.
pub(super) struct End<T>(oneshot::Receiver<Result<T, SaverError>>);

impl<T> End<T> {
    pub(super) async fn told(self) -> Result<T, SaverError> {
        self.0.await.unwrap_or(Err(SaverError::Cancelled))
    }
}

/// What a call does and whom it tells, without the type of its result.
trait Work: Send {
    fn attempt(&mut self, file: &OpenFile) -> Result<(), Failure>;
    fn end(self: Box<Self>, end: Result<(), SaverError>);
}

struct Typed<T, F> {
    work: F,
    /// Of the last attempt.
    value: Option<T>,
    pass: Pass,
    done: oneshot::Sender<Result<T, SaverError>>,
}

impl<T, F> Work for Typed<T, F>
where
    T: Send,
    F: FnMut(&OpenFile) -> Result<T, Failure> + Send,
{
    fn attempt(&mut self, file: &OpenFile) -> Result<(), Failure> {
        self.value = Some((self.work)(file)?);
        Ok(())
    }

    fn end(self: Box<Self>, end: Result<(), SaverError>) {
        let Typed { value, pass, done, .. } = *self;
        drop(pass);
        // Nobody may be listening any more.
        let _ = match (end, value) {
            (Err(error), _) => done.send(Err(error)),
            (Ok(()), Some(value)) => done.send(Ok(value)),
            (Ok(()), None) => return,
        };
    }
}
