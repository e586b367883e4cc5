//! Integers beyond 64 bits, of which msgpack has none and Python has any number.
//!
//! One is carried as LangGraph's serializer carries instances: an ext value of code 0, whose payload is
//! `["builtins", "int", digits]`. Python makes an integer of it again. Its own serializer never writes
//! one (a `TypeError`), but PostgreSQL's JSONB does: a float from 1e22 on comes back without a fraction.

use super::Value;

const ONE_ARGUMENT: i8 = 0;

/// By its digits; `None` where they are not those of an integer, or of one that has 64 bits.
pub(crate) fn big_integer(digits: &str) -> Option<Value> {
    if !is_big_integer(digits) {
        return None;
    }
    let call = Value::Array(vec!["builtins".into(), "int".into(), digits.into()]);
    let mut payload = Vec::new();
    rmpv::encode::write_value(&mut payload, &call).expect("a vector takes all bytes");
    Some(Value::Ext(ONE_ARGUMENT, payload))
}

/// The digits of an integer beyond 64 bits, and nothing else.
pub(crate) fn read_big_integer(value: &Value) -> Option<String> {
    let Value::Ext(ONE_ARGUMENT, payload) = value else { return None };
    let mut rest = &payload[..];
    let call = rmpv::decode::read_value(&mut rest).ok()?;
    match call.as_array().map(Vec::as_slice)? {
        [module, class, digits] if rest.is_empty() => {
            let is_integer = module.as_str() == Some("builtins") && class.as_str() == Some("int");
            digits.as_str().filter(|digits| is_integer && is_big_integer(digits)).map(str::to_owned)
        }
        _ => None,
    }
}

fn is_big_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_integer = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    is_integer && !digits.is_empty() && text.parse::<i64>().is_err() && text.parse::<u64>().is_err()
}

#[cfg(test)]
mod tests {
    use super::{big_integer, read_big_integer};
    use crate::value::Value;

    #[test]
    fn only_what_64_bits_do_not_hold_is_one() {
        let over = "18446744073709551616";
        let under = "-9223372036854775809";
        for digits in [over, under, "10000000000000000000000", &"9".repeat(4_000)] {
            let made = big_integer(digits).expect(digits);
            assert_eq!(read_big_integer(&made).as_deref(), Some(digits));
        }
        let small = ["18446744073709551615", "-9223372036854775808", "0", "-1"];
        let odd = ["", "-", "+18446744073709551616", "018446744073709551616", "1e22", "1.0", "٣"];
        for digits in small.into_iter().chain(odd) {
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
        let others: [&[u8]; 5] = [
            b"",
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
