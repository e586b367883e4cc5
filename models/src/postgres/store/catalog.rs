//! The tables by name, and how changes to them are taken back.

use std::collections::BTreeMap;

use super::{Column, Index, Snapshot, Table, Xacts, Xid};

/// Everything that outlives a connection.
#[derive(Debug)]
pub struct Store {
    pub tables: BTreeMap<u32, Table>,
    pub xacts: Xacts,
    next_oid: u32,
    /// Moves with every change to a table's shape; plans that are older are made anew.
    pub shape: u64,
}

impl Default for Store {
    fn default() -> Store {
        // The first OID that the server gives to what users make.
        Store { tables: BTreeMap::new(), xacts: Xacts::default(), next_oid: 16_384, shape: 0 }
    }
}

/// How to take back one change to a table's shape when its transaction aborts. That a table was
/// created or dropped needs none: its transactions say so.
#[derive(Debug)]
pub enum Undo {
    Columns { table: u32, columns: Vec<Column> },
    Index { table: u32, name: String },
}

impl Store {
    pub fn new_oid(&mut self) -> u32 {
        self.next_oid += 1;
        self.next_oid - 1
    }

    /// The table of this name that a transaction with these ids sees.
    pub fn find(&self, name: &str, own: &[Xid]) -> Option<&Table> {
        let known = |xid| self.xacts.is_committed(xid) || own.contains(&xid);
        let gone = |table: &Table| {
            table.dropped.is_some_and(|xid| known(xid) && !self.xacts.is_aborted(xid))
        };
        let made = |table: &Table| known(table.created) && !self.xacts.is_aborted(table.created);
        self.tables.values().find(|table| table.name == name && made(table) && !gone(table))
    }

    /// The transaction that is creating a table of this name right now, and is not one of these.
    pub fn being_created(&self, name: &str, own: &[Xid]) -> Option<Xid> {
        let created = self.tables.values().filter(|table| table.name == name);
        let mut others = created.map(|table| table.created).filter(|xid| !own.contains(xid));
        others.find(|xid| self.xacts.is_running(*xid))
    }

    pub fn table(&self, oid: u32) -> &Table {
        &self.tables[&oid]
    }

    pub fn table_mut(&mut self, oid: u32) -> &mut Table {
        self.tables.get_mut(&oid).expect("tables are forgotten only when nobody can name them")
    }

    pub fn undo(&mut self, undo: Undo) {
        self.shape += 1;
        match undo {
            Undo::Columns { table, columns } => self.table_mut(table).columns = columns,
            Undo::Index { table, name } => {
                self.table_mut(table).indexes.retain(|index| index.name != name);
            }
        }
    }

    pub fn index_named(&self, name: &str) -> Option<&Index> {
        let mut indexes = self.tables.values().flat_map(|table| &table.indexes);
        indexes.find(|index| index.name == name)
    }

    /// Is there a table or an index of this name, for a transaction with these ids?
    pub fn relation_named(&self, name: &str, own: &[Xid]) -> bool {
        self.find(name, own).is_some() || self.index_named(name).is_some()
    }

    /// Everything committed, seen from outside.
    pub fn committed(&self) -> Snapshot {
        Snapshot::new(&self.xacts, Vec::new(), 0)
    }
}
