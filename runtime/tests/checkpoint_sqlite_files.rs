//! Files that a saver cannot use: the error has a type, names the file and says what to do.
#![cfg(not(madsim))]

mod checkpoint_support;

use std::sync::Arc;

use checkpoint_support::{TestFile, block_on, checkpoint, key, metadata};
use durasim_runtime::Doors;
use durasim_runtime::checkpoint::Source;
use durasim_runtime::checkpoint::saver::{Put, Saver, SaverError};
use durasim_runtime::checkpoint::sqlite::{FileProblem, SqliteSaver};
use durasim_runtime::doors::Opener;

/// The problem that opening a file ends with, whose message names the file.
fn problem(path: &str) -> FileProblem {
    problem_with(path, &Doors::production())
}

fn problem_with(path: &str, doors: &Doors) -> FileProblem {
    let error = block_on(SqliteSaver::open(path, doors)).err().expect("an error");
    assert!(error.to_string().starts_with(path), "{error}");
    match error {
        SaverError::File { problem, .. } => problem,
        other => panic!("{other}"),
    }
}

#[test]
fn a_file_that_is_no_database() {
    let file = TestFile::new("no-database");
    let text = "x".repeat(5_000);
    std::fs::write(file.path(), &text).unwrap();
    assert_eq!(problem(file.path()), FileProblem::NotADatabase);
    assert_eq!(std::fs::read_to_string(file.path()).unwrap(), text, "it is left as it is");
}

#[test]
fn a_folder_that_is_not_there() {
    assert_eq!(problem("/nowhere/at/all.sqlite"), FileProblem::CannotOpen);
    let folder = std::env::temp_dir();
    assert_eq!(problem(folder.to_str().unwrap()), FileProblem::CannotOpen);
}

#[test]
fn tables_of_somebody_else() {
    for (test, table, sql) in [
        ("other-checkpoints", "checkpoints", "CREATE TABLE checkpoints (lap INTEGER, time REAL)"),
        ("other-writes", "writes", "CREATE TABLE writes (thread_id TEXT, author TEXT)"),
        // Without the column `type`.
        (
            "no-type",
            "writes",
            "CREATE TABLE writes (thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT, \
             task_id TEXT, idx INTEGER, channel TEXT, value BLOB)",
        ),
    ] {
        let file = TestFile::new(test);
        file.connect().execute_batch(sql).unwrap();
        let before = std::fs::read(file.path()).unwrap();
        match problem(file.path()) {
            FileProblem::OtherTable { table: found, problem } => {
                assert_eq!(found, table);
                assert!(problem.contains("no such column"), "{problem}");
            }
            other => panic!("{test}: {other}"),
        }
        assert_eq!(std::fs::read(file.path()).unwrap(), before, "{test}: it is left as it is");
    }
}

#[test]
fn a_file_of_another_program() {
    let file = TestFile::new("other-program");
    file.connect().execute_batch("PRAGMA application_id = 252006675; CREATE TABLE t (x)").unwrap();
    let before = std::fs::read(file.path()).unwrap();
    // As in SQLite's own list of assigned ids: 0x0f055113 is a Fossil repository.
    assert_eq!(problem(file.path()), FileProblem::OtherProgram(0x0f05_5113));
    assert_eq!(std::fs::read(file.path()).unwrap(), before, "it is left as it is");
}

#[test]
fn a_program_may_keep_checkpoints_beside_its_own_tables() {
    let file = TestFile::new("beside");
    file.connect().execute_batch("CREATE TABLE mine (x); INSERT INTO mine VALUES (7)").unwrap();
    block_on(async {
        let saver = SqliteSaver::open(file.path(), &Doors::production()).await.unwrap();
        saver.close().await.unwrap();
        file.connect().execute_batch("PRAGMA application_id = 77").unwrap();
        let saver = SqliteSaver::open(file.path(), &Doors::production()).await.unwrap();
        let put = Put::new(&key("t", ""), None, checkpoint(0), metadata(Source::Input, -1));
        saver.put(put).await.unwrap();
    });
    let mine: i64 = file.connect().query_row("SELECT x FROM mine", [], |row| row.get(0)).unwrap();
    assert_eq!(mine, 7);
}

/// Opens what is there for reading only, as SQLite does by itself when permissions ask for it.
struct ReadOnly;

impl Opener for ReadOnly {
    fn open(&self, path: &str) -> rusqlite::Result<rusqlite::Connection> {
        rusqlite::Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)
    }
}

#[test]
fn a_file_that_cannot_be_written() {
    let file = TestFile::new("read-only");
    let doors = Doors { opener: Arc::new(ReadOnly), ..Doors::production() };
    file.connect().execute_batch("CREATE TABLE t (x)").unwrap();
    assert_eq!(problem_with(file.path(), &doors), FileProblem::ReadOnly);
    // With its tables in place it opens, can be read, and says so when something is to be stored.
    block_on(async {
        drop(SqliteSaver::open(file.path(), &Doors::production()).await.unwrap());
        let saver = SqliteSaver::open(file.path(), &doors).await.unwrap();
        assert_eq!(saver.get_tuple(&key("t", ""), None).await.unwrap(), None);
        let put = Put::new(&key("t", ""), None, checkpoint(0), metadata(Source::Input, -1));
        let error = saver.put(put).await.unwrap_err();
        let is_read_only = matches!(error, SaverError::File { problem: FileProblem::ReadOnly, .. });
        assert!(is_read_only && error.to_string().starts_with(file.path()), "{error}");
    });
}
