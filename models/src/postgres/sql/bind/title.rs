//! What the server calls a column that has no alias.

use sqlparser::ast::{Expr as Ast, Query, SelectItem, SetExpr};

use super::names;

/// The name, or `?column?`.
pub(super) fn column_name(ast: &Ast) -> String {
    match title(ast) {
        Title::Good(name) | Title::Poor(name) => name,
        Title::None => "?column?".to_owned(),
    }
}

/// How much a name says: that of a column or function stays in front of a cast, that of a type does
/// not.
enum Title {
    Good(String),
    Poor(String),
    None,
}

fn title(ast: &Ast) -> Title {
    let good = |name: &str| Title::Good(name.to_owned());
    match ast {
        Ast::Identifier(name) => Title::Good(names::ident(name)),
        Ast::CompoundIdentifier(path) => {
            path.last().map_or(Title::None, |name| Title::Good(names::ident(name)))
        }
        Ast::Nested(inner) => title(inner),
        Ast::CompoundFieldAccess { root, .. } => title(root),
        Ast::Collate { expr, .. } => title(expr),
        Ast::Function(function) => function
            .name
            .0
            .last()
            .map_or(Title::None, |name| Title::Good(name.to_string().to_lowercase())),
        Ast::Cast { expr, data_type, .. } => match title(expr) {
            Title::Good(name) => Title::Good(name),
            _ => of_type(data_type),
        },
        Ast::TypedString(typed) => of_type(&typed.data_type),
        Ast::Interval(_) => Title::Poor("interval".to_owned()),
        Ast::Case { else_result, .. } => match else_result.as_deref().map(title) {
            Some(Title::Good(name)) => Title::Good(name),
            _ => Title::Poor("case".to_owned()),
        },
        Ast::Array(_) => good("array"),
        Ast::Exists { .. } => good("exists"),
        Ast::Extract { .. } => good("extract"),
        Ast::Substring { shorthand: true, .. } => good("substr"),
        Ast::Substring { .. } => good("substring"),
        Ast::Subquery(query) => of_query(query),
        _ => Title::None,
    }
}

fn of_type(ty: &sqlparser::ast::DataType) -> Title {
    names::data_type(ty).map_or(Title::None, |ty| Title::Poor(ty.short_name().to_owned()))
}

/// A subquery is called like its only column.
fn of_query(query: &Query) -> Title {
    let SetExpr::Select(select) = &*query.body else { return Title::None };
    match select.projection.first() {
        Some(SelectItem::UnnamedExpr(expr)) => title(expr),
        Some(SelectItem::ExprWithAlias { alias, .. }) => Title::Good(names::ident(alias)),
        _ => Title::None,
    }
}
