//! A saver that notes what it was given, and how far the disk was when it acknowledged it.

use std::sync::{Arc, Mutex};

use durasim_runtime::Saver;
use durasim_runtime::checkpoint::layer::Layer;
use durasim_runtime::checkpoint::saver::{Landing, Put, PutWrites};
use durasim_sim::{BoxFuture, Disk};

/// When a write counts as acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acknowledges {
    Landed,
    /// Before it is committed: sabotage.
    Submitted,
}

/// A write, and the operation of the disk by which it was acknowledged.
#[derive(Debug, Clone)]
pub struct Noted<T> {
    pub write: T,
    pub acknowledged: Option<Acknowledged>,
}

#[derive(Debug, Clone, Copy)]
pub struct Acknowledged {
    /// How many operations the disk had seen by then.
    pub after: usize,
    /// Which acknowledgement of all this was.
    pub nth: usize,
}

#[derive(Debug, Clone, Default)]
pub struct Notes {
    pub puts: Vec<Noted<Put>>,
    pub writes: Vec<Noted<PutWrites>>,
    pub acknowledged: usize,
}

impl Notes {
    fn acknowledge(&mut self, disk: &Disk) -> Option<Acknowledged> {
        self.acknowledged += 1;
        Some(Acknowledged { after: disk.log_len(), nth: self.acknowledged })
    }
}

#[derive(Clone)]
pub struct Witness {
    pub inner: Arc<dyn Saver>,
    pub disk: Disk,
    pub acknowledges: Acknowledges,
    pub notes: Arc<Mutex<Notes>>,
}

impl Witness {
    /// Notes the acknowledgement of what is noted at the place that `at` finds.
    fn watch(
        &self,
        submitted: BoxFuture<'static, Landing>,
        acknowledge: impl Fn(&mut Notes, &Disk) + Send + 'static,
    ) -> BoxFuture<'static, Landing> {
        let Witness { disk, acknowledges, notes, .. } = self.clone();
        let is_early = acknowledges == Acknowledges::Submitted;
        Box::pin(async move {
            let landing = submitted.await;
            if is_early {
                acknowledge(&mut notes.lock().unwrap(), &disk);
            }
            Landing::new(async move {
                let end = landing.end().await;
                if end.is_ok() && !is_early {
                    acknowledge(&mut notes.lock().unwrap(), &disk);
                }
                end
            })
        })
    }
}

impl Layer for Witness {
    fn inner(&self) -> &dyn Saver {
        &*self.inner
    }

    fn on_put(&self, put: Put) -> BoxFuture<'static, Landing> {
        let place = {
            let mut notes = self.notes.lock().unwrap();
            notes.puts.push(Noted { write: put.clone(), acknowledged: None });
            notes.puts.len() - 1
        };
        self.watch(self.inner.submit_put(put), move |notes, disk| {
            notes.puts[place].acknowledged = notes.acknowledge(disk);
        })
    }

    fn on_writes(&self, put: PutWrites) -> BoxFuture<'static, Landing> {
        let place = {
            let mut notes = self.notes.lock().unwrap();
            notes.writes.push(Noted { write: put.clone(), acknowledged: None });
            notes.writes.len() - 1
        };
        self.watch(self.inner.submit_writes(put), move |notes, disk| {
            notes.writes[place].acknowledged = notes.acknowledge(disk);
        })
    }
}
