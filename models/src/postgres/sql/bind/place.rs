//! Where conditions are judged: as soon as the rows that they look at are there, by an index if one
//! begins with what they fix.

use crate::postgres::sql::{Comparison, Expr, From, Source};
use crate::postgres::store::Store;

/// Hangs each condition on the last item that it looks at, and chooses indexes. What looks at no
/// item is given back.
pub(super) fn conditions(store: &Store, from: &mut [From], all: Vec<Expr>) -> Vec<Expr> {
    let mut of_none = Vec::new();
    for condition in all {
        match last_item(&condition) {
            None => of_none.push(condition),
            Some(item) => from[item].filter.push(condition),
        }
    }
    for (at, from) in from.iter_mut().enumerate() {
        if let Source::Table(oid) = from.source {
            from.probe = probe(store, oid, at, from);
        }
    }
    of_none
}

fn last_item(expr: &Expr) -> Option<usize> {
    let mut last = None;
    expr.columns(0, &mut |of| {
        if of.up == 0 {
            last = last.max(Some(of.item));
        }
    });
    last
}

/// The index of which most columns are fixed from its beginning on.
fn probe(store: &Store, oid: u32, at: usize, from: &From) -> Option<(usize, Vec<Expr>)> {
    // The rows that a LEFT JOIN matches are found by its own conditions only.
    let conditions = from.left.as_ref().unwrap_or(&from.filter);
    let fixed: Vec<(usize, &Expr)> =
        conditions.iter().filter_map(|condition| fixes(condition, at)).collect();
    let indexes = store.table(oid).indexes.iter().enumerate();
    let keys = indexes.map(|(index, of)| {
        let columns = of.columns.iter();
        let key = columns.map_while(|column| {
            fixed.iter().find(|(known, _)| known == column).map(|(_, expr)| (*expr).clone())
        });
        (index, key.collect::<Vec<Expr>>())
    });
    keys.filter(|(_, key)| !key.is_empty())
        .max_by_key(|(index, key)| (key.len(), usize::MAX - index))
}

/// The column of this item that the condition makes equal to what is known before.
fn fixes(condition: &Expr, at: usize) -> Option<(usize, &Expr)> {
    let Expr::Compare(Comparison::Equal, left, right) = condition else { return None };
    let pair = |column: &Expr, known: &'_ Expr| match column {
        Expr::Column(of) if of.up == 0 && of.item == at => {
            last_item(known).is_none_or(|item| item < at).then_some(of.column)
        }
        _ => None,
    };
    // A query would be run for each row anyway, and may wait for locks: leave it where it is.
    if contains_query(left) || contains_query(right) {
        return None;
    }
    match pair(left, right) {
        Some(column) => Some((column, right)),
        None => pair(right, left).map(|column| (column, &**left)),
    }
}

fn contains_query(expr: &Expr) -> bool {
    let mut found = expr.is_query();
    expr.children(&mut |child| found |= contains_query(child));
    found
}
