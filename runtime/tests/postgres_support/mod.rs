//! What tests share that want a PostgreSQL server.
#![cfg(not(madsim))]
#![allow(dead_code)] // every test file is a crate of its own and uses a part

use std::sync::{Arc, Mutex, PoisonError, Weak};

use durasim_cluster::Cluster;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};

/// A PostgreSQL server for the tests of one file, which share it. It goes with the last of them.
pub struct Server;

impl Server {
    /// `None`, with a line that says so, where there is none.
    pub fn get() -> Option<Arc<Cluster>> {
        static RUNNING: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        running.upgrade().or_else(|| {
            let started = Arc::new(Cluster::for_test()?);
            *running = Arc::downgrade(&started);
            Some(started)
        })
    }
}

/// A connection of somebody else, for statements by hand.
pub async fn connect(url: &str) -> Client {
    let config: Config = url.parse().expect("a URL");
    let port = config.get_ports()[0];
    let stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.expect("a server");
    let connected = config.connect_raw(stream, NoTls).await;
    let (client, connection) = connected.expect("a connection");
    tokio::spawn(connection);
    client
}

/// The first column of the rows of a statement, as text.
pub async fn rows(client: &Client, statement: &str) -> Vec<String> {
    let answers = client.simple_query(statement).await.expect("rows");
    let text = |answer| match answer {
        SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or("-").to_owned()),
        _ => None,
    };
    answers.into_iter().filter_map(text).collect()
}
