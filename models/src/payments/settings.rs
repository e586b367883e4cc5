//! The knobs: what the contract fixes, and how the provider misbehaves within it.

use serde::{Deserialize, Serialize};

/// Lowest and highest, both included, in milliseconds.
pub type Span = [u64; 2];

/// So many of so many cases: `[1, 10]` is one in ten, `[0, 1]` never, `[1, 1]` always.
pub type Ratio = [u64; 2];

const NEVER: Ratio = [0, 1];

/// How the provider behaves. The defaults are Stripe's contract, kept without a fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PaymentSettings {
    /// From the arrival of a request to the moment it takes effect.
    pub latency_before_ms: Span,
    /// From that moment to the answer; replays and look-ups take this long, too. The key is in use
    /// until the answer is on its way.
    pub latency_after_ms: Span,
    /// How long a look-up by business id does not see a new charge. Stripe finds an id of the
    /// merchant's own only through its search, which lags by up to a minute in normal operation
    /// (<https://docs.stripe.com/search>); 0 stands for a list, which does not lag.
    pub lookup_lag_ms: u64,

    /// From the first use of a key to its being forgotten. Stripe promises 24 hours at least.
    pub key_lifetime_ms: u64,
    /// Stripe: 255.
    pub key_max_chars: usize,
    /// Stripe: eight digits.
    pub amount_max_cents: u64,

    /// The key's first request is still running.
    pub conflict_status: u16,
    /// The key was first used with other parameters.
    pub mismatch_status: u16,
    /// The request cannot be understood, or asks for what is not allowed.
    pub invalid_status: u16,
    /// No such charge, no such path.
    pub missing_status: u16,
    pub declined_status: u16,
    /// An internal failure.
    pub failure_status: u16,

    /// The card is declined. An answer like any other: saved under its key.
    pub decline: Ratio,
    /// Declines every so-many-th charge of each business id; 0 is never. Counted apart, so that one
    /// client's charges do not decide about another's.
    pub decline_every: u64,
    /// An internal failure before anything was done.
    pub fail_before: Ratio,
    /// An internal failure when the charge or the refund had been made: the answer is a lie that
    /// every retry with the same key repeats.
    pub fail_after: Ratio,
    /// The work is done, and the connection closes without a word. Replays are spared, so that a
    /// retry with the same key always settles the matter.
    pub lose_reply: Ratio,
}

impl Default for PaymentSettings {
    fn default() -> Self {
        PaymentSettings {
            latency_before_ms: [50, 300],
            latency_after_ms: [10, 50],
            lookup_lag_ms: 0,
            key_lifetime_ms: 24 * 60 * 60 * 1000,
            key_max_chars: 255,
            amount_max_cents: 99_999_999,
            conflict_status: 409,
            mismatch_status: 400,
            invalid_status: 400,
            missing_status: 404,
            declined_status: 402,
            failure_status: 500,
            decline: NEVER,
            decline_every: 0,
            fail_before: NEVER,
            fail_after: NEVER,
            lose_reply: NEVER,
        }
    }
}

impl PaymentSettings {
    /// Whether the values make sense.
    ///
    /// # Errors
    /// Names the field and says what it would take.
    pub fn check(&self) -> Result<(), String> {
        let spans = [
            ("latency_before_ms", self.latency_before_ms),
            ("latency_after_ms", self.latency_after_ms),
        ];
        for (field, [low, high]) in spans {
            if low > high {
                return Err(format!("{field}: [{low}, {high}] is empty; the lower bound is first"));
            }
        }
        let ratios = [
            ("decline", self.decline),
            ("fail_before", self.fail_before),
            ("fail_after", self.fail_after),
            ("lose_reply", self.lose_reply),
        ];
        for (field, [some, all]) in ratios {
            if all == 0 || some > all {
                return Err(format!(
                    "{field}: [{some}, {all}] is no ratio; [1, 10] is one case in ten"
                ));
            }
        }
        let statuses = [
            ("conflict_status", self.conflict_status),
            ("mismatch_status", self.mismatch_status),
            ("invalid_status", self.invalid_status),
            ("missing_status", self.missing_status),
            ("declined_status", self.declined_status),
            ("failure_status", self.failure_status),
        ];
        for (field, status) in statuses {
            if !(400..600).contains(&status) {
                return Err(format!("{field}: {status} is no HTTP error; give one of 400 to 599"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_make_sense_and_fill_in_what_a_file_leaves_out() {
        assert_eq!(PaymentSettings::default().check(), Ok(()));
        let read: PaymentSettings = serde_json::from_str(r#"{"lose_reply": [1, 4]}"#).unwrap();
        assert_eq!(read, PaymentSettings { lose_reply: [1, 4], ..Default::default() });
        assert!(serde_json::from_str::<PaymentSettings>(r#"{"loose_reply": [1, 4]}"#).is_err());
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let complaint = |settings: PaymentSettings| settings.check().unwrap_err();
        let bad = PaymentSettings { latency_after_ms: [2, 1], ..Default::default() };
        assert!(complaint(bad).starts_with("latency_after_ms: "));
        let bad = PaymentSettings { fail_after: [1, 0], ..Default::default() };
        assert!(complaint(bad).starts_with("fail_after: "));
        let bad = PaymentSettings { decline: [3, 2], ..Default::default() };
        assert!(complaint(bad).starts_with("decline: "));
        let bad = PaymentSettings { conflict_status: 200, ..Default::default() };
        assert!(complaint(bad).starts_with("conflict_status: "));
    }
}
