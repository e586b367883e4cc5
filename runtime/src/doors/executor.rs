//! How a task is spawned, and how a blocking call is kept off the async workers.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;

/// Spawns tasks under a stable actor name.
///
/// Implementors give the two raw methods; callers use the typed ones on `dyn Executor`.
pub trait Executor: Send + Sync {
    /// Starts `future` as a task of this process. Dropping the handle detaches the task.
    fn spawn_raw(&self, actor: &str, future: BoxFuture<'static, ()>) -> Box<dyn RawHandle>;

    /// Runs `call` where it may block. It is started here, and goes on when the returned future is
    /// dropped.
    fn blocking_raw(&self, actor: &str, call: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()>;

    /// Runs `call`, which gives something back and may block, from wherever that is dropped: where it
    /// keeps no async worker, or else right here.
    fn dispose(&self, call: Box<dyn FnOnce() + Send>) {
        call();
    }
}

/// What an executor gives back for a task: only the means to abort it.
pub trait RawHandle: Send + Sync {
    /// The task is not polled again and its future is dropped soon after.
    fn abort(&self);
}

/// The task ended without a result: it was aborted, it panicked, or its process died.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the task was cancelled")]
pub struct Cancelled;

/// A spawned task. Await it for the result; drop it to detach.
pub struct TaskHandle<T> {
    raw: Arc<dyn RawHandle>,
    result: futures::channel::oneshot::Receiver<T>,
}

impl<T> TaskHandle<T> {
    pub fn abort(&self) {
        self.raw.abort();
    }

    /// A second handle that can only abort.
    pub fn aborter(&self) -> Arc<dyn RawHandle> {
        self.raw.clone()
    }
}

impl<T> Future for TaskHandle<T> {
    type Output = Result<T, Cancelled>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.result).poll(cx).map(|r| r.map_err(|_| Cancelled))
    }
}

impl dyn Executor {
    pub fn spawn<T: Send + 'static>(
        &self,
        actor: &str,
        future: impl Future<Output = T> + Send + 'static,
    ) -> TaskHandle<T> {
        let (sender, result) = futures::channel::oneshot::channel();
        let task = async move {
            let _ = sender.send(future.await);
        };
        TaskHandle { raw: self.spawn_raw(actor, Box::pin(task)).into(), result }
    }

    /// Runs `call` where it may block and gives its result; [`Cancelled`] when it panicked or the
    /// process died.
    pub fn blocking<T: Send + 'static>(
        &self,
        actor: &str,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> BoxFuture<'static, Result<T, Cancelled>> {
        let (sender, result) = futures::channel::oneshot::channel::<Box<dyn Any + Send>>();
        let done = self.blocking_raw(
            actor,
            Box::new(move || {
                let _ = sender.send(Box::new(call()));
            }),
        );
        Box::pin(async move {
            done.await;
            let value = result.await.map_err(|_| Cancelled)?;
            Ok(*value.downcast().expect("the call's own type"))
        })
    }
}

/// Lets everybody run who is ready, in the order in which they are.
pub(crate) async fn one_turn() {
    let mut has_waited = false;
    std::future::poll_fn(|cx| match std::mem::replace(&mut has_waited, true) {
        true => Poll::Ready(()),
        false => {
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await
}

/// tokio's tasks and blocking pool.
pub struct TokioExecutor;

impl Executor for TokioExecutor {
    fn spawn_raw(&self, _actor: &str, future: BoxFuture<'static, ()>) -> Box<dyn RawHandle> {
        Box::new(TokioHandle(tokio::spawn(future)))
    }

    fn blocking_raw(&self, _actor: &str, call: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        #[allow(deprecated)] // Only the simulator's tokio says so, and there this door is not used.
        let handle = tokio::task::spawn_blocking(call);
        Box::pin(async move {
            let _ = handle.await;
        })
    }

    fn dispose(&self, call: Box<dyn FnOnce() + Send>) {
        match tokio::runtime::Handle::try_current() {
            Ok(_) => drop(self.blocking_raw("", call)),
            // Outside of a runtime there is no worker.
            Err(_) => call(),
        }
    }
}

struct TokioHandle(tokio::task::JoinHandle<()>);

impl RawHandle for TokioHandle {
    fn abort(&self) {
        self.0.abort();
    }
}
