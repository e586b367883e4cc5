//! Worker processes, each fed one job at a time.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

use super::worker::{Job, Verdict};

/// Runs the jobs on `workers` processes of `binary` and hands each verdict to `on_verdict` as it
/// comes, in no particular order.
pub fn run(
    binary: &Path,
    workers: usize,
    jobs: impl Iterator<Item = Job> + Send,
    mut on_verdict: impl FnMut(Verdict),
) -> Result<(), String> {
    // Made as they are wanted: a sweep may be longer than memory.
    let queue = Mutex::new(Some(jobs));
    let (sender, receiver): (_, Receiver<Result<Verdict, String>>) = channel();
    std::thread::scope(|scope| {
        for _ in 0..workers.max(1) {
            let (sender, queue) = (sender.clone(), &queue);
            scope.spawn(move || {
                let mut tell = |verdict: Verdict| sender.send(Ok(verdict)).is_ok();
                if let Err(problem) = feed(binary, queue, &mut tell) {
                    let _ = sender.send(Err(problem));
                }
            });
        }
        drop(sender);
        let mut result = Ok(());
        for message in receiver {
            match message {
                Ok(verdict) => on_verdict(verdict),
                Err(problem) => {
                    *queue.lock().unwrap() = None;
                    result = Err(problem);
                }
            }
        }
        result
    })
}

fn feed(
    binary: &Path,
    queue: &Mutex<Option<impl Iterator<Item = Job>>>,
    tell: &mut impl FnMut(Verdict) -> bool,
) -> Result<(), String> {
    let mut worker = Worker::start(binary)?;
    loop {
        let Some(job) = queue.lock().unwrap().as_mut().and_then(Iterator::next) else {
            return Ok(());
        };
        for verdict in worker.run(&job)? {
            if !tell(verdict) {
                return Ok(());
            }
        }
    }
}

/// One worker process.
pub struct Worker {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Worker {
    pub fn start(binary: &Path) -> Result<Worker, String> {
        let mut child = Command::new(binary)
            .arg("worker")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", binary.display()))?;
        let answers = BufReader::new(child.stdout.take().expect("a piped output"));
        Ok(Worker { child, answers })
    }

    /// Runs one job to its end.
    pub fn run(&mut self, job: &Job) -> Result<Vec<Verdict>, String> {
        let died = |what: &dyn std::fmt::Display| {
            let (name, seeds) = (&job.scenario.name, &job.seeds);
            format!("a worker died on {name}, seeds {seeds:?}: {what}")
        };
        let line = serde_json::to_string(job).map_err(|error| error.to_string())?;
        let input = self.child.stdin.as_mut().expect("a piped input");
        writeln!(input, "{line}").map_err(|error| died(&error))?;
        let mut verdicts = Vec::with_capacity(job.seeds.len());
        for _ in &job.seeds {
            let mut answer = String::new();
            let read = self.answers.read_line(&mut answer).map_err(|error| died(&error))?;
            if read == 0 {
                return Err(died(&"no answer"));
            }
            verdicts.push(serde_json::from_str(&answer).map_err(|error| died(&error))?);
        }
        Ok(verdicts)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Closing its input ends it; a wait keeps no zombie behind.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
