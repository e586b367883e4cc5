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

/// Mints checkpoint ids that rise within one process, whatever its clock does.
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
        self.id(self.next(), step)
    }

    /// The moment of the next id.
    fn next(&self) -> u64 {
        let now = uuid_time(self.clock.now());
        let next = |last: u64| now.max(last + 1) & TIMESTAMP_BITS;
        let last = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |l| Some(next(l)));
        next(last.expect("the update always gives a value"))
    }

    fn id(&self, moment: u64, step: i64) -> Arc<str> {
        let mut node = [0; 8];
        self.entropy.fill("checkpoint.id", &mut node[2..]);
        let clock_seq = step as u64 & CLOCK_SEQ_BITS;
        text(moment, 0b10 << 62 | clock_seq << 48 | u64::from_be_bytes(node))
    }
}

/// The ids of one run, or of one update: they can be made to rise above what its thread has already.
///
/// What one thread asks for is no other's affair. If a thread whose head is from the future raised
/// the ids of every thread, those of a process with a true clock would be lost behind them.
pub struct Ids {
    mint: Arc<IdMint>,
    /// The greatest moment that was minted or is there.
    last: AtomicU64,
}

impl Ids {
    pub fn new(mint: &Arc<IdMint>) -> Ids {
        Ids { mint: mint.clone(), last: AtomicU64::new(0) }
    }

    /// As [`IdMint::mint`].
    pub fn mint(&self, step: i64) -> Arc<str> {
        let moment = self.mint.next();
        let next = |last: u64| moment.max(last + 1) & TIMESTAMP_BITS;
        let last = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |l| Some(next(l)));
        self.mint.id(next(last.expect("the update always gives a value")), step)
    }

    /// From now on ids are greater than this one, whatever the clock says. False if there are none
    /// that are.
    pub fn keep_above(&self, id: &str) -> bool {
        let moment = self.last.fetch_max(last_of(id), Ordering::Relaxed).max(last_of(id));
        let next = uuid_time(self.mint.clock.now()).max(moment.saturating_add(1));
        // A run needs more than one.
        next < TIMESTAMP_BITS - (1 << 32) && *text(next, 0) > *id
    }
}

/// A moment as a checkpoint id without step and chance, which are given.
fn text(timestamp: u64, low: u64) -> Arc<str> {
    let high = (timestamp >> 12) << 16 | 0x6000 | timestamp & 0x0fff;
    dashed(u128::from(high) << 64 | u128::from(low)).into()
}

/// The last moment whose ids are not greater than this one, in 100 ns intervals since the UUID epoch.
/// What is no UUID has none.
fn last_of(id: &str) -> u64 {
    let Some(&[a, b, c, d, e, f, g, h, ..]) = uuid6_bytes(id).as_ref().map(<[u8; 16]>::as_slice)
    else {
        return 0;
    };
    let high = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
    let version = high >> 12 & 0xf;
    // A UUID of a later version stands behind all those of version 6 that begin like it.
    let low = if version > 6 { 0x0fff } else { high & 0x0fff };
    high >> 16 << 12 | low
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
