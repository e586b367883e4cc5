//! The settings of a session: SET, SHOW, RESET.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::postgres::PostgresSettings;
use crate::postgres::error::{PgError, Result};
use crate::postgres::exec::VERSION;

/// Values by name: those of the session, and above them those of the transaction.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    defaults: BTreeMap<String, String>,
    session: BTreeMap<String, String>,
    local: BTreeMap<String, String>,
}

/// In milliseconds unless a unit is given.
const TIMES: [&str; 4] = [
    "deadlock_timeout",
    "idle_in_transaction_session_timeout",
    "lock_timeout",
    "statement_timeout",
];

/// What cannot be changed.
const FIXED: [&str; 6] = [
    "integer_datetimes",
    "max_connections",
    "server_encoding",
    "server_version",
    "server_version_num",
    "wal_writer_delay",
];

impl Settings {
    pub fn new(server: &PostgresSettings, startup: &BTreeMap<String, String>) -> Result<Settings> {
        let mut defaults: BTreeMap<String, String> = [
            ("application_name", ""),
            ("bytea_output", "hex"),
            ("client_encoding", "UTF8"),
            ("client_min_messages", "notice"),
            ("datestyle", "ISO, MDY"),
            ("default_transaction_isolation", "read committed"),
            ("extra_float_digits", "1"),
            ("integer_datetimes", "on"),
            ("intervalstyle", "postgres"),
            ("search_path", "\"$user\", public"),
            ("server_encoding", "UTF8"),
            ("server_version", VERSION),
            ("server_version_num", "150000"),
            ("standard_conforming_strings", "on"),
            ("timezone", "UTC"),
            ("transaction_isolation", "read committed"),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
        for (name, ms) in [
            ("deadlock_timeout", server.deadlock_timeout_ms),
            ("idle_in_transaction_session_timeout", server.idle_in_transaction_session_timeout_ms),
            ("lock_timeout", server.lock_timeout_ms),
            ("statement_timeout", server.statement_timeout_ms),
        ] {
            defaults.insert(name.to_owned(), shown_time(ms));
        }
        let on_off = |value| if value { "on" } else { "off" };
        let commit = on_off(server.synchronous_commit);
        defaults.insert("synchronous_commit".to_owned(), commit.to_owned());
        defaults.insert("max_connections".to_owned(), server.max_connections.to_string());
        let mut settings = Settings { defaults, session: BTreeMap::new(), local: BTreeMap::new() };
        for (name, value) in startup {
            let name = name.to_lowercase();
            if !matches!(&name[..], "user" | "database" | "options" | "replication") {
                let value = settings.checked(&name, value)?;
                settings.defaults.insert(name, value);
            }
        }
        Ok(settings)
    }

    /// # Errors
    /// 42704 for a name that there is not.
    pub fn get(&self, name: &str) -> Result<&str> {
        let layers = [&self.local, &self.session, &self.defaults];
        layers.iter().find_map(|layer| layer.get(name)).map(String::as_str).ok_or_else(|| {
            let message = format!("unrecognized configuration parameter \"{name}\"");
            PgError::new("42704", message)
        })
    }

    /// # Errors
    /// 42704, 22023, 55P02.
    pub fn set(&mut self, name: &str, value: Option<&str>, local: bool) -> Result<()> {
        self.get(name).map(|_| ())?;
        let value = match value {
            Some(value) => self.checked(name, value)?,
            None => self.defaults[name].clone(),
        };
        let layer = if local { &mut self.local } else { &mut self.session };
        layer.insert(name.to_owned(), value);
        if !local {
            self.local.remove(name);
        }
        Ok(())
    }

    fn checked(&self, name: &str, value: &str) -> Result<String> {
        let invalid = || {
            let message = format!("invalid value for parameter \"{name}\": \"{value}\"");
            PgError::new("22023", message)
        };
        if FIXED.contains(&name) {
            let message = format!("parameter \"{name}\" cannot be changed");
            return Err(PgError::new("55P02", message));
        }
        if TIMES.contains(&name) {
            return Ok(shown_time(time(value).ok_or_else(invalid)?));
        }
        match name {
            "synchronous_commit" => match &value.to_lowercase()[..] {
                "on" | "true" | "yes" | "1" | "local" | "remote_write" | "remote_apply" => {
                    Ok("on".to_owned())
                }
                "off" | "false" | "no" | "0" => Ok("off".to_owned()),
                _ => Err(invalid()),
            },
            "client_encoding" => match &value.to_lowercase().replace(['-', '_'], "")[..] {
                "utf8" | "unicode" => Ok("UTF8".to_owned()),
                _ => Err(PgError::unsupported(format_args!("the encoding {value}"))),
            },
            "timezone" => match &value.to_lowercase()[..] {
                "utc" | "etc/utc" | "gmt" => Ok(value.to_owned()),
                _ => Err(PgError::unsupported(format_args!("the time zone {value}"))),
            },
            "default_transaction_isolation" | "transaction_isolation" => match value {
                "read committed" | "read uncommitted" => Ok(value.to_owned()),
                _ => Err(PgError::unsupported(format_args!("the isolation level {value}"))),
            },
            "standard_conforming_strings" | "bytea_output" | "intervalstyle" => {
                match self.defaults.get(name).is_some_and(|known| known == value) {
                    true => Ok(value.to_owned()),
                    false => Err(PgError::unsupported(format_args!("{name} = {value}"))),
                }
            }
            _ => Ok(value.to_owned()),
        }
    }

    pub fn reset_all(&mut self) {
        self.session.clear();
        self.local.clear();
    }

    pub fn has_local(&self) -> bool {
        !self.local.is_empty()
    }

    /// The transaction is over.
    pub fn end_local(&mut self) {
        self.local.clear();
    }

    /// One of [`TIMES`]; `None` is no limit.
    pub fn time(&self, name: &str) -> Option<Duration> {
        let ms = self.get(name).ok().and_then(time).unwrap_or(0);
        (ms > 0).then(|| Duration::from_millis(ms))
    }

    pub fn waits_for_disk(&self) -> bool {
        self.get("synchronous_commit") == Ok("on")
    }
}

/// In milliseconds.
fn time(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let n: u64 = digits.parse().ok()?;
    let scale = match unit.trim() {
        "" | "ms" => 1,
        "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    n.checked_mul(scale).filter(|ms| *ms <= 2_147_483_647)
}

/// In the largest unit that it is a whole number of.
fn shown_time(ms: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")];
    let unit = UNITS.iter().find(|(scale, _)| ms > 0 && ms.is_multiple_of(*scale));
    match unit {
        Some((scale, unit)) => format!("{}{unit}", ms / scale),
        None if ms == 0 => "0".to_owned(),
        None => format!("{ms}ms"),
    }
}
