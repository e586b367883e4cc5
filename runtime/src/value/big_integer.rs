//! Integers beyond 64 bits, of which msgpack has none and Python has any number.
//!
//! One is carried as LangGraph's serializer carries instances: an ext value of code 0, whose payload is
//! `["builtins", "int", digits]`. Python makes an integer of it again. Its own serializer never writes
//! one (a `TypeError`), but PostgreSQL's JSONB does: a large float of Python's comes back without a
//! fraction.

use super::Value;

const ONE_ARGUMENT: i8 = 0;
/// The payload's beginning: a list of three, with the module and the class.
const CALL: &[u8] = b"\x93\xa8builtins\xa3int";
/// Python reads no more (`sys.int_info.default_max_str_digits`).
const MOST_DIGITS: usize = 4_300;

/// By its digits; `None` where they are not those of an integer, or of one that has 64 bits.
pub(crate) fn big_integer(digits: &str) -> Option<Value> {
    if !is_big_integer(digits) {
        return None;
    }
    let mut payload = CALL.to_vec();
    let text = Value::from(digits);
    rmpv::encode::write_value(&mut payload, &text).expect("a vector takes all bytes");
    Some(Value::Ext(ONE_ARGUMENT, payload))
}

/// The digits of an integer beyond 64 bits, and nothing else. Whatever else an instance may be, little
/// of it is looked at.
pub(crate) fn read_big_integer(value: &Value) -> Option<&str> {
    let Value::Ext(ONE_ARGUMENT, payload) = value else { return None };
    let text = match payload.strip_prefix(CALL)? {
        [header @ 0xa0..=0xbf, text @ ..] => (text, usize::from(header & 0x1f)),
        [0xd9, length, text @ ..] => (text, usize::from(*length)),
        [0xda, high, low, text @ ..] => (text, usize::from(u16::from_be_bytes([*high, *low]))),
        _ => return None,
    };
    let (text, length) = text;
    let digits = std::str::from_utf8(text).ok().filter(|text| text.len() == length)?;
    is_big_integer(digits).then_some(digits)
}

fn is_big_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    (1..=MOST_DIGITS).contains(&digits.len())
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && !digits.starts_with('0')
        && text.parse::<i64>().is_err()
        && text.parse::<u64>().is_err()
}

#[cfg(test)]
mod tests {
    use super::{CALL, big_integer, read_big_integer};
    use crate::value::Value;

    #[test]
    fn only_what_64_bits_do_not_hold_is_one() {
        let over = "18446744073709551616";
        let under = "-9223372036854775809";
        for digits in [over, under, "10000000000000000000000", &"9".repeat(4_300)] {
            let made = big_integer(digits).expect(digits);
            assert_eq!(read_big_integer(&made), Some(digits));
        }
        let small = ["18446744073709551615", "-9223372036854775808", "0", "-1"];
        let odd = ["", "-", "+18446744073709551616", "018446744073709551616", "1e22", "1.0", "٣"];
        let long = "9".repeat(4_301);
        for digits in small.into_iter().chain(odd).chain([&*long]) {
            assert_eq!(big_integer(digits), None, "{digits}");
        }
    }

    /// The bytes are those of `ormsgpack.Ext(0, ormsgpack.packb(["builtins", "int", "1" + "0" * 22]))`,
    /// which LangGraph 1.2.9 reads as `10**22`.
    #[test]
    fn it_is_an_instance_as_python_writes_them() {
        let Some(Value::Ext(0, payload)) = big_integer("10000000000000000000000") else {
            panic!("an ext value")
        };
        let expected = b"\x93\xa8builtins\xa3int\xb710000000000000000000000";
        assert_eq!(payload, expected);
        let deep = [&[0x91; 100_000][..], &[0xc0]].concat();
        let others: [&[u8]; 10] = [
            b"",
            &deep,
            CALL,
            &[CALL, b"\xb710000000000000000000"].concat(),
            &[CALL, b"\xb7100000000000000000000000"].concat(),
            &[CALL, b"\xdb\xff\xff\xff\xff1"].concat(),
            b"\xc1",
            b"\x93\xa8builtins\xa3set\xb410000000000000000000",
            b"\x93\xa8builtins\xa3int\xa17",
            b"\x92\xa8builtins\xa3int",
        ];
        for other in others {
            assert_eq!(read_big_integer(&Value::Ext(0, other.to_vec())), None, "{other:?}");
        }
        assert_eq!(read_big_integer(&Value::Ext(1, payload)), None);
    }
}
