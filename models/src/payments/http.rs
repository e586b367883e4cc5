//! HTTP/1.1 at the provider's door: paths, headers, bodies.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use durasim_sim::SimStream;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;

use super::PaymentSettings;
use super::answer::Answer;
use super::desk::{Desk, Work};
use super::request::{Caller, Operation, parameter};

/// Serves one connection to its end.
pub(super) async fn serve(desk: Desk, stream: SimStream) {
    let service = service_fn(|request| answer(desk.clone(), request));
    // An error here is a client that went away, or a reply that gets lost.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

/// An error closes the connection without an answer.
async fn answer(desk: Desk, request: Request<Incoming>) -> io::Result<Response<Full<Bytes>>> {
    let (head, body) = request.into_parts();
    let caller = Caller::unkeyed(&head.headers);
    let path = head.uri.path();
    let answer = match (&head.method, path, path.strip_prefix("/v1/charges/")) {
        (&Method::POST, "/v1/charges" | "/v1/refunds", _) => {
            let read = match path {
                "/v1/charges" => Operation::charge,
                _ => Operation::refund,
            };
            let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
            let key = Caller::key(&head.headers, &desk.settings);
            post(desk, key, caller, |settings| read(&body, settings)).await?
        }
        (&Method::GET, "/v1/charges", _) => {
            match parameter(head.uri.query().unwrap_or_default(), "business_id") {
                Some(business) => desk.look_up(&business).await,
                None => desk.reject(&caller.labels, "business_id is missing".to_owned()),
            }
        }
        (&Method::GET, _, Some(id)) => desk.retrieve(id).await,
        _ => desk.missing("no such path"),
    };
    Ok(response(&answer))
}

/// The work is a task of the provider, not of the connection: hyper drops this future when the
/// client hangs up, and the charge goes on.
async fn post(
    desk: Desk,
    key: Result<Option<Arc<str>>, String>,
    caller: Caller,
    read: impl FnOnce(&PaymentSettings) -> Result<Operation, String>,
) -> io::Result<Answer> {
    let understood = key.and_then(|key| read(&desk.settings).map(|operation| (key, operation)));
    let (key, operation) = match understood {
        Ok(understood) => understood,
        Err(message) => return Ok(desk.reject(&caller.labels, message)),
    };
    let me = desk.me.clone();
    let work = Work { desk, operation, caller: Caller { key, ..caller } };
    let performed = me.spawn("payment", work.perform()).await;
    performed.ok().flatten().ok_or_else(|| io::ErrorKind::ConnectionAborted.into())
}

fn response(answer: &Answer) -> Response<Full<Bytes>> {
    let mut response =
        Response::builder().status(answer.status).header("content-type", "application/json");
    if answer.replayed {
        response = response.header("idempotent-replayed", "true");
    }
    let body = Full::from(serde_json::to_vec(&answer.body).expect("keys are texts"));
    response.body(body).expect("the status was checked with the settings")
}
