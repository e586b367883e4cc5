//! One thread for the database, as the recorded stack has it, without the thread.
//!
//! LangGraph's AsyncSqliteSaver hands every call to one thread, which does one after the other. A
//! pool of real threads would finish them in whatever order the machine likes; here a task does
//! them, each after a moment of virtual time.

use std::sync::Arc;
use std::time::Duration;

use durasim_runtime::Doors;
use durasim_runtime::doors::{Executor, RawHandle, TokioExecutor};
use futures::StreamExt;
use futures::channel::{mpsc, oneshot};
use futures::future::BoxFuture;

/// What one call takes: more than nothing, and far less than the sleeps that cases rest on.
const MOMENT: Duration = Duration::from_millis(1);

struct OneLane(mpsc::UnboundedSender<Call>);

struct Call {
    work: Box<dyn FnOnce() + Send>,
    done: oneshot::Sender<()>,
}

/// Production's doors with one lane for blocking calls. Call it inside a tokio runtime whose time
/// is paused.
pub fn doors() -> Doors {
    let doors = Doors::production();
    let (calls, mut waiting) = mpsc::unbounded::<Call>();
    let clock = doors.clock.clone();
    let work = async move {
        while let Some(Call { work, done }) = waiting.next().await {
            clock.sleep(MOMENT).await;
            work();
            let _ = done.send(());
        }
    };
    drop(doors.executor.spawn("lane", work));
    Doors { executor: Arc::new(OneLane(calls)), ..doors }
}

impl Executor for OneLane {
    fn spawn_raw(&self, actor: &str, future: BoxFuture<'static, ()>) -> Box<dyn RawHandle> {
        TokioExecutor.spawn_raw(actor, future)
    }

    fn blocking_raw(&self, _actor: &str, call: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        let (done, finished) = oneshot::channel();
        let _ = self.0.unbounded_send(Call { work: call, done });
        Box::pin(async move {
            let _ = finished.await;
        })
    }
}
