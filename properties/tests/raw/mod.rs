//! A client without manners: any method, path, header and body, over a connection of its own in the
//! simulated network.

use bytes::Bytes;
use durasim_sim::Process;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value as Json;

/// What came back.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub kind: String,
    pub body: String,
    /// The body broke off before its end.
    pub broken: bool,
}

impl Answer {
    /// The names of the events in the body, in order.
    pub fn events(&self) -> Vec<&str> {
        self.body.lines().filter_map(|line| line.strip_prefix("event: ")).collect()
    }

    pub fn json(&self) -> Json {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

/// Sends a request and waits for all of the answer.
pub async fn ask(me: &Process, request: Request<Bytes>) -> Answer {
    let stream = me.connect("server-1", 80).await.expect("the server listens");
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.expect("a fresh connection");
    let driver = me.spawn("http", async move {
        let _ = connection.await;
    });
    let response = sender.send_request(request.map(Full::new)).await.expect("an answer");
    let status = response.status().as_u16();
    let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default().to_owned();
    let mut bytes = Vec::new();
    let mut broken = false;
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => bytes.extend(frame.into_data().unwrap_or_default()),
            Err(_) => {
                broken = true;
                break;
            }
        }
    }
    driver.abort();
    Answer { status, kind, body: String::from_utf8(bytes).expect("text"), broken }
}
