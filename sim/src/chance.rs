//! Every decision of ours comes from a stream of its own.
//!
//! A stream is keyed by a label (what is decided) and an actor (for whom), and seeded by a stable
//! hash of (seed, label, actor). Removing one actor therefore leaves the draws of all others as they
//! were, which is what makes a failing run shrinkable. The simulator's own generator, which also
//! serves its scheduler, is never used: one extra draw there would shift everything.
//!
//! Probabilities are integer ratios; no float takes part in a decision.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::lock::lock;

/// One recorded draw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    pub label: Arc<str>,
    pub actor: Arc<str>,
    /// Which draw of its stream this is, from 0.
    pub index: u64,
    /// The value lies in `0..bound`; 0 stands for the full 64 bits.
    pub bound: u64,
    pub value: u64,
}

/// The source of all streams of one run. Cloning gives another handle to the same source.
#[derive(Clone, Debug)]
pub struct Chance {
    seed: u64,
    streams: Arc<Mutex<BTreeMap<u64, Stream>>>,
    tape: Arc<Tape>,
    /// Values that a tape prescribes, by stream and index.
    prescribed: Arc<BTreeMap<u64, BTreeMap<u64, u64>>>,
}

#[derive(Debug, Default)]
struct Tape {
    on: AtomicBool,
    choices: Mutex<Vec<Choice>>,
}

impl Chance {
    pub fn new(seed: u64) -> Self {
        Chance { seed, streams: Arc::default(), tape: Arc::default(), prescribed: Arc::default() }
    }

    /// As [`Chance::new`], but the draws that the tape has are given its values. A draw that it does
    /// not have comes from the seed, so a tape may be cut, edited, or be of another program.
    pub fn replaying(seed: u64, tape: &[Choice]) -> Self {
        let mut prescribed: BTreeMap<u64, BTreeMap<u64, u64>> = BTreeMap::new();
        for choice in tape {
            let stream = stream_seed(seed, &choice.label, &choice.actor);
            prescribed.entry(stream).or_default().insert(choice.index, choice.value);
        }
        Chance { prescribed: Arc::new(prescribed), ..Chance::new(seed) }
    }

    /// The seed of the run.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The stream for this label and actor. Asking again continues the same stream.
    pub fn stream(&self, label: &str, actor: &str) -> Stream {
        let key = stream_seed(self.seed, label, actor);
        lock(&self.streams)
            .entry(key)
            .or_insert_with(|| {
                let prescribed = self.prescribed.get(&key).cloned().unwrap_or_default();
                Stream::new(key, label, actor, self.tape.clone(), prescribed)
            })
            .clone()
    }

    /// A fresh stream, from its start at every call, that never shows on the tape: for randomness
    /// that decides nothing.
    pub fn off_the_tape(&self, label: &str) -> Stream {
        let seed = stream_seed(self.seed, label, "");
        Stream::new(seed, label, "", Arc::default(), BTreeMap::new())
    }

    /// Starts or stops recording draws; off at first, as it costs memory for every draw.
    pub fn record(&self, on: bool) {
        self.tape.on.store(on, Ordering::Relaxed);
    }

    /// Everything drawn while recording was on, in the order of drawing.
    pub fn tape(&self) -> Vec<Choice> {
        lock(&self.tape.choices).clone()
    }
}

/// Stable in every process: label and actor are hashed one after the other, so ("a", "bc") and
/// ("ab", "c") differ.
fn stream_seed(seed: u64, label: &str, actor: &str) -> u64 {
    xxh3_64_with_seed(actor.as_bytes(), xxh3_64_with_seed(label.as_bytes(), seed))
}

/// One stream of draws. Cloning gives another handle to the same stream.
#[derive(Clone, Debug)]
pub struct Stream {
    inner: Arc<StreamInner>,
}

#[derive(Debug)]
struct StreamInner {
    label: Arc<str>,
    actor: Arc<str>,
    state: Mutex<State>,
    tape: Arc<Tape>,
    prescribed: BTreeMap<u64, u64>,
}

#[derive(Debug)]
struct State {
    generator: Xoshiro256,
    drawn: u64,
}

impl Stream {
    fn new(
        seed: u64,
        label: &str,
        actor: &str,
        tape: Arc<Tape>,
        prescribed: BTreeMap<u64, u64>,
    ) -> Self {
        let state = Mutex::new(State { generator: Xoshiro256::new(seed), drawn: 0 });
        Stream {
            inner: Arc::new(StreamInner {
                label: label.into(),
                actor: actor.into(),
                state,
                tape,
                prescribed,
            }),
        }
    }

    /// Uniform in `0..n`, without bias.
    ///
    /// # Panics
    /// If `n` is 0: there is nothing to choose from.
    pub fn below(&self, n: u64) -> u64 {
        assert!(n > 0, "a choice needs at least one alternative");
        self.draw(n)
    }

    /// Uniform in `lo..=hi`.
    pub fn between(&self, lo: u64, hi: u64) -> u64 {
        assert!(lo <= hi, "the range {lo}..={hi} is empty");
        // A span of 0 after wrapping is the full range, which is what a bound of 0 means.
        lo.wrapping_add(self.draw((hi - lo).wrapping_add(1)))
    }

    /// True in `num` of `den` cases. Draws even when the answer is certain, so that changing the
    /// ratio leaves the later draws of the stream where they were.
    pub fn ratio(&self, num: u64, den: u64) -> bool {
        self.below(den) < num
    }

    /// Uniform in `lo..=hi`, in steps of a microsecond.
    pub fn duration(&self, lo: Duration, hi: Duration) -> Duration {
        Duration::from_micros(self.between(micros(lo), micros(hi)))
    }

    pub fn u64(&self) -> u64 {
        self.draw(0)
    }

    pub fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.draw(0).to_le_bytes()[..chunk.len()]);
        }
    }

    /// # Panics
    /// If `items` is empty.
    pub fn choose<'a, T>(&self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }

    /// The one door through which every value leaves a stream: `0..bound`, or all 64 bits for 0.
    fn draw(&self, bound: u64) -> u64 {
        let mut state = lock(&self.inner.state);
        // Drawn even when the tape has another value: what comes after it stays where it was.
        let drawn = match bound {
            0 => state.generator.next(),
            _ => state.generator.below(bound),
        };
        let index = state.drawn;
        let value = match self.inner.prescribed.get(&index) {
            None => drawn,
            Some(value) if bound == 0 => *value,
            Some(value) => value % bound,
        };
        state.drawn += 1;
        if self.inner.tape.on.load(Ordering::Relaxed) {
            let (label, actor) = (self.inner.label.clone(), self.inner.actor.clone());
            lock(&self.inner.tape.choices).push(Choice { label, actor, index, bound, value });
        }
        value
    }
}

fn micros(d: Duration) -> u64 {
    u64::try_from(d.as_micros()).expect("a duration of more than 584,000 years")
}

/// xoshiro256** by Blackman and Vigna (public domain), seeded through splitmix64 as they advise.
#[derive(Debug)]
struct Xoshiro256([u64; 4]);

impl Xoshiro256 {
    fn new(mut seed: u64) -> Self {
        let mut splitmix = || {
            seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        Xoshiro256([splitmix(), splitmix(), splitmix(), splitmix()])
    }

    fn next(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Lemire's multiply-and-reject: the low half tells when a value would be over-represented.
    fn below(&mut self, n: u64) -> u64 {
        let threshold = n.wrapping_neg() % n;
        loop {
            let wide = u128::from(self.next()) * u128::from(n);
            if wide as u64 >= threshold {
                return (wide >> 64) as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_twice_continues_the_stream() {
        let (a, b) = (Chance::new(7), Chance::new(7));
        let one: Vec<u64> = (0..6).map(|_| a.stream("net", "x").u64()).collect();
        let kept = b.stream("net", "x");
        let two: Vec<u64> = (0..6).map(|_| kept.u64()).collect();
        assert_eq!(one, two);
    }

    #[test]
    fn streams_do_not_disturb_each_other() {
        let quiet = Chance::new(7);
        let busy = Chance::new(7);
        busy.stream("net", "y").u64();
        assert_eq!(quiet.stream("net", "x").u64(), busy.stream("net", "x").u64());
        assert_ne!(quiet.stream("net", "x").u64(), quiet.stream("netx", "").u64());
    }

    #[test]
    fn values_are_the_same_in_every_build() {
        // Pinned: a change here invalidates every recorded seed.
        let s = Chance::new(1).stream("label", "actor");
        assert_eq!([s.u64(), s.below(1000), s.between(10, 20)], PINNED);
    }
    const PINNED: [u64; 3] = [17_720_961_473_215_465_552, 995, 11];

    #[test]
    fn bounds_hold_and_every_value_occurs() {
        let s = Chance::new(3).stream("a", "b");
        let mut seen = [0u32; 6];
        for _ in 0..6000 {
            seen[s.below(6) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| (800..1200).contains(&n)), "{seen:?}");
        let full = s.between(0, u64::MAX);
        let _ = full;
        for _ in 0..100 {
            let d = s.duration(Duration::from_millis(1), Duration::from_millis(2));
            assert!((1000..=2000).contains(&d.as_micros()));
        }
    }

    #[test]
    fn a_tape_prescribes_what_it_has_and_nothing_else() {
        let recorded = Chance::new(3);
        recorded.record(true);
        let values: Vec<u64> = (0..4).map(|_| recorded.stream("a", "b").below(100)).collect();
        let mut tape = recorded.tape();
        tape[1].value = 42;
        tape.remove(2);
        let again = Chance::replaying(3, &tape);
        let replayed: Vec<u64> = (0..4).map(|_| again.stream("a", "b").below(100)).collect();
        assert_eq!(replayed, [values[0], 42, values[2], values[3]]);
        assert_eq!(again.stream("c", "d").u64(), Chance::new(3).stream("c", "d").u64());
    }

    #[test]
    fn the_tape_records_only_when_switched_on() {
        let c = Chance::new(3);
        c.stream("a", "b").below(9);
        assert!(c.tape().is_empty());
        c.record(true);
        let v = c.stream("a", "b").below(9);
        let tape = c.tape();
        assert_eq!(tape.len(), 1);
        assert_eq!((tape[0].index, tape[0].bound, tape[0].value), (1, 9, v));
    }
}
