//! `sslmode` means what it means to libpq: whether the connection is encrypted, and whom it believes.
#![cfg(not(madsim))]
#![cfg(feature = "tls")]

mod checkpoint_support;
mod postgres_support;

use std::sync::Arc;
use std::time::Duration;

use checkpoint_support::{block_on, key, vectors};
use durasim_cluster::Cluster;
use durasim_runtime::Doors;
use durasim_runtime::checkpoint::postgres::{PostgresOptions, PostgresSaver};
use durasim_runtime::checkpoint::saver::Saver;
use postgres_support::{connect, rows};

async fn open(url: &str, roots: Option<&str>) -> Result<Arc<PostgresSaver>, String> {
    let options =
        PostgresOptions { root_certificates: roots.map(Arc::from), ..PostgresOptions::default() };
    let opened = PostgresSaver::open_with(url, &Doors::production(), options).await;
    opened.map_err(|error| error.to_string())
}

/// Gives the server its certificate, and a key that nobody else may read.
async fn encrypt(client: &tokio_postgres::Client) {
    for name in ["server.pem", "server.key"] {
        let text = std::fs::read_to_string(vectors(&format!("tls/{name}"))).expect("the file");
        let lines = text.lines().map(|line| format!("('{line}')")).collect::<Vec<_>>().join(", ");
        let copy = format!(
            "COPY (VALUES {lines}) TO PROGRAM 'umask 077; cat > {name}' WITH (FORMAT text)"
        );
        client.batch_execute(&copy).await.expect("a file");
    }
    for set in ["ssl_cert_file = 'server.pem'", "ssl_key_file = 'server.key'", "ssl = on"] {
        client.batch_execute(&format!("ALTER SYSTEM SET {set}")).await.expect("a setting");
    }
    client.batch_execute("SELECT pg_reload_conf()").await.expect("a reload");
}

/// Which of the saver's connections are encrypted.
async fn encrypted(client: &tokio_postgres::Client) -> Vec<String> {
    let statement = "SELECT ssl FROM pg_stat_ssl INNER JOIN pg_stat_activity USING (pid) \
         WHERE datname = current_database() AND application_name = 'saver'";
    rows(client, statement).await
}

/// Whoever asks the server to stop comes in the same way.
async fn is_stopped(client: &tokio_postgres::Client, saver: &dyn Saver) {
    client.batch_execute("BEGIN; LOCK TABLE checkpoints").await.expect("a lock");
    let key = key("t", "");
    let read = tokio::time::timeout(Duration::from_millis(100), saver.get_tuple(&key, None));
    read.await.expect_err("it waits for the lock");
    let waiting = "SELECT 1 FROM pg_locks l INNER JOIN pg_database d ON d.oid = l.database \
         WHERE NOT granted AND datname = current_database()";
    let stopped = async {
        while !rows(client, waiting).await.is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), stopped).await.expect("it is stopped");
    client.batch_execute("COMMIT").await.expect("an end");
}

#[test]
fn a_mode_is_what_it_is_to_libpq() {
    let Some(server) = Cluster::private_for_test() else { return };
    block_on(async {
        let url = server.database("tls") + "?application_name=saver";
        let client = connect(&url.replace("=saver", "=test")).await;
        let roots = std::fs::read_to_string(vectors("tls/authority.pem")).expect("the file");
        let roots = Some(&*roots);

        open(&url, None).await.expect("prefer takes what there is");
        let problem = open(&format!("{url}&sslmode=require"), None).await.err().unwrap();
        assert!(problem.contains("does not support TLS"), "{problem}");

        encrypt(&client).await;
        let named = url.replace("127.0.0.1", "localhost");
        for (url, mode, roots, encrypts) in [
            (&url, "disable", None, "f"),
            (&url, "prefer", None, "t"),
            (&url, "require", None, "t"),
            (&named, "verify-full", roots, "t"),
        ] {
            let saver = open(&format!("{url}&sslmode={mode}"), roots).await.expect(mode);
            saver.delete_thread("t").await.expect(mode);
            assert_eq!(encrypted(&client).await, [encrypts], "{mode}");
            is_stopped(&client, &*saver).await;
            drop(saver);
            while !encrypted(&client).await.is_empty() {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        }
        for (url, roots, part) in [
            // Nobody knows the authority; and the certificate is for another name.
            (&named, None, "UnknownIssuer"),
            (&url, roots, "not valid for name"),
            (&named, Some("no certificate"), "root_certificates"),
        ] {
            let refused = open(&format!("{url}&sslmode=verify-full"), roots).await.err().unwrap();
            assert!(refused.contains(part), "{refused}");
        }
    });
}
