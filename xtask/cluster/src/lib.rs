//! A PostgreSQL server for tests and measurements: a private one, started from the installed
//! programs in a directory of its own and gone with the process, or the one that
//! `DURASIM_POSTGRES_URL` names.
#![cfg(not(madsim))]

mod server;

use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use server::{PASSWORD, Server, USER};
use tokio_postgres::{Config, NoTls};

/// The variable with the URL of a server to use instead of an own one. Its user must be allowed to
/// make databases.
pub const URL: &str = "DURASIM_POSTGRES_URL";

/// A server, and the databases that were made on it.
pub struct Cluster {
    admin: Config,
    /// `None` when it belongs to somebody else.
    server: Option<Server>,
    count: AtomicU32,
    made: Mutex<Vec<String>>,
}

/// Settings of a server whose databases need not outlive the machine.
const QUICK: &[&str] = &["fsync=off", "full_page_writes=off", "shared_buffers=32MB"];

/// Says so where there is none.
fn found(started: Result<Cluster, String>) -> Option<Cluster> {
    match started {
        Ok(cluster) => Some(cluster),
        Err(reason) if std::env::var_os("CI").is_some() => panic!("{reason}"),
        Err(reason) => {
            // Not with a macro: what those print, a test that passes keeps to itself.
            let test = std::thread::current();
            let line = format!("NOT RUN: {}: {reason}\n", test.name().unwrap_or("a test"));
            let _ = std::io::stderr().write_all(line.as_bytes());
            None
        }
    }
}

impl Cluster {
    /// The server that [`URL`] names, or else a private one that does not wait for the disk. An error
    /// says why there is none.
    pub fn start() -> Result<Cluster, String> {
        Cluster::start_with(QUICK)
    }

    /// As [`Cluster::start`], with PostgreSQL's own defaults: a commit waits for the disk.
    pub fn start_durable() -> Result<Cluster, String> {
        Cluster::start_with(&[])
    }

    /// For a test: none where there is no server, which is told, and the test is to return. In CI, where
    /// a server is installed, that is a failure.
    pub fn for_test() -> Option<Cluster> {
        found(Cluster::start())
    }

    /// As [`Cluster::for_test`], for a test that stops its server or changes its settings: a private
    /// one, whatever [`URL`] names.
    pub fn private_for_test() -> Option<Cluster> {
        found(Cluster::start_private(QUICK))
    }

    fn start_with(settings: &[&str]) -> Result<Cluster, String> {
        let Ok(url) = std::env::var(URL) else { return Cluster::start_private(settings) };
        Ok(Cluster::of(url.parse().map_err(|error| format!("{URL}: {error}"))?, None))
    }

    fn start_private(settings: &[&str]) -> Result<Cluster, String> {
        let server = Server::start(settings)?;
        let url = format!("postgres://{USER}:{PASSWORD}@127.0.0.1:{}/postgres", server.port);
        Ok(Cluster::of(url.parse().expect("our own URL"), Some(server)))
    }

    fn of(admin: Config, server: Option<Server>) -> Cluster {
        Cluster { admin, server, count: AtomicU32::new(0), made: Mutex::default() }
    }

    /// The URL of a fresh, empty database. `label` goes into its name.
    pub fn database(&self, label: &str) -> String {
        let nth = self.count.fetch_add(1, Ordering::Relaxed);
        let name = format!("durasim_{label}_{}_{nth}", std::process::id()).replace('-', "_");
        self.execute(&format!("CREATE DATABASE \"{name}\"")).expect("a database is made");
        self.made.lock().unwrap_or_else(PoisonError::into_inner).push(name.clone());
        let user = self.admin.get_user().unwrap_or("postgres");
        let password = self.admin.get_password().map(String::from_utf8_lossy);
        let password = password.map(|password| format!(":{password}")).unwrap_or_default();
        let (host, port) = self.address();
        format!("postgres://{user}{password}@{host}:{port}/{name}")
    }

    /// Restarts a private server: its clients are told to go.
    pub fn restart(&self) -> Result<(), String> {
        self.tell("restart")
    }

    /// Restarts a private server as after a crash: every process of it is gone at once.
    pub fn crash(&self) -> Result<(), String> {
        self.tell("crash")
    }

    /// Stops a private server until [`Cluster::go_on`].
    pub fn stop(&self) -> Result<(), String> {
        self.tell("stop")
    }

    pub fn go_on(&self) -> Result<(), String> {
        self.tell("start")
    }

    fn tell(&self, command: &str) -> Result<(), String> {
        let not_ours = || format!("the server of {URL} is not ours to {command}");
        self.server.as_ref().ok_or_else(not_ours)?.tell(command)
    }

    fn address(&self) -> (String, u16) {
        let host = match self.admin.get_hosts().first() {
            Some(tokio_postgres::config::Host::Tcp(host)) => host.clone(),
            _ => "127.0.0.1".to_owned(),
        };
        (host, self.admin.get_ports().first().copied().unwrap_or(5432))
    }

    /// Runs a statement as the cluster's owner, on a thread of its own: tests may be inside a runtime.
    fn execute(&self, statement: &str) -> Result<(), String> {
        let work = async {
            let stream = tokio::net::TcpStream::connect(self.address()).await;
            let stream = stream.map_err(|error| error.to_string())?;
            let (client, connection) = self
                .admin
                .connect_raw(stream, NoTls)
                .await
                .map_err(|error| format!("{error:?}"))?;
            let connection = tokio::spawn(connection);
            client.batch_execute(statement).await.map_err(|error| format!("{error:?}"))?;
            drop(client);
            let _ = connection.await;
            Ok(())
        };
        let run = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(work)
        };
        #[allow(clippy::disallowed_methods)] // never in a simulated world
        std::thread::scope(|scope| scope.spawn(run).join().expect("no panic"))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.server.is_some() {
            return;
        }
        for name in self.made.get_mut().unwrap_or_else(PoisonError::into_inner).split_off(0) {
            let _ = self.execute(&format!("DROP DATABASE IF EXISTS \"{name}\" WITH (FORCE)"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_are_fresh_and_survive_restarts() {
        let Some(cluster) = Cluster::for_test() else { return };
        let (a, b) = (cluster.database("a"), cluster.database("b"));
        assert_ne!(a, b);
        if cluster.server.is_some() {
            cluster.restart().unwrap();
            cluster.crash().unwrap();
            cluster.stop().unwrap();
            assert!(cluster.execute("SELECT 1").is_err());
            cluster.go_on().unwrap();
            cluster.execute("SELECT 1").unwrap();
        }
    }
}
