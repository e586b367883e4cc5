//! What a user is told when the database is not as it should be: where it is, what is wrong, and what
//! to do. Codes are PostgreSQL's own (appendix A of its documentation).
#![cfg(not(madsim))]

mod checkpoint_support;
mod postgres_support;

use std::sync::Arc;
use std::time::Duration;

use checkpoint_support::{block_on, checkpoint, key, metadata};
use durasim_runtime::Doors;
use durasim_runtime::checkpoint::Source;
use durasim_runtime::checkpoint::postgres::{PostgresOptions, PostgresSaver, ServerProblem};
use durasim_runtime::checkpoint::saver::{Put, Saver, SaverError};
use postgres_support::{Server, connect, rows};

async fn open(url: &str) -> Result<Arc<PostgresSaver>, SaverError> {
    let options =
        PostgresOptions { outage_limit: Duration::from_millis(100), ..PostgresOptions::default() };
    PostgresSaver::open_with(url, &Doors::production(), options).await
}

async fn refused(url: &str) -> SaverError {
    open(url).await.err().expect("it cannot be opened")
}

async fn put(saver: &dyn Saver) -> Result<(), SaverError> {
    let put = Put::new(&key("t", ""), None, checkpoint(0), metadata(Source::Input, -1));
    saver.put(put).await
}

/// It is this kind of trouble, with every part of the message and never the password.
#[track_caller]
fn tells(error: &SaverError, kind: ServerProblem, parts: &[&str]) {
    let SaverError::Server { problem, .. } = error else { panic!("{error:?}") };
    assert_eq!(*problem, kind, "{error}");
    says(error, parts);
}

#[track_caller]
fn says(error: &SaverError, parts: &[&str]) {
    let problem = error.to_string();
    for part in parts {
        assert!(problem.contains(part), "{part:?} is not in: {problem}");
    }
    assert!(!problem.contains("s3cret"), "{problem}");
}

#[test]
fn a_url_that_cannot_be_used() {
    block_on(async {
        for (url, parts) in [
            ("", ["it names no user"]),
            ("postgres://u:s3cret@", ["it names no host"]),
            ("postgres://localhost/db", ["it names no user"]),
            ("postgres://u:s3cret@h:port/db", ["port"]),
            ("postgres://u:s3cret@%2Fvar%2Frun/db", ["Unix sockets are not supported"]),
            ("postgres://u:s3cret@h/db?colour=red", ["colour"]),
            ("postgres://u:s3cret@h/db?sslmode=verify-ca", ["use verify-full"]),
            ("postgres://u:s3cret@h/db?sslmode=maybe", ["sslmode"]),
            ("postgres://u:s3cret@h/db?sslrootcert=/ca.pem", ["root_certificates"]),
            ("postgres://u:s3cret@h/db?target_session_attrs=read-write", ["name the primary"]),
            ("postgres://u:s3cret@h/db?load_balance_hosts=random", ["tried in order"]),
        ] {
            let problem = refused(url).await;
            says(&problem, &["the postgres URL cannot be used"]);
            says(&problem, &parts);
        }
    });
}

#[test]
fn a_server_that_is_not_there() {
    block_on(async {
        // Nobody may listen there: it is the discard port.
        let problem = refused("postgres://u:s3cret@127.0.0.1:9/db").await;
        tells(
            &problem,
            ServerProblem::Unreachable,
            &["database \"db\" on 127.0.0.1:9", "cannot reach postgres at 127.0.0.1:9"],
        );
        let both = refused("postgres://u:s3cret@127.0.0.1:9,127.0.0.1:11/db").await;
        tells(&both, ServerProblem::Unreachable, &["127.0.0.1:9 or 127.0.0.1:11"]);
    });
}

/// Somebody who takes the connection and says nothing.
#[test]
fn a_server_that_does_not_answer() {
    block_on(async {
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = silent.local_addr().unwrap().port();
        let url = format!("postgres://u:s3cret@127.0.0.1:{port}/db?connect_timeout=1");
        let problem = tokio::time::timeout(Duration::from_secs(10), refused(&url)).await.unwrap();
        tells(
            &problem,
            ServerProblem::Unreachable,
            &["cannot reach postgres", "no answer within 1s"],
        );
    });
}

/// Somebody who takes the connection and says nothing, with a URL that sets no limit.
#[test]
fn opening_has_a_limit() {
    block_on(async {
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = silent.local_addr().unwrap().port();
        let acquire_limit = Duration::from_millis(200);
        let options = PostgresOptions { acquire_limit, ..PostgresOptions::default() };
        let url = format!("postgres://u:s3cret@127.0.0.1:{port}/db");
        let opened = PostgresSaver::open_with(&url, &Doors::production(), options);
        let opened = tokio::time::timeout(Duration::from_secs(10), opened).await.unwrap();
        let problem = opened.err().expect("nobody answers");
        tells(&problem, ServerProblem::NoConnection, &["could be made, within 200ms"]);
    });
}

#[test]
fn tables_that_are_locked_are_not_waited_for_for_ever() {
    let Some(server) = Server::get() else { return };
    block_on(async {
        let url = server.database("locked");
        open(&url).await.unwrap();
        let client = connect(&url).await;
        client.batch_execute("BEGIN; LOCK TABLE checkpoint_blobs").await.unwrap();
        let answer_limit = Duration::from_millis(300);
        let options = PostgresOptions { answer_limit, ..PostgresOptions::default() };
        let opened = PostgresSaver::open_with(&url, &Doors::production(), options);
        let opened = tokio::time::timeout(Duration::from_secs(10), opened).await.unwrap();
        let problem = opened.err().expect("nobody answers");
        tells(&problem, ServerProblem::Unknown, &["no answer within 300ms"]);
        // Nor does anything of it go on at the server.
        let waiting = "SELECT 1 FROM pg_locks l INNER JOIN pg_database d ON d.oid = l.database \
             WHERE NOT granted AND datname = current_database()";
        let over = async {
            while !rows(&client, waiting).await.is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), over).await.expect("it is stopped");
    });
}

/// Whoever comes up is waited for, by the first call as by any other.
#[test]
fn a_server_that_is_not_up_yet() {
    let Some(server) = Server::get() else { return };
    block_on(async {
        let url = server.database("not-up");
        let (start, rest) = url.rsplit_once('@').unwrap();
        let (at, database) = rest.split_once('/').unwrap();
        let reserved = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = reserved.local_addr().unwrap().port();
        drop(reserved);
        let later = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.unwrap();
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                let mut to = tokio::net::TcpStream::connect(at).await.unwrap();
                tokio::spawn(async move {
                    tokio::io::copy_bidirectional(&mut client, &mut to).await.map(drop)
                });
            }
        };
        let url = format!("{start}@127.0.0.1:{port}/{database}");
        let doors = Doors::production();
        tokio::select! {
            biased;
            opened = PostgresSaver::open(&url, &doors) => drop(opened.unwrap()),
            () = later => {}
        }
    });
}

#[test]
fn a_database_that_does_not_have_us() {
    let Some(server) = Server::get() else { return };
    block_on(async {
        let url = server.database("access");
        let (start, database) = url.rsplit_once('/').unwrap();
        let client = connect(&url).await;
        let role = format!("r{}", std::process::id());
        let make = format!(
            "CREATE ROLE {role} LOGIN PASSWORD 's3cret'; REVOKE ALL ON SCHEMA public FROM public"
        );
        client.batch_execute(&make).await.unwrap();
        let at = start.rsplit_once('@').unwrap().1;

        let problem = refused(&format!("postgres://{role}:not-s3cret@{at}/{database}")).await;
        tells(&problem, ServerProblem::Login, &["28P01", "check user and password"]);
        let problem = refused(&format!("postgres://{role}@{at}/{database}")).await;
        tells(&problem, ServerProblem::Login, &["wants a password, and the URL has none"]);
        let problem = refused(&format!("{start}/no_such_database")).await;
        tells(
            &problem,
            ServerProblem::Missing,
            &["3D000", "\"no_such_database\"", "create the database"],
        );
        let of_role = format!("postgres://{role}:s3cret@{at}/{database}");
        tells(
            &refused(&of_role).await,
            ServerProblem::Missing,
            &["3F000", "the user may not use it"],
        );
        let grant = format!("GRANT USAGE ON SCHEMA public TO {role}");
        client.batch_execute(&grant).await.unwrap();
        tells(
            &refused(&of_role).await,
            ServerProblem::Privilege,
            &["42501", "CREATE on the schema"],
        );

        // Set up by somebody else, with nothing for the role but reading.
        open(&url).await.unwrap();
        let grant = format!("GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}");
        client.batch_execute(&grant).await.unwrap();
        let saver = open(&of_role).await.unwrap();
        tells(&put(&*saver).await.unwrap_err(), ServerProblem::Privilege, &["42501", "INSERT"]);
        assert_eq!(saver.get_tuple(&key("t", ""), None).await.unwrap(), None);
        let gone = format!("DROP OWNED BY {role}; DROP ROLE {role}");
        drop(saver);
        client.batch_execute(&gone).await.unwrap();
    });
}

#[test]
fn a_database_that_takes_nothing() {
    let Some(server) = Server::get() else { return };
    block_on(async {
        let url = server.database("standby");
        open(&url).await.unwrap();
        let read_only = "options=-cdefault_transaction_read_only%3Don";
        let saver = open(&format!("{url}?{read_only}")).await.unwrap();
        tells(
            &put(&*saver).await.unwrap_err(),
            ServerProblem::ReadOnly,
            &["25006", "name the primary"],
        );

        let client = connect(&url).await;
        let full = "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN RAISE 'could not extend file: No space left on device' \
             USING ERRCODE = '53100'; END $$; \
             CREATE TRIGGER full_disk BEFORE INSERT ON checkpoints \
             FOR EACH ROW EXECUTE FUNCTION full_disk()";
        client.batch_execute(full).await.unwrap();
        let saver = open(&url).await.unwrap();
        tells(
            &put(&*saver).await.unwrap_err(),
            ServerProblem::DiskFull,
            &["53100", "disk is full"],
        );
        client.batch_execute("DROP TABLE checkpoints").await.unwrap();
        tells(&put(&*saver).await.unwrap_err(), ServerProblem::Tables, &["42P01", "dropped"]);
    });
}

#[test]
fn a_server_that_has_no_connection_left() {
    let Some(server) = Server::get() else { return };
    block_on(async {
        let url = server.database("crowded");
        open(&url).await.unwrap();
        let client = connect(&url).await;
        let role = format!("c{}", std::process::id());
        let make = format!(
            "CREATE ROLE {role} LOGIN PASSWORD 's3cret' CONNECTION LIMIT 0; \
             GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}"
        );
        client.batch_execute(&make).await.unwrap();
        let (start, database) = url.rsplit_once('/').unwrap();
        let at = start.rsplit_once('@').unwrap().1;
        let of_role = format!("postgres://{role}:s3cret@{at}/{database}");
        tells(&refused(&of_role).await, ServerProblem::Unreachable, &["53300", "max_connections"]);

        // And it is waited for: one goes, and the call goes on.
        client.batch_execute(&format!("ALTER ROLE {role} CONNECTION LIMIT 2")).await.unwrap();
        let saver = PostgresSaver::open(&of_role, &Doors::production()).await.unwrap();
        client.batch_execute(&format!("ALTER ROLE {role} CONNECTION LIMIT 0")).await.unwrap();
        let more = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            client.batch_execute(&format!("ALTER ROLE {role} CONNECTION LIMIT 2")).await.unwrap();
        };
        let (stored, ()) = futures::join!(put(&*saver), more);
        stored.unwrap();
        drop(saver);
        let gone = format!("DROP OWNED BY {role}; DROP ROLE {role}");
        client.batch_execute(&gone).await.unwrap();
    });
}

#[test]
fn a_closed_saver_says_so() {
    let Some(server) = Server::get() else { return };
    block_on(async {
        let saver = open(&server.database("closed")).await.unwrap();
        put(&*saver).await.unwrap();
        saver.close();
        tells(
            &put(&*saver).await.unwrap_err(),
            ServerProblem::NoConnection,
            &["the saver is closed"],
        );
    });
}
