//! The work itself: from a request that was understood to its answer.

use std::sync::Arc;
use std::time::Duration;

use durasim_sim::{Labels, Process, Value};

use super::answer::{self, Answer, Problem};
use super::fate::{Fate, answer_latency};
use super::keys::{Claim, Keys};
use super::ledger::Refusal;
use super::request::{Caller, Operation};
use super::{ChargeState, Ledger, PaymentSettings};

type Fields = Vec<(&'static str, Value)>;

/// One life of the provider, with the books that outlive it.
#[derive(Clone)]
pub(super) struct Desk {
    pub me: Process,
    pub settings: Arc<PaymentSettings>,
    pub ledger: Ledger,
    pub keys: Keys,
}

impl Desk {
    /// Refuses a request before execution begins.
    pub fn reject(&self, labels: &Labels, message: String) -> Answer {
        let status = self.settings.invalid_status;
        let fields = vec![("status", status.into()), ("reason", message.as_str().into())];
        self.me.note(labels.clone(), "payment.rejected", fields);
        Answer::error(status, Problem::Invalid, message)
    }

    pub fn missing(&self, what: &str) -> Answer {
        let status = self.settings.missing_status;
        Answer::error(status, Problem::Invalid, what).with("code", "resource_missing")
    }

    /// The charges for a business id that a look-up can see by now.
    pub async fn look_up(&self, business: &str) -> Answer {
        self.take_time(business).await;
        let lag = Duration::from_millis(self.settings.lookup_lag_ms);
        let mut charges = self.ledger.of_business(business);
        charges.retain(|charge| charge.at + lag <= self.me.world().now());
        Answer::good(answer::list(&charges))
    }

    pub async fn retrieve(&self, id: &str) -> Answer {
        let Some(found) = self.ledger.charge(id) else {
            return self.missing(&format!("no such charge: {id}"));
        };
        self.take_time(&found.business_id).await;
        Answer::good(answer::charge(&self.ledger.charge(id).unwrap_or(found)))
    }

    /// As long as an answer takes that needs no work.
    async fn take_time(&self, actor: &str) {
        let world = self.me.world();
        world.sleep(answer_latency(world.chance(), &self.settings, actor)).await;
    }
}

/// A POST that passed validation.
pub(super) struct Work {
    pub desk: Desk,
    pub operation: Operation,
    pub caller: Caller,
}

impl Work {
    /// The answer; none if it is lost on the way.
    pub async fn perform(self) -> Option<Answer> {
        let asked: Fields = match &self.operation {
            Operation::Charge { .. } => vec![("operation", "charge".into())],
            Operation::Refund { charge, .. } => {
                vec![("operation", "refund".into()), ("charge", charge.into())]
            }
        };
        self.note("payment.requested", asked);
        match self.claim() {
            Claim::First => self.execute().await,
            Claim::Saved(answer) => {
                self.desk.take_time(&self.actor()).await;
                self.note("payment.replayed", vec![("status", answer.status.into())]);
                Some(Answer { replayed: true, ..answer })
            }
            Claim::InUse => {
                self.note("payment.conflict", vec![]);
                let message = "another request with this idempotency key is being executed";
                let status = self.desk.settings.conflict_status;
                let conflict = Answer::error(status, Problem::Idempotency, message);
                Some(conflict.with("code", "idempotency_key_in_use"))
            }
            Claim::OtherParameters => {
                let message = "this idempotency key was first used with other parameters";
                let status = self.desk.settings.mismatch_status;
                let fields = vec![("status", status.into()), ("reason", message.into())];
                self.note("payment.rejected", fields);
                Some(Answer::error(status, Problem::Idempotency, message))
            }
        }
    }

    fn claim(&self) -> Claim {
        let Some(key) = &self.caller.key else { return Claim::First };
        let Desk { me, settings, keys, .. } = &self.desk;
        let lifetime = Duration::from_millis(settings.key_lifetime_ms);
        keys.claim(key, &self.operation, me.world().now(), lifetime, me.incarnation())
    }

    async fn execute(self) -> Option<Answer> {
        let Desk { me, settings, keys, .. } = &self.desk;
        let fate = Fate::draw(me.world().chance(), settings, &self.actor());
        me.world().sleep(fate.before).await;
        // No await from here to the saved answer: one transaction.
        let answer = self.take_effect(&fate);
        if let Some(key) = &self.caller.key {
            keys.save(key, &answer);
        }
        me.world().sleep(fate.after).await;
        if let Some(key) = &self.caller.key {
            keys.release(key);
        }
        if fate.reply_lost {
            self.note("payment.reply_lost", vec![("status", answer.status.into())]);
            return None;
        }
        Some(answer)
    }

    fn take_effect(&self, fate: &Fate) -> Answer {
        if fate.fails_before {
            return self.internal_failure("before");
        }
        let (money_moved, answer) = match &self.operation {
            Operation::Charge { business, cents } => self.charge(business, *cents, fate),
            Operation::Refund { charge, cents } => self.refund(charge, *cents),
        };
        match fate.fails_after && money_moved {
            true => self.internal_failure("after"),
            false => answer,
        }
    }

    fn internal_failure(&self, when: &str) -> Answer {
        self.note("payment.failed", vec![("when", when.into())]);
        let status = self.desk.settings.failure_status;
        Answer::error(status, Problem::Internal, "an internal failure")
    }

    /// Whether money moved, and what to say.
    fn charge(&self, business: &Arc<str>, cents: u64, fate: &Fate) -> (bool, Answer) {
        let Desk { me, settings, ledger, .. } = &self.desk;
        let earlier = ledger.of_business(business).len() as u64;
        let every = settings.decline_every;
        let declined = fate.declined || (every > 0 && (earlier + 1).is_multiple_of(every));
        let (state, event) = match declined {
            true => (ChargeState::Declined, "payment.declined"),
            false => (ChargeState::Succeeded, "payment.charged"),
        };
        let key = self.caller.key.as_ref();
        let charge = ledger.enter_charge(business, cents, key, me.world().now(), state);
        self.note(event, vec![("charge", (&charge.id).into()), ("cents", cents.into())]);
        if declined {
            let refused = Answer::error(settings.declined_status, Problem::Card, "card declined");
            return (false, refused.with("code", "card_declined").with("charge", &charge.id));
        }
        (true, Answer::good(answer::charge(&charge)))
    }

    /// Whether money moved, and what to say.
    fn refund(&self, charge: &Arc<str>, cents: Option<u64>) -> (bool, Answer) {
        let Desk { me, settings, ledger, .. } = &self.desk;
        let key = self.caller.key.as_ref();
        let entered = ledger.enter_refund(charge, cents, key, me.world().now());
        let invalid =
            |message: &str| Answer::error(settings.invalid_status, Problem::Invalid, message);
        let refused = match entered {
            Ok(refund) => {
                let fields = vec![
                    ("refund", (&refund.id).into()),
                    ("charge", charge.into()),
                    ("cents", refund.amount_cents.into()),
                ];
                self.note("payment.refunded", fields);
                return (true, Answer::good(answer::refund(&refund)));
            }
            Err(Refusal::NoSuchCharge) => self.desk.missing(&format!("no such charge: {charge}")),
            Err(Refusal::Declined) => invalid("a declined charge cannot be refunded"),
            Err(Refusal::AlreadyRefunded) => invalid("the charge has already been refunded")
                .with("code", "charge_already_refunded"),
            Err(Refusal::TooMuch(left)) => {
                invalid(&format!("only {left} cents of the charge are left to refund"))
            }
        };
        let reason = refused.body["error"]["message"].as_str().unwrap_or_default();
        let fields = vec![("status", refused.status.into()), ("reason", reason.into())];
        self.note("payment.rejected", fields);
        (false, refused)
    }

    fn business(&self) -> Option<Arc<str>> {
        match &self.operation {
            Operation::Charge { business, .. } => Some(business.clone()),
            Operation::Refund { charge, .. } => {
                self.desk.ledger.charge(charge).map(|charge| charge.business_id)
            }
        }
    }

    /// For whom chance is drawn.
    fn actor(&self) -> Arc<str> {
        self.business().unwrap_or_else(|| match &self.operation {
            Operation::Charge { business: id, .. } | Operation::Refund { charge: id, .. } => {
                id.clone()
            }
        })
    }

    /// Notes an event with the business id and the key, as far as there are such.
    fn note(&self, name: &'static str, more: Fields) {
        let mut fields = Fields::new();
        fields.extend(self.business().map(|business| ("business", business.into())));
        fields.extend(self.caller.key.as_ref().map(|key| ("key", key.into())));
        fields.extend(more);
        self.desk.me.note(self.caller.labels.clone(), name, fields);
    }
}
