//! Finding one's way through msgpack without building anything of it.
//! <https://github.com/msgpack/msgpack/blob/master/spec.md>

use rmp::Marker;

/// What a value begins with.
enum Head {
    /// So many entries follow.
    Map(usize),
    /// So many elements follow.
    Array(usize),
    /// So many bytes of text follow.
    Text(usize),
    /// Anything else: so many bytes follow.
    Other(usize),
}

/// How many entries the map has that begins here. Nothing is read of anything else.
pub(super) fn map_head(bytes: &mut &[u8]) -> Option<usize> {
    let mut rest = *bytes;
    let Head::Map(count) = head(&mut rest)? else { return None };
    *bytes = rest;
    Some(count)
}

/// Reads a value. It is given if it is a text; the outer `None` is one that ends too early.
pub(super) fn text<'b>(bytes: &mut &'b [u8]) -> Option<Option<&'b str>> {
    let mut rest = *bytes;
    let Head::Text(length) = head(&mut rest)? else {
        skip(bytes)?;
        return Some(None);
    };
    let text = take(&mut rest, length)?;
    *bytes = rest;
    Some(std::str::from_utf8(text).ok())
}

/// Reads a value and gives its bytes; `None` if it ends too early.
pub(super) fn skip<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let whole = *bytes;
    let mut values: usize = 1;
    while values > 0 {
        values -= 1;
        match head(bytes)? {
            Head::Map(entries) => values = values.checked_add(entries.checked_mul(2)?)?,
            Head::Array(elements) => values = values.checked_add(elements)?,
            Head::Text(length) | Head::Other(length) => {
                take(bytes, length)?;
            }
        }
    }
    Some(&whole[..whole.len() - bytes.len()])
}

fn head(bytes: &mut &[u8]) -> Option<Head> {
    let [first] = *take(bytes, 1)?.first_chunk()?;
    Some(match Marker::from_u8(first) {
        Marker::FixMap(entries) => Head::Map(entries.into()),
        Marker::Map16 => Head::Map(number(bytes, 2)?),
        Marker::Map32 => Head::Map(number(bytes, 4)?),
        Marker::FixArray(elements) => Head::Array(elements.into()),
        Marker::Array16 => Head::Array(number(bytes, 2)?),
        Marker::Array32 => Head::Array(number(bytes, 4)?),
        Marker::FixStr(length) => Head::Text(length.into()),
        Marker::Str8 => Head::Text(number(bytes, 1)?),
        Marker::Str16 => Head::Text(number(bytes, 2)?),
        Marker::Str32 => Head::Text(number(bytes, 4)?),
        Marker::Bin8 => Head::Other(number(bytes, 1)?),
        Marker::Bin16 => Head::Other(number(bytes, 2)?),
        Marker::Bin32 => Head::Other(number(bytes, 4)?),
        // One byte more, for the type.
        Marker::Ext8 => Head::Other(number(bytes, 1)?.checked_add(1)?),
        Marker::Ext16 => Head::Other(number(bytes, 2)?.checked_add(1)?),
        Marker::Ext32 => Head::Other(number(bytes, 4)?.checked_add(1)?),
        Marker::FixExt1 => Head::Other(2),
        Marker::FixExt2 => Head::Other(3),
        Marker::FixExt4 => Head::Other(5),
        Marker::FixExt8 => Head::Other(9),
        Marker::FixExt16 => Head::Other(17),
        Marker::U8 | Marker::I8 => Head::Other(1),
        Marker::U16 | Marker::I16 => Head::Other(2),
        Marker::U32 | Marker::I32 | Marker::F32 => Head::Other(4),
        Marker::U64 | Marker::I64 | Marker::F64 => Head::Other(8),
        Marker::FixPos(_)
        | Marker::FixNeg(_)
        | Marker::Null
        | Marker::True
        | Marker::False
        | Marker::Reserved => Head::Other(0),
    })
}

/// A number of so many bytes, the most significant first.
fn number(bytes: &mut &[u8], length: usize) -> Option<usize> {
    let number = take(bytes, length)?;
    Some(number.iter().fold(0, |number, &byte| number << 8 | usize::from(byte)))
}

fn take<'b>(bytes: &mut &'b [u8], length: usize) -> Option<&'b [u8]> {
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use rmpv::Value;
    use rmpv::encode::write_value;

    use super::*;

    /// A value of every kind and width.
    fn all() -> Vec<Value> {
        let mut values = vec![Value::Nil, true.into(), 1.5_f32.into(), 2.5_f64.into()];
        for bits in 0..64 {
            values.extend([Value::from(u64::MAX >> bits), Value::from(i64::MIN >> bits)]);
        }
        for length in [0, 1, 2, 3, 4, 8, 15, 16, 17, 31, 32, 255, 256, 65_535, 65_536] {
            values.push("x".repeat(length).into());
            values.push(vec![7_u8; length].into());
            values.push(Value::Ext(5, vec![8; length]));
            values.push(Value::Array(vec![Value::Nil; length]));
            values.push(Value::Map(vec![(1.into(), "one".into()); length]));
        }
        values
    }

    fn stored(value: &Value) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_value(&mut bytes, value).unwrap();
        bytes
    }

    #[test]
    fn every_value_is_as_long_as_it_is() {
        for value in all() {
            let bytes = stored(&value);
            let followed = [&bytes[..], b"rest"].concat();
            let mut left = &followed[..];
            assert_eq!(skip(&mut left), Some(&bytes[..]), "{value:.100}");
            assert_eq!(left, b"rest");
            assert_eq!(skip(&mut &bytes[..bytes.len() - 1]), None);

            let mut left = &followed[..];
            assert_eq!(text(&mut left), Some(value.as_str()));
            assert_eq!(left, b"rest");
            let mut left = &followed[..];
            assert_eq!(map_head(&mut left), value.as_map().map(Vec::len));
        }
    }

    #[test]
    fn lengths_that_cannot_be_are_no_loop() {
        let endless = [0xdf, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(skip(&mut &endless[..]), None);
        assert_eq!(text(&mut &[0xdb, 0xff, 0xff, 0xff, 0xff][..]), None);
        assert_eq!(text(&mut &[0xa1, 0xff][..]), Some(None), "no UTF-8");
    }
}
