//! One client: greeted by the pooler itself, lent a connection for each transaction.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite};

use super::named::{Answers, Named};
use super::pool::{Loan, Pool};
use super::server::send;
use crate::postgres::error::PgError;
use crate::postgres::wire::{Connection, First, Out};

/// Serves one client to its end.
pub async fn serve<S: AsyncRead + AsyncWrite + Unpin>(pool: Arc<Pool>, stream: S) {
    let mut connection = Connection::new(stream);
    loop {
        match connection.first().await {
            Some(First::Startup(_)) => break,
            Some(First::Encryption) => {
                if connection.send_byte(b'N').await.is_err() {
                    return;
                }
            }
            Some(First::Cancel { pid, secret }) => return cancel(&pool, pid, secret).await,
            Some(First::Unknown(_)) | None => return,
        }
    }
    let Some((id, secret)) = pool.admit() else {
        let error = PgError::fatal("08P01", "no more connections allowed (max_client_conn)");
        return tell(&mut connection, &error).await;
    };
    let mut client = Client { pool, connection, id, secret, named: Named::default() };
    if let Err(Some(error)) = client.converse().await {
        tell(&mut client.connection, &error).await;
    }
}

async fn tell<S: AsyncRead + AsyncWrite + Unpin>(connection: &mut Connection<S>, error: &PgError) {
    let mut out = Out::default();
    out.error(error);
    // It may have gone already.
    let _ = connection.send(&mut out).await;
}

/// Asks the server to cancel what it does for that client.
async fn cancel(pool: &Pool, pid: i32, secret: i32) {
    let Some((pid, secret)) = pool.lent_to(pid, secret) else { return };
    let Some(stream) = pool.stream().await else { return };
    let mut request = BytesMut::new();
    [16, 80_877_102, pid, secret].into_iter().for_each(|n| request.put_i32(n));
    send(&mut Connection::new(stream), &request).await;
}

struct Client<S> {
    pool: Arc<Pool>,
    connection: Connection<S>,
    id: i32,
    secret: i32,
    named: Named,
}

impl<S> Drop for Client<S> {
    fn drop(&mut self) {
        self.pool.forget(self.id);
    }
}

/// What is under way on a lent connection.
#[derive(Default)]
struct Progress {
    /// Queries and Syncs that have not been answered by ReadyForQuery.
    unanswered: usize,
    /// Messages have been sent that want a Sync.
    unsynced: bool,
    answers: Answers,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    /// Ends with the error to tell, or with nothing to tell when the client has gone.
    async fn converse(&mut self) -> Result<(), Option<PgError>> {
        let welcome = self.pool.welcome(self.id).await.map_err(Some)?;
        let mut out = Out::default();
        out.authenticated();
        out.bytes.extend(welcome);
        out.backend_key(self.id, self.secret);
        out.ready(b'I');
        self.connection.send(&mut out).await.map_err(|_| None)?;
        loop {
            let message = self.connection.message().await.ok_or(None)?;
            if message[0] == b'X' {
                return Ok(());
            }
            let mut loan = self.pool.lend(self.id).await.map_err(Some)?;
            match self.transaction(&mut loan, message).await {
                Ok(()) => self.pool.take_back(self.id, loan),
                Err(end) => {
                    self.pool.close(self.id, loan);
                    return Err(end);
                }
            }
        }
    }

    /// Passes messages on until the server is idle again and nothing is owed.
    async fn transaction(&mut self, loan: &mut Loan, first: Bytes) -> Result<(), Option<PgError>> {
        let broken = || Some(PgError::fatal("08P01", "server conn crashed?"));
        let mut progress = Progress::default();
        self.pass_on(&mut progress, loan, &first).await.ok_or_else(broken)?;
        loop {
            tokio::select! {
                biased;
                answer = loan.server.message() => {
                    let answer = answer.ok_or_else(broken)?;
                    let Some(answer) = progress.answers.show(answer, &mut loan.server) else {
                        continue;
                    };
                    let mut out = Out { bytes: answer.to_vec() };
                    self.connection.send(&mut out).await.map_err(|_| None)?;
                    if answer[0] == b'Z' {
                        progress.unanswered = progress.unanswered.saturating_sub(1);
                        let idle = answer[5] == b'I';
                        if idle && progress.unanswered == 0 && !progress.unsynced {
                            return Ok(());
                        }
                    }
                }
                message = self.connection.message() => {
                    let message = message.filter(|message| message[0] != b'X').ok_or(None)?;
                    self.pass_on(&mut progress, loan, &message).await.ok_or_else(broken)?;
                }
            }
        }
    }

    async fn pass_on(
        &mut self,
        progress: &mut Progress,
        loan: &mut Loan,
        message: &Bytes,
    ) -> Option<()> {
        let ends_part = matches!(message[0], b'Q' | b'S');
        let sent = match self.pool.settings.max_prepared_statements {
            0 => loan.server.send(message).await,
            limit => {
                let (server, answers) = (&mut loan.server, &mut progress.answers);
                let bytes = self.named.rewrite(message, server, answers, limit);
                server.send(&bytes).await
            }
        };
        progress.unsynced = !ends_part && (progress.unsynced || message[0] != b'H');
        if ends_part {
            progress.unanswered += 1;
            progress.answers.synced();
        }
        sent
    }
}
