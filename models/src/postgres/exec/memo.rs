//! What one statement has done so far that evaluating it again must not repeat.

use std::cell::{Cell as Slot, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::postgres::error::PgError;
use crate::postgres::sql::{Function, Query};
use crate::postgres::types::{Cell, Row};

/// Why an evaluation ended without a value.
#[derive(Debug)]
pub enum Halt {
    Error(PgError),
    /// Something has to be done first.
    Call(Function, Vec<Cell>),
    /// A query with FOR UPDATE has to be run first.
    Lock(Box<Query>),
}

impl From<PgError> for Halt {
    fn from(error: PgError) -> Halt {
        Halt::Error(error)
    }
}

/// Results of a statement by their order and by query.
#[derive(Debug, Default)]
pub struct Memo {
    /// What calls with an effect came to, in the order of their evaluation, which is the same each
    /// time.
    calls: Vec<Cell>,
    next: Slot<usize>,
    /// Queries with FOR UPDATE, done once.
    locked: BTreeMap<usize, Arc<Vec<Row>>>,
    /// The queries of WITH, which run before what uses them.
    with: RefCell<BTreeMap<usize, Arc<Vec<Row>>>>,
    /// Queries that look at no row around them; known for one evaluation.
    known: RefCell<BTreeMap<usize, Arc<Vec<Row>>>>,
}

impl Memo {
    /// Before evaluating again.
    pub fn rewind(&mut self) {
        self.next.set(0);
        self.known.get_mut().clear();
    }

    /// Before evaluating the next thing, whose calls are others.
    pub fn next_row(&mut self) {
        self.calls.clear();
        self.next.set(0);
    }

    /// The calls so far, while a query of the statement is run on its own.
    pub fn set_aside(&mut self) -> Vec<Cell> {
        std::mem::take(&mut self.calls)
    }

    pub fn take_back(&mut self, calls: Vec<Cell>) {
        self.calls = calls;
    }

    /// What the call that is being evaluated came to, if it was done already.
    pub fn call(&self) -> Option<Cell> {
        let at = self.next.get();
        let done = self.calls.get(at).cloned();
        self.next.set(at + 1);
        done
    }

    pub fn done(&mut self, result: Cell) {
        self.calls.push(result);
    }

    pub fn lock_done(&mut self, query: usize, rows: Vec<Row>) {
        self.locked.insert(query, Arc::new(rows));
    }

    pub fn locked(&self, query: usize) -> Option<Arc<Vec<Row>>> {
        self.locked.get(&query).cloned()
    }

    pub fn known(&self, query: usize) -> Option<Arc<Vec<Row>>> {
        self.known.borrow().get(&query).cloned()
    }

    pub fn with(&self, query: usize) -> Option<Arc<Vec<Row>>> {
        self.with.borrow().get(&query).cloned()
    }

    pub fn note_with(&self, query: usize, rows: Arc<Vec<Row>>) {
        self.with.borrow_mut().insert(query, rows);
    }

    pub fn note(&self, query: usize, rows: Arc<Vec<Row>>) {
        self.known.borrow_mut().insert(query, rows);
    }
}
