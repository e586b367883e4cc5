//! An instrument that lies: a log file that a writer appends to in two steps.
//!
//! A writer seeks to the end, takes a moment, then writes where the end was. Two processes that do
//! so at once write to the same place, and a line is lost. Within one process the call blocks, so
//! its own writes never overlap. This is how some C runtimes treat mode "a"; whoever counts effects
//! with such a log counts too few, and blames the system.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use durasim_sim::Process;

/// Between the seek and the write.
const GAP: Duration = Duration::from_millis(2);

/// Node sleeps that share a clock's tick wake together, which is what makes writes overlap.
pub const TICK: Duration = Duration::from_micros(15_625);

/// The file, and who is writing to it. Cloning gives another handle to the same file.
#[derive(Clone, Default)]
pub struct LeakyLog(Arc<Mutex<File>>);

#[derive(Default)]
struct File {
    bytes: Vec<u8>,
    /// When each process's last write ends; its next one waits for that.
    busy_until: BTreeMap<String, Duration>,
}

impl LeakyLog {
    pub fn new() -> LeakyLog {
        LeakyLog::default()
    }

    fn file(&self) -> MutexGuard<'_, File> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a line the leaky way. A process that dies in between writes nothing.
    pub async fn append(&self, process: &Process, thread: &str, label: &str) {
        let world = process.world();
        let line = format!("{thread}\t{label}\n").into_bytes();
        let wait = {
            let mut file = self.file();
            let now = world.now();
            let busy = file.busy_until.entry(process.name().to_owned()).or_default();
            let begins = now.max(*busy);
            *busy = begins + GAP;
            begins - now
        };
        world.sleep(wait).await;
        let end = self.file().bytes.len();
        world.sleep(GAP).await;
        if !process.is_alive() {
            return;
        }
        let bytes = &mut self.file().bytes;
        if bytes.len() < end + line.len() {
            bytes.resize(end + line.len(), 0);
        }
        bytes[end..end + line.len()].copy_from_slice(&line);
    }

    /// The labels that a reader of the file counts for a thread, in order. A line that was partly
    /// overwritten does not read as one.
    pub fn of_thread(&self, thread: &str) -> Vec<String> {
        let file = self.file();
        let text = String::from_utf8_lossy(&file.bytes);
        let lines = text.lines().filter_map(|line| line.split_once('\t'));
        lines.filter(|(of, _)| *of == thread).map(|(_, label)| label.to_owned()).collect()
    }
}
