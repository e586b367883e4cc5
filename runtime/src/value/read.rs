//! Reading a value as a user's type.
//!
//! Values are written in JSON's data model, so they are read in it: an enum is its variant's name,
//! or a map from it to what it holds; a unit struct is nil; keys of maps are texts, from which
//! numbers are parsed. rmpv's own reader takes none of these.

use std::fmt::{self, Display};

use serde::de::value::{MapAccessDeserializer, MapDeserializer, SeqDeserializer, StrDeserializer};
use serde::de::{self, Deserializer, IntoDeserializer, Unexpected, Visitor};
use serde::forward_to_deserialize_any;

use super::{Value, read_big_integer};

/// A value does not fit the type that it is read as: where in it, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadError(String);

impl Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ReadError {}

impl de::Error for ReadError {
    fn custom<T: Display>(message: T) -> ReadError {
        ReadError(message.to_string())
    }
}

/// Reads a value as `T`.
pub fn from_value<T: de::DeserializeOwned>(value: &Value) -> Result<T, ReadError> {
    T::deserialize(Reader(value)).map_err(|error| {
        // Read once more, this time noting the way, which costs something.
        match serde_path_to_error::deserialize::<_, T>(Reader(value)) {
            Err(error) if error.path().iter().next().is_some() => {
                ReadError(format!("{}: {}", error.path(), error.inner()))
            }
            _ => error,
        }
    })
}

/// Integers of up to 64 bits.
macro_rules! small {
    ($($name:ident)*) => {$(
        fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
            match read_big_integer(self.0) {
                Some(digits) => no_room(digits, &visitor),
                None => self.deserialize_any(visitor),
            }
        }
    )*};
}

/// Numbers that may have room for more.
macro_rules! large {
    ($($name:ident: $visit:ident if $fits:expr;)*) => {$(
        fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
            let Some(digits) = read_big_integer(self.0) else {
                return self.deserialize_any(visitor);
            };
            match digits.parse() {
                Ok(number) if $fits(number) => visitor.$visit(number),
                _ => no_room(digits, &visitor),
            }
        }
    )*};
}

#[derive(Clone, Copy)]
struct Reader<'de>(&'de Value);

impl<'de> IntoDeserializer<'de, ReadError> for Reader<'de> {
    type Deserializer = Reader<'de>;

    fn into_deserializer(self) -> Reader<'de> {
        self
    }
}

impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.0 {
            Value::Nil => visitor.visit_unit(),
            Value::Boolean(b) => visitor.visit_bool(*b),
            Value::Integer(n) => match (n.as_u64(), n.as_i64()) {
                (Some(n), _) => visitor.visit_u64(n),
                (None, n) => visitor.visit_i64(n.unwrap_or_default()),
            },
            Value::F32(f) => visitor.visit_f32(*f),
            Value::F64(f) => visitor.visit_f64(*f),
            Value::String(s) => match s.as_str() {
                Some(text) => visitor.visit_borrowed_str(text),
                None => visitor.visit_borrowed_bytes(s.as_bytes()),
            },
            Value::Binary(bytes) => visitor.visit_borrowed_bytes(bytes),
            Value::Array(items) => {
                let mut items = SeqDeserializer::new(items.iter().map(Reader));
                let read = visitor.visit_seq(&mut items)?;
                items.end().map(|()| read)
            }
            Value::Map(entries) => {
                let mut entries = map(entries);
                let read = visitor.visit_map(&mut entries)?;
                entries.end().map(|()| read)
            }
            // Only a field of type `Value` takes one.
            Value::Ext(..) => {
                let read = self.0.clone().deserialize_any(visitor);
                read.map_err(|error: rmpv::ext::Error| match read_big_integer(self.0) {
                    Some(digits) => de::Error::custom(format_args!(
                        "the integer {digits} has more than 64 bits: it is read as f64, i128, u128 or \
                         Value only, and not where the type is chosen by the value"
                    )),
                    None => de::Error::custom(error),
                })
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.0 {
            Value::Nil => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        let unexpected = match self.0 {
            Value::String(name) if name.as_str().is_some() => {
                let name = name.as_str().unwrap_or_default();
                return visitor.visit_enum(StrDeserializer::new(name));
            }
            Value::Map(entries) if entries.len() == 1 => {
                return visitor.visit_enum(MapAccessDeserializer::new(map(entries)));
            }
            Value::Map(_) => Unexpected::Map,
            Value::Array(_) => Unexpected::Seq,
            Value::Nil => Unexpected::Unit,
            _ => Unexpected::Other("a value of another kind"),
        };
        Err(de::Error::invalid_type(unexpected, &"the name of a variant, or a map of one to it"))
    }

    large! {
        deserialize_i128: visit_i128 if |_| true;
        deserialize_u128: visit_u128 if |_| true;
        deserialize_f32: visit_f64 if |float: f64| (float as f32).is_finite();
        deserialize_f64: visit_f64 if f64::is_finite;
    }

    small! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
    }

    forward_to_deserialize_any! {
        bool char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct
        identifier ignored_any
    }
}

fn no_room<'de, V: Visitor<'de>>(digits: &str, visitor: &V) -> Result<V::Value, ReadError> {
    Err(de::Error::invalid_type(Unexpected::Other(&format!("the integer {digits}")), visitor))
}

type Pair<'de> = (Key<'de>, Reader<'de>);

fn map(
    entries: &[(Value, Value)],
) -> MapDeserializer<'_, impl Iterator<Item = Pair<'_>>, ReadError> {
    MapDeserializer::new(entries.iter().map(|(key, value)| (Key(key), Reader(value))))
}

/// The key of a map's entry.
#[derive(Clone, Copy)]
struct Key<'de>(&'de Value);

impl<'de> IntoDeserializer<'de, ReadError> for Key<'de> {
    type Deserializer = Key<'de>;

    fn into_deserializer(self) -> Key<'de> {
        self
    }
}

/// A text is parsed, as it is all that a key can be in JSON; a number is one already.
macro_rules! parsed {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
            match self.0.as_str() {
                None => Reader(self.0).$method(visitor),
                Some(text) => match (text.parse(), text.parse(), text.parse()) {
                    (Ok(n), _, _) => visitor.visit_u64(n),
                    (_, Ok(n), _) => visitor.visit_i64(n),
                    (_, _, Ok(b)) => visitor.visit_bool(b),
                    _ => Err(de::Error::invalid_type(Unexpected::Str(text), &visitor)),
                },
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for Key<'de> {
    type Error = ReadError;

    parsed! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        Reader(self.0).deserialize_any(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        Reader(self.0).deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        i128 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct
        map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fmt::Debug;

    use serde::{Deserialize, Serialize, de::DeserializeOwned};

    use super::from_value;
    use crate::value::{Value, big_integer, map, to_value};

    #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    enum Status {
        Open,
        Paid(u32),
        Split(u32, u32),
        Refused { reason: String },
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Unit;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Basket {
        seats: Vec<Seat>,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Seat {
        row: u8,
        guest: Option<String>,
    }

    fn comes_back<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: T) {
        let written = to_value(&value).expect("it can be written");
        assert_eq!(from_value::<T>(&written), Ok(value), "{written}");
    }

    #[test]
    fn what_was_written_is_read() {
        comes_back(vec![
            Status::Open,
            Status::Paid(3),
            Status::Split(1, 2),
            Status::Refused { reason: "late".to_owned() },
        ]);
        comes_back((Unit, -1_i64, u64::MAX, 'x', 1.5, Some(2), None::<String>));
        comes_back(BTreeMap::from([(-3_i64, "a".to_owned()), (7, "b".to_owned())]));
        comes_back(BTreeMap::from([(true, 1)]));
        comes_back(BTreeMap::from([(Status::Open, 1)]));
        comes_back(BTreeMap::from([("7".to_owned(), serde_json::json!({ "a": [1, null] }))]));
        comes_back(Basket { seats: vec![Seat { row: 1, guest: None }] });
    }

    #[test]
    fn extension_types_and_bytes_are_carried() {
        let odd = map([("e", Value::Ext(5, vec![1, 2])), ("b", Value::Binary(vec![3]))]);
        assert_eq!(from_value::<Value>(&odd), Ok(odd));
    }

    #[test]
    fn an_integer_beyond_64_bits_is_read_where_there_is_room() {
        let big = big_integer("10000000000000000000000").expect("it is big");
        assert_eq!(from_value(&big), Ok(10_000_000_000_000_000_000_000_i128));
        assert_eq!(from_value(&big), Ok(10_000_000_000_000_000_000_000_u128));
        assert_eq!(from_value(&big), Ok(1e22));
        assert_eq!(from_value(&big), Ok(1e22_f32));
        assert_eq!(from_value(&big), Ok(big.clone()));
        let error = from_value::<u64>(&big).expect_err("64 bits are too few");
        let text = "invalid type: the integer 10000000000000000000000, expected u64";
        assert_eq!(error.to_string(), text);
        let bigger = big_integer(&"9".repeat(50)).expect("it is big");
        let error = from_value::<i128>(&bigger).expect_err("128 bits are too few").to_string();
        assert!(error.ends_with("9999, expected i128"), "{error}");
        let huge = big_integer(&"7".repeat(400)).expect("it is big");
        assert!(from_value::<f64>(&huge).is_err(), "no float has room for it");
        let wide = big_integer(&"7".repeat(40)).expect("it is big");
        assert!(from_value::<f32>(&wide).is_err(), "an f32 is smaller");
        assert!(from_value::<f64>(&wide).is_ok());
        let error = from_value::<serde_json::Value>(&big).expect_err("JSON has no such integer");
        assert!(error.to_string().contains("more than 64 bits"), "{error}");
        assert_eq!(from_value::<i128>(&7.into()), Ok(7));
    }

    #[test]
    fn a_misfit_says_where_it_is() {
        let seat = |row: Value| map([("row", row)]);
        let seats = Value::Array(vec![seat(1.into()), seat("two".into())]);
        let error = from_value::<Basket>(&map([("seats", seats)])).expect_err("a text is no row");
        let text = "seats[1].row: invalid type: string \"two\", expected u8";
        assert_eq!(error.to_string(), text);
        let error = from_value::<String>(&7.into()).expect_err("a number is no text");
        assert_eq!(error.to_string(), "invalid type: integer `7`, expected a string");
        let error = from_value::<BTreeMap<u8, u8>>(&map([("x", 1.into())]));
        assert!(error.expect_err("no number").to_string().contains("\"x\""));
        assert!(from_value::<Status>(&map([("Open", 1.into())])).is_err());
        assert!(from_value::<Status>(&"Closed".into()).is_err());
        assert!(from_value::<Status>(&Value::Nil).is_err());
    }
}
