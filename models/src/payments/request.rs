//! Reading a request: what it asks for, and who asks.
//!
//! Everything refused here is refused before execution begins, so it leaves nothing behind.

use std::sync::Arc;

use durasim_sim::Labels;
use hyper::HeaderMap;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

use super::PaymentSettings;

/// What a POST asks for. Equality is what the idempotency layer means by the same parameters; the
/// path is among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Operation {
    Charge { business: Arc<str>, cents: u64 },
    Refund { charge: Arc<str>, cents: Option<u64> },
}

/// Who asks, as the headers tell.
#[derive(Debug, Clone, Default)]
pub(super) struct Caller {
    pub key: Option<Arc<str>>,
    pub labels: Labels,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChargeBody {
    business_id: String,
    amount_cents: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RefundBody {
    charge_id: String,
    amount_cents: Option<u64>,
}

impl Operation {
    /// # Errors
    /// The message for the client.
    pub fn charge(body: &[u8], settings: &PaymentSettings) -> Result<Operation, String> {
        let ChargeBody { business_id, amount_cents } = read(body)?;
        let cents = amount(amount_cents, settings)?;
        Ok(Operation::Charge { business: named("business_id", business_id)?, cents })
    }

    /// # Errors
    /// The message for the client.
    pub fn refund(body: &[u8], settings: &PaymentSettings) -> Result<Operation, String> {
        let RefundBody { charge_id, amount_cents } = read(body)?;
        let cents = amount_cents.map(|cents| amount(cents, settings)).transpose()?;
        Ok(Operation::Refund { charge: named("charge_id", charge_id)?, cents })
    }
}

/// An object and nothing else: serde would take an array of the fields as well.
fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    let object: Map<String, Json> = serde_json::from_slice(body)
        .map_err(|error| format!("the body is no JSON object: {error}"))?;
    serde_json::from_value(Json::Object(object)).map_err(|error| error.to_string())
}

fn named(field: &str, id: String) -> Result<Arc<str>, String> {
    match id.is_empty() {
        true => Err(format!("{field} is empty")),
        false => Ok(id.into()),
    }
}

fn amount(cents: u64, settings: &PaymentSettings) -> Result<u64, String> {
    match cents {
        0 => Err("amount_cents must be positive".to_owned()),
        _ if cents > settings.amount_max_cents => {
            Err(format!("amount_cents must not exceed {}", settings.amount_max_cents))
        }
        _ => Ok(cents),
    }
}

impl Caller {
    /// Who sent these headers; a key is another matter, as it can be wrong.
    pub fn unkeyed(headers: &HeaderMap) -> Caller {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(Arc::from);
        let labels =
            Labels { request: text("x-request-id"), thread: text("x-thread-id"), ..Labels::none() };
        Caller { key: None, labels }
    }

    /// # Errors
    /// The message for the client.
    pub fn key(
        headers: &HeaderMap,
        settings: &PaymentSettings,
    ) -> Result<Option<Arc<str>>, String> {
        let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
        let key = value.to_str().map_err(|_| "the idempotency key is not ASCII".to_owned())?;
        match key.chars().count() {
            0 => Err("the idempotency key is empty".to_owned()),
            length if length > settings.key_max_chars => Err(format!(
                "the idempotency key has {length} characters; {} are allowed",
                settings.key_max_chars
            )),
            _ => Ok(Some(key.into())),
        }
    }
}

/// The value of a parameter of a query, decoded as forms are (WHATWG URL, section 5).
pub(super) fn parameter(query: &str, name: &str) -> Option<String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.into_iter().find(|(found, _)| *found == name)?;
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = hex.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        (rest, _) = match (first, escaped) {
            (b'%', Some(byte)) => (&tail[2..], bytes.push(byte)),
            (b'+', _) => (tail, bytes.push(b' ')),
            (byte, _) => (tail, bytes.push(*byte)),
        };
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
