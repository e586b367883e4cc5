//! The life of a connection: messages in, answers out.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use super::Session;
use super::startup::start;
use crate::postgres::engine::Engine;
use crate::postgres::error::{PgError, Result};
use crate::postgres::wire::{Connection, Message, Out};

/// Serves one connection to its end. `actor` names it in the streams of chance.
///
/// While a statement is executed nobody listens to the client: one that goes away in the meantime
/// is missed only when its answer cannot be sent, and what it asked for has happened.
pub async fn serve<S>(engine: Arc<Engine>, stream: S, actor: String)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut connection = Connection::new(stream);
    let Some(mut session) = start(&engine, &mut connection, &actor).await else { return };
    let mut out = Out::default();
    let Err(Some(last_words)) = converse(&mut session, &mut connection, &mut out).await else {
        return;
    };
    drop(session);
    // A server that crashed says nothing.
    if last_words.report().code != "57P02" {
        out.error(&last_words);
        let _ = connection.send(&mut out).await;
    }
}

/// Ends with the error to tell, or with nothing to tell when the client has gone.
async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
    session: &mut Session,
    connection: &mut Connection<S>,
    out: &mut Out,
) -> std::result::Result<(), Option<PgError>> {
    // After an error, until Sync.
    let mut skipping = false;
    loop {
        let message = tokio::select! {
            biased;
            message = connection.message() => message,
            ended = session.end_of_idling() => return Err(Some(ended)),
        };
        let message = message.ok_or(None)?;
        match Message::parse(&message) {
            Ok(Message::Terminate) => return Err(None),
            Ok(Message::Query(text)) => {
                skipping = false;
                session.simple_query(text, out).await.map_err(Some)?;
                connection.send(out).await.map_err(|_| None)?;
            }
            Ok(Message::Sync) => {
                skipping = false;
                session.sync(out).await;
                connection.send(out).await.map_err(|_| None)?;
            }
            Ok(Message::Flush) => connection.send(out).await.map_err(|_| None)?,
            Ok(_) if skipping => {}
            Ok(message) => {
                if let Err(error) = step(session, message, out).await {
                    if error.is_fatal() {
                        return Err(Some(error));
                    }
                    session.fail();
                    session.tell_notices(out);
                    out.error(&error);
                    skipping = true;
                }
            }
            Err(error) if error.is_fatal() => return Err(Some(error)),
            Err(_) if skipping => {}
            Err(error) => {
                session.fail();
                out.error(&error);
                skipping = true;
            }
        }
        if out.is_large() {
            connection.send(out).await.map_err(|_| None)?;
        }
    }
}

/// One message of the extended protocol.
async fn step(session: &mut Session, message: Message<'_>, out: &mut Out) -> Result<()> {
    match message {
        Message::Parse { name, text, oids } => {
            session.parse(name, text, &oids).await?;
            out.parse_complete();
        }
        Message::Bind(bind) => {
            session.bind(bind)?;
            out.bind_complete();
        }
        Message::Describe(target, name) => session.describe(target, name, out)?,
        Message::Execute { portal, limit } => session.run_portal(portal, limit, out).await?,
        Message::Close(target, name) => {
            session.close(target, name);
            out.close_complete();
        }
        Message::Terminate | Message::Query(_) | Message::Sync | Message::Flush => {
            return Err(Session::violation("the message is handled by the caller"));
        }
    }
    Ok(())
}
