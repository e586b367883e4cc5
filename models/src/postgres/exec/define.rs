//! CREATE, ALTER, DROP and TRUNCATE.

use crate::postgres::error::{PgError, Result};
use crate::postgres::session::{Run, Session};
use crate::postgres::sql::Definition;
use crate::postgres::store::{Column, Default, Index, Table, Undo};
use crate::postgres::types::Cell;

impl Session {
    /// The command tag.
    pub(in crate::postgres) async fn define(
        &mut self,
        run: &mut Run,
        definition: &Definition,
    ) -> Result<&'static str> {
        match definition {
            Definition::CreateTable { name, if_not_exists, columns, keys } => {
                self.create_table(run, name, *if_not_exists, columns, keys).await?;
                Ok("CREATE TABLE")
            }
            Definition::DropTables { names, if_exists } => {
                names.iter().try_for_each(|name| self.drop_table(run, name, *if_exists))?;
                Ok("DROP TABLE")
            }
            Definition::AddColumn { table, column, if_not_exists } => {
                self.add_column(*table, column, *if_not_exists)?;
                Ok("ALTER TABLE")
            }
            Definition::SetNotNull { table, column, not_null } => {
                self.set_not_null(*table, *column, *not_null)?;
                Ok("ALTER TABLE")
            }
            Definition::SetDefault { table, column, default } => {
                self.change_columns(*table, |columns| columns[*column].default = default.clone());
                Ok("ALTER TABLE")
            }
            Definition::CreateIndex { table, name, columns, unique, if_not_exists, .. } => {
                self.create_index(*table, name, columns, *unique, *if_not_exists)?;
                Ok("CREATE INDEX")
            }
            Definition::DropIndex { name, if_exists, .. } => {
                self.drop_index(name, *if_exists)?;
                Ok("DROP INDEX")
            }
            Definition::Truncate { tables } => {
                tables.iter().for_each(|table| self.truncate(run, *table));
                Ok("TRUNCATE TABLE")
            }
        }
    }

    /// Two that create the same table at once: the later waits for the earlier, and then fails over
    /// the catalog's own key, IF NOT EXISTS or not.
    async fn create_table(
        &mut self,
        run: &mut Run,
        name: &str,
        if_not_exists: bool,
        columns: &[Column],
        keys: &[(String, Vec<usize>, bool)],
    ) -> Result<()> {
        let mut waited = false;
        loop {
            let (exists, busy) = {
                let (state, own) = (self.engine.lock(), self.xact.own());
                (state.store.find(name, &own).is_some(), state.store.being_created(name, &own))
            };
            match (exists, busy) {
                (true, _) if waited => {
                    let constraint = "pg_type_typname_nsp_index";
                    let message =
                        format!("duplicate key value violates unique constraint \"{constraint}\"");
                    return Err(PgError::new("23505", message)
                        .detail(format!(
                            "Key (typname, typnamespace)=({name}, 2200) already exists."
                        ))
                        .table("pg_type")
                        .constraint(constraint));
                }
                (true, _) if if_not_exists => {
                    self.notice("42P07", format!("relation \"{name}\" already exists, skipping"));
                    return Ok(());
                }
                (true, _) => {
                    return Err(PgError::new(
                        "42P07",
                        format!("relation \"{name}\" already exists"),
                    ));
                }
                (false, Some(xid)) => {
                    self.wait_for_end(xid).await?;
                    waited = true;
                }
                (false, None) => break,
            }
        }
        let xid = self.run_xid(run);
        let mut state = self.engine.lock();
        let oid = state.store.new_oid();
        let mut table = Table::new(oid, name, columns.to_vec(), xid);
        table.indexes = keys
            .iter()
            .map(|(name, columns, primary)| {
                Index::new(name.clone(), columns.clone(), true, *primary)
            })
            .collect();
        state.store.tables.insert(oid, table);
        state.store.shape += 1;
        drop(state);
        self.xact.undo(None);
        Ok(())
    }

    fn drop_table(&mut self, run: &mut Run, name: &str, if_exists: bool) -> Result<()> {
        let xid = self.run_xid(run);
        let own = self.xact.own();
        let mut state = self.engine.lock();
        let found = state.store.find(name, &own).map(|table| table.oid);
        match found {
            Some(oid) => {
                state.store.table_mut(oid).dropped = Some(xid);
                state.store.shape += 1;
                drop(state);
                self.xact.undo(None);
                Ok(())
            }
            None if if_exists => {
                drop(state);
                self.notice("00000", format!("table \"{name}\" does not exist, skipping"));
                Ok(())
            }
            None => Err(PgError::new("42P01", format!("table \"{name}\" does not exist"))),
        }
    }

    fn change_columns(&mut self, table: u32, change: impl FnOnce(&mut Vec<Column>)) {
        let before = {
            let mut state = self.engine.lock();
            state.store.shape += 1;
            let columns = &mut state.store.table_mut(table).columns;
            let before = columns.clone();
            change(columns);
            before
        };
        self.xact.undo(Some(Undo::Columns { table, columns: before }));
    }

    fn add_column(&mut self, table: u32, column: &Column, if_not_exists: bool) -> Result<()> {
        let (known, name, rows) = {
            let (state, own) = (self.engine.lock(), self.xact.own());
            let found = state.store.table(table);
            let alive = found.versions.values().any(|version| {
                let (made, xacts) = (version.made.0, &state.store.xacts);
                let ours = own.contains(&made) || xacts.is_committed(made);
                ours && !version
                    .ended
                    .is_some_and(|(xid, _)| own.contains(&xid) || xacts.is_committed(xid))
            });
            (found.column(&column.name).is_some(), found.name.clone(), alive)
        };
        let of = &column.name;
        if known {
            let message = format!("column \"{of}\" of relation \"{name}\" already exists");
            if !if_not_exists {
                return Err(PgError::new("42701", message));
            }
            self.notice("42701", message + ", skipping");
            return Ok(());
        }
        let null = matches!(&column.default, Default::Constant(Cell::Null));
        if column.not_null && null && rows {
            let message = format!("column \"{of}\" of relation \"{name}\" contains null values");
            return Err(PgError::new("23502", message).table(&name).column(of));
        }
        self.change_columns(table, |columns| columns.push(column.clone()));
        Ok(())
    }

    fn set_not_null(&mut self, table: u32, column: usize, not_null: bool) -> Result<()> {
        if not_null {
            let state = self.engine.lock();
            let found = state.store.table(table);
            let snapshot = state.store.committed();
            let nulls = found.versions.values().any(|version| {
                snapshot.visible(&state.store.xacts, version)
                    && found.cell(&version.row, column).is_null()
            });
            if nulls {
                let (of, name) = (&found.columns[column].name, &found.name);
                let message =
                    format!("column \"{of}\" of relation \"{name}\" contains null values");
                return Err(PgError::new("23502", message).table(name).column(of));
            }
        } else {
            let state = self.engine.lock();
            let found = state.store.table(table);
            if found.primary_key().is_some_and(|key| key.columns.contains(&column)) {
                let name = &found.columns[column].name;
                let message = format!("column \"{name}\" is in a primary key");
                return Err(PgError::new("42P16", message));
            }
        }
        self.change_columns(table, |columns| columns[column].not_null = not_null);
        Ok(())
    }

    fn create_index(
        &mut self,
        table: u32,
        name: &str,
        columns: &[usize],
        unique: bool,
        if_not_exists: bool,
    ) -> Result<()> {
        let mut state = self.engine.lock();
        if state.store.index_named(name).is_some() {
            drop(state);
            let message = format!("relation \"{name}\" already exists");
            if !if_not_exists {
                return Err(PgError::new("42P07", message));
            }
            self.notice("42P07", message + ", skipping");
            return Ok(());
        }
        let (snapshot, own) = (state.store.committed(), self.xact.own());
        let store = &mut state.store;
        let found = store.tables.get_mut(&table).expect("it is locked");
        found.indexes.push(Index::new(name.to_owned(), columns.to_vec(), unique, false));
        let index = found.indexes.len() - 1;
        let xacts = &store.xacts;
        let tids: Vec<_> = found.versions.keys().copied().collect();
        let mut twice = None;
        for tid in tids {
            let version = &found.versions[&tid];
            let ours = own.contains(&version.made.0) && version.ended.is_none();
            let counts = ours || snapshot.visible(xacts, version);
            let key = found.key(index, &version.row);
            let alive = |other: &u64| {
                let other = &found.versions[other];
                snapshot.visible(xacts, other)
                    || (own.contains(&other.made.0) && other.ended.is_none())
            };
            let taken = found.indexes[index].at(&key).iter().any(alive);
            if unique && counts && taken && !key.iter().any(Cell::is_null) {
                twice = Some(key);
                break;
            }
            found.enter(index, tid);
        }
        if let Some(key) = twice {
            let index = found.indexes.pop().expect("it was pushed above");
            let shown = index.shown(found, &key);
            return Err(PgError::new("23505", format!("could not create unique index \"{name}\""))
                .detail(format!("Key {shown} is duplicated."))
                .table(&found.name)
                .constraint(name));
        }
        store.shape += 1;
        drop(state);
        self.xact.undo(Some(Undo::Index { table, name: name.to_owned() }));
        Ok(())
    }

    fn drop_index(&mut self, name: &str, if_exists: bool) -> Result<()> {
        let mut state = self.engine.lock();
        let found = state
            .store
            .tables
            .values_mut()
            .find(|table| table.indexes.iter().any(|index| index.name == name));
        match found {
            Some(table)
                if table.indexes.iter().any(|i| i.name == name && !i.primary && !i.unique) =>
            {
                // An index that makes nothing unique may go at once: no answer depends on it.
                table.indexes.retain(|index| index.name != name);
                state.store.shape += 1;
                Ok(())
            }
            Some(_) => Err(PgError::unsupported("dropping a unique index")),
            None if if_exists => {
                drop(state);
                self.notice("00000", format!("index \"{name}\" does not exist, skipping"));
                Ok(())
            }
            None => Err(PgError::new("42704", format!("index \"{name}\" does not exist"))),
        }
    }

    /// As a DELETE of everything: nobody else is at the table, so nobody can tell.
    fn truncate(&mut self, run: &mut Run, table: u32) {
        let xid = self.run_xid(run);
        let mut state = self.engine.lock();
        let store = &mut state.store;
        let found = store.tables.get_mut(&table).expect("it is locked");
        for version in found.versions.values_mut() {
            if version.ended.is_none_or(|(ended, _)| store.xacts.is_aborted(ended)) {
                version.ended = Some((xid, run.command));
                found.garbage += 1;
            }
        }
    }
}
