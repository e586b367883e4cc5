//! Randomness: checkpoint ids, version tails, retry jitter.

/// A source of random bytes. `label` names what they are for, so that a simulated world can draw
/// each purpose from a stream of its own.
pub trait Entropy: Send + Sync {
    fn fill(&self, label: &'static str, bytes: &mut [u8]);

    fn u64(&self, label: &'static str) -> u64 {
        let mut bytes = [0; 8];
        self.fill(label, &mut bytes);
        u64::from_le_bytes(bytes)
    }
}

/// The operating system's generator.
pub struct OsEntropy;

impl Entropy for OsEntropy {
    fn fill(&self, _label: &'static str, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("the operating system gives random bytes");
    }
}
