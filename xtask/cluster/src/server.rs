//! A server of our own, started from the installed programs.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

const SCRIPT: &str = include_str!("cluster.sh");
pub const USER: &str = "durasim";
pub const PASSWORD: &str = "durasim";

/// Runs for as long as this value lives, or the process.
pub struct Server {
    pub port: u16,
    shell: Child,
    /// What it is told, and what it answers. Its input is open for as long as the server runs.
    talk: Mutex<(Option<ChildStdin>, BufReader<ChildStdout>)>,
}

impl Server {
    pub fn start(settings: &[&str]) -> Result<Server, String> {
        let programs = programs()?;
        let mut attempts = 3;
        loop {
            attempts -= 1;
            match Server::start_once(&programs, settings) {
                // Somebody else may have taken the port meanwhile.
                Err(_) if attempts > 0 => {}
                result => return result,
            }
        }
    }

    fn start_once(programs: &Path, settings: &[&str]) -> Result<Server, String> {
        let told = |error: std::io::Error| format!("PostgreSQL cannot be started: {error}");
        let port = free_port().map_err(told)?;
        let mut command = as_somebody()?;
        command.args(["sh", "-c", SCRIPT, "cluster"]).arg(programs).arg(port.to_string());
        command.args([USER, PASSWORD]);
        settings.iter().for_each(|setting| {
            command.args(["-c", setting]);
        });
        let (input, output) = (Stdio::piped(), Stdio::piped());
        let mut shell =
            command.current_dir("/").stdin(input).stdout(output).spawn().map_err(told)?;
        let input = shell.stdin.take().expect("it is piped");
        let mut output = BufReader::new(shell.stdout.take().expect("it is piped"));
        let mut line = String::new();
        output.read_line(&mut line).map_err(told)?;
        if !line.starts_with("ready ") {
            let _ = shell.wait();
            return Err(format!("PostgreSQL does not start: {}", line.trim()));
        }
        Ok(Server { port, shell, talk: Mutex::new((Some(input), output)) })
    }

    /// One of the script's commands, until it is done.
    pub fn tell(&self, command: &str) -> Result<(), String> {
        let mut talk = self.talk.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(input), output) = &mut *talk else { return Err("it is over".to_owned()) };
        let mut line = String::new();
        let talked = writeln!(input, "{command}").and_then(|()| output.read_line(&mut line));
        match talked {
            Ok(_) if line == "done\n" => Ok(()),
            Ok(_) => Err(format!("PostgreSQL does not {command}: {}", line.trim())),
            Err(error) => Err(format!("PostgreSQL does not {command}: {error}")),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The end of its input ends the script, which ends the server and takes its files away.
        self.talk.get_mut().unwrap_or_else(PoisonError::into_inner).0 = None;
        let _ = self.shell.wait();
    }
}

fn free_port() -> std::io::Result<u16> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    Ok(listener.local_addr()?.port())
}

/// The server refuses to run as root.
fn as_somebody() -> Result<Command, String> {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|this| this.uid() == 0);
    if !is_root {
        return Ok(Command::new("env"));
    }
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let has = |name: &&str| accounts.lines().any(|line| line.split(':').next() == Some(*name));
    let name = ["postgres", "nobody"].into_iter().find(has);
    let name = name.ok_or("PostgreSQL does not run as root, and there is no user for it")?;
    let mut command = Command::new("runuser");
    command.args(["-u", name, "--"]);
    Ok(command)
}

/// Where `initdb` and `postgres` are: on the path, or of the newest of Debian's packages.
fn programs() -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let of_package = |entry: std::fs::DirEntry| Some((version(&entry)?, entry.path().join("bin")));
    let packages = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut packages: Vec<(u32, PathBuf)> = packages.filter_map(of_package).collect();
    packages.sort();
    let packages = packages.into_iter().rev().map(|(_, folder)| folder);
    let mut folders = std::env::split_paths(&path).chain(packages);
    let found = folders.find(|folder| folder.join("initdb").exists());
    found.ok_or_else(|| {
        "no PostgreSQL server is installed (Debian: apt-get install postgresql), and \
         DURASIM_POSTGRES_URL names none"
            .to_owned()
    })
}

fn version(entry: &std::fs::DirEntry) -> Option<u32> {
    entry.file_name().to_str()?.parse().ok()
}
