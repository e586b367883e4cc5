//! A private PostgreSQL server for a program that is not Rust: says its URL on standard output, or on
//! standard error why there is none, and is gone when standard input ends. With `--durable` it waits
//! for its disk at every commit, as a server in production does.

use std::process::ExitCode;

#[cfg(not(madsim))]
fn main() -> ExitCode {
    use std::io::Read;

    let start = match std::env::args().nth(1).as_deref() {
        None => durasim_cluster::Cluster::start,
        Some("--durable") => durasim_cluster::Cluster::start_durable,
        Some(other) => {
            eprintln!("{other}: the only option is --durable");
            return ExitCode::FAILURE;
        }
    };
    let cluster = match start() {
        Ok(cluster) => cluster,
        Err(reason) => {
            eprintln!("{reason}");
            return ExitCode::FAILURE;
        }
    };
    println!("{}", cluster.database("work"));
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    ExitCode::SUCCESS
}

#[cfg(madsim)]
fn main() -> ExitCode {
    eprintln!("a real server has no place in a simulated build");
    ExitCode::FAILURE
}
