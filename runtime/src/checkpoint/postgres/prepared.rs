//! Statements that a connection keeps prepared, which spares the server reading and planning them.
//!
//! Only those that store rows are. They look nothing up, so that there is no plan to go wrong; that of a
//! read which was made while its table was small would be kept while the table grows.

use std::collections::BTreeMap;
use std::mem::take;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::future::try_join_all;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, Statement};

use super::connection::Parameter;

/// What a connection keeps, by the statement's text. There are as many texts as ways to spell rows out.
#[derive(Default)]
pub(super) struct Prepared(Mutex<Texts>);

#[derive(Default)]
struct Texts {
    kept: BTreeMap<String, Statement>,
    /// Sent once, unnamed, and to be prepared before the next call: what comes once is not worth it,
    /// and between two statements of one transaction there is no time.
    wanted: BTreeMap<String, Vec<Type>>,
}

impl Prepared {
    /// Prepares what was wanted meanwhile, in one round trip.
    pub async fn catch_up(&self, client: &Client) -> Result<(), Error> {
        let wanted = take(&mut self.texts().wanted);
        let prepare = async |(text, types): (String, Vec<Type>)| {
            let statement = client.prepare_typed(&text, &types).await?;
            Ok::<_, Error>((text, statement))
        };
        let prepared = try_join_all(wanted.into_iter().map(prepare)).await?;
        self.texts().kept.extend(prepared);
        Ok(())
    }

    /// The number of rows that a statement stored. It is sent when this is first polled.
    pub async fn execute(
        &self,
        client: &Client,
        text: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<u64, Error> {
        let kept = self.texts().kept.get(text).cloned();
        if let Some(statement) = kept {
            let values: Vec<_> = parameters.iter().map(|(value, _)| *value).collect();
            return client.execute(&statement, &values).await;
        }
        let stored = client.execute_typed(text, parameters).await?;
        let types = parameters.iter().map(|(_, kind)| kind.clone()).collect();
        self.texts().wanted.insert(text.to_owned(), types);
        Ok(stored)
    }

    /// Nothing under this lock can fail half done.
    fn texts(&self) -> MutexGuard<'_, Texts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
