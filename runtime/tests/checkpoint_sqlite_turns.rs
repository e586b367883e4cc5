//! Savers of one process that have the same file open.
#![cfg(not(madsim))]

mod checkpoint_support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use checkpoint_support::{TestFile, block_on, checkpoint, key, metadata};
use durasim_runtime::Doors;
use durasim_runtime::checkpoint::Source;
use durasim_runtime::checkpoint::saver::{LateWrites, ListFilter, Put, Saver};
use durasim_runtime::checkpoint::sqlite::{SqliteOptions, SqliteSaver, Synchronous};
use durasim_runtime::doors::{Clock, FileOpener, Opener, TokioClock, Turn};
use futures::future::BoxFuture;

const CHECKPOINTS: u32 = 200;
const WRITERS: usize = 4;

/// A commit waits for the disk, so that others come meanwhile.
const PATIENT: SqliteOptions = SqliteOptions {
    synchronous: Synchronous::Full,
    busy_limit: Duration::from_secs(60),
    late_writes: LateWrites::Refused,
};

/// Whoever finds the file locked fails at once.
const IMPATIENT: SqliteOptions = SqliteOptions { busy_limit: Duration::ZERO, ..PATIENT };

/// The real clock, and how often somebody paused, as the file was locked.
struct Pauses(AtomicUsize);

impl Clock for Pauses {
    fn now(&self) -> SystemTime {
        TokioClock.now()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.0.fetch_add(1, Ordering::Relaxed);
        TokioClock.sleep(duration)
    }
}

async fn open(path: &str) -> Arc<SqliteSaver> {
    SqliteSaver::open_with(path, &Doors::production(), IMPATIENT).await.expect("the file opens")
}

/// Each in a runtime of its own, on a thread of its own, and with doors of its own. Gives how often
/// they paused.
fn write_beside_each_other(paths: [&str; WRITERS]) -> usize {
    let pauses = Arc::new(Pauses(AtomicUsize::new(0)));
    std::thread::scope(|scope| {
        for (writer, path) in paths.into_iter().enumerate() {
            let doors = Doors { clock: pauses.clone(), ..Doors::production() };
            scope.spawn(move || {
                block_on(async {
                    let saver = SqliteSaver::open_with(path, &doors, PATIENT).await.unwrap();
                    for n in 0..CHECKPOINTS {
                        let thread = key(&format!("of {writer}"), "");
                        let metadata = metadata(Source::Loop, n.into());
                        let put = Put::new(&thread, None, checkpoint(n), metadata);
                        saver.put(put).await.expect("its turn comes");
                    }
                    saver.close().await.expect("it closes");
                });
            });
        }
    });
    pauses.0.load(Ordering::Relaxed)
}

#[test]
fn they_take_turns_whatever_they_call_the_file() {
    let file = TestFile::new("turns");
    let link = TestFile::new("turns-link");
    block_on(async { open(file.path()).await.close().await.unwrap() });
    std::os::unix::fs::symlink(file.path(), link.path()).unwrap();
    let folder = std::path::Path::new(file.path()).parent().unwrap();
    let detour = folder.join(".").join("..").join(folder.file_name().unwrap());
    let detour = detour.join(std::path::Path::new(file.path()).file_name().unwrap());
    let detour = detour.to_str().unwrap();
    let url = format!("file:{}", file.path());
    let pauses = write_beside_each_other([file.path(), link.path(), detour, &url]);
    // Only where the machine stood still for a while.
    assert!(pauses < 20, "{pauses} pauses");
    block_on(async {
        let saver = open(file.path()).await;
        for writer in 0..WRITERS {
            let list = saver.list(&format!("of {writer}"), None, ListFilter::default()).await;
            assert_eq!(list.unwrap().len(), CHECKPOINTS as usize);
        }
    });
}

#[test]
fn a_file_that_was_made_anew_is_written_to_by_its_own_savers_alone() {
    let file = TestFile::new("anew");
    let count = async |saver: &SqliteSaver| {
        saver.list("t", None, ListFilter::default()).await.expect("a listing").len()
    };
    block_on(async {
        let put = |n| Put::new(&key("t", ""), None, checkpoint(n), metadata(Source::Loop, 0));
        let old = open(file.path()).await;
        old.put(put(0)).await.unwrap();
        for end in ["", "-wal", "-shm"] {
            std::fs::remove_file(format!("{}{end}", file.path())).unwrap();
        }
        let new = open(file.path()).await;
        let (of_old, of_new) = futures::join!(old.put(put(1)), new.put(put(2)));
        of_old.and(of_new).unwrap();
        assert_eq!((count(&old).await, count(&new).await), (2, 1));
        assert_eq!(count(&*open(file.path()).await).await, 1);
    });
}

/// Real files whose turn the test has in its hand.
struct InHand(Turn);

impl Opener for InHand {
    fn open(&self, path: &str) -> rusqlite::Result<rusqlite::Connection> {
        FileOpener.open(path)
    }

    fn turn(&self, _connection: &rusqlite::Connection) -> Turn {
        self.0.clone()
    }
}

#[test]
fn who_reads_does_not_wait_for_a_turn_that_does_not_come() {
    let file = TestFile::new("in-hand");
    let turn = Turn::default();
    let doors = Doors { opener: Arc::new(InHand(turn.clone())), ..Doors::production() };
    let put = |n| Put::new(&key("t", ""), None, checkpoint(n), metadata(Source::Loop, 0));
    block_on(async {
        let saver = SqliteSaver::open_with(file.path(), &doors, IMPATIENT).await.unwrap();
        let patient = SqliteOptions { busy_limit: Duration::from_secs(60), ..IMPATIENT };
        let patient = SqliteSaver::open_with(file.path(), &doors, patient).await.unwrap();
        saver.put(put(0)).await.unwrap();
        let taken = turn.take();
        let mut waits = patient.put(put(1));
        assert!(futures::poll!(&mut waits).is_pending());
        let (failed, list) =
            futures::join!(saver.put(put(2)), patient.list("t", None, ListFilter::default()));
        let failed = failed.unwrap_err().to_string();
        assert!(failed.contains("another saver of this process"), "{failed}");
        assert_eq!(list.unwrap().len(), 1);
        // To open a file that has its tables is not to write to it.
        SqliteSaver::open_with(file.path(), &doors, IMPATIENT).await.unwrap();
        drop(taken);
        waits.await.unwrap();
    });
}
