//! Stored checkpoints, read in one pass: their maps are walked where they stand, as a tree of
//! everything in them would be built only to be taken apart.

use std::collections::BTreeMap;
use std::sync::Arc;

use rmpv::decode::read_value;

use super::msgpack::{map_head, skip, text};
use crate::outcome::Versions;

/// What is judged of a checkpoint. Fields that are not there, or are no maps, are empty.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Read {
    pub values: BTreeMap<String, rmpv::Value>,
    pub versions: Versions,
    pub versions_seen: BTreeMap<String, Arc<Versions>>,
}

/// Reads the checkpoints of a file.
#[derive(Default)]
pub(super) struct Reader {
    /// What nodes have seen, by its bytes: most of it stays as it is from checkpoint to checkpoint.
    seen: BTreeMap<Box<[u8]>, Arc<Versions>>,
}

impl Reader {
    pub(super) fn read(&mut self, mut bytes: &[u8]) -> Result<Read, String> {
        let mut read = Read::default();
        entries(&mut bytes, &mut |field, bytes| match field {
            "channel_values" => entries(bytes, &mut |name, bytes| {
                let value = read_value(bytes).map_err(|error| error.to_string())?;
                read.values.insert(name.to_owned(), value);
                Ok(())
            }),
            "channel_versions" => {
                read.versions = texts(bytes)?;
                Ok(())
            }
            "versions_seen" => entries(bytes, &mut |node, bytes| {
                read.versions_seen.insert(node.to_owned(), self.seen(bytes)?);
                Ok(())
            }),
            _ => skip(bytes).map(drop).ok_or_else(cut_off),
        })?;
        Ok(read)
    }

    fn seen(&mut self, bytes: &mut &[u8]) -> Result<Arc<Versions>, String> {
        let mut bytes = skip(bytes).ok_or_else(cut_off)?;
        if let Some(known) = self.seen.get(bytes) {
            return Ok(known.clone());
        }
        let key = bytes.into();
        let seen = Arc::new(texts(&mut bytes)?);
        self.seen.insert(key, seen.clone());
        Ok(seen)
    }
}

fn cut_off() -> String {
    "a checkpoint ends too early".to_owned()
}

/// Reads the value of the entry with this key.
type Visit<'b, 'v> = dyn FnMut(&'b str, &mut &'b [u8]) -> Result<(), String> + 'v;

/// Reads a value. If it is a map, those of its entries are visited whose keys are texts.
fn entries<'b>(bytes: &mut &'b [u8], visit: &mut Visit<'b, '_>) -> Result<(), String> {
    let Some(count) = map_head(bytes) else {
        return skip(bytes).map(drop).ok_or_else(cut_off);
    };
    for _ in 0..count {
        match text(bytes).ok_or_else(cut_off)? {
            Some(key) => visit(key, bytes)?,
            None => drop(skip(bytes).ok_or_else(cut_off)?),
        }
    }
    Ok(())
}

/// The entries of a map whose keys and values are texts.
fn texts(bytes: &mut &[u8]) -> Result<Versions, String> {
    let mut texts = Versions::new();
    entries(bytes, &mut |key, bytes| {
        if let Some(value) = text(bytes).ok_or_else(cut_off)? {
            texts.insert(key.to_owned(), value.to_owned());
        }
        Ok(())
    })?;
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use rmpv::Value;

    use super::*;

    fn map(entries: &[(&str, Value)]) -> Value {
        Value::Map(entries.iter().map(|(key, value)| ((*key).into(), value.clone())).collect())
    }

    fn stored(value: &Value) -> Vec<u8> {
        let mut bytes = Vec::new();
        rmpv::encode::write_value(&mut bytes, value).unwrap();
        bytes
    }

    #[test]
    fn what_is_judged_is_found_among_the_rest() {
        let odd = Value::Map(vec![(1.into(), "key".into()), ("value".into(), 1.into())]);
        let names: Vec<String> = (0..70_000).map(|n| format!("n{n:05}")).collect();
        let many: Vec<(&str, Value)> =
            names.iter().zip(0..).map(|(name, n)| (name.as_str(), Value::from(n))).collect();
        let checkpoint = map(&[
            ("v", 4.into()),
            ("pending", Value::Array(vec![odd.clone()])),
            ("channel_values", map(&many)),
            ("channel_versions", map(&[("a", "1.0".into()), ("b", 2.into())])),
            ("versions_seen", map(&[("n", map(&[("a", "1.0".into())])), ("odd", odd)])),
        ]);
        let bytes = stored(&checkpoint);
        let read = Reader::default().read(&bytes).unwrap();
        assert_eq!(read.values.len(), 70_000);
        assert_eq!(read.values["n69999"], Value::from(69_999));
        assert_eq!(read.versions, BTreeMap::from([("a".to_owned(), "1.0".to_owned())]));
        assert_eq!(*read.versions_seen["n"], read.versions);
        assert!(read.versions_seen["odd"].is_empty());
        for length in [0, 1, 20, bytes.len() - 1] {
            assert!(Reader::default().read(&bytes[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn what_is_no_map_is_empty() {
        let fields = map(&[("channel_values", Value::Nil), ("versions_seen", "none".into())]);
        for value in [fields, 7.into(), Value::Array(vec!["channel_values".into(), map(&[])])] {
            assert_eq!(Reader::default().read(&stored(&value)), Ok(Read::default()));
        }
    }

    #[test]
    fn what_was_seen_before_is_shared() {
        let seen = |version: &str| {
            let node = |version: &str| map(&[("a", version.into())]);
            let nodes = map(&[("still", node("1.0")), ("moving", node(version))]);
            stored(&map(&[("versions_seen", nodes)]))
        };
        let mut reader = Reader::default();
        let [one, two] = ["2.0", "3.0"].map(|version| reader.read(&seen(version)).unwrap());
        assert!(Arc::ptr_eq(&one.versions_seen["still"], &two.versions_seen["still"]));
        assert_eq!(one.versions_seen["moving"]["a"], "2.0");
        assert_eq!(two.versions_seen["moving"]["a"], "3.0");
    }
}
