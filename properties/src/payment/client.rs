//! A real HTTP client over the connector door, one connection per request.

use std::sync::Arc;

use bytes::Bytes;
use durasim_runtime::NodeContext;
use durasim_runtime::doors::{Doors, RawHandle};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde_json::Value as Json;

/// Where the provider is.
const AUTHORITY: &str = "payments:80";

/// What the provider said.
pub(super) struct Reply {
    pub status: u16,
    pub body: Json,
}

/// No reply was read. Whether the provider has acted is unknown.
#[derive(Debug)]
pub(super) struct Lost;

/// Sends one request and reads its reply. `sent` is called when the request may have left.
pub(super) async fn request(
    context: &NodeContext,
    method: Method,
    path: &str,
    key: Option<&str>,
    body: Option<Json>,
    sent: impl FnOnce(),
) -> Result<Reply, Lost> {
    let doors = context.doors();
    let stream = doors.connector.connect(AUTHORITY).await.map_err(lost)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(lost)?;
    let _closing = drive(doors, context, async move {
        let _ = connection.await;
    });
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", AUTHORITY)
        .header("x-request-id", context.request().unwrap_or("-"))
        .header("x-thread-id", context.thread().unwrap_or("-"));
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    let body = body.as_ref().map(serde_json::to_vec).transpose().map_err(lost)?;
    let body = body.map_or_else(Full::default, |json| Full::new(Bytes::from(json)));
    let request = request.body(body).map_err(lost)?;
    sent();
    let response = sender.send_request(request).await.map_err(lost)?;
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.map_err(lost)?.to_bytes();
    Ok(Reply { status, body: serde_json::from_slice(&bytes).map_err(lost)? })
}

fn lost(_: impl std::error::Error) -> Lost {
    Lost
}

/// Runs the connection beside the request. A node that is cut off takes its connection with it.
fn drive(
    doors: &Doors,
    context: &NodeContext,
    connection: impl Future<Output = ()> + Send + 'static,
) -> Closing {
    let actor = format!("{}/payment", context.run().unwrap_or("-"));
    Closing(doors.executor.spawn(&actor, connection).aborter())
}

struct Closing(Arc<dyn RawHandle>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.abort();
    }
}
