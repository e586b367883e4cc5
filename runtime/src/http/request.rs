//! Reading a run request. Whatever does not fit is a [`Problem`] that names it.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRef, FromRequest, FromRequestParts, Path, Request};
use axum::http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::{Problem, Service};
use crate::pregel::{Command, Input, RunConfig};
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
    checkpoint_id: Option<String>,
    #[serde(default)]
    config: ConfigBody,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CommandBody {
    resume: Json,
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
        let config = RunConfig {
            request: Some(request_id),
            checkpoint: body.checkpoint_id.map(Arc::from),
            durability: body.durability.unwrap_or(service.config.durability),
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
                Input::Command(Command { resume: Some(value::from_json(command.resume)) })
            }
            (Some(_), Some(_)) => return Err(unfit("`input` and `command` exclude each other")),
            (None, None) => return Err(unfit("missing field `input` (null continues the thread)")),
        };
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
