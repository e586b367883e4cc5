//! Binding CREATE, ALTER, DROP and TRUNCATE.

use sqlparser::ast::{
    self, AlterColumnOperation, AlterTableOperation, ColumnDef, ColumnOption, DataType,
    Expr as Ast, GeneratedAs, IndexColumn, NullsDistinctOption, ObjectType, Statement,
    TableConstraint,
};

use super::coerce::Context;
use super::{Binder, names};
use crate::postgres::error::{PgError, Result};
use crate::postgres::locks::Mode;
use crate::postgres::sql::{Action, Definition, Expr, Function, SessionAction};
use crate::postgres::store::{Column, Default};
use crate::postgres::types::{Cell, Type};

/// A primary key or a unique constraint: its name, if it was given one, its columns, and which.
type Key = (Option<String>, Vec<String>, bool);

impl Binder<'_> {
    pub(super) fn define(&mut self, statement: &Statement) -> Result<Action> {
        let definition = match statement {
            Statement::CreateTable(create) => self.create_table(create)?,
            Statement::AlterTable(alter) => self.alter_table(alter)?,
            Statement::CreateIndex(create) => self.create_index(create)?,
            Statement::Drop { object_type, if_exists, names: all, .. } => {
                let all = all.iter().map(names::object).collect::<Result<Vec<_>>>()?;
                let if_exists = *if_exists;
                match (object_type, &all[..]) {
                    (ObjectType::Table, _) => {
                        for name in &all {
                            if self.store.find(name, self.own).is_some() {
                                self.table(name, Mode::AccessExclusive)?;
                            }
                        }
                        Definition::DropTables { names: all, if_exists }
                    }
                    (ObjectType::Index, [name]) => {
                        Definition::DropIndex { name: name.clone(), if_exists }
                    }
                    _ => {
                        return Err(PgError::unsupported(format_args!(
                            "the statement {statement}"
                        )));
                    }
                }
            }
            Statement::Truncate(truncate) => {
                let all = truncate.table_names.iter().map(|target| names::object(&target.name));
                let all = all.collect::<Result<Vec<_>>>()?;
                let oids = all.iter().map(|name| self.table(name, Mode::AccessExclusive));
                Definition::Truncate {
                    tables: oids.map(|t| t.map(|t| t.oid)).collect::<Result<_>>()?,
                }
            }
            Statement::Lock(lock) => {
                let mode = match &lock.lock_mode {
                    None => Mode::AccessExclusive,
                    Some(mode) => mode_of(&mode.to_string())?,
                };
                if lock.nowait {
                    return Err(PgError::unsupported("LOCK TABLE NOWAIT"));
                }
                for table in &lock.tables {
                    self.table(&names::object(&table.name)?, mode)?;
                }
                return Ok(Action::Session(SessionAction::LockTable));
            }
            other => return Err(PgError::unsupported(format_args!("the statement {other}"))),
        };
        Ok(Action::Define(definition))
    }

    fn create_table(&mut self, create: &ast::CreateTable) -> Result<Definition> {
        let plain = !create.or_replace
            && !create.temporary
            && create.query.is_none()
            && create.like.is_none()
            && create.inherits.is_none()
            && create.partition_by.is_none()
            && create.partition_of.is_none()
            && create.on_commit.is_none();
        if !plain {
            return Err(PgError::unsupported(format_args!("the statement {create}")));
        }
        let name = names::object(&create.name)?;
        let mut columns: Vec<Column> = Vec::new();
        let mut keys: Vec<Key> = Vec::new();
        for definition in &create.columns {
            let column = self.column_definition(definition, &mut keys)?;
            if columns.iter().any(|known| known.name == column.name) {
                let message = format!("column \"{}\" specified more than once", column.name);
                return Err(PgError::new("42701", message));
            }
            columns.push(column);
        }
        for constraint in &create.constraints {
            keys.push(key_of(constraint)?);
        }
        // The server makes the primary key's index first.
        keys.sort_by_key(|(_, _, primary)| !*primary);
        if keys.iter().filter(|(_, _, primary)| *primary).count() > 1 {
            let message = format!("multiple primary keys for table \"{name}\" are not allowed");
            return Err(PgError::new("42P16", message));
        }
        let mut made: Vec<(String, Vec<usize>, bool)> = Vec::new();
        for (given, of, primary) in keys {
            let find = |wanted: &String| {
                let found = columns.iter().position(|column| column.name == *wanted);
                let message = || format!("column \"{wanted}\" named in key does not exist");
                found.ok_or_else(|| PgError::new("42703", message()))
            };
            let places = of.iter().map(find).collect::<Result<Vec<_>>>()?;
            if primary {
                places.iter().for_each(|place| columns[*place].not_null = true);
            }
            let usual = match primary {
                true => format!("{name}_pkey"),
                false => format!("{name}_{}_key", of.join("_")),
            };
            made.push((given.unwrap_or(usual), places, primary));
        }
        let if_not_exists = create.if_not_exists;
        Ok(Definition::CreateTable { name, if_not_exists, columns, keys: made })
    }

    fn column_definition(&mut self, ast: &ColumnDef, keys: &mut Vec<Key>) -> Result<Column> {
        let name = names::ident(&ast.name);
        let serial = match &ast.data_type {
            DataType::Custom(name, _) => match &names::object(name)?[..] {
                "serial" | "serial4" => Some(Type::INT4),
                "bigserial" | "serial8" => Some(Type::INT8),
                _ => None,
            },
            _ => None,
        };
        let ty = match serial {
            Some(ty) => ty,
            None => names::data_type(&ast.data_type)?,
        };
        let default =
            if serial.is_some() { Default::Sequence } else { Default::Constant(Cell::Null) };
        let not_null = serial.is_some();
        let mut column = Column { name, ty, not_null, default, missing: Cell::Null };
        for option in &ast.options {
            let given = option.name.as_ref().map(names::ident);
            match &option.option {
                ColumnOption::Null => {}
                ColumnOption::NotNull => column.not_null = true,
                ColumnOption::Default(expr) => column.default = self.default_of(expr, &column)?,
                ColumnOption::PrimaryKey(_) => keys.push((given, vec![column.name.clone()], true)),
                ColumnOption::Unique(_) => keys.push((given, vec![column.name.clone()], false)),
                ColumnOption::Generated {
                    generated_as: GeneratedAs::Always | GeneratedAs::ByDefault,
                    generation_expr: None,
                    ..
                } => {
                    column.default = Default::Sequence;
                    column.not_null = true;
                }
                other => {
                    return Err(PgError::unsupported(format_args!("the column option {other}")));
                }
            }
        }
        if let Default::Constant(cell) = &column.default {
            column.missing = cell.clone();
        }
        Ok(column)
    }

    fn default_of(&mut self, ast: &Ast, column: &Column) -> Result<Default> {
        let (expr, ty) = self.constant(ast)?;
        let coerced = self.coerced(expr, ty, column.ty, Context::Assignment)?;
        let refused = || {
            let (name, wanted, ty) = (&column.name, column.ty.name(), ty.name());
            let message = format!(
                "column \"{name}\" is of type {wanted} but default expression is of type {ty}"
            );
            PgError::new("42804", message)
        };
        match coerced.ok_or_else(refused)? {
            Expr::Const(cell) => Ok(Default::Constant(cell)),
            Expr::Call(Function::Now, _) => Ok(Default::Now),
            Expr::Call(Function::ClockTimestamp, _) => Ok(Default::ClockTimestamp),
            _ => Err(PgError::unsupported(format_args!("the default {ast}"))),
        }
    }

    fn alter_table(&mut self, alter: &ast::AlterTable) -> Result<Definition> {
        let [operation] = &alter.operations[..] else {
            return Err(PgError::unsupported("several actions in one ALTER TABLE"));
        };
        if alter.if_exists {
            return Err(PgError::unsupported("ALTER TABLE IF EXISTS"));
        }
        let table = self.table(&names::object(&alter.name)?, Mode::AccessExclusive)?;
        let oid = table.oid;
        match operation {
            AlterTableOperation::AddColumn {
                if_not_exists,
                column_def,
                column_position: None,
                ..
            } => {
                let mut keys = Vec::new();
                let column = self.column_definition(column_def, &mut keys)?;
                let constant = matches!(column.default, Default::Constant(_));
                if !keys.is_empty() || !constant {
                    return Err(PgError::unsupported(format_args!("the statement {alter}")));
                }
                Ok(Definition::AddColumn { table: oid, column, if_not_exists: *if_not_exists })
            }
            AlterTableOperation::AlterColumn { column_name, op } => {
                let name = names::ident(column_name);
                let column = table.column(&name).ok_or_else(|| {
                    let table = &table.name;
                    let message =
                        format!("column \"{name}\" of relation \"{table}\" does not exist");
                    PgError::new("42703", message)
                })?;
                let table = oid;
                match op {
                    AlterColumnOperation::SetNotNull => {
                        Ok(Definition::SetNotNull { table, column, not_null: true })
                    }
                    AlterColumnOperation::DropNotNull => {
                        Ok(Definition::SetNotNull { table, column, not_null: false })
                    }
                    AlterColumnOperation::SetDefault { value } => {
                        let of = &self.store.table(table).columns[column];
                        let default = self.default_of(value, of)?;
                        Ok(Definition::SetDefault { table, column, default })
                    }
                    AlterColumnOperation::DropDefault => {
                        let default = Default::Constant(Cell::Null);
                        Ok(Definition::SetDefault { table, column, default })
                    }
                    other => Err(PgError::unsupported(format_args!("ALTER COLUMN {other}"))),
                }
            }
            other => Err(PgError::unsupported(format_args!("ALTER TABLE {other}"))),
        }
    }

    fn create_index(&mut self, create: &ast::CreateIndex) -> Result<Definition> {
        let plain = create.include.is_empty()
            && create.nulls_distinct.is_none()
            && create.with.is_empty()
            && create.index_options.is_empty();
        let partial = create.predicate.is_some() && create.unique;
        if !plain || partial {
            return Err(PgError::unsupported(format_args!("the statement {create}")));
        }
        let mode = match create.concurrently {
            true => Mode::ShareUpdateExclusive,
            false => Mode::Share,
        };
        let table = self.table(&names::object(&create.table_name)?, mode)?;
        let (mut columns, mut called) = (Vec::new(), Vec::new());
        for column in &create.columns {
            match &column.column.expr {
                Ast::Identifier(name) => {
                    let name = names::ident(name);
                    let message = || format!("column \"{name}\" does not exist");
                    let found = table.column(&name);
                    columns.push(found.ok_or_else(|| PgError::new("42703", message()))?);
                    called.push(name);
                }
                // An index that makes nothing unique changes no answer, whatever it is over.
                _ if !create.unique => called.push("expr".to_owned()),
                other => {
                    return Err(PgError::unsupported(format_args!("a unique index over {other}")));
                }
            }
        }
        let exact = columns.len() == create.columns.len() && create.predicate.is_none();
        let name = match &create.name {
            Some(name) => names::object(name)?,
            None => format!("{}_{}_idx", table.name, called.join("_")),
        };
        Ok(Definition::CreateIndex {
            table: table.oid,
            name,
            // One that does not hold every row by its columns is a name only.
            columns: if exact { columns } else { Vec::new() },
            unique: create.unique,
            if_not_exists: create.if_not_exists,
        })
    }
}

fn key_of(constraint: &TableConstraint) -> Result<Key> {
    let columns = |all: &[IndexColumn]| {
        let name = |column: &IndexColumn| match &column.column.expr {
            Ast::Identifier(name) => Ok(names::ident(name)),
            other => Err(PgError::unsupported(format_args!("a key over {other}"))),
        };
        all.iter().map(name).collect::<Result<Vec<_>>>()
    };
    match constraint {
        TableConstraint::PrimaryKey(key) => {
            Ok((key.name.as_ref().map(names::ident), columns(&key.columns)?, true))
        }
        TableConstraint::Unique(key) if key.nulls_distinct == NullsDistinctOption::None => {
            Ok((key.name.as_ref().map(names::ident), columns(&key.columns)?, false))
        }
        other => Err(PgError::unsupported(format_args!("the constraint {other}"))),
    }
}

fn mode_of(name: &str) -> Result<Mode> {
    Ok(match &name.to_uppercase()[..] {
        "ACCESS SHARE" => Mode::AccessShare,
        "ROW SHARE" => Mode::RowShare,
        "ROW EXCLUSIVE" => Mode::RowExclusive,
        "SHARE UPDATE EXCLUSIVE" => Mode::ShareUpdateExclusive,
        "SHARE" => Mode::Share,
        "SHARE ROW EXCLUSIVE" => Mode::ShareRowExclusive,
        "EXCLUSIVE" => Mode::Exclusive,
        "ACCESS EXCLUSIVE" => Mode::AccessExclusive,
        other => return Err(PgError::unsupported(format_args!("the lock mode {other}"))),
    })
}
