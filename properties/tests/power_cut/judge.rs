//! What is left on a disk, judged by what was written to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use durasim_runtime::Durability;
use durasim_runtime::checkpoint::saver::{ListFilter, Saver};
use durasim_runtime::checkpoint::sqlite::Synchronous;
use durasim_runtime::pregel::Input;
use durasim_sim::{Files, RunOptions, run};

use super::witness::{Acknowledged, Notes};
use super::workload::{FILE, HOST, Recording, THREADS, graph, idle, input, is_whole, open, play};

/// What must be there of what was acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    Everything,
    /// As of some moment: nothing is missing before something that is there.
    Beginning,
}

#[derive(Debug, Default)]
pub struct Verdict {
    pub problems: Vec<String>,
    /// Acknowledged writes that are not there.
    pub lost: usize,
}

/// The names of a write: thread, checkpoint, and the task if it is not the checkpoint's own.
type Name = (String, String, Option<String>);

/// A host comes up with these files, which is what `point` operations have left.
pub fn judge(
    recording: &Recording,
    point: usize,
    files: Files,
    promise: Promise,
    seed: u64,
) -> Verdict {
    let notes = recording.notes.clone();
    let finished = run(seed, RunOptions::default(), move |world| {
        Box::pin(async move {
            let disk = world.disk(HOST);
            files.into_iter().for_each(|(name, bytes)| disk.install(&name, bytes));
            let server = idle(&world);
            let mut verdict = Verdict::default();
            let connection = server.open_sqlite(FILE).expect("the file opens");
            let integrity: Result<String, _> =
                connection.query_row("PRAGMA integrity_check", [], |row| row.get(0));
            if integrity.as_deref() != Ok("ok") {
                verdict.problems.push(format!("integrity: {integrity:?}"));
                return verdict;
            }
            let (doors, saver) = open(&server, Synchronous::Full).await;
            let mut found = rows(&connection, &notes, &mut verdict.problems);
            drop(connection);
            for thread in THREADS {
                let tuples = saver.list(thread, None, ListFilter::default()).await;
                for tuple in tuples.expect("all of it decodes") {
                    let id = &tuple.checkpoint.id;
                    let given = notes.puts.iter().find(|put| put.write.checkpoint.id == *id);
                    if given.is_none_or(|put| {
                        put.write.checkpoint != tuple.checkpoint || put.write.parent != tuple.parent
                    }) {
                        verdict.problems.push(format!("checkpoint {id} is not what was put"));
                    }
                    found.insert((thread.to_owned(), id.to_string(), None));
                }
            }
            weigh(&notes, point, promise, &found, &mut verdict);
            let saver: Arc<dyn Saver> = saver;
            let graph = graph(saver.clone(), &doors);
            for thread in THREADS {
                let is_there = found.iter().any(|(of, _, task)| of == thread && task.is_none());
                let next = if is_there { Input::Resume } else { input() };
                match play(&graph, thread, next, Durability::Sync).await {
                    Ok(values) if is_whole(&values, 1) || is_whole(&values, 2) => {}
                    end => verdict.problems.push(format!("thread {thread} went on to {end:?}")),
                }
            }
            verdict
        })
    });
    finished.value.unwrap_or_else(|crash| Verdict {
        problems: vec![format!("it does not come up: {crash}")],
        lost: 0,
    })
}

/// The put_writes that are there; each must be there as a whole.
fn rows(
    connection: &rusqlite::Connection,
    notes: &Notes,
    problems: &mut Vec<String>,
) -> BTreeSet<Name> {
    let mut found: BTreeMap<Name, i64> = BTreeMap::new();
    let count = "SELECT thread_id, checkpoint_id, task_id, count(*) FROM writes GROUP BY 1, 2, 3";
    // Before the first commit there are no tables.
    if let Ok(mut select) = connection.prepare(count) {
        let rows = select.query_map([], |row| {
            Ok(((row.get(0)?, row.get(1)?, row.get(2).map(Some)?), row.get(3)?))
        });
        for row in rows.expect("a query") {
            let (name, count): (Name, i64) = row.expect("a row");
            found.insert(name, count);
        }
    }
    for (name, count) in &found {
        let (_, checkpoint, task) = name;
        let given = notes.writes.iter().find(|put| {
            *put.write.checkpoint == **checkpoint && Some(&*put.write.task) == task.as_deref()
        });
        match given.map(|put| put.write.writes.len()) {
            Some(whole) if whole as i64 == *count => {}
            whole => problems.push(format!("{count} rows of {name:?}, of {whole:?}")),
        }
    }
    found.into_keys().collect()
}

/// Holds what is there against what was acknowledged by then.
fn weigh(
    notes: &Notes,
    point: usize,
    promise: Promise,
    found: &BTreeSet<Name>,
    verdict: &mut Verdict,
) {
    let puts = notes.puts.iter().map(|put| {
        let id = put.write.checkpoint.id.to_string();
        (put.acknowledged, (put.write.key.thread.to_string(), id, None))
    });
    let writes = notes.writes.iter().map(|put| {
        let (id, task) = (put.write.checkpoint.to_string(), put.write.task.to_string());
        (put.acknowledged, (put.write.key.thread.to_string(), id, Some(task)))
    });
    let by_then = |(acknowledged, name): (Option<Acknowledged>, Name)| {
        acknowledged.filter(|at| at.after <= point).map(|at| (at.nth, name))
    };
    let promised: BTreeMap<usize, Name> = puts.chain(writes).filter_map(by_then).collect();
    let missing: Vec<(&usize, &Name)> =
        promised.iter().filter(|(_, name)| !found.contains(*name)).collect();
    verdict.lost = missing.len();
    let Some((first, name)) = missing.first() else { return };
    match promise {
        Promise::Everything => {
            verdict.problems.push(format!("{name:?} was acknowledged and is not there"));
        }
        Promise::Beginning => {
            let later = promised.range(*first..).find(|(_, name)| found.contains(*name));
            if let Some((_, later)) = later {
                verdict.problems.push(format!("{name:?} is not there, and {later:?} after it is"));
            }
        }
    }
}
