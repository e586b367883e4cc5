//! The running checksum of a WAL (<https://www.sqlite.org/fileformat2.html>, section 4.2): two sums over
//! pairs of words, each of which waits for the other.

use super::u32_at;

/// The two sums so far.
pub(super) struct Checksum {
    big_endian: bool,
    sums: Sums,
}

type Sums = [u32; 2];

impl Checksum {
    pub(super) fn new(big_endian: bool) -> Checksum {
        Checksum { big_endian, sums: [0, 0] }
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        match self.big_endian {
            true => self.add_words(bytes, u32::from_be_bytes),
            false => self.add_words(bytes, u32::from_le_bytes),
        }
    }

    /// The sums are linear in what they begin with and in all words. So four quarters are summed side
    /// by side, from zero but for the first, and put behind each other in the end.
    fn add_words(&mut self, bytes: &[u8], word: impl Fn([u8; 4]) -> u32) {
        let (words, _) = bytes.as_chunks::<4>();
        let (pairs, _) = words.as_chunks::<2>();
        let step = |[a, b]: Sums, [first, second]: &[[u8; 4]; 2]| {
            let a = a.wrapping_add(word(*first)).wrapping_add(b);
            [a, b.wrapping_add(word(*second)).wrapping_add(a)]
        };
        let quarter = pairs.len() / 4;
        let (first, others) = pairs.split_at(quarter);
        let (second, others) = others.split_at(quarter);
        let (third, others) = others.split_at(quarter);
        let (fourth, rest) = others.split_at(quarter);
        let mut sums = [self.sums, [0, 0], [0, 0], [0, 0]];
        for (((first, second), third), fourth) in first.iter().zip(second).zip(third).zip(fourth) {
            let pairs = [first, second, third, fourth];
            sums = std::array::from_fn(|nth| step(sums[nth], pairs[nth]));
        }
        let passed = passed_on(quarter);
        let [first, others @ ..] = sums;
        let all = others.into_iter().fold(first, |sums, [a, b]| {
            let [before_a, before_b] = passed(sums);
            [before_a.wrapping_add(a), before_b.wrapping_add(b)]
        });
        self.sums = rest.iter().fold(all, step);
    }

    /// Sums are stored with their most significant byte first, whatever the words are.
    pub(super) fn is(&self, stored: &[u8]) -> bool {
        u32_at(stored, 0) == Some(self.sums[0]) && u32_at(stored, 4) == Some(self.sums[1])
    }
}

/// What so many pairs of zeros make of the sums. The sums alternate as Fibonacci numbers do, so those
/// are the factors.
fn passed_on(pairs: usize) -> impl Fn(Sums) -> Sums {
    let [even, next] = fibonacci(2 * pairs);
    let before = next.wrapping_sub(even);
    move |[a, b]| {
        let sum = |x: u32, y: u32| a.wrapping_mul(x).wrapping_add(b.wrapping_mul(y));
        [sum(before, even), sum(even, next)]
    }
}

/// The Fibonacci number of this index and the next one, modulo 2^32, by doubling the index.
fn fibonacci(index: usize) -> [u32; 2] {
    let mut pair = [0_u32, 1];
    for bit in (0..usize::BITS - index.leading_zeros()).rev() {
        let [f, g] = pair;
        let even = f.wrapping_mul(g.wrapping_mul(2).wrapping_sub(f));
        let odd = f.wrapping_mul(f).wrapping_add(g.wrapping_mul(g));
        pair = match index >> bit & 1 {
            0 => [even, odd],
            _ => [odd, even.wrapping_add(odd)],
        };
    }
    pair
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the format's section 4.2 spells it.
    #[test]
    fn a_checksum_is_what_one_pair_after_the_other_makes() {
        let words: Vec<u32> =
            (0..2_100_u32).map(|n| n.wrapping_mul(0x9e37_79b9) ^ n << 20).collect();
        for length in [0, 2, 6, 8, 10, 128, 1_024, 2_096] {
            let words = &words[..length];
            let mut sums = [0x0123_4567_u32, 0x89ab_cdef];
            for pair in words.chunks(2) {
                sums[0] = sums[0].wrapping_add(pair[0].wrapping_add(sums[1]));
                sums[1] = sums[1].wrapping_add(pair[1].wrapping_add(sums[0]));
            }
            for big_endian in [false, true] {
                let bytes = words.iter().flat_map(|word| match big_endian {
                    true => word.to_be_bytes(),
                    false => word.to_le_bytes(),
                });
                let mut sum = Checksum { big_endian, sums: [0x0123_4567, 0x89ab_cdef] };
                sum.add(&bytes.collect::<Vec<u8>>());
                assert_eq!(sum.sums, sums, "{length} words");
            }
        }
    }
}
