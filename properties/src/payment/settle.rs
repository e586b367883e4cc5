//! Charges whose outcome their sender does not know, settled by asking the provider.
//!
//! A request left the socket and its reply was never read: the client was gone and its run cut off,
//! the process was killed, the connection broke. The sender cannot tell whether money moved. A
//! look-up by the merchant's own id can.

use bytes::Bytes;
use durasim_models::PaymentProvider;
use durasim_sim::{Event, Process, Trace, Value};
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value as Json;

use crate::outcome::UnknownCharge;

/// All of them, each with what a look-up finds.
pub(crate) async fn unknown_charges(process: &Process, trace: &Trace) -> Vec<UnknownCharge> {
    let sent = trace.with(|events| {
        let attempt = |event: &Event| event.get("attempt").cloned();
        let answered: Vec<Option<Value>> =
            events.iter().filter(|e| e.name == "charge.answered").map(attempt).collect();
        let unanswered = events
            .iter()
            .filter(|event| event.name == "charge.sent" && !answered.contains(&attempt(event)));
        unanswered.cloned().collect::<Vec<_>>()
    });
    let mut unknown = Vec::new();
    for event in sent {
        let field = |name| event.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let booking = field("booking");
        let found = look_up(process, &booking).await;
        unknown.push(UnknownCharge {
            thread: event.labels.thread.as_deref().unwrap_or_default().to_owned(),
            request: event.labels.request.as_deref().unwrap_or_default().to_owned(),
            sent_at: event.at,
            charges: found,
            booking,
        });
    }
    unknown
}

/// Ids of the charges that the provider has under this business id; none when it does not answer.
async fn look_up(process: &Process, booking: &str) -> Option<Vec<String>> {
    let stream = process.connect(PaymentProvider::NAME, PaymentProvider::PORT).await.ok()?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
    let driver = process.spawn("look-up", async move {
        let _ = connection.await;
    });
    let request = Request::get(format!("/v1/charges?business_id={booking}"))
        .header("host", PaymentProvider::NAME)
        .body(Empty::<Bytes>::new())
        .ok()?;
    let response = sender.send_request(request).await.ok()?;
    let bytes = response.into_body().collect().await.ok()?.to_bytes();
    driver.abort();
    let body: Json = serde_json::from_slice(&bytes).ok()?;
    let charges = body["data"].as_array()?.iter();
    let succeeded = charges.filter(|charge| charge["state"] == "succeeded");
    Some(succeeded.filter_map(|charge| charge["id"].as_str().map(str::to_owned)).collect())
}
