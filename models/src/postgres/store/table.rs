//! A table: its columns, its indexes, and every version of every row.

use std::collections::BTreeMap;

use super::{Index, Xid};
use crate::postgres::error::{PgError, Result};
use crate::postgres::types::{Cell, Row, Type};

/// The place of a version in its table.
pub type Tid = u64;

#[derive(Debug, Clone)]
pub struct Column {
    pub name: String,
    pub ty: Type,
    pub not_null: bool,
    pub default: Default,
    /// What rows have that are older than the column.
    pub missing: Cell,
}

/// What a column gets that an INSERT does not name.
#[derive(Debug, Clone)]
pub enum Default {
    Constant(Cell),
    /// When the transaction began.
    Now,
    ClockTimestamp,
    /// The next number of the table's own sequence of this column.
    Sequence,
}

/// One version of a row.
#[derive(Debug, Clone)]
pub struct Version {
    pub row: Row,
    /// The transaction that made it, and its how-manyth command.
    pub made: (Xid, u32),
    /// The same for the one that deleted or replaced it; it may have aborted.
    pub ended: Option<(Xid, u32)>,
    /// Who holds it FOR UPDATE.
    pub locker: Option<Xid>,
    /// Where the version is that replaced it.
    pub next: Option<Tid>,
}

#[derive(Debug)]
pub struct Table {
    pub oid: u32,
    pub name: String,
    pub columns: Vec<Column>,
    pub indexes: Vec<Index>,
    pub versions: BTreeMap<Tid, Version>,
    next_tid: Tid,
    /// The numbers given out so far, by column. They are no part of any transaction.
    pub sequences: BTreeMap<usize, i64>,
    pub created: Xid,
    pub dropped: Option<Xid>,
    /// Versions ended or aborted since the last vacuum, at most.
    pub garbage: usize,
}

impl Table {
    pub fn new(oid: u32, name: &str, columns: Vec<Column>, created: Xid) -> Table {
        Table {
            oid,
            name: name.to_owned(),
            columns,
            indexes: Vec::new(),
            versions: BTreeMap::new(),
            next_tid: 1,
            sequences: BTreeMap::new(),
            created,
            dropped: None,
            garbage: 0,
        }
    }

    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    pub fn primary_key(&self) -> Option<&Index> {
        self.indexes.iter().find(|index| index.primary)
    }

    /// A cell of a row, which may be older than the column.
    pub fn cell<'a>(&'a self, row: &'a Row, column: usize) -> &'a Cell {
        row.get(column).unwrap_or_else(|| &self.columns[column].missing)
    }

    /// The row with all columns that the table has now.
    pub fn whole(&self, row: &Row) -> Row {
        if row.len() >= self.columns.len() {
            return row.clone();
        }
        (0..self.columns.len()).map(|column| self.cell(row, column).clone()).collect()
    }

    /// Adds a version; its indexes want [`Table::enter`].
    pub fn add(&mut self, row: Row, made: (Xid, u32)) -> Tid {
        let tid = self.next_tid;
        self.next_tid += 1;
        let version = Version { row, made, ended: None, locker: None, next: None };
        self.versions.insert(tid, version);
        tid
    }

    /// Puts a version into one index.
    pub fn enter(&mut self, index: usize, tid: Tid) {
        let key = self.key(index, &self.versions[&tid].row);
        self.indexes[index].entries.entry(key).or_default().push(tid);
    }

    /// The key of a row in an index.
    pub fn key(&self, index: usize, row: &Row) -> Vec<Cell> {
        let columns = self.indexes[index].columns.iter();
        columns.map(|column| self.cell(row, *column).clone()).collect()
    }

    /// # Errors
    /// 23502 for a null where none may be.
    pub fn check_not_null(&self, row: &Row) -> Result<()> {
        let null =
            self.columns.iter().zip(row.iter()).find(|(c, cell)| c.not_null && cell.is_null());
        let Some((column, _)) = null else { return Ok(()) };
        let (name, table) = (&column.name, &self.name);
        let message = format!(
            "null value in column \"{name}\" of relation \"{table}\" violates not-null constraint"
        );
        Err(PgError::new("23502", message)
            .detail(format!("Failing row contains ({}).", shown(row)))
            .table(table)
            .column(name))
    }
}

/// The cells of a row for a detail, each cut to 64 bytes as the server cuts them.
fn shown(row: &Row) -> String {
    let cell = |cell: &Cell| match cell {
        Cell::Null => "null".to_owned(),
        cell => {
            let text = crate::postgres::types::to_text(cell);
            match text.char_indices().map(|(at, _)| at).take_while(|at| *at <= 64).last() {
                Some(end) if text.len() > 64 => format!("{}...", &text[..end]),
                _ => text,
            }
        }
    };
    row.iter().map(cell).collect::<Vec<_>>().join(", ")
}
