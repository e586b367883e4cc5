//! A PostgreSQL server for commands that need a real one.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use crate::simulator::{plain_binary, plain_cargo};

/// A PostgreSQL server of our own (xtask/cluster). Dropped, it is gone.
pub struct Server {
    pub url: String,
    process: Child,
}

impl Server {
    /// With the starter's own options. The error says why there is none.
    pub fn start(options: &[&str]) -> Result<Server, String> {
        let text = |error: std::io::Error| format!("the PostgreSQL server: {error}");
        let mut build = plain_cargo(&["build", "--quiet", "--package", "durasim-cluster"]);
        if !build.status().map_err(text)?.success() {
            return Err("the starter of the PostgreSQL server cannot be built".to_owned());
        }
        let mut start = Command::new(plain_binary("durasim-cluster"));
        start.args(options);
        start.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = start.spawn().map_err(text)?;
        let mut url = String::new();
        let answer = process.stdout.as_mut().expect("it is piped");
        BufReader::new(answer).read_line(&mut url).map_err(text)?;
        if url.is_empty() {
            let mut reason = String::new();
            let complaint = process.stderr.as_mut().expect("it is piped");
            complaint.read_to_string(&mut reason).map_err(text)?;
            let _ = process.wait();
            return Err(reason.trim().to_owned());
        }
        Ok(Server { url: url.trim().to_owned(), process })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}
