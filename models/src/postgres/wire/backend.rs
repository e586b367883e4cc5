//! Messages to the client, gathered until they are sent.

use crate::postgres::error::PgError;
use crate::postgres::session::format_at;
use crate::postgres::sql::Field;
use crate::postgres::types::{Row, Type, to_binary, to_text};

/// As many bytes as the server gathers before it sends without being asked.
const LARGE: usize = 8 * 1024;

#[derive(Default)]
pub struct Out {
    pub bytes: Vec<u8>,
}

fn count(n: usize) -> [u8; 2] {
    i16::try_from(n).expect("columns are counted in 16 bits").to_be_bytes()
}

impl Out {
    pub fn is_large(&self) -> bool {
        self.bytes.len() >= LARGE
    }

    /// A message: its kind, its length, its body.
    fn message(&mut self, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
        self.bytes.push(kind);
        let start = self.bytes.len();
        self.bytes.extend([0; 4]);
        body(&mut self.bytes);
        let length = i32::try_from(self.bytes.len() - start).expect("messages are below 2 GiB");
        self.bytes[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    pub fn authenticated(&mut self) {
        self.message(b'R', |body| body.extend(0_i32.to_be_bytes()));
    }

    pub fn ask_password(&mut self) {
        self.message(b'R', |body| body.extend(3_i32.to_be_bytes()));
    }

    pub fn parameter_status(&mut self, name: &str, value: &str) {
        self.message(b'S', |body| {
            text(body, name);
            text(body, value);
        });
    }

    pub fn backend_key(&mut self, pid: i32, secret: i32) {
        self.message(b'K', |body| {
            body.extend(pid.to_be_bytes());
            body.extend(secret.to_be_bytes());
        });
    }

    pub fn ready(&mut self, status: u8) {
        self.message(b'Z', |body| body.push(status));
    }

    pub fn error(&mut self, error: &PgError) {
        self.report(b'E', error);
    }

    pub fn notice(&mut self, notice: &PgError) {
        self.report(b'N', notice);
    }

    fn report(&mut self, kind: u8, error: &PgError) {
        let report = error.report();
        self.message(kind, |body| {
            let mut field = |kind: u8, value: &str| {
                body.push(kind);
                text(body, value);
            };
            field(b'S', report.severity.name());
            field(b'V', report.severity.name());
            field(b'C', report.code);
            field(b'M', &report.message);
            for (kind, value) in [
                (b'D', &report.detail),
                (b't', &report.table),
                (b'c', &report.column),
                (b'n', &report.constraint),
            ] {
                value.iter().for_each(|value| field(kind, value));
            }
            body.push(0);
        });
    }

    pub fn parse_complete(&mut self) {
        self.message(b'1', |_| {});
    }

    pub fn bind_complete(&mut self) {
        self.message(b'2', |_| {});
    }

    pub fn close_complete(&mut self) {
        self.message(b'3', |_| {});
    }

    pub fn no_data(&mut self) {
        self.message(b'n', |_| {});
    }

    pub fn empty_query(&mut self) {
        self.message(b'I', |_| {});
    }

    pub fn portal_suspended(&mut self) {
        self.message(b's', |_| {});
    }

    pub fn command_complete(&mut self, tag: &str) {
        self.message(b'C', |body| text(body, tag));
    }

    pub fn parameter_description(&mut self, types: &[Type]) {
        self.message(b't', |body| {
            body.extend(count(types.len()));
            types.iter().for_each(|ty| body.extend(ty.oid().to_be_bytes()));
        });
    }

    pub fn row_description(&mut self, fields: &[Field], formats: &[i16]) {
        self.message(b'T', |body| {
            body.extend(count(fields.len()));
            for (at, field) in fields.iter().enumerate() {
                text(body, &field.name);
                let (table, column) = field.origin;
                body.extend(table.to_be_bytes());
                body.extend(column.to_be_bytes());
                body.extend(field.ty.oid().to_be_bytes());
                body.extend(field.ty.size().to_be_bytes());
                // No type modifier.
                body.extend((-1_i32).to_be_bytes());
                body.extend(format_at(formats, at).to_be_bytes());
            }
        });
    }

    pub fn data_row(&mut self, row: &Row, formats: &[i16]) {
        self.message(b'D', |body| {
            body.extend(count(row.len()));
            for (at, cell) in row.iter().enumerate() {
                if cell.is_null() {
                    body.extend((-1_i32).to_be_bytes());
                    continue;
                }
                let start = body.len();
                body.extend([0; 4]);
                match format_at(formats, at) {
                    1 => to_binary(cell, body),
                    _ => body.extend(to_text(cell).as_bytes()),
                }
                let length = i32::try_from(body.len() - start - 4).expect("values are below 2 GiB");
                body[start..start + 4].copy_from_slice(&length.to_be_bytes());
            }
        });
    }
}

/// A text with its end.
fn text(body: &mut Vec<u8>, text: &str) {
    body.extend(text.as_bytes());
    body.push(0);
}
