//! A stage with a payment provider, and a shop that talks to it over HTTP.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use durasim_models::{Ledger, PaymentProvider, PaymentSettings};
use durasim_sim::{Finished, LinkSpec, Process, RunOptions, World, run};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value as Json, json};

pub const MS: Duration = Duration::from_millis(1);

/// Every message takes a millisecond, effects come after 100 and answers after 50 more, so that a
/// story can say when something is under way.
pub fn settings() -> PaymentSettings {
    PaymentSettings {
        latency_before_ms: [100, 100],
        latency_after_ms: [50, 50],
        ..PaymentSettings::default()
    }
}

#[derive(Clone)]
pub struct Stage {
    pub world: World,
    pub provider: Process,
    pub ledger: Ledger,
    pub shop: Process,
}

/// What the shop saw: an answer, or a connection that broke.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    Answer { status: u16, replayed: bool, body: Json },
    Broken,
}

impl Seen {
    /// 0 for none.
    pub fn status(&self) -> u16 {
        match self {
            Seen::Answer { status, .. } => *status,
            Seen::Broken => 0,
        }
    }

    pub fn replayed(&self) -> bool {
        matches!(self, Seen::Answer { replayed: true, .. })
    }

    pub fn body(&self) -> &Json {
        match self {
            Seen::Answer { body, .. } => body,
            Seen::Broken => &Json::Null,
        }
    }

    /// The `type` of the error.
    pub fn error(&self) -> &str {
        self.body()["error"]["type"].as_str().unwrap_or_default()
    }
}

/// Plays a story to its end, days of virtual time if it takes them.
pub fn play<F>(
    seed: u64,
    settings: PaymentSettings,
    story: impl FnOnce(Stage) -> F + Send + 'static,
) -> Finished<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    let time_limit = Duration::from_secs(3 * 24 * 3600);
    let options = RunOptions { record_tape: true, time_limit, ..RunOptions::default() };
    let finished = run(seed, options, move |world| {
        Box::pin(async move {
            world.net().set_default_link(LinkSpec::fixed(MS));
            let ledger = Ledger::new();
            let provider = PaymentProvider::start(&world, settings, ledger.clone());
            let shop = world.process("shop", "shop", |_| Box::pin(async {}));
            world.sleep(MS).await;
            story(Stage { world, provider, ledger, shop }).await;
        })
    });
    assert_eq!(finished.value, Ok(()));
    assert_eq!(finished.leaked_tasks, 0);
    finished
}

impl Stage {
    pub async fn wait(&self, ms: u32) {
        self.world.sleep(ms * MS).await;
    }

    pub async fn charge(&self, business: &str, cents: u64, key: Option<&str>) -> Seen {
        let body = json!({ "business_id": business, "amount_cents": cents });
        self.post("/v1/charges", key, &body.to_string()).await
    }

    /// Without an amount: all that is left.
    pub async fn refund(&self, charge: &str, cents: Option<u64>, key: Option<&str>) -> Seen {
        let mut body = json!({ "charge_id": charge });
        if let Some(cents) = cents {
            body["amount_cents"] = cents.into();
        }
        self.post("/v1/refunds", key, &body.to_string()).await
    }

    pub async fn post(&self, path: &str, key: Option<&str>, body: &str) -> Seen {
        let mut request = Request::post(path).header("x-request-id", "request-1");
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        self.send(request.header("host", "payments").body(Full::from(body.to_owned())).unwrap())
            .await
    }

    pub async fn get(&self, path: &str) -> Seen {
        self.send(Request::get(path).header("host", "payments").body(Full::default()).unwrap())
            .await
    }

    /// On a connection of its own. Dropping the future closes it.
    async fn send(&self, request: Request<Full<Bytes>>) -> Seen {
        self.exchange(request).await.unwrap_or(Seen::Broken)
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Option<Seen> {
        let stream = self.shop.connect(PaymentProvider::NAME, PaymentProvider::PORT).await.ok()?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
        let driver = HangUp(self.shop.spawn("connection", async move {
            let _ = connection.await;
        }));
        let response = sender.send_request(request).await.ok()?;
        let (status, replayed) = (
            response.status().as_u16(),
            response.headers().get("idempotent-replayed").is_some_and(|value| value == "true"),
        );
        let bytes = response.into_body().collect().await.ok()?.to_bytes();
        drop(driver);
        let body = serde_json::from_slice(&bytes).expect("every body is JSON");
        Some(Seen::Answer { status, replayed, body })
    }

    /// Sends a charge and hangs up after so many milliseconds, before any answer.
    pub async fn charge_and_hang_up(&self, business: &str, cents: u64, key: &str, after_ms: u32) {
        let stage = self.clone();
        let (business, key) = (business.to_owned(), key.to_owned());
        let charge = self
            .shop
            .spawn("client", async move { stage.charge(&business, cents, Some(&key)).await });
        self.wait(after_ms).await;
        assert!(!charge.is_finished(), "the answer was there already");
        charge.abort();
    }
}

struct HangUp(durasim_sim::TaskHandle<()>);

impl Drop for HangUp {
    fn drop(&mut self) {
        self.0.abort();
    }
}
