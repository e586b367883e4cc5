//! Checkpoint ids (UUID version 6) and timestamps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::fmt::temporal::DateTimePrinter;
use jiff::tz::Offset;

use crate::doors::{Clock, Doors, Entropy};

/// 100 ns intervals from the UUID epoch, 1582-10-15, to the Unix epoch (RFC 9562, section 5.1).
const UUID_EPOCH: u64 = 0x01b2_1dd2_1381_4000;
const TIMESTAMP_BITS: u64 = (1 << 60) - 1;
const CLOCK_SEQ_BITS: u64 = (1 << 14) - 1;

/// Mints checkpoint ids that rise within one process.
///
/// LangGraph takes the greatest id text as the latest checkpoint of a thread, so an id must never
/// fall behind one that this process minted before. Keep one mint per process and share it; two
/// mints may give equal timestamps, and then the step decides, then chance.
pub struct IdMint {
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    last: AtomicU64,
}

impl IdMint {
    pub fn new(doors: &Doors) -> IdMint {
        IdMint {
            clock: doors.clock.clone(),
            entropy: doors.entropy.clone(),
            last: AtomicU64::new(0),
        }
    }

    /// The next id. `step` is the checkpoint's step; LangGraph puts it, masked to 14 bits, where
    /// the clock sequence belongs, so that the first input (step -1) reads `bfff`.
    pub fn mint(&self, step: i64) -> Arc<str> {
        let now = uuid_time(self.clock.now());
        let next = |last: u64| now.max(last + 1) & TIMESTAMP_BITS;
        let last = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |l| Some(next(l)));
        let timestamp = next(last.expect("the update always gives a value"));

        let mut node = [0; 8];
        self.entropy.fill("checkpoint.id", &mut node[2..]);
        let clock_seq = step as u64 & CLOCK_SEQ_BITS;
        text(timestamp, 0b10 << 62 | clock_seq << 48 | u64::from_be_bytes(node))
    }

    /// From now on ids are greater than this one, whatever the clock says. An id that is not a UUID
    /// says nothing.
    pub fn keep_above(&self, id: &str) {
        if let Some(time) = time_of(id) {
            self.last.fetch_max(time, Ordering::Relaxed);
        }
    }

    /// This moment as an id: not greater than any id that is minted from now on.
    pub fn moment(&self) -> Arc<str> {
        let now = uuid_time(self.clock.now()).max(self.last.load(Ordering::Relaxed));
        text(now & TIMESTAMP_BITS, 0)
    }
}

/// A moment as a checkpoint id without step and chance, which are given.
fn text(timestamp: u64, low: u64) -> Arc<str> {
    let high = (timestamp >> 12) << 16 | 0x6000 | timestamp & 0x0fff;
    dashed(u128::from(high) << 64 | u128::from(low)).into()
}

/// The last id that could be minted at this moment: those of later moments are greater.
pub fn last_of(now: SystemTime) -> Arc<str> {
    text(uuid_time(now) & TIMESTAMP_BITS, 0b10 << 62 | u64::MAX >> 2)
}

/// The moment in an id, in 100 ns intervals since the UUID epoch.
fn time_of(id: &str) -> Option<u64> {
    let high = u64::from_be_bytes(uuid6_bytes(id)?[..8].try_into().ok()?);
    Some(high >> 16 << 12 | high & 0x0fff)
}

/// 100 ns intervals since the UUID epoch. A clock before 1970 still gives rising values.
fn uuid_time(now: SystemTime) -> u64 {
    match now.duration_since(UNIX_EPOCH) {
        Ok(since) => UUID_EPOCH.saturating_add((since.as_nanos() / 100) as u64),
        Err(before) => UUID_EPOCH.saturating_sub(before.duration().as_nanos().div_ceil(100) as u64),
    }
}

/// A number as 32 hexadecimal digits in the groups 8-4-4-4-12.
pub(super) fn dashed(number: u128) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(36);
    for (nth, byte) in number.to_be_bytes().into_iter().enumerate() {
        if let 4 | 6 | 8 | 10 = nth {
            text.push('-');
        }
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 0xf)]));
    }
    text
}

/// The 16 bytes of a checkpoint id, as task ids hash them; `None` when the text is not 32
/// hexadecimal digits besides its dashes. LangGraph does not look at version bits either: a
/// checkpoint that somebody put under an id of another version works like any other.
pub fn uuid6_bytes(id: &str) -> Option<[u8; 16]> {
    let mut number: u128 = 0;
    let mut digits = 0;
    for byte in id.bytes().filter(|&byte| byte != b'-') {
        number = number << 4 | u128::from(char::from(byte).to_digit(16)?);
        digits += 1;
    }
    // Surplus digits have pushed the first ones out.
    (digits == 32).then(|| number.to_be_bytes())
}

/// The id of a write that belongs to no task, derived from a checkpoint: a UUID of version 5, named
/// `name` in the namespace that the checkpoint's id is.
pub fn derived_id(checkpoint: &str, name: &str) -> Arc<str> {
    let namespace = uuid::Uuid::from_bytes(uuid6_bytes(checkpoint).unwrap_or_default());
    uuid::Uuid::new_v5(&namespace, name.as_bytes()).to_string().into()
}

/// UTC, ISO-8601, always with six digits of microseconds and `+00:00`, so that text order is time
/// order. (Python leaves the fraction out when it is zero; it reads both.)
pub fn timestamp(now: SystemTime) -> String {
    const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(6));
    let now = jiff::Timestamp::try_from(now).unwrap_or(jiff::Timestamp::MAX);
    PRINTER.timestamp_with_offset_to_string(&now, Offset::UTC)
}
