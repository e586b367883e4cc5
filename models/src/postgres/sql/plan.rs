//! What a statement comes to: its plan, with every name and type resolved.

use super::{Aggregate, Expr, Function};
use crate::postgres::locks::Mode;
use crate::postgres::store;
use crate::postgres::types::Type;

/// A statement that can be executed, as long as the shape of the tables stays what it was.
#[derive(Debug)]
pub struct Plan {
    /// The WITH in front of it, in this order.
    pub with: Vec<Before>,
    pub action: Action,
    /// The columns that it returns; `None` for a statement without a result.
    pub fields: Option<Vec<Field>>,
    pub params: Vec<Type>,
    /// The tables it touches, and how strongly it locks each.
    pub tables: Vec<(u32, Mode)>,
    pub shape: u64,
}

/// One part of a WITH in front of a statement.
#[derive(Debug)]
pub enum Before {
    Query(Query),
    /// Changes a table; what it returns is known by this id. All parts see the tables as they were
    /// before the statement.
    Change(usize, Action),
}

/// A column of a result.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    pub name: String,
    pub ty: Type,
    /// The table and the column (from 1) that it shows as they are; 0 otherwise.
    pub origin: (u32, i16),
}

#[derive(Debug)]
pub enum Action {
    Query(Query),
    Insert(Box<Insert>),
    Update(Box<Update>),
    Delete(Box<Delete>),
    Define(Definition),
    /// A statement that changes only the session or its transaction.
    Session(SessionAction),
}

#[derive(Debug, Clone, PartialEq)]
pub enum SessionAction {
    /// Whether it says so as START TRANSACTION.
    Begin {
        start: bool,
    },
    Commit,
    Rollback,
    Savepoint(String),
    RollbackTo(String),
    Release(String),
    /// `None` is the default.
    Set {
        name: String,
        value: Option<String>,
        local: bool,
    },
    Reset(String),
    ResetAll,
    Show(String),
    DiscardAll,
    /// `None` is all of them.
    Deallocate(Option<String>),
    /// The locks are those of the plan.
    LockTable,
}

#[derive(Debug, Clone)]
pub enum Definition {
    CreateTable {
        name: String,
        if_not_exists: bool,
        columns: Vec<store::Column>,
        /// Name, columns, primary.
        keys: Vec<(String, Vec<usize>, bool)>,
    },
    DropTables {
        names: Vec<String>,
        if_exists: bool,
    },
    AddColumn {
        table: u32,
        column: store::Column,
        if_not_exists: bool,
    },
    SetNotNull {
        table: u32,
        column: usize,
        not_null: bool,
    },
    SetDefault {
        table: u32,
        column: usize,
        default: store::Default,
    },
    CreateIndex {
        table: u32,
        name: String,
        columns: Vec<usize>,
        unique: bool,
        if_not_exists: bool,
    },
    DropIndex {
        name: String,
        if_exists: bool,
    },
    Truncate {
        tables: Vec<u32>,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// Which query of the statement it is: the place of its memorised result.
    pub id: usize,
    pub with: Vec<Query>,
    pub body: Body,
    /// For SELECT over its rows, otherwise over the result.
    pub order: Vec<Sort>,
    pub limit: Option<Expr>,
    pub offset: Option<Expr>,
    pub lock: Option<RowLock>,
    /// Does it look at rows of a query around it?
    pub correlated: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    Select(Box<Select>),
    Values(Vec<Vec<Expr>>),
    Union { left: Box<Query>, right: Box<Query>, all: bool },
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Select {
    pub from: Vec<From>,
    /// Conditions that look at no row of FROM.
    pub filter: Vec<Expr>,
    pub group: Option<Group>,
    pub output: Vec<Expr>,
    pub distinct: bool,
}

/// One item of FROM, joined to those before it.
#[derive(Debug, Clone, PartialEq)]
pub struct From {
    pub source: Source,
    /// The conditions of a LEFT JOIN; `None` for an inner one, whose conditions are filters.
    pub left: Option<Vec<Expr>>,
    /// Conditions that can be judged once this item's row is there.
    pub filter: Vec<Expr>,
    pub width: usize,
    /// The index to look in, and the beginning of its key.
    pub probe: Option<(usize, Vec<Expr>)>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    Table(u32),
    /// A query of this FROM, or one of WITH, by its id.
    Query(Box<Query>),
    With(usize),
    Unnest(Vec<Expr>),
    JsonEach {
        json: Expr,
        as_text: bool,
    },
    JsonElements {
        json: Expr,
        as_text: bool,
    },
    JsonKeys(Expr),
    Series(Expr, Expr),
    /// `pg_index`: the indexes, under their names. None is ever invalid here, as they are built at
    /// once.
    Indexes,
    /// A function that gives one row.
    Call(Function, Vec<Expr>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    pub keys: Vec<Expr>,
    pub aggregates: Vec<Aggregate>,
    pub having: Option<Expr>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Sort {
    pub key: Expr,
    pub descending: bool,
    pub nulls_first: bool,
}

/// `FOR UPDATE`, of one item of FROM or of all its tables.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowLock {
    pub item: Option<usize>,
    pub wait: WaitPolicy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitPolicy {
    Block,
    Error,
    Skip,
}

#[derive(Debug)]
pub struct Insert {
    pub table: u32,
    /// The columns that the source's columns go to.
    pub columns: Vec<usize>,
    pub source: InsertSource,
    pub conflict: Option<Conflict>,
    pub returning: Vec<Expr>,
}

/// Where the rows come from.
#[derive(Debug)]
pub enum InsertSource {
    Query(Query),
    /// As they stand, where `None` is DEFAULT.
    Values(Vec<Vec<Option<Expr>>>),
    /// One row of DEFAULT VALUES.
    Defaults,
}

/// ON CONFLICT.
#[derive(Debug)]
pub struct Conflict {
    /// The index that decides; `None` is any.
    pub index: Option<usize>,
    /// `None` is DO NOTHING.
    pub update: Option<ConflictUpdate>,
}

/// DO UPDATE. Expressions see the stored row as item 0 and EXCLUDED as item 1.
#[derive(Debug)]
pub struct ConflictUpdate {
    pub assignments: Vec<Assignment>,
    pub condition: Vec<Expr>,
}

/// A column and its new value; `None` is DEFAULT.
pub type Assignment = (usize, Option<Expr>);

/// Item 0 of the source is the table.
#[derive(Debug)]
pub struct Update {
    pub table: u32,
    pub source: Query,
    pub assignments: Vec<Assignment>,
    pub returning: Vec<Expr>,
}

#[derive(Debug)]
pub struct Delete {
    pub table: u32,
    pub source: Query,
    pub returning: Vec<Expr>,
}

impl Query {
    /// Every expression of the query, and how many queries further in it stands than the query's
    /// own rows do.
    pub fn expressions<'a>(&'a self, see: &mut dyn FnMut(&'a Expr, usize)) {
        let inside = |query: &'a Query, see: &mut dyn FnMut(&'a Expr, usize)| {
            query.expressions(&mut |expr, depth| see(expr, depth + 1));
        };
        self.with.iter().for_each(|query| inside(query, see));
        self.order.iter().for_each(|sort| see(&sort.key, 1));
        self.limit.iter().chain(&self.offset).for_each(|expr| see(expr, 1));
        match &self.body {
            Body::Values(rows) => rows.iter().flatten().for_each(|expr| see(expr, 1)),
            Body::Union { left, right, .. } => {
                inside(left, see);
                inside(right, see);
            }
            Body::Select(select) => select.expressions(see),
        }
    }

    pub fn one_row(id: usize, output: Vec<Expr>) -> Query {
        let select = Select { output, ..Select::default() };
        Query {
            id,
            with: Vec::new(),
            body: Body::Select(Box::new(select)),
            order: Vec::new(),
            limit: None,
            offset: None,
            lock: None,
            correlated: false,
        }
    }
}

impl Select {
    fn expressions<'a>(&'a self, see: &mut dyn FnMut(&'a Expr, usize)) {
        for from in &self.from {
            let probe = from.probe.iter().flat_map(|(_, keys)| keys);
            let conditions = from.left.iter().flatten().chain(&from.filter).chain(probe);
            conditions.for_each(|expr| see(expr, 1));
            match &from.source {
                Source::Table(_) | Source::With(_) | Source::Indexes => {}
                Source::Query(query) => {
                    query.expressions(&mut |expr, depth| see(expr, depth + 1));
                }
                Source::Unnest(all) | Source::Call(_, all) => {
                    all.iter().for_each(|expr| see(expr, 1));
                }
                Source::JsonEach { json, .. } | Source::JsonElements { json, .. } => see(json, 1),
                Source::JsonKeys(json) => see(json, 1),
                Source::Series(from, to) => {
                    see(from, 1);
                    see(to, 1);
                }
            }
        }
        self.filter.iter().chain(&self.output).for_each(|expr| see(expr, 1));
        if let Some(group) = &self.group {
            group.keys.iter().chain(&group.having).for_each(|expr| see(expr, 1));
            for aggregate in &group.aggregates {
                let sorts = aggregate.order.iter().map(|sort| &sort.key);
                let parts = aggregate.argument.iter().chain(&aggregate.filter).chain(sorts);
                parts.for_each(|expr| see(expr, 1));
            }
        }
    }
}
