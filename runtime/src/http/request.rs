//! Reading a run request. Whatever does not fit is a [`Problem`] that names it.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRef, FromRequest, FromRequestParts, Path, Request};
use axum::http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::{Problem, Service};
use crate::graph::{self, Command, Goto, Resume, Update};
use crate::pregel::{Input, RunConfig};
use crate::profile::Durability;
use crate::stream::StreamMode;
use crate::value;

/// Longest thread id in bytes.
const LONGEST_THREAD_ID: usize = 512;

/// A thread id from the path: printable UTF-8 of 1 to 512 bytes.
pub(super) struct ThreadId(pub Arc<str>);

impl<S: Send + Sync> FromRequestParts<S> for ThreadId {
    type Rejection = Problem;

    async fn from_request_parts(
        parts: &mut axum::http::request::Parts,
        state: &S,
    ) -> Result<ThreadId, Problem> {
        const TITLE: &str = "bad thread id";
        let path: Result<Path<String>, PathRejection> =
            Path::from_request_parts(parts, state).await;
        let Path(thread) = path.map_err(|error| Problem::bad_request(TITLE, error.body_text()))?;
        if thread.is_empty() {
            return Err(Problem::bad_request(TITLE, "it is empty"));
        }
        if let Some(odd) = thread.chars().find(|c| c.is_control()) {
            let detail = format!("it holds the control character U+{:04X}", odd as u32);
            return Err(Problem::bad_request(TITLE, detail));
        }
        if thread.len() > LONGEST_THREAD_ID {
            let detail =
                format!("it has {} bytes; at most {LONGEST_THREAD_ID} are taken", thread.len());
            return Err(Problem::bad_request(TITLE, detail));
        }
        Ok(ThreadId(thread.into()))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    /// `null` continues; absent is a mistake unless there is a command.
    #[serde(default, deserialize_with = "present")]
    input: Option<Json>,
    command: Option<CommandBody>,
    stream_mode: Option<Modes>,
    durability: Option<Durability>,
    /// What `durability` was before: true is async, false is exit.
    checkpoint_during: Option<bool>,
    #[serde(default)]
    stream_subgraphs: bool,
    interrupt_before: Option<Nodes>,
    interrupt_after: Option<Nodes>,
    #[serde(default)]
    context: Json,
    checkpoint_id: Option<String>,
    #[serde(default)]
    config: ConfigBody,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CommandBody {
    #[serde(default, deserialize_with = "present")]
    resume: Option<Json>,
    #[serde(default)]
    update: Map<String, Json>,
    #[serde(default, deserialize_with = "one_or_several")]
    goto: Vec<GotoBody>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum GotoBody {
    Node(String),
    Send {
        node: String,
        #[serde(default)]
        input: Json,
    },
}

fn one_or_several<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Body<T> {
        Several(Vec<T>),
        One(T),
    }
    Ok(match Body::deserialize(deserializer)? {
        Body::Several(several) => several,
        Body::One(one) => vec![one],
    })
}

impl CommandBody {
    fn command(self) -> Command {
        let mut update = Update::new();
        for (key, value) in self.update {
            update = update.set_value(&key, value::from_json(value));
        }
        let goto = self.goto.into_iter().map(|to| match to {
            GotoBody::Node(node) => Goto::from(node),
            GotoBody::Send { node, input } => {
                graph::Send::new(&node, value::from_json(input)).into()
            }
        });
        Command {
            update,
            goto: goto.collect(),
            // Null is an answer too.
            resume: self.resume.map(|answer| Resume::from_value(value::from_json(answer))),
            ..Command::new()
        }
    }
}

/// Nodes of a static interrupt, or `*` for all of them.
#[derive(Deserialize)]
#[serde(untagged)]
enum Nodes {
    One(Arc<str>),
    Several(Vec<Arc<str>>),
}

impl Nodes {
    fn list(self) -> Vec<Arc<str>> {
        match self {
            Nodes::One(name) => vec![name],
            Nodes::Several(names) => names,
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct ConfigBody {
    recursion_limit: Option<u64>,
    #[serde(default)]
    configurable: Map<String, Json>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Modes {
    One(StreamMode),
    Several(Vec<StreamMode>),
}

fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

/// What a request asks to run.
pub(super) struct RunRequest {
    pub input: Input,
    pub config: RunConfig,
}

impl<S> FromRequest<S> for RunRequest
where
    S: Send + Sync,
    Service: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<RunRequest, Problem> {
        let service = &Service::from_ref(state);
        let (mut parts, body) = request.into_parts();
        let ThreadId(thread) = ThreadId::from_request_parts(&mut parts, service).await?;
        let request_id = request_id(&parts.headers, service)?;
        let request = Request::from_parts(parts, body);
        let bytes = Bytes::from_request(request, service)
            .await
            .map_err(|error| Problem::new(error.status(), "bad body", error.body_text()))?;
        let body: Body = parse(&bytes)?;
        let durability = match (body.durability, body.checkpoint_during) {
            (Some(_), Some(_)) => {
                return Err(unfit("`durability` and `checkpoint_during` exclude each other"));
            }
            (Some(durability), None) => durability,
            (None, Some(true)) => Durability::Async,
            (None, Some(false)) => Durability::Exit,
            (None, None) => service.config.durability,
        };
        let config = RunConfig {
            request: Some(request_id),
            checkpoint: body.checkpoint_id.map(Arc::from),
            durability,
            subgraphs: body.stream_subgraphs,
            interrupt_before: body.interrupt_before.map(Nodes::list),
            interrupt_after: body.interrupt_after.map(Nodes::list),
            context: value::from_json(body.context),
            modes: match body.stream_mode {
                None => service.config.modes.clone(),
                Some(Modes::One(mode)) => vec![mode],
                Some(Modes::Several(modes)) => modes,
            },
            cancel: service.config.cancel,
            configurable: body.config.configurable,
            ..RunConfig::new(thread)
        };
        let recursion_limit = body.config.recursion_limit.unwrap_or(config.recursion_limit);
        let input = match (body.input, body.command) {
            (Some(Json::Null), None) => Input::Resume,
            (Some(input), None) => Input::New(value::from_json(input)),
            (None | Some(Json::Null), Some(command)) => {
                let command = command.command();
                if command == Command::new() {
                    return Err(unfit("command: it has none of `resume`, `update` and `goto`"));
                }
                Input::Command(command)
            }
            (Some(_), Some(_)) => return Err(unfit("`input` and `command` exclude each other")),
            (None, None) => return Err(unfit("missing field `input` (null continues the thread)")),
        };
        service.graph.check(&input).map_err(unfit)?;
        Ok(RunRequest { input, config: RunConfig { recursion_limit, ..config } })
    }
}

fn parse(bytes: &[u8]) -> Result<Body, Problem> {
    // Two steps, so that text that is not JSON and JSON that does not fit are told apart.
    let json: Json = serde_json::from_slice(bytes)
        .map_err(|error| Problem::bad_request("the body is not JSON", error))?;
    // serde takes a list for a struct, field by field.
    if !json.is_object() {
        return Err(unfit("it is not an object with the field `input`"));
    }
    for field in ["config", "command"] {
        if json.get(field).is_some_and(Json::is_array) {
            return Err(unfit(format!("{field}: it is not an object")));
        }
    }
    serde_path_to_error::deserialize(json).map_err(|error| {
        match error.path().to_string().as_str() {
            "." => unfit(error.into_inner()),
            path => unfit(format!("{path}: {}", error.inner())),
        }
    })
}

fn unfit(problem: impl ToString) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "the body does not fit", problem)
}

/// The client's own `x-request-id`, or a fresh one.
fn request_id(headers: &HeaderMap, service: &Service) -> Result<Arc<str>, Problem> {
    match headers.get("x-request-id") {
        None => Ok(format!("{:016x}", service.graph.doors().entropy.u64("request.id")).into()),
        Some(id) => match id.to_str() {
            Ok(id) if !id.is_empty() && id.len() <= LONGEST_THREAD_ID => Ok(id.into()),
            _ => Err(Problem::bad_request("bad x-request-id", "1 to 512 printable ASCII bytes")),
        },
    }
}
