//! An index: keys to versions, dead ones included, as whoever looks must judge them anyway.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::{Table, Tid};
use crate::postgres::error::PgError;
use crate::postgres::types::{Cell, to_text};

#[derive(Debug, Clone)]
pub struct Index {
    pub name: String,
    pub columns: Vec<usize>,
    pub unique: bool,
    pub primary: bool,
    pub entries: BTreeMap<Vec<Cell>, Vec<Tid>>,
}

impl Index {
    pub fn new(name: String, columns: Vec<usize>, unique: bool, primary: bool) -> Index {
        Index { name, columns, unique, primary, entries: BTreeMap::new() }
    }

    /// The versions with exactly this key.
    pub fn at(&self, key: &[Cell]) -> &[Tid] {
        self.entries.get(key).map_or(&[], Vec::as_slice)
    }

    /// The versions whose key begins like this, in the order of their places in the table.
    pub fn beginning(&self, prefix: &[Cell]) -> Vec<Tid> {
        let range = (Bound::Included(prefix), Bound::Unbounded);
        let from = self.entries.range::<[Cell], _>(range);
        let found = from.take_while(|(key, _)| key.starts_with(prefix));
        let mut tids: Vec<Tid> = found.flat_map(|(_, tids)| tids).copied().collect();
        tids.sort_unstable();
        tids
    }

    /// 23505: this key is there already.
    pub fn violation(&self, table: &Table, key: &[Cell]) -> PgError {
        let name = &self.name;
        let message = format!("duplicate key value violates unique constraint \"{name}\"");
        PgError::new("23505", message)
            .detail(format!("Key {} already exists.", self.shown(table, key)))
            .table(&table.name)
            .constraint(name)
    }

    /// `(a, b)=(1, 2)`
    pub fn shown(&self, table: &Table, key: &[Cell]) -> String {
        let names = self.columns.iter().map(|column| table.columns[*column].name.clone());
        let values = key.iter().map(to_text);
        let joined = |parts: Vec<String>| parts.join(", ");
        format!("({})=({})", joined(names.collect()), joined(values.collect()))
    }
}
