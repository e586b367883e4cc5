//! The simple protocol: a text of statements, all in one transaction unless they say otherwise.

use super::Session;
use super::xact::Block;
use crate::postgres::error::{PgError, Result};
use crate::postgres::sql::{parse, parse_once};
use crate::postgres::types::utf8;
use crate::postgres::wire::Out;

impl Session {
    /// Answers a Query, ReadyForQuery included.
    ///
    /// # Errors
    /// Only those that end the connection.
    pub(super) async fn simple_query(&mut self, text: &[u8], out: &mut Out) -> Result<()> {
        self.prepared.remove("");
        let result = self.statements(text, out).await;
        self.several = false;
        match result {
            Ok(()) => {
                if self.xact.block == Block::Implicit {
                    self.commit().await;
                }
            }
            Err(error) if error.is_fatal() => return Err(error),
            Err(error) => {
                self.fail();
                self.tell_notices(out);
                out.error(&error);
            }
        }
        out.ready(self.status());
        Ok(())
    }

    async fn statements(&mut self, text: &[u8], out: &mut Out) -> Result<()> {
        let text = utf8(text)?;
        let parsed = if text.contains('\'') { parse_once(text)? } else { parse(text)? };
        if parsed.is_empty() {
            out.empty_query();
        }
        self.several = parsed.len() > 1;
        for (at, statement) in parsed.iter().enumerate() {
            let result = self.execute(statement, None, None, Vec::new()).await;
            // A query's fields are told before it runs, and so before what goes wrong in it; those of
            // a change only when it is done.
            let announced = self.announced.take();
            announced.iter().for_each(|fields| out.row_description(fields, &[]));
            self.tell_notices(out);
            let outcome = result?;
            if let (Some(fields), None) = (&outcome.fields, &announced) {
                out.row_description(fields, &[]);
            }
            outcome.rows.iter().for_each(|row| out.data_row(row, &[]));
            // The last statement's commit comes before its end is told, so that whoever hears of it
            // can rely on it.
            if at + 1 == parsed.len() && self.xact.block == Block::Implicit {
                self.commit().await;
            }
            out.command_complete(&outcome.tag);
        }
        Ok(())
    }

    pub(super) fn tell_notices(&mut self, out: &mut Out) {
        self.notices.drain(..).for_each(|notice| out.notice(&notice));
    }

    /// 08P01: a message that makes no sense.
    pub(super) fn violation(what: &str) -> PgError {
        PgError::fatal("08P01", format!("protocol violation: {what}"))
    }
}
