//! A private PostgreSQL server for a program that is not Rust: says its URL on standard output, or on
//! standard error why there is none, and is gone when standard input ends.

use std::process::ExitCode;

#[cfg(not(madsim))]
fn main() -> ExitCode {
    use std::io::Read;

    let cluster = match durasim_cluster::Cluster::start() {
        Ok(cluster) => cluster,
        Err(reason) => {
            eprintln!("{reason}");
            return ExitCode::FAILURE;
        }
    };
    println!("{}", cluster.database("peers"));
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    ExitCode::SUCCESS
}

#[cfg(madsim)]
fn main() -> ExitCode {
    eprintln!("a real server has no place in a simulated build");
    ExitCode::FAILURE
}
