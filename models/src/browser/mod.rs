//! A person at a browser: sends messages, watches the answer stream in, closes the tab, reloads.
//!
//! What a visit shows is what the person saw; whether the run was stored is another question.

mod events;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use durasim_sim::{Labels, Process, SimStream};
use futures::future::{Either, select};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value as Json;

pub use events::SseEvent;
use events::SseParser;

/// When the person goes away from a streaming answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// Waits for the end.
    Never,
    /// On having seen this many chunks.
    AfterChunk(u64),
    /// This long after sending the message, wherever the answer stands.
    After(Duration),
}

/// How a visit ended, as the person sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The stream said that it was complete.
    Complete,
    /// The stream said that the run failed.
    Failed { error: String, message: String },
    /// The server refused the request.
    Refused { status: u16, detail: String },
    /// The person left.
    Left,
    /// The stream stopped without saying anything: the connection broke or closed early.
    Broken(String),
}

/// One message and what was seen of its answer.
#[derive(Debug, Clone)]
pub struct Visit {
    /// Names the request in headers, in the stored metadata and in the trace.
    pub request: Arc<str>,
    pub chunks: Vec<SseEvent>,
    pub ending: Ending,
}

/// A browser with one page open on one thread. Runs in a process of its own.
pub struct Browser {
    process: Process,
    server: String,
    port: u16,
    thread: Arc<str>,
    visits: u64,
}

impl Browser {
    pub fn new(process: &Process, server: &str, port: u16, thread: &str) -> Browser {
        Browser {
            process: process.clone(),
            server: server.to_owned(),
            port,
            thread: thread.into(),
            visits: 0,
        }
    }

    /// Sends a run request. `body` is the JSON of the request; its `config.configurable` gets the
    /// request's id, so that it can be read back from every stored checkpoint.
    pub async fn send(&mut self, mut body: Json, leave: Leave) -> Visit {
        self.visits += 1;
        let request: Arc<str> = format!("{}.{}", self.process.name(), self.visits).into();
        body["config"]["configurable"]["request_id"] = Json::from(&*request);
        let labels = Labels::none().request(request.clone()).thread(self.thread.clone());
        self.process.note(labels.clone(), "browser.sends", vec![]);
        let mut chunks = Vec::new();
        let ending = {
            let answer = pin!(self.answer(&request, &body, leave, &mut chunks));
            let patience: std::pin::Pin<Box<dyn Future<Output = ()> + Send>> = match leave {
                Leave::After(patience) => Box::pin(self.process.world().sleep(patience)),
                _ => Box::pin(std::future::pending()),
            };
            match select(answer, patience).await {
                Either::Left((Ok(ending), _)) => ending,
                Either::Left((Err(problem), _)) => Ending::Broken(problem),
                Either::Right(_) => Ending::Left,
            }
        };
        let fields = vec![("seen", chunks.len().into()), ("ending", ending.name().into())];
        self.process.note(labels, "browser.done", fields);
        Visit { request, chunks, ending }
    }

    /// Loads the thread's state, as a page does on reload.
    pub async fn reload(&self) -> Result<Json, String> {
        let labels = Labels::none().thread(self.thread.clone());
        self.process.note(labels, "browser.reloads", vec![]);
        let path = format!("/threads/{}/state", segment(&self.thread));
        let request = Request::get(path).header("host", &*self.server).body(Full::default());
        let mut connection = self.connect().await?;
        let response =
            connection.sender.send_request(request.map_err(text)?).await.map_err(text)?;
        let status = response.status();
        let bytes = response.into_body().collect().await.map_err(text)?.to_bytes();
        match status {
            StatusCode::OK => serde_json::from_slice(&bytes).map_err(text),
            other => Err(format!("{other}: {}", String::from_utf8_lossy(&bytes))),
        }
    }

    /// Deletes the thread.
    pub async fn delete(&self) {
        let deletion = Deletion::begin(&self.process, &self.thread);
        deletion.end(self.try_delete().await);
    }

    async fn try_delete(&self) -> Result<(), String> {
        let path = format!("/threads/{}", segment(&self.thread));
        let request = Request::delete(path).header("host", &*self.server).body(Full::default());
        let mut connection = self.connect().await?;
        let response =
            connection.sender.send_request(request.map_err(text)?).await.map_err(text)?;
        match response.status() {
            StatusCode::NO_CONTENT => Ok(()),
            other => Err(other.to_string()),
        }
    }

    async fn answer(
        &self,
        request: &str,
        body: &Json,
        leave: Leave,
        chunks: &mut Vec<SseEvent>,
    ) -> Result<Ending, String> {
        let mut connection = self.connect().await?;
        let http = Request::post(format!("/threads/{}/runs/stream", segment(&self.thread)))
            .header("host", &*self.server)
            .header("content-type", "application/json")
            .header("x-request-id", request)
            .body(Full::from(serde_json::to_vec(body).map_err(text)?))
            .map_err(text)?;
        let response = connection.sender.send_request(http).await.map_err(text)?;
        if !response.status().is_success() {
            return refused(response).await;
        }
        let mut body = response.into_body();
        let mut parser = SseParser::default();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(text)?.into_data() else { continue };
            for event in parser.feed(&data)? {
                match &*event.name {
                    "end" => return Ok(Ending::Complete),
                    "error" => {
                        let part = |key: &str| event.data[key].as_str().unwrap_or("?").to_owned();
                        return Ok(Ending::Failed {
                            error: part("error"),
                            message: part("message"),
                        });
                    }
                    _ => {
                        let labels = Labels::none().request(request).thread(self.thread.clone());
                        let chunk = serde_json::to_string(&event.data).map_err(text)?;
                        let fields = vec![("chunk", chunk.into())];
                        self.process.note(labels, "browser.sees", fields);
                        chunks.push(event);
                    }
                }
                if leave == Leave::AfterChunk(chunks.len() as u64) {
                    return Ok(Ending::Left);
                }
            }
        }
        Err("the stream ended without a word".to_owned())
    }

    async fn connect(&self) -> Result<Connection, String> {
        let stream = self.process.connect(&self.server, self.port).await.map_err(text)?;
        Connection::open(&self.process, stream).await
    }
}

/// A deletion under way, as the trace shows it: `browser.deletes`, then `browser.deleted` or
/// `browser.delete_failed`.
pub struct Deletion {
    process: Process,
    labels: Labels,
}

impl Deletion {
    pub fn begin(process: &Process, thread: &str) -> Deletion {
        let labels = Labels::none().thread(thread);
        process.note(labels.clone(), "browser.deletes", vec![]);
        Deletion { process: process.clone(), labels }
    }

    pub fn end(self, result: Result<(), String>) {
        let (name, fields) = match result {
            Ok(()) => ("browser.deleted", vec![]),
            Err(problem) => ("browser.delete_failed", vec![("problem", problem.into())]),
        };
        self.process.note(self.labels, name, fields);
    }
}

impl Ending {
    pub fn name(&self) -> &'static str {
        match self {
            Ending::Complete => "complete",
            Ending::Failed { .. } => "failed",
            Ending::Refused { .. } => "refused",
            Ending::Left => "left",
            Ending::Broken(_) => "broken",
        }
    }
}

/// An HTTP connection. Dropping it closes the socket, whatever was under way.
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: durasim_sim::TaskHandle<()>,
}

impl Connection {
    async fn open(process: &Process, stream: SimStream) -> Result<Connection, String> {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(text)?;
        let driver = process.spawn("http", async move {
            let _ = connection.await;
        });
        Ok(Connection { sender, driver })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// A thread id as one segment of a path: everything but RFC 3986's unreserved characters encoded.
fn segment(thread: &str) -> String {
    const ENCODED: &AsciiSet =
        &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    utf8_percent_encode(thread, ENCODED).to_string()
}

async fn refused(response: Response<hyper::body::Incoming>) -> Result<Ending, String> {
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.map_err(text)?.to_bytes();
    Ok(Ending::Refused { status, detail: String::from_utf8_lossy(&bytes).into_owned() })
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
