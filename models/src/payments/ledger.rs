//! The truth about money: what was really charged and refunded.
//!
//! It belongs to the world, as a bank's books do to the bank: a kill of the provider's process loses
//! no line of it. What an answer said is another matter.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChargeState {
    Succeeded,
    /// No money moved.
    Declined,
    /// All of it was given back. A charge of which only a part was is still `Succeeded`.
    Refunded,
}

impl ChargeState {
    pub fn name(self) -> &'static str {
        match self {
            ChargeState::Succeeded => "succeeded",
            ChargeState::Declined => "declined",
            ChargeState::Refunded => "refunded",
        }
    }
}

/// One attempt to take money that reached the card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Charge {
    /// `ch_1`, `ch_2`, in order of execution.
    pub id: Arc<str>,
    /// What the merchant calls the thing that is paid for.
    pub business_id: Arc<str>,
    pub amount_cents: u64,
    pub refunded_cents: u64,
    pub idempotency_key: Option<Arc<str>>,
    /// Virtual time since the start of the world.
    pub at: Duration,
    pub state: ChargeState,
}

impl Charge {
    /// What the customer has paid by it, after refunds.
    pub fn net_cents(&self) -> u64 {
        match self.state {
            ChargeState::Declined => 0,
            _ => self.amount_cents - self.refunded_cents,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refund {
    /// `re_1`, `re_2`, in order of execution.
    pub id: Arc<str>,
    pub charge_id: Arc<str>,
    pub amount_cents: u64,
    pub idempotency_key: Option<Arc<str>>,
    /// Virtual time since the start of the world.
    pub at: Duration,
}

/// The books of one provider. Cloning gives another handle to the same books.
#[derive(Debug, Clone, Default)]
pub struct Ledger(Arc<Mutex<Books>>);

#[derive(Debug, Default)]
struct Books {
    charges: Vec<Charge>,
    refunds: Vec<Refund>,
}

impl Ledger {
    pub fn new() -> Ledger {
        Ledger::default()
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every charge, declined ones included, in order of execution.
    pub fn charges(&self) -> Vec<Charge> {
        self.books().charges.clone()
    }

    /// Every refund, in order of execution.
    pub fn refunds(&self) -> Vec<Refund> {
        self.books().refunds.clone()
    }

    pub fn charge(&self, id: &str) -> Option<Charge> {
        self.books().charges.iter().find(|charge| &*charge.id == id).cloned()
    }

    /// The charges for one business id, in order of execution.
    pub fn of_business(&self, business_id: &str) -> Vec<Charge> {
        let books = self.books();
        books.charges.iter().filter(|charge| &*charge.business_id == business_id).cloned().collect()
    }

    /// What was paid for one business id: succeeded charges less their refunds.
    pub fn net_cents(&self, business_id: &str) -> u64 {
        self.of_business(business_id).iter().map(Charge::net_cents).sum()
    }
}

/// Why money cannot be given back.
#[cfg(madsim)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    NoSuchCharge,
    Declined,
    AlreadyRefunded,
    /// More than the so many cents that are left.
    TooMuch(u64),
}

#[cfg(madsim)]
impl Ledger {
    pub(super) fn enter_charge(
        &self,
        business_id: &Arc<str>,
        amount_cents: u64,
        key: Option<&Arc<str>>,
        at: Duration,
        state: ChargeState,
    ) -> Charge {
        let mut books = self.books();
        let charge = Charge {
            id: format!("ch_{}", books.charges.len() + 1).into(),
            business_id: business_id.clone(),
            amount_cents,
            refunded_cents: 0,
            idempotency_key: key.cloned(),
            at,
            state,
        };
        books.charges.push(charge.clone());
        charge
    }

    /// Gives back that much, or all that is left.
    pub(super) fn enter_refund(
        &self,
        charge_id: &Arc<str>,
        amount_cents: Option<u64>,
        key: Option<&Arc<str>>,
        at: Duration,
    ) -> Result<Refund, Refusal> {
        let mut books = self.books();
        let id = format!("re_{}", books.refunds.len() + 1).into();
        let found = books.charges.iter_mut().find(|charge| charge.id == *charge_id);
        let charge = found.ok_or(Refusal::NoSuchCharge)?;
        match charge.state {
            ChargeState::Declined => return Err(Refusal::Declined),
            ChargeState::Refunded => return Err(Refusal::AlreadyRefunded),
            ChargeState::Succeeded => {}
        }
        let left = charge.net_cents();
        let amount_cents = amount_cents.unwrap_or(left);
        if amount_cents > left {
            return Err(Refusal::TooMuch(left));
        }
        charge.refunded_cents += amount_cents;
        if amount_cents == left {
            charge.state = ChargeState::Refunded;
        }
        let (charge_id, idempotency_key) = (charge_id.clone(), key.cloned());
        let refund = Refund { id, charge_id, amount_cents, idempotency_key, at };
        books.refunds.push(refund.clone());
        Ok(refund)
    }
}
