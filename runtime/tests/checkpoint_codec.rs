//! Bytes of values, checkpoints and metadata, against what LangGraph's serializer wrote.
#![cfg(not(madsim))]

mod checkpoint_support;

use checkpoint_support::{checkpoint, metadata, shared, vectors};
use durasim_runtime::checkpoint::Source;
use durasim_runtime::checkpoint::codec::{self, CodecError, MAX_DEPTH, pack, unpack};
use durasim_runtime::checkpoint::saver::SaverError;
use durasim_runtime::value::{self, Value};
use proptest::prelude::*;

fn unhex(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}

struct Pair {
    python: String,
    type_name: String,
    bytes: Vec<u8>,
}

fn pairs() -> Vec<Pair> {
    let text = std::fs::read_to_string(vectors("msgpack.json")).unwrap();
    let pairs: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    let read = |pair: &serde_json::Value| {
        let bytes = match (pair["hex"].as_str(), pair["head"].as_str()) {
            (Some(hex), _) => unhex(hex),
            (None, head) => {
                let mut bytes = unhex(head.unwrap());
                let last = *bytes.last().unwrap();
                bytes.resize(pair["length"].as_u64().unwrap() as usize, last);
                bytes
            }
        };
        assert_eq!(bytes.len() as u64, pair["length"].as_u64().unwrap());
        let text = |key: &str| pair[key].as_str().unwrap().to_owned();
        Pair { python: text("py"), type_name: text("type"), bytes }
    };
    pairs.iter().map(read).collect()
}

fn bytes_of(python: &str) -> Vec<u8> {
    pairs().into_iter().find(|pair| pair.python == python).expect(python).bytes
}

#[test]
fn every_value_that_python_wrote_is_written_again_byte_for_byte() {
    let pairs = pairs();
    assert_eq!(pairs.len(), 78);
    for pair in pairs {
        let value = codec::decode(&pair.type_name, &pair.bytes).expect(&pair.python);
        let (type_name, bytes) = codec::encode(&value).expect(&pair.python);
        assert_eq!(bytes, pair.bytes, "{}", pair.python);
        // Rust has one type for raw bytes. Python reads them back as `bytes`.
        let expected = if pair.type_name == "bytearray" { "bytes" } else { &pair.type_name };
        assert_eq!(type_name, expected, "{}", pair.python);
    }
}

#[test]
fn values_read_as_what_they_are() {
    let read = |python| unpack(&bytes_of(python)).unwrap();
    assert_eq!(read("18446744073709551615"), Value::from(u64::MAX));
    assert_eq!(read("-9223372036854775808"), Value::from(i64::MIN));
    assert_eq!(read("1.5"), Value::F64(1.5));
    assert_eq!(read("{1: 'x'}"), Value::Map(vec![(1.into(), "x".into())]));
    assert_eq!(read("{'b': 1, 'a': 2}"), value::map([("b", 1.into()), ("a", 2.into())]));
    assert_eq!(read("[b'inner']"), Value::Array(vec![Value::Binary(b"inner".to_vec())]));
    assert_eq!(codec::decode("null", b"").unwrap(), Value::Nil);
    assert_eq!(codec::decode("bytearray", b"ab").unwrap(), Value::Binary(b"ab".to_vec()));
}

#[test]
fn known_classes_have_pythons_bytes() {
    let question = value::map([("q", 1.into())]);
    let interrupt = codec::interrupt_value(question.clone(), &"ab".repeat(16)).unwrap();
    let python = format!("Interrupt(value={{'q': 1}}, id='{}')", "ab".repeat(16));
    assert_eq!(pack(&interrupt).unwrap(), bytes_of(&python));
    assert_eq!(codec::read_interrupt(&interrupt), Some((question, "ab".repeat(16))));

    let item = value::map([("item", 1.into())]);
    let send = codec::send_value("w", item.clone()).unwrap();
    assert_eq!(pack(&send).unwrap(), bytes_of("Send(node='w', arg={'item': 1})"));
    assert_eq!(codec::read_send(&send), Some(("w".to_owned(), item)));

    assert_eq!(pack(&codec::set_value([])).unwrap(), bytes_of("set()"));
    let set = codec::set_value(["a"]);
    assert_eq!(pack(&set).unwrap(), bytes_of("{'a'}"));
    assert_eq!(codec::read_set(&set), Some(vec!["a".into()]));

    for other in [Value::Nil, set, Value::Ext(2, vec![0xc1]), Value::Ext(2, b"\x90".to_vec())] {
        assert_eq!(codec::read_interrupt(&other), None);
        assert_eq!(codec::read_send(&other), None);
    }
    assert_eq!(codec::read_set(&interrupt), None);
}

#[test]
fn damaged_bytes_are_errors() {
    let problem = |bytes: &[u8]| unpack(bytes).unwrap_err().to_string();
    assert_eq!(problem(b""), "msgpack at byte 0: the bytes end too early");
    assert_eq!(problem(b"\x01\x01"), "msgpack at byte 1: bytes left over after the value");
    assert_eq!(problem(b"\x91\xc1"), "msgpack at byte 1: the reserved byte 0xc1");
    assert_eq!(problem(b"\xa1\xff"), "a string is not UTF-8");
    // Lengths that promise more than there is must not be believed.
    for huge in [b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff"] {
        assert_eq!(problem(huge), "msgpack at byte 5: the bytes end too early");
    }
    assert_eq!(codec::decode("null", b"x"), Err(CodecError::NullWithBytes(1)));
    let unknown = codec::decode("pickle", b"").unwrap_err().to_string();
    assert!(unknown.contains("\"pickle\""), "{unknown}");
}

#[test]
fn nesting_has_a_limit_both_ways() {
    let nested = |levels| (1..levels).fold(Value::Array(vec![]), |v, _| Value::Array(vec![v]));
    assert!(unpack(&pack(&nested(MAX_DEPTH)).unwrap()).is_ok());
    assert_eq!(pack(&nested(MAX_DEPTH + 1)), Err(CodecError::TooDeep));
    assert_eq!(unpack(&[0x91; MAX_DEPTH + 1]), Err(CodecError::TooDeep));
    assert_eq!(unpack(&vec![0x81; 1_000_000]), Err(CodecError::TooDeep));
}

#[test]
fn a_checkpoint_survives() {
    let mut checkpoint = checkpoint(3);
    for updated in [None, Some(vec![]), Some(vec!["steps".into()])] {
        checkpoint.updated_channels = updated;
        let bytes = codec::encode_checkpoint(&checkpoint).unwrap();
        assert_eq!(codec::decode_checkpoint(&bytes).unwrap(), checkpoint);
    }
    // Order counts where Python has an order.
    let bytes = codec::encode_checkpoint(&checkpoint).unwrap();
    let read = codec::decode_checkpoint(&bytes).unwrap();
    assert!(read.channel_values.keys().eq(checkpoint.channel_values.keys()));
    assert!(read.channel_versions.keys().eq(checkpoint.channel_versions.keys()));
    assert!(read.versions_seen.keys().eq(checkpoint.versions_seen.keys()));
    let Value::Map(entries) = unpack(&bytes).unwrap() else { panic!("a map") };
    let keys: Vec<_> = entries.iter().map(|(key, _)| key.as_str().unwrap()).collect();
    let order = "v ts id channel_values channel_versions versions_seen updated_channels";
    assert_eq!(keys.join(" "), order);
}

#[test]
fn a_checkpoint_with_many_channels_survives() {
    let mut checkpoint = checkpoint(3);
    for n in 0..70_000u32 {
        checkpoint.channel_values.insert(format!("c{n}").into(), shared(n));
    }
    let bytes = codec::encode_checkpoint(&checkpoint).unwrap();
    assert_eq!(codec::decode_checkpoint(&bytes).unwrap(), checkpoint);
}

#[test]
fn checkpoints_are_read_by_names() {
    let read = |entries: Vec<(&str, Value)>| {
        codec::decode_checkpoint(&pack(&value::map(entries)).unwrap()).map_err(|e| e.to_string())
    };
    let sparse = read(vec![("pending_sends", Value::Nil), ("id", "x".into()), ("v", 4.into())]);
    assert_eq!(&*sparse.unwrap().id, "x");
    assert_eq!(read(vec![("v", 3.into()), ("id", "x".into())]).unwrap().layout, 3);
    let wrong =
        |key, value| read(vec![("v", 4.into()), ("id", "x".into()), (key, value)]).unwrap_err();
    assert_eq!(wrong("id", 5.into()), "id: expected text");
    assert_eq!(wrong("channel_values", 5.into()), "channel_values: expected a map");
    assert_eq!(
        wrong("channel_versions", value::map([("steps", 5.into())])),
        "channel_versions, channel \"steps\": expected a version such as 0001.0.5"
    );
    assert!(read(vec![("id", "x".into())]).unwrap_err().starts_with("v:"));
    assert!(read(vec![("v", 4.into())]).unwrap_err().starts_with("id:"));
}

#[test]
fn a_value_that_cannot_be_stored_is_named() {
    let mut checkpoint = checkpoint(3);
    // Two levels are the checkpoint's own.
    let deep = (1..MAX_DEPTH - 1).fold(Value::Array(vec![]), |v, _| Value::Array(vec![v]));
    checkpoint.channel_values.insert("notes".into(), deep.into());
    match codec::encode_checkpoint(&checkpoint) {
        Err(SaverError::Unstorable { channel, .. }) => assert_eq!(channel, "notes"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn metadata_survives() {
    let mut metadata = metadata(Source::Fork, -1);
    metadata.parents.insert("".to_owned(), "1f1".to_owned());
    metadata.extra.insert("request".to_owned(), "r\0-1".into());
    metadata.extra.insert("step".to_owned(), 99.into());
    metadata.extra.insert("tries".to_owned(), serde_json::json!([1, {"nested": "\0"}]));
    let json = codec::encode_metadata(&metadata);
    assert_eq!(
        String::from_utf8(json.clone()).unwrap(),
        r#"{"source":"fork","step":-1,"parents":{"":"1f1"},"request":"r-1","tries":[1,{"nested":"\u0000"}]}"#
    );
    metadata.extra.shift_remove("step");
    metadata.extra.insert("request".to_owned(), "r-1".into());
    assert_eq!(codec::decode_metadata(&json).unwrap(), metadata);

    // As Python prints it.
    let python = r#"{"source": "input", "step": -1, "request": "é"}"#;
    let read = codec::decode_metadata(python.as_bytes()).unwrap();
    assert_eq!(
        (read.source, read.step, read.extra["request"].as_str()),
        (Source::Input, -1, Some("é"))
    );
    for wrong in ["", "[]", "{}", r#"{"source":"x","step":1}"#, r#"{"source":"loop","step":1.5}"#] {
        assert!(codec::decode_metadata(wrong.as_bytes()).is_err(), "{wrong}");
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Nil),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-200i64..400).prop_map(Value::from),
        any::<f64>().prop_map(Value::F64),
        any::<f32>().prop_map(Value::F32),
        ".{0,40}".prop_map(Value::from),
        prop::collection::vec(any::<u8>(), 0..300).prop_map(Value::Binary),
        (any::<i8>(), prop::collection::vec(any::<u8>(), 0..20))
            .prop_map(|(code, bytes)| Value::Ext(code, bytes)),
    ];
    leaf.prop_recursive(6, 64, 20, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..20).prop_map(Value::Array),
            prop::collection::vec((inner.clone(), inner), 0..20).prop_map(Value::Map),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_value_survives(value in any_value()) {
        let (type_name, bytes) = codec::encode(&value).unwrap();
        let read = codec::decode(type_name, &bytes).unwrap();
        prop_assert_eq!(&read, &value);
        prop_assert_eq!(codec::encode(&read).unwrap().1, bytes);
    }

    /// rmpv's reader is the second opinion on what whole values mean.
    #[test]
    fn reading_agrees_with_rmpv(value in any_value()) {
        let bytes = pack(&value).unwrap();
        let theirs = rmpv::decode::read_value(&mut &*bytes).unwrap();
        prop_assert_eq!(unpack(&bytes).unwrap(), theirs);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = unpack(&bytes);
        let _ = codec::decode_checkpoint(&bytes);
        let _ = codec::decode_metadata(&bytes);
        let _ = codec::read_interrupt(&Value::Ext(2, bytes.clone()));
        let _ = codec::read_send(&Value::Ext(1, bytes.clone()));
        let _ = codec::read_set(&Value::Ext(0, bytes));
    }

    /// One wrong byte in a real checkpoint gives an error or another checkpoint.
    #[test]
    fn no_damage_makes_it_panic(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()) {
        let mut bytes = codec::encode_checkpoint(&checkpoint(3)).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if cut {
            bytes.truncate(at);
            prop_assert!(codec::decode_checkpoint(&bytes).is_err());
        } else {
            let _ = codec::decode_checkpoint(&bytes);
        }
    }
}
