//! `hashtext` and `hashtextextended`: Bob Jenkins's lookup3 with the server's own initial values.
//!
//! Advisory locks are often keyed by it, and whether two texts share a lock depends on it.

const fn mix(mut a: u32, mut b: u32, mut c: u32) -> (u32, u32, u32) {
    a = a.wrapping_sub(c) ^ c.rotate_left(4);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(6);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(8);
    b = b.wrapping_add(a);
    a = a.wrapping_sub(c) ^ c.rotate_left(16);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(19);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(4);
    b = b.wrapping_add(a);
    (a, b, c)
}

const fn finish(mut a: u32, mut b: u32, mut c: u32) -> (u32, u32) {
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    c = (c ^ b).wrapping_sub(b.rotate_left(24));
    (b, c)
}

fn word(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte))
}

fn lookup3(bytes: &[u8], seed: u64) -> (u32, u32) {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let start = 0x9e37_79b9_u32.wrapping_add(length).wrapping_add(3_923_095);
    let (mut a, mut b, mut c) = (start, start, start);
    if seed != 0 {
        let [high, low] = [seed >> 32, seed & 0xffff_ffff].map(|half| half as u32);
        (a, b, c) = mix(a.wrapping_add(high), b.wrapping_add(low), c);
    }
    let mut chunks = bytes.chunks_exact(12);
    for chunk in &mut chunks {
        a = a.wrapping_add(word(&chunk[..4]));
        b = b.wrapping_add(word(&chunk[4..8]));
        c = c.wrapping_add(word(&chunk[8..]));
        (a, b, c) = mix(a, b, c);
    }
    let rest = chunks.remainder();
    let part = |from: usize| word(&rest[from.min(rest.len())..(from + 4).min(rest.len())]);
    a = a.wrapping_add(part(0));
    b = b.wrapping_add(part(4));
    // The lowest byte of c is kept for the length.
    c = c.wrapping_add(part(8) << 8);
    finish(a, b, c)
}

pub fn hashtext(text: &str) -> i32 {
    lookup3(text.as_bytes(), 0).1.cast_signed()
}

pub fn hashtextextended(text: &str, seed: i64) -> i64 {
    let (b, c) = lookup3(text.as_bytes(), seed.cast_unsigned());
    (u64::from(b) << 32 | u64::from(c)).cast_signed()
}
