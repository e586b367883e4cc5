//! The first messages of a connection: encryption asked for and refused, who it is, and the welcome.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use super::Session;
use super::settings::Settings;
use super::xact::Xact;
use crate::postgres::engine::{Engine, Wish};
use crate::postgres::error::PgError;
use crate::postgres::wire::{Connection, First, Out};

/// What the welcome tells without being asked.
const REPORTED: [(&str, &str); 9] = [
    ("application_name", "application_name"),
    ("client_encoding", "client_encoding"),
    ("DateStyle", "datestyle"),
    ("integer_datetimes", "integer_datetimes"),
    ("IntervalStyle", "intervalstyle"),
    ("server_encoding", "server_encoding"),
    ("server_version", "server_version"),
    ("standard_conforming_strings", "standard_conforming_strings"),
    ("TimeZone", "timezone"),
];

/// Leads a client in; `None` if it went away or wanted no session.
pub(super) async fn start<S: AsyncRead + AsyncWrite + Unpin>(
    engine: &Arc<Engine>,
    connection: &mut Connection<S>,
    actor: &str,
) -> Option<Session> {
    let startup = first(engine, connection).await?;
    let mut out = Out::default();
    match admit(engine, connection, startup, actor).await {
        Ok(session) => Some(session),
        Err(Refusal::Told(error)) => {
            out.error(&error);
            let _ = connection.send(&mut out).await;
            None
        }
        Err(Refusal::Gone) => None,
    }
}

enum Refusal {
    Told(PgError),
    Gone,
}

impl From<PgError> for Refusal {
    fn from(error: PgError) -> Refusal {
        Refusal::Told(error.severe(crate::postgres::error::Severity::Fatal))
    }
}

/// The startup message, after whatever comes before it.
async fn first<S: AsyncRead + AsyncWrite + Unpin>(
    engine: &Engine,
    connection: &mut Connection<S>,
) -> Option<BTreeMap<String, String>> {
    loop {
        match connection.first().await? {
            First::Startup(params) => return Some(params),
            // No TLS and no GSSAPI here; the client may go on without.
            First::Encryption => connection.send_byte(b'N').await.ok()?,
            First::Cancel { pid, secret } => {
                let state = engine.lock();
                let known = state.backends.get(&pid).filter(|backend| backend.secret == secret);
                known.iter().for_each(|backend| backend.signal.send(Wish::Cancel));
                return None;
            }
            First::Unknown(version) => {
                let mut out = Out::default();
                let message = format!("unsupported frontend protocol {version}");
                out.error(&PgError::fatal("0A000", message));
                let _ = connection.send(&mut out).await;
                return None;
            }
        }
    }
}

async fn admit<S: AsyncRead + AsyncWrite + Unpin>(
    engine: &Arc<Engine>,
    connection: &mut Connection<S>,
    params: BTreeMap<String, String>,
    actor: &str,
) -> std::result::Result<Session, Refusal> {
    let mut out = Out::default();
    let user = params.get("user").cloned().unwrap_or_default();
    if user.is_empty() {
        let message = "no PostgreSQL user name specified in startup packet";
        return Err(PgError::fatal("28000", message).into());
    }
    if let Some(password) = &engine.settings.password {
        out.ask_password();
        connection.send(&mut out).await.map_err(|_| Refusal::Gone)?;
        let given = connection.password().await.ok_or(Refusal::Gone)?;
        if given != password.as_bytes() {
            let message = format!("password authentication failed for user \"{user}\"");
            return Err(PgError::fatal("28P01", message).into());
        }
    }
    let settings = Settings::new(&engine.settings, &params)?;
    let (admitted, life) = {
        let mut state = engine.lock();
        (state.admit(engine.settings.max_connections), state.life)
    };
    let Some((pid, secret, signal)) = admitted else {
        return Err(PgError::fatal("53300", "sorry, too many clients already").into());
    };
    let session = Session {
        engine: engine.clone(),
        pid,
        life,
        signal,
        actor: actor.to_owned(),
        database: params.get("database").unwrap_or(&user).as_str().into(),
        user: user.as_str().into(),
        xact: Xact::default(),
        settings: Arc::new(settings),
        prepared: BTreeMap::new(),
        portals: BTreeMap::new(),
        deadline: None,
        several: false,
        announced: None,
        notices: Vec::new(),
    };
    out.authenticated();
    for (shown, name) in REPORTED {
        out.parameter_status(shown, session.setting(name)?);
    }
    out.backend_key(pid, secret);
    out.ready(b'I');
    connection.send(&mut out).await.map_err(|_| Refusal::Gone)?;
    Ok(session)
}
