//! JSON on its way to and from the server.

use std::error::Error;

use bytes::{BufMut, BytesMut};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

/// In the binary form of `jsonb`: a version in front of the text.
const JSONB_VERSION: u8 = 1;

/// JSON text of a `jsonb` column, as it stands.
#[derive(Debug)]
pub(super) struct Jsonb<'a>(pub &'a str);

impl ToSql for Jsonb<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_u8(JSONB_VERSION);
        out.put_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }

    accepts!(JSONB);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Jsonb<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Jsonb<'a>, Box<dyn Error + Sync + Send>> {
        match raw.split_first() {
            Some((&JSONB_VERSION, text)) => Ok(Jsonb(std::str::from_utf8(text)?)),
            _ => Err("jsonb of an unknown version".into()),
        }
    }

    accepts!(JSONB);
}
