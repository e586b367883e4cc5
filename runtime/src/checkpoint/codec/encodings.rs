//! The bytes of values that no step touches, so that a step copies them and does not encode them.
//!
//! A checkpoint stores the whole state. Channels share a value for as long as nobody writes it, so
//! the same `Arc` says that the bytes are the same.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use crate::value::{Shared, Value};

/// Bytes that are kept, of which a half goes when there are more. One value alone may be larger.
const MOST: usize = 64 << 20;
/// What has fewer bytes is encoded as fast as it is found here.
const SMALL: usize = 512;

/// Encoded arrays and maps by their address. Other values are copied when they are encoded.
#[derive(Default)]
pub(crate) struct Encodings {
    young: Generation,
    old: Generation,
}

#[derive(Default)]
struct Generation {
    /// Addresses are looked up and never compared, so nothing depends on them.
    by_address: BTreeMap<usize, Encoded>,
    bytes: usize,
}

struct Encoded {
    /// Holds the address: no other value gets it while this is here.
    value: Weak<Value>,
    bytes: Arc<[u8]>,
}

impl Encodings {
    /// The bytes of this very value, if they are kept.
    pub fn find(&mut self, value: &Shared) -> Option<Arc<[u8]>> {
        if !is_nested(value) {
            return None;
        }
        let address = address(value);
        if let Some(encoded) = self.young.by_address.get(&address) {
            return Some(encoded.bytes.clone());
        }
        let encoded = self.old.remove(address)?;
        let bytes = encoded.bytes.clone();
        self.insert(address, encoded);
        Some(bytes)
    }

    /// Keeps the bytes of a value, if that is worth while.
    pub fn keep(&mut self, value: &Shared, bytes: &[u8]) {
        if is_nested(value) && bytes.len() > SMALL {
            let encoded = Encoded { value: Arc::downgrade(value), bytes: bytes.into() };
            self.insert(address(value), encoded);
        }
    }

    fn insert(&mut self, address: usize, encoded: Encoded) {
        let length = encoded.bytes.len();
        if self.young.bytes + length > MOST / 2 {
            self.old = std::mem::take(&mut self.young);
            self.old.forget_gone();
        }
        self.young.bytes += length;
        self.young.by_address.insert(address, encoded);
    }
}

impl Generation {
    fn remove(&mut self, address: usize) -> Option<Encoded> {
        let encoded = self.by_address.remove(&address)?;
        self.bytes -= encoded.bytes.len();
        Some(encoded)
    }

    /// Lets go of values that nobody has any more.
    fn forget_gone(&mut self) {
        self.by_address.retain(|_, encoded| encoded.value.strong_count() > 0);
        self.bytes = self.by_address.values().map(|encoded| encoded.bytes.len()).sum();
    }
}

fn is_nested(value: &Value) -> bool {
    matches!(value, Value::Array(_) | Value::Map(_))
}

fn address(value: &Shared) -> usize {
    Arc::as_ptr(value).addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(length: usize) -> Shared {
        Arc::new(Value::Array(vec![Value::Nil; length]))
    }

    #[test]
    fn only_the_very_value_is_found() {
        let mut encodings = Encodings::default();
        let (value, equal) = (list(3), list(3));
        encodings.keep(&value, &[7; SMALL + 1]);
        assert_eq!(encodings.find(&value).as_deref(), Some(&[7; SMALL + 1][..]));
        assert_eq!(encodings.find(&equal), None);
        // A value that comes after it cannot take its address.
        drop(value);
        for length in 0..1_000 {
            assert_eq!(encodings.find(&list(length)), None);
        }
    }

    #[test]
    fn what_is_used_stays_and_the_rest_goes() {
        let mut encodings = Encodings::default();
        let used = list(1);
        encodings.keep(&used, &[1; 1_000]);
        let others: Vec<Shared> = (0..10).map(|_| list(1)).collect();
        for other in &others {
            encodings.keep(other, &vec![2; MOST / 4]);
            assert!(encodings.find(&used).is_some());
            assert!(encodings.young.bytes + encodings.old.bytes <= MOST);
        }
        assert!(encodings.find(&others[0]).is_none());
        assert!(encodings.find(&others[9]).is_some());
    }
}
