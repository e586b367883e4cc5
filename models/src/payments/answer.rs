//! What is said to a client: a status and a body, which is also what is saved under a key.

use serde_json::{Value as Json, json};

use super::{Charge, Refund};

/// Why a request has no good answer, as the `type` of the error says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Problem {
    Invalid,
    Card,
    Idempotency,
    Internal,
}

impl Problem {
    /// Stripe's names (<https://docs.stripe.com/api/errors>).
    fn name(self) -> &'static str {
        match self {
            Problem::Invalid => "invalid_request_error",
            Problem::Card => "card_error",
            Problem::Idempotency => "idempotency_error",
            Problem::Internal => "api_error",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    pub status: u16,
    pub body: Json,
    /// It was saved before, for an earlier request.
    pub replayed: bool,
}

impl Answer {
    pub fn good(body: Json) -> Answer {
        Answer { status: 200, body, replayed: false }
    }

    pub fn error(status: u16, problem: Problem, message: impl Into<String>) -> Answer {
        let error = json!({ "type": problem.name(), "message": message.into() });
        Answer { status, body: json!({ "error": error }), replayed: false }
    }

    /// Adds what helps a program to tell this error from others.
    #[must_use]
    pub fn with(mut self, field: &str, value: &str) -> Answer {
        self.body["error"][field] = value.into();
        self
    }
}

pub(super) fn charge(charge: &Charge) -> Json {
    json!({
        "id": &*charge.id,
        "object": "charge",
        "business_id": &*charge.business_id,
        "amount_cents": charge.amount_cents,
        "refunded_cents": charge.refunded_cents,
        "state": charge.state.name(),
    })
}

pub(super) fn refund(refund: &Refund) -> Json {
    json!({
        "id": &*refund.id,
        "object": "refund",
        "charge_id": &*refund.charge_id,
        "amount_cents": refund.amount_cents,
    })
}

/// The most recent comes first, as in Stripe's lists.
pub(super) fn list(charges: &[Charge]) -> Json {
    let data: Vec<Json> = charges.iter().rev().map(charge).collect();
    json!({ "object": "list", "data": data })
}
