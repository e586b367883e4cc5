//! Scripts for several connections, run on both servers and compared line by line.
//!
//! A line is a connection's name and what it does:
//!
//! - `a select 1`: a simple query
//! - `a.parse s select $1::int`, `a.bind p s 'x' null`, `a.describe S s`, `a.execute p 0`,
//!   `a.close S s`, `a.sync`: the extended protocol, sent at the sync; `_` is the empty name, and a
//!   value `\x01` is given in binary
//! - `a.cancel`: asks the server to cancel what `a` runs; `a.quit`: hangs up
//! - `sleep 300`: milliseconds
//!
//! What has not answered after [`PATIENCE`], and which the server says is behind a lock, waits; its
//! answer is shown when it comes. So a slow machine changes nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::BytesMut;
use durasim_cluster::Cluster;
use durasim_models::postgres::PostgresSettings;
use postgres_protocol::IsNull;
use postgres_protocol::message::frontend;
use tokio::time::timeout;

use crate::client::Client;
use crate::side::Side;

/// Longer than the timeouts that are to come within their own step.
const PATIENCE: Duration = Duration::from_millis(150);
/// What has not answered by then waits for something else than a lock.
const LONG: Duration = Duration::from_secs(1);
/// Longer than any timeout that a script sets.
const FOR_EVER: Duration = Duration::from_secs(5);

/// Runs the script on both and fails with both transcripts where they differ.
pub fn compare(label: &str, script: &[&str]) {
    let Some(cluster) = Cluster::for_test() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let real = Side::real(&cluster, label);
        let model = Side::model(PostgresSettings::default());
        let (real, model) = tokio::join!(run(&real, script), run(&model, script));
        assert_same(&real, &model);
    });
}

/// Fails with every step that came out differently.
pub fn assert_same(real: &[String], model: &[String]) {
    let (real, model) = (steps(real), steps(model));
    let differing = real.iter().zip(&model).filter(|(real, model)| real != model);
    let shown = differing.map(|(real, model)| {
        let answer = |step: &[String]| step[1..].join("\n      ");
        format!("{}\n  real\n      {}\n  model\n      {}", real[0], answer(real), answer(model))
    });
    let shown: Vec<String> = shown.collect();
    assert!(shown.is_empty(), "the model differs\n{}", shown.join("\n"));
}

/// The lines of each step of the script.
fn steps(transcript: &[String]) -> Vec<Vec<String>> {
    let mut steps: Vec<Vec<String>> = Vec::new();
    for line in transcript {
        match steps.last_mut() {
            Some(step) if !line.starts_with("> ") => step.push(line.clone()),
            _ => steps.push(vec![line.clone()]),
        }
    }
    steps
}

pub struct Stage {
    side: Side,
    clients: BTreeMap<String, Client>,
    waiting: BTreeMap<String, Waiting>,
    transcript: Vec<String>,
    /// Looks at the real server's locks.
    observer: Option<Client>,
}

/// A request that has not been answered.
#[derive(Default)]
struct Waiting {
    so_far: Vec<String>,
    /// Has the transcript said so?
    shown: bool,
}

pub async fn run(side: &Side, script: &[&str]) -> Vec<String> {
    let mut stage = Stage::new(side);
    for line in script {
        stage.step(line).await;
    }
    stage.end().await
}

impl Stage {
    pub fn new(side: &Side) -> Stage {
        Stage {
            side: side.clone(),
            clients: BTreeMap::new(),
            waiting: BTreeMap::new(),
            transcript: Vec::new(),
            observer: None,
        }
    }

    pub async fn step(&mut self, line: &str) {
        self.transcript.push(format!("> {line}"));
        self.line(line).await;
    }

    /// Who has not been answered yet.
    pub fn waiting(&self) -> impl Iterator<Item = &String> {
        self.waiting.keys()
    }

    /// Everything that happened, once nobody waits any more.
    pub async fn end(mut self) -> Vec<String> {
        for name in self.waiting.keys().cloned().collect::<Vec<_>>() {
            self.answer(&name, FOR_EVER).await;
        }
        self.transcript
    }

    async fn line(&mut self, line: &str) {
        let (head, rest) = line.split_once(' ').unwrap_or((line, ""));
        if head == "sleep" {
            tokio::time::sleep(Duration::from_millis(rest.parse().unwrap())).await;
            return self.others("").await;
        }
        let (name, verb) = head.split_once('.').unwrap_or((head, "query"));
        if verb == "cancel" {
            self.cancel(name).await;
            return self.others("").await;
        }
        if self.waiting.contains_key(name) && verb != "quit" {
            self.answer(name, FOR_EVER).await;
        }
        if verb == "quit" {
            self.waiting.remove(name);
            self.clients.remove(name);
            // The server needs a moment to notice.
            tokio::time::sleep(Duration::from_millis(50)).await;
            return self.others("").await;
        }
        if !self.clients.contains_key(name) {
            let stream = self.side.stream().await;
            match Client::connect(stream, &self.side.login()).await {
                Ok(client) => drop(self.clients.insert(name.to_owned(), client)),
                Err(refusal) => return self.transcript.push(format!("{name}: {refusal}")),
            }
        }
        let client = self.clients.get_mut(name).unwrap();
        if gather(&mut client.out, verb, rest) {
            client.send().await;
            self.waiting.insert(name.to_owned(), Waiting::default());
            self.answer(name, PATIENCE).await;
            self.others(name).await;
        }
    }

    /// Waits for the rest of an answer, and shows it when it is whole.
    async fn answer(&mut self, name: &str, patience: Duration) {
        let mut waited = Duration::ZERO;
        while !self.hear(name, patience).await {
            waited += patience;
            if patience == FOR_EVER {
                return self.transcript.push(format!("{name} is stuck"));
            }
            if waited < LONG && !self.is_blocked(name).await {
                continue;
            }
            if let Some(waiting) = self.waiting.get_mut(name)
                && !waiting.shown
            {
                waiting.shown = true;
                self.transcript.push(format!("{name} waits"));
            }
            return;
        }
    }

    /// Whether the answer is whole.
    async fn hear(&mut self, name: &str, patience: Duration) -> bool {
        let Some(client) = self.clients.get_mut(name) else { return true };
        let so_far = &mut self.waiting.get_mut(name).unwrap().so_far;
        let whole = timeout(patience, async {
            while let Some(line) = client.lines.recv().await {
                let last = line.starts_with("ready");
                so_far.push(line);
                if last {
                    return false;
                }
            }
            so_far.push("the connection ends".to_owned());
            true
        });
        let Ok(ended) = whole.await else { return false };
        let lines = self.waiting.remove(name).unwrap().so_far;
        self.transcript.extend(lines.into_iter().map(|line| format!("{name}: {line}")));
        if ended {
            self.clients.remove(name);
        }
        true
    }

    /// Does the server say that it waits for a lock?
    async fn is_blocked(&mut self, name: &str) -> bool {
        let pid = self.clients[name].key.0;
        match &self.side {
            Side::Model(postgres) => postgres.waiting().contains(&pid),
            Side::Real { .. } => {
                if self.observer.is_none() {
                    let stream = self.side.stream().await;
                    self.observer = Client::connect(stream, &self.side.login()).await.ok();
                }
                let observer = self.observer.as_mut().expect("there is room for one more");
                let query = format!("select 1 from pg_locks where pid = {pid} and not granted");
                frontend::query(&query, &mut observer.out).unwrap();
                observer.send().await;
                let mut found = false;
                while let Some(line) = observer.lines.recv().await {
                    found |= line.starts_with("row");
                    if line.starts_with("ready") {
                        break;
                    }
                }
                found
            }
            // Behind a pooler nobody can tell.
            Side::Pooler(_) => true,
        }
    }

    /// Shows the answers of those who had to wait, if they have come.
    async fn others(&mut self, but: &str) {
        for name in self.waiting.keys().cloned().collect::<Vec<_>>() {
            if name != but {
                self.answer(&name, PATIENCE).await;
            }
        }
    }

    async fn cancel(&mut self, name: &str) {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let (pid, secret) = self.clients[name].key;
        let mut stream = self.side.stream().await;
        let mut out = BytesMut::new();
        frontend::cancel_request(pid, secret, &mut out);
        stream.write_all(&out).await.unwrap();
        // The server closes when it is done.
        let _ = stream.read_to_end(&mut Vec::new()).await;
    }
}

fn target(word: &str) -> u8 {
    word.as_bytes()[0]
}

fn unnamed(name: &str) -> &str {
    if name == "_" { "" } else { name }
}

/// A value of a bind: `null`, a quoted text, `\x` and hex digits for binary, or a bare word.
fn value(word: &str) -> (i16, Option<Vec<u8>>) {
    if word == "null" {
        return (0, None);
    }
    if let Some(hex) = word.strip_prefix("\\x") {
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        return (1, Some((0..hex.len()).step_by(2).map(byte).collect()));
    }
    (0, Some(word.trim_matches('\'').as_bytes().to_vec()))
}

/// Words, of which a quoted one may have spaces.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in text.chars() {
        quoted ^= c == '\'';
        match c {
            ' ' if !quoted => words.push(String::new()),
            c => words.last_mut().unwrap().push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Adds a message; true if it is one that is answered to the end.
fn gather(out: &mut BytesMut, verb: &str, rest: &str) -> bool {
    let (first, tail) = rest.split_once(' ').unwrap_or((rest, ""));
    match verb {
        "query" => frontend::query(rest, out).unwrap(),
        "parse" => {
            // `name[oid,oid] sql`
            let (name, oids) = first.split_once('[').unwrap_or((first, ""));
            let oids = oids.trim_end_matches(']').split(',').filter(|oid| !oid.is_empty());
            let oids: Vec<u32> = oids.map(|oid| oid.parse().unwrap()).collect();
            frontend::parse(unnamed(name), tail, oids, out).unwrap();
        }
        "bind" | "bindb" => {
            let words = words(rest);
            let (portal, statement) = (unnamed(&words[0]), unnamed(&words[1]));
            let values: Vec<_> = words[2..].iter().map(|word| value(word)).collect();
            let formats: Vec<i16> = values.iter().map(|(format, _)| *format).collect();
            let values = values.into_iter().map(|(_, value)| value);
            let result = i16::from(verb == "bindb");
            let write = |value: Option<Vec<u8>>, out: &mut BytesMut| match value {
                None => Ok(IsNull::Yes),
                Some(bytes) => {
                    out.extend_from_slice(&bytes);
                    Ok(IsNull::No)
                }
            };
            frontend::bind(portal, statement, formats, values, write, [result], out)
                .unwrap_or_else(|_| panic!("bad bind: {rest}"));
        }
        "describe" => frontend::describe(target(first), unnamed(tail), out).unwrap(),
        "close" => frontend::close(target(first), unnamed(tail), out).unwrap(),
        "execute" => frontend::execute(unnamed(first), tail.parse().unwrap(), out).unwrap(),
        "sync" => frontend::sync(out),
        other => panic!("unknown verb {other}"),
    }
    matches!(verb, "query" | "sync")
}
