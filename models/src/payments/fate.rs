//! What befalls one request, drawn when its execution begins.
//!
//! Every kind of mishap has a stream of its own for each business id: turning one knob, or removing
//! one client, leaves all other draws as they were.

use std::time::Duration;

use durasim_sim::Chance;

use super::{PaymentSettings, Ratio, Span};

#[derive(Debug, Clone)]
pub(super) struct Fate {
    pub before: Duration,
    pub after: Duration,
    pub declined: bool,
    pub fails_before: bool,
    pub fails_after: bool,
    pub reply_lost: bool,
}

impl Fate {
    pub fn draw(chance: &Chance, settings: &PaymentSettings, actor: &str) -> Fate {
        let happens = |label, [some, all]: Ratio| chance.stream(label, actor).ratio(some, all);
        Fate {
            before: latency(chance, "payment.latency_before", settings.latency_before_ms, actor),
            after: answer_latency(chance, settings, actor),
            declined: happens("payment.decline", settings.decline),
            fails_before: happens("payment.fail_before", settings.fail_before),
            fails_after: happens("payment.fail_after", settings.fail_after),
            reply_lost: happens("payment.lose_reply", settings.lose_reply),
        }
    }
}

/// How long an answer takes that needs no work.
pub(super) fn answer_latency(chance: &Chance, settings: &PaymentSettings, actor: &str) -> Duration {
    latency(chance, "payment.latency_after", settings.latency_after_ms, actor)
}

fn latency(chance: &Chance, label: &str, [low, high]: Span, actor: &str) -> Duration {
    let [low, high] = [low, high].map(Duration::from_millis);
    chance.stream(label, actor).duration(low, high)
}
