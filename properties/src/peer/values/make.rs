//! Makes values, each with a description that does not go through the codec.
//!
//! A description is `[kind, what]` in JSON. Python makes its own value of it and compares.

use std::sync::Arc;

use durasim_runtime::Value;
use durasim_runtime::checkpoint::codec;
use serde_json::{Value as Json, json};

use super::super::hex::to_hex;
use super::chance::Chance;

pub struct Made {
    pub value: Value,
    pub said: Json,
}

/// Deepest nesting of what is made at random. Beyond, one value goes down in a straight line.
const DEPTH: u64 = 4;
/// Levels of the deepest list: as deep as a channel's value may be inside a checkpoint.
const STRAIGHT_DOWN: u64 = 250;

/// So many values with names, from one seed.
pub fn named(seed: u64, count: u64, scalars_are_json: bool) -> Vec<(Arc<str>, Made)> {
    let mut chance = Chance::new(seed);
    let mut names: Vec<Arc<str>> = (0..count).map(|n| format!("channel-{n}").into()).collect();
    names[0] = "Kanäle \u{1f300}".into();
    let make = |name| {
        let mut made = value(&mut chance, DEPTH);
        // What JSON cannot hold at the top is held inside a list.
        if scalars_are_json && !made.fits_json() {
            made = list(vec![made]);
        }
        (name, made)
    };
    names.into_iter().map(make).collect()
}

impl Made {
    fn new(value: impl Into<Value>, said: Json) -> Made {
        Made { value: value.into(), said }
    }

    /// Does PostgreSQL's JSONB keep it, when Python stores it there? Not U+0000, no NaN or infinity, no
    /// sign of zero; and a large float, which Python writes with an exponent, comes back as an integer.
    /// A container is not kept as JSON at all.
    fn fits_json(&self) -> bool {
        match &self.value {
            Value::String(text) => !text.as_bytes().contains(&0),
            Value::F64(float) => float.abs() < 1e15 && float.to_bits() != (-0.0_f64).to_bits(),
            _ => true,
        }
    }
}

fn value(chance: &mut Chance, depth: u64) -> Made {
    let kinds = if depth == 0 { 7 } else { 13 };
    match chance.below(kinds) {
        0 => Made::new(Value::Nil, json!(["nil", null])),
        1 => {
            let bit = chance.below(2) == 0;
            Made::new(bit, json!(["bool", bit]))
        }
        2 => integer(chance),
        3 => float(chance),
        4 => text(chance),
        5 => bytes(chance),
        6 => instance(chance),
        7 | 8 => {
            let items = (0..chance.below(6)).map(|_| value(chance, depth - 1)).collect();
            list(items)
        }
        9 | 10 => map(chance, depth),
        11 => holder(chance, depth),
        _ if depth == DEPTH && chance.below(8) == 0 => {
            (0..STRAIGHT_DOWN).fold(text(chance), |inside, _| list(vec![inside]))
        }
        _ => list((0..chance.below(40)).map(|_| integer(chance)).collect()),
    }
}

fn integer(chance: &mut Chance) -> Made {
    let shift = chance.below(64);
    let number = match chance.below(4) {
        0 => Value::from(chance.bits() >> shift),
        1 => Value::from(-1 - (chance.bits() >> shift >> 1) as i64),
        2 => Value::from(u64::MAX),
        _ => Value::from(i64::MIN + chance.below(2) as i64),
    };
    let said = json!(["int", number.to_string()]);
    Made { value: number, said }
}

fn float(chance: &mut Chance) -> Made {
    let special = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1.0, 5e-324, 1e308, 0.1];
    let float = match chance.below(3) {
        0 => *chance.pick(&special),
        1 => chance.bits() as f64 / 1e6,
        _ => f64::from_bits(chance.bits()),
    };
    // There is one NaN: Python does not keep the others apart.
    let float = if float.is_nan() { f64::NAN } else { float };
    Made::new(float, json!(["float", format!("{:016x}", float.to_bits())]))
}

fn text(chance: &mut Chance) -> Made {
    let parts =
        ["", "a", "é", "\0", "\u{7f}", "漢字", "\u{1f9ea}", "\"\\", "\r\n", "e\u{301}", "\u{feff}"];
    let length = *chance.pick(&[0, 1, 2, 3, 8, 31, 32, 300]);
    let text: String = (0..length).map(|_| *chance.pick(&parts)).collect();
    Made::new(text.as_str(), json!(["str", text]))
}

fn bytes(chance: &mut Chance) -> Made {
    let length = *chance.pick(&[0, 1, 2, 4, 16, 255, 256]);
    let bytes: Vec<u8> = (0..length).map(|_| chance.bits() as u8).collect();
    let said = json!(["bytes", to_hex(&bytes)]);
    Made { value: Value::Binary(bytes), said }
}

fn list(items: Vec<Made>) -> Made {
    let (values, said): (Vec<Value>, Vec<Json>) =
        items.into_iter().map(|made| (made.value, made.said)).unzip();
    Made { value: Value::Array(values), said: json!(["list", said]) }
}

fn map(chance: &mut Chance, depth: u64) -> Made {
    let mut entries: Vec<(Made, Made)> = Vec::new();
    for n in 0..chance.below(6) {
        let key = match chance.below(8) {
            0 => Made::new(n + 2, json!(["int", (n + 2).to_string()])),
            1 => Made::new(-5 - n as i64, json!(["int", (-5 - n as i64).to_string()])),
            2 => {
                let float = n as f64 + 0.5;
                Made::new(float, json!(["float", format!("{:016x}", float.to_bits())]))
            }
            3 => Made::new(n % 2 == 0, json!(["bool", n % 2 == 0])),
            4 => Made::new(Value::Nil, json!(["nil", null])),
            _ => text(chance),
        };
        if !entries.iter().any(|(other, _)| other.value == key.value) {
            entries.push((key, value(chance, depth - 1)));
        }
    }
    let said: Vec<Json> = entries.iter().map(|(key, item)| json!([key.said, item.said])).collect();
    let entries = entries.into_iter().map(|(key, item)| (key.value, item.value)).collect();
    Made { value: Value::Map(entries), said: json!(["map", said]) }
}

/// An instance of a class that holds no other value.
fn instance(chance: &mut Chance) -> Made {
    let n = |chance: &mut Chance, from: u64, to: u64| from + chance.below(to - from);
    let (code, module, class, argument, said) = match chance.below(7) {
        0 => {
            let digits = format!("{:016x}{:016x}", chance.bits(), chance.bits());
            (0, "uuid", "UUID", Value::from(&*digits), json!(["uuid", digits]))
        }
        1 => {
            let text = format!("{}.{:03}", chance.bits() as i64, chance.below(1000));
            (0, "decimal", "Decimal", Value::from(&*text), json!(["decimal", text]))
        }
        2 => {
            let ymd = [n(chance, 1, 9999), n(chance, 1, 13), n(chance, 1, 29)];
            let argument = Value::Array(ymd.iter().map(|&n| n.into()).collect());
            (1, "datetime", "date", argument, json!(["date", ymd]))
        }
        3 => {
            let parts = [n(chance, 0, 9999), n(chance, 0, 86400), n(chance, 0, 1_000_000)];
            let argument = Value::Array(parts.iter().map(|&n| n.into()).collect());
            (1, "datetime", "timedelta", argument, json!(["timedelta", parts]))
        }
        4 => {
            let members: Vec<u64> = (0..chance.below(5)).collect();
            let argument = Value::Array(members.iter().map(|&n| n.into()).collect());
            (0, "builtins", "set", argument, json!(["set", members]))
        }
        5 => {
            let name = format!("d{}", chance.below(100));
            let argument = Value::Array(vec!["a".into(), name.as_str().into()]);
            (1, "pathlib", "PosixPath", argument, json!(["path", format!("a/{name}")]))
        }
        _ => {
            let text = format!(
                "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}+00:00",
                n(chance, 1, 9999),
                n(chance, 1, 13),
                n(chance, 1, 29),
                n(chance, 0, 24),
                n(chance, 0, 60),
                n(chance, 0, 60),
                n(chance, 1, 1_000_000),
            );
            let parts = ["datetime".into(), "datetime".into(), text.as_str().into()];
            let parts = parts.into_iter().chain([Value::from("fromisoformat")]).collect();
            return Made { value: ext(3, parts), said: json!(["datetime", text]) };
        }
    };
    Made { value: ext(code, vec![module.into(), class.into(), argument]), said }
}

/// An instance of a class that holds other values.
fn holder(chance: &mut Chance, depth: u64) -> Made {
    let inside = value(chance, depth - 1);
    let said = |kind: &str| json!([kind, inside.said]);
    match chance.below(4) {
        0 => {
            let id = "ab".repeat(16);
            let value = codec::interrupt_value(inside.value.clone(), &id).expect("it is shallow");
            Made { value, said: json!(["interrupt", [inside.said, id]]) }
        }
        1 => {
            let value = codec::send_value("worker", inside.value.clone()).expect("it is shallow");
            Made { value, said: said("send") }
        }
        2 => {
            let value = codec::delta_snapshot_value(&inside.value).expect("it is shallow");
            Made { value, said: said("snapshot") }
        }
        _ => {
            let argument = Value::Array(vec![inside.value.clone()]);
            let parts = vec!["collections".into(), "deque".into(), argument];
            Made { value: ext(0, parts), said: said("deque") }
        }
    }
}

fn ext(code: i8, parts: Vec<Value>) -> Value {
    Value::Ext(code, codec::pack(&Value::Array(parts)).expect("it is shallow"))
}

/// With the members of sets sorted, also inside instances: Python keeps them in no order.
pub fn canonical(value: &Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.iter().map(canonical).collect()),
        Value::Map(entries) => Value::Map(
            entries.iter().map(|(key, item)| (canonical(key), canonical(item))).collect(),
        ),
        Value::Ext(code, payload) => {
            let Ok(payload) = codec::unpack(payload) else { return value.clone() };
            let mut payload = canonical(&payload);
            let is_set = codec::read_set(value).is_some();
            if let (true, Value::Array(parts)) = (is_set, &mut payload)
                && let Some(Value::Array(members)) = parts.last_mut()
            {
                members.sort_by_key(Value::to_string);
            }
            Value::Ext(*code, codec::pack(&payload).expect("it was packed before"))
        }
        plain => plain.clone(),
    }
}
