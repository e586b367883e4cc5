//! Channel versions: a number that rises, and a random tail that keeps two workers' writes apart.

use std::sync::Arc;

use crate::doors::Entropy;

/// The version after `max`, which is the greatest over all channels of the checkpoint. Every
/// channel that changes in one step gets the same one.
pub fn next_version(max: Option<&str>, entropy: &dyn Entropy) -> Arc<str> {
    let number = max.map_or(0, version_number) + 1;
    let tail = python_float(unit_float(entropy.u64("channel.version")));
    let mut text = String::with_capacity(NUMBER_WIDTH + 1 + tail.len().max(TAIL_WIDTH));
    // Nearly all are small, and their digits come cheaper.
    let digits = u64::try_from(number).map_or_else(|_| number.to_string(), |n| n.to_string());
    push_padded(&mut text, &digits, NUMBER_WIDTH);
    text.push('.');
    push_padded(&mut text, &tail, TAIL_WIDTH);
    text.into()
}

const NUMBER_WIDTH: usize = 32;
const TAIL_WIDTH: usize = 16;

/// Appends `part` with zeros in front, up to this width.
fn push_padded(text: &mut String, part: &str, width: usize) {
    const ZEROS: &str = "00000000000000000000000000000000";
    text.push_str(&ZEROS[..width.saturating_sub(part.len())]);
    text.push_str(part);
}

/// The number before the first dot; 0 for text that is not a version, which the codec refuses to
/// load (see [`parse_version`]).
pub fn version_number(version: &str) -> u128 {
    parse_version(version).unwrap_or(0)
}

/// As [`version_number`], but tells text that is not a version apart.
pub fn parse_version(version: &str) -> Option<u128> {
    let number = version.split('.').next().unwrap_or_default();
    if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // 32 digits always fit; the bound leaves room for the step after.
    let number = number.trim_start_matches('0');
    match number.len() {
        0 => Some(0),
        // Read as what it fits into, which is cheaper.
        1..=19 => number.parse::<u64>().ok().map(u128::from),
        _ => number.parse().ok().filter(|&n| n < u128::MAX),
    }
}

/// Uniform in [0, 1) with 53 bits, as Python's `random.random()`.
fn unit_float(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

/// A float in [0, 1) as Python's `repr` prints it: shortest digits that read back the same,
/// positional from 0.0001 upwards, below that with an exponent of at least two digits.
fn python_float(value: f64) -> String {
    if value == 0.0 || value >= 1e-4 {
        return format!("{value:?}");
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once("e-").expect("a number below 1");
    format!("{digits}e-{exponent:0>2}")
}

#[cfg(test)]
mod tests {
    use super::python_float;

    /// Left: Python 3.11, `f"{x:016}"`.
    #[test]
    fn prints_as_python_does() {
        for (python, value) in [
            ("00000000000000.0", 0.0),
            ("00000000000000.5", 0.5),
            ("000000000005e-05", 5e-05),
            ("000000001.25e-07", 1.25e-07),
            ("00000000000.0001", 0.0001),
            ("0000000.00012345", 0.00012345),
            ("0.6169985484140597", 0.6169985484140597),
            ("1.1102230246251565e-16", 2f64.powi(-53)),
        ] {
            assert_eq!(format!("{:0>16}", python_float(value)), python);
        }
    }
}
