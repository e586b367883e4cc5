//! The extended protocol: Parse, Bind, Describe, Execute, Close, Sync.
//!
//! Messages up to a Sync are one transaction unless they say otherwise. After an error everything is
//! skipped until the next Sync, which the caller does.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Session;
use super::xact::Block;
use crate::postgres::error::{PgError, Result};
use crate::postgres::sql::{Parsed, Plan, parse};
use crate::postgres::types::{Cell, Row, Type, from_binary, from_text, utf8};
use crate::postgres::wire::{Bind, Out, Target};

/// A prepared statement.
pub struct Prepared {
    /// No statement at all, or one.
    parsed: Parsed,
    params: Vec<Type>,
    plan: Option<Arc<Plan>>,
}

/// A statement with its parameters, ready to be executed or on its way.
pub struct Portal {
    prepared: Arc<Prepared>,
    params: Vec<Cell>,
    formats: Vec<i16>,
    /// The rows that have not been sent, once it was executed.
    rows: Option<VecDeque<Row>>,
    tag: String,
}

impl Session {
    pub(super) async fn parse(&mut self, name: &str, text: &str, oids: &[u32]) -> Result<()> {
        if name.is_empty() {
            self.prepared.remove("");
        }
        let parsed = parse(text)?;
        if parsed.len() > 1 {
            let message = "cannot insert multiple commands into a prepared statement";
            return Err(PgError::new("42601", message));
        }
        let declared = oids.iter().map(|oid| {
            Type::from_oid(*oid)
                .ok_or_else(|| PgError::unsupported(format_args!("parameters of type {oid}")))
        });
        let declared = declared.collect::<Result<Vec<_>>>()?;
        let (params, plan) = match parsed.first() {
            None => (declared, None),
            Some(statement) => {
                self.refuse_if_failed(statement)?;
                self.ensure_xact();
                let plan = self.planned(statement, Some(&declared), None).await?;
                (plan.params.clone(), Some(plan))
            }
        };
        // The server finds this only when it has understood the statement.
        if !name.is_empty() && self.prepared.contains_key(name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(PgError::new("42P05", message));
        }
        let prepared = Prepared { parsed, params, plan };
        self.prepared.insert(name.to_owned(), Arc::new(prepared));
        Ok(())
    }

    pub(super) fn bind(&mut self, bind: Bind<'_>) -> Result<()> {
        let prepared = self.prepared_statement(bind.statement)?;
        if let Some(statement) = prepared.parsed.first() {
            self.refuse_if_failed(statement)?;
        }
        if bind.params.len() != prepared.params.len() {
            let (given, wanted) = (bind.params.len(), prepared.params.len());
            let name = bind.statement;
            let message = format!(
                "bind message supplies {given} parameters, but prepared statement \"{name}\" \
                 requires {wanted}"
            );
            return Err(PgError::new("08P01", message));
        }
        let mut params = Vec::new();
        for (at, (value, ty)) in bind.params.iter().zip(&prepared.params).enumerate() {
            params.push(match (value, format_at(&bind.param_formats, at)) {
                (None, _) => Cell::Null,
                (Some(bytes), 0) => from_text(*ty, utf8(bytes)?)?,
                (Some(bytes), 1) => from_binary(*ty, bytes)?,
                (_, other) => {
                    return Err(PgError::new("22023", format!("unsupported format code: {other}")));
                }
            });
        }
        if !bind.portal.is_empty() && self.portals.contains_key(bind.portal) {
            let message = format!("cursor \"{}\" already exists", bind.portal);
            return Err(PgError::new("42P03", message));
        }
        self.ensure_xact();
        let formats = bind.result_formats;
        let portal = Portal { prepared, params, formats, rows: None, tag: String::new() };
        self.portals.insert(bind.portal.to_owned(), portal);
        Ok(())
    }

    fn prepared_statement(&self, name: &str) -> Result<Arc<Prepared>> {
        let message = || match name {
            "" => "unnamed prepared statement does not exist".to_owned(),
            name => format!("prepared statement \"{name}\" does not exist"),
        };
        self.prepared.get(name).cloned().ok_or_else(|| PgError::new("26000", message()))
    }

    pub(super) fn describe(&mut self, target: Target, name: &str, out: &mut Out) -> Result<()> {
        let (prepared, formats) = match target {
            Target::Statement => {
                let prepared = self.prepared_statement(name)?;
                out.parameter_description(&prepared.params);
                (prepared, Vec::new())
            }
            Target::Portal => {
                let portal = self.portal(name)?;
                (portal.prepared.clone(), portal.formats.clone())
            }
        };
        match prepared.plan.as_ref().and_then(|plan| plan.fields.as_ref()) {
            Some(fields) => out.row_description(fields, &formats),
            None => out.no_data(),
        }
        Ok(())
    }

    fn portal(&mut self, name: &str) -> Result<&mut Portal> {
        let missing = || PgError::new("34000", format!("portal \"{name}\" does not exist"));
        self.portals.get_mut(name).ok_or_else(missing)
    }

    pub(super) fn close(&mut self, target: Target, name: &str) {
        match target {
            Target::Statement => drop(self.prepared.remove(name)),
            Target::Portal => drop(self.portals.remove(name)),
        }
    }

    /// At most `limit` rows; 0 is all.
    pub(super) async fn run_portal(
        &mut self,
        name: &str,
        limit: usize,
        out: &mut Out,
    ) -> Result<()> {
        let portal = self.portal(name)?;
        let (prepared, formats) = (portal.prepared.clone(), portal.formats.clone());
        let Some(statement) = prepared.parsed.first() else {
            out.empty_query();
            return Ok(());
        };
        if portal.rows.is_none() {
            let params = portal.params.clone();
            let declared = Some(&prepared.params[..]);
            let outcome = self.execute(statement, declared, prepared.plan.clone(), params).await;
            self.tell_notices(out);
            let outcome = outcome?;
            let planned = prepared.plan.as_ref().and_then(|plan| plan.fields.as_ref());
            let types = |fields: &[crate::postgres::sql::Field]| {
                fields.iter().map(|field| field.ty).collect::<Vec<_>>()
            };
            if outcome.fields.as_deref().map(types) != planned.map(|fields| types(fields)) {
                return Err(PgError::new("0A000", "cached plan must not change result type"));
            }
            let rows = VecDeque::from(outcome.rows);
            // COMMIT and ROLLBACK take all portals with them, this one included.
            match self.portals.get_mut(name) {
                Some(portal) => {
                    portal.rows = Some(rows);
                    portal.tag = outcome.tag;
                }
                None => {
                    out.command_complete(&outcome.tag);
                    return Ok(());
                }
            }
        }
        let portal = self.portal(name)?;
        let rows = portal.rows.as_mut().expect("it was executed above");
        let most = if limit == 0 { rows.len() } else { limit };
        let sent = rows.drain(..most.min(rows.len())).collect::<Vec<_>>();
        sent.iter().for_each(|row| out.data_row(row, &formats));
        if sent.len() == limit && limit > 0 {
            // Whether there are more shows only when they are asked for.
            out.portal_suspended();
        } else if portal.tag.starts_with("SELECT") {
            // Each Execute counts its own.
            out.command_complete(&format!("SELECT {}", sent.len()));
        } else {
            out.command_complete(&portal.tag);
        }
        Ok(())
    }

    /// Ends the pipeline's transaction.
    pub(super) async fn sync(&mut self, out: &mut Out) {
        if self.xact.block == Block::Implicit {
            self.commit().await;
        }
        out.ready(self.status());
    }
}

/// None given: text; one: that for all.
pub fn format_at(formats: &[i16], at: usize) -> i16 {
    match formats {
        [] => 0,
        [one] => *one,
        all => all.get(at).copied().unwrap_or(0),
    }
}
