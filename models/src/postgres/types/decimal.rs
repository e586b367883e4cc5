//! Decimal numbers of any length, as numeric literals and the numbers of jsonb are.
//!
//! They are kept and compared, not computed with.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// Sign, digits before the point without leading zeros, digits behind it as written: like the
/// server, 1.0 shows its zero and equals 1.
#[derive(Debug, Clone)]
pub struct Decimal {
    negative: bool,
    whole: Arc<str>,
    fraction: Arc<str>,
}

/// The server's own limits for numeric.
const MOST_WHOLE: usize = 131_072;
const MOST_FRACTION: usize = 16_383;

impl Decimal {
    /// Reads `-12.50`, `1e3`, `.5`; `None` for anything else, and for what is out of range.
    pub fn parse(text: &str) -> Option<Decimal> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (digits, exponent) = match rest.split_once(['e', 'E']) {
            Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
            None => (rest, 0),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let all: String = [whole, fraction].concat();
        if all.is_empty() || !all.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let point = i64::try_from(whole.len()).ok()? + i64::from(exponent);
        let limit = i64::try_from(MOST_WHOLE).ok()?;
        if point.abs() > limit {
            return None;
        }
        let (whole, fraction) = match usize::try_from(point) {
            Err(_) | Ok(0) => {
                (String::new(), "0".repeat(point.unsigned_abs().try_into().ok()?) + &all)
            }
            Ok(point) if point >= all.len() => {
                (all.clone() + &"0".repeat(point - all.len()), String::new())
            }
            Ok(point) => (all[..point].to_owned(), all[point..].to_owned()),
        };
        let whole = match whole.trim_start_matches('0') {
            "" => "0",
            rest => rest,
        };
        if whole.len() > MOST_WHOLE || fraction.len() > MOST_FRACTION {
            return None;
        }
        let zero = whole == "0" && fraction.bytes().all(|byte| byte == b'0');
        Some(Decimal {
            negative: negative && !zero,
            whole: whole.into(),
            fraction: fraction.into(),
        })
    }

    pub fn from_int(n: i128) -> Decimal {
        let whole = n.unsigned_abs().to_string();
        Decimal { negative: n < 0, whole: whole.into(), fraction: "".into() }
    }

    /// Digits behind the point.
    pub fn scale(&self) -> usize {
        self.fraction.len()
    }

    /// Sign and all digits, the last `scale` of them behind the point.
    pub fn parts(&self) -> (bool, &str, &str) {
        (self.negative, &self.whole, &self.fraction)
    }

    /// Rounded half away from zero, as the server's casts to integers do.
    pub fn to_int(&self) -> Option<i64> {
        let mut n: i128 = self.whole.parse().ok()?;
        if self.fraction.bytes().next().is_some_and(|digit| digit >= b'5') {
            n += 1;
        }
        i64::try_from(if self.negative { -n } else { n }).ok()
    }

    pub fn to_float(&self) -> f64 {
        self.to_string().parse().expect("digits and a point make a number")
    }

    /// The magnitude in a form whose order is that of the numbers.
    fn magnitude(&self) -> (usize, &str, &str) {
        (self.whole.len(), &self.whole, self.fraction.trim_end_matches('0'))
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.negative { "-" } else { "" };
        let point = if self.fraction.is_empty() { "" } else { "." };
        write!(f, "{sign}{}{point}{}", self.whole, self.fraction)
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Decimal) -> Ordering {
        match (self.negative, other.negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => self.magnitude().cmp(&other.magnitude()),
            (true, true) => other.magnitude().cmp(&self.magnitude()),
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Decimal) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Decimal) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Decimal {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checked with `select x::numeric` on PostgreSQL 15.
    #[test]
    fn numbers_read_and_show_as_the_server_has_them() {
        for (text, shown) in [
            ("007", "7"),
            ("1.50", "1.50"),
            ("-0.0", "0.0"),
            ("1e3", "1000"),
            ("1.25e1", "12.5"),
            ("15e-3", "0.015"),
            (".5", "0.5"),
        ] {
            assert_eq!(Decimal::parse(text).unwrap().to_string(), shown, "{text}");
        }
        for text in ["", "-", "1.2.3", "0x1", "e5", "1e"] {
            assert!(Decimal::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn numbers_compare_by_value() {
        let of = |text| Decimal::parse(text).unwrap();
        assert_eq!(of("1.0"), of("1"));
        assert!(of("-2") < of("-1.5") && of("-1.5") < of("0") && of("9") < of("10"));
        assert_eq!((of("2.5").to_int(), of("-2.5").to_int()), (Some(3), Some(-3)));
    }
}
