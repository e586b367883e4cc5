//! Every kind of channel beside a model of it: what LangGraph 1.2.9's class does, operation by
//! operation. The rules that read oddly were confirmed by running the classes.

use std::collections::BTreeSet;
use std::sync::Arc;

use durasim_runtime::channels::{ChannelError, ChannelSpec, DeltaReducer, Reducer, overwrite};
use durasim_runtime::checkpoint::codec::{delta_snapshot_value, read_overwrite, set_value};
use durasim_runtime::value::{self, Shared, Value};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// What happens to a channel.
#[derive(Debug, Clone)]
enum Op {
    /// A step with these writes, in task order.
    Update(Vec<Value>),
    /// A node that it triggers has run.
    Consume,
    /// Nothing is left to run.
    Finish,
    /// It is stored, and opened from what was stored.
    Reload,
}

/// What one of LangGraph's channels holds.
#[derive(Debug, Clone)]
enum Model {
    LastValue(Option<Value>),
    /// `AnyValue`, and `EphemeralValue` without its guard: they behave alike.
    LastOfStep(Option<Value>),
    Untracked(Option<Value>),
    /// A list by concatenation.
    Aggregate(Vec<Value>),
    /// As [`Model::Aggregate`], but a checkpoint does not say what is in it.
    Delta(Vec<Value>),
    Topic {
        values: Vec<Value>,
        accumulates: bool,
    },
    LastValueAfterFinish {
        value: Option<Value>,
        finished: bool,
    },
    Barrier(Names),
    BarrierAfterFinish {
        names: Names,
        finished: bool,
    },
}

#[derive(Debug, Clone)]
struct Names {
    expected: BTreeSet<String>,
    seen: BTreeSet<String>,
}

impl Names {
    fn is_full(&self) -> bool {
        self.seen == self.expected
    }

    /// Names that came before do not move the version, also when the barrier is full.
    fn update(&mut self, writes: &[Value]) -> Option<bool> {
        let mut moved = false;
        for write in writes {
            let name = write.as_str().filter(|name| self.expected.contains(*name))?;
            moved |= self.seen.insert(name.to_owned());
        }
        Some(moved)
    }

    fn stored(&self) -> Value {
        set_value(self.seen.iter().map(String::as_str))
    }
}

impl Model {
    /// Does the version move? `None` for an InvalidUpdateError.
    fn update(&mut self, writes: &[Value]) -> Option<bool> {
        match self {
            Model::LastValue(held) | Model::Untracked(held) => match writes {
                [] => Some(false),
                [value] => {
                    *held = Some(value.clone());
                    Some(true)
                }
                _ => None,
            },
            // A step without a write empties it, which moves the version once.
            Model::LastOfStep(held) => {
                let moved = !writes.is_empty() || held.is_some();
                *held = writes.last().cloned();
                Some(moved)
            }
            Model::Aggregate(sum) | Model::Delta(sum) => {
                let whole: Vec<_> = writes.iter().filter_map(overwritten).collect();
                match whole.as_slice() {
                    // Whatever else the step wrote is lost, before and after.
                    [whole] => sum.clone_from(whole),
                    [] => {
                        sum.extend(writes.iter().flat_map(|list| list.as_array().unwrap()).cloned())
                    }
                    _ => return None,
                }
                Some(!writes.is_empty())
            }
            // One level of lists is flattened; an empty list is no write.
            Model::Topic { values, accumulates } => {
                let mut moved = false;
                if !*accumulates {
                    moved = !values.is_empty();
                    values.clear();
                }
                for write in writes {
                    let items = write.as_array().cloned().unwrap_or_else(|| vec![write.clone()]);
                    moved |= !items.is_empty();
                    values.extend(items);
                }
                Some(moved)
            }
            // A write closes what was open.
            Model::LastValueAfterFinish { value, finished } => {
                if let Some(last) = writes.last() {
                    (*value, *finished) = (Some(last.clone()), false);
                }
                Some(!writes.is_empty())
            }
            // A write does not close what is open, other than for a last value.
            Model::Barrier(names) | Model::BarrierAfterFinish { names, .. } => names.update(writes),
        }
    }

    fn consume(&mut self) -> bool {
        match self {
            Model::LastValueAfterFinish { value, finished: finished @ true } => {
                (*value, *finished) = (None, false);
                true
            }
            Model::Barrier(names) if names.is_full() => {
                names.seen.clear();
                true
            }
            Model::BarrierAfterFinish { names, finished: finished @ true } if names.is_full() => {
                names.seen.clear();
                *finished = false;
                true
            }
            _ => false,
        }
    }

    fn finish(&mut self) -> bool {
        match self {
            Model::LastValueAfterFinish { value: Some(_), finished: finished @ false } => {
                *finished = true;
                true
            }
            Model::BarrierAfterFinish { names, finished: finished @ false } if names.is_full() => {
                *finished = true;
                true
            }
            _ => false,
        }
    }

    /// What nodes read.
    fn get(&self) -> Option<Value> {
        match self {
            Model::LastValue(held) | Model::LastOfStep(held) | Model::Untracked(held) => {
                held.clone()
            }
            Model::Aggregate(sum) | Model::Delta(sum) => Some(Value::Array(sum.clone())),
            Model::Topic { values, .. } => {
                (!values.is_empty()).then(|| Value::Array(values.clone()))
            }
            Model::LastValueAfterFinish { value, finished } => value.clone().filter(|_| *finished),
            Model::Barrier(names) => names.is_full().then_some(Value::Nil),
            Model::BarrierAfterFinish { names, finished } => {
                (*finished && names.is_full()).then_some(Value::Nil)
            }
        }
    }

    /// What a checkpoint holds; `None` where the channel is absent from it.
    fn stored(&self) -> Option<Value> {
        let pair = |value: Value, finished: bool| Value::Array(vec![value, finished.into()]);
        match self {
            Model::Untracked(_) | Model::Delta(_) => None,
            Model::Topic { values, .. } => Some(Value::Array(values.clone())),
            Model::LastValueAfterFinish { value, finished } => {
                value.clone().map(|value| pair(value, *finished))
            }
            Model::Barrier(names) => Some(names.stored()),
            Model::BarrierAfterFinish { names, finished } => Some(pair(names.stored(), *finished)),
            other => other.get(),
        }
    }

    /// Every other kind comes back as it was.
    fn reload(&mut self) {
        if let Model::Untracked(held) = self {
            *held = None;
        }
    }
}

/// The three forms in which an overwrite comes.
fn overwritten(value: &Value) -> Option<Vec<Value>> {
    let inner = match value {
        Value::Map(entries) => entries.iter().find_map(|(key, inner)| {
            matches!(key.as_str(), Some("__overwrite__" | "value")).then_some(inner)
        })?,
        Value::Ext(..) => {
            return read_overwrite(value)?.as_array().cloned();
        }
        _ => return None,
    };
    inner.as_array().cloned()
}

/// Runs the operations on both and compares after each. A failed update ends it: it ends a run too.
fn agree(spec: &ChannelSpec, mut model: Model, ops: Vec<Op>) -> Result<(), TestCaseError> {
    let mut channel = spec.open(None);
    for op in ops {
        match &op {
            Op::Update(writes) => {
                let shared: Vec<Shared> = writes.iter().cloned().map(Arc::new).collect();
                let moved = channel.update(&shared);
                prop_assert_eq!(moved.as_ref().ok().copied(), model.update(writes), "{:?}", op);
                if moved.is_err() {
                    return Ok(());
                }
            }
            Op::Consume => prop_assert_eq!(channel.consume(), model.consume(), "{:?}", op),
            Op::Finish => prop_assert_eq!(channel.finish(), model.finish(), "{:?}", op),
            Op::Reload => {
                // When one is due, the runtime stores a snapshot of what the channel gives.
                let stored = match spec {
                    ChannelSpec::Delta(_) => {
                        let value = channel.get().expect("it is readable from the start");
                        Some(Arc::new(delta_snapshot_value(&value).expect("a snapshot")))
                    }
                    _ => channel.checkpoint(),
                };
                channel = spec.open(stored);
                model.reload();
            }
        }
        let (got, wanted) = (channel.get(), model.get());
        prop_assert_eq!(got.as_deref(), wanted.as_ref(), "read after {:?}", op);
        prop_assert_eq!(channel.is_available(), wanted.is_some(), "available after {:?}", op);
        let (got, wanted) = (channel.checkpoint(), model.stored());
        prop_assert_eq!(got.as_deref(), wanted.as_ref(), "stored after {:?}", op);
    }
    Ok(())
}

fn ops(write: impl Strategy<Value = Value> + 'static) -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        5 => vec(write, 0..3).prop_map(Op::Update),
        1 => Just(Op::Consume),
        1 => Just(Op::Finish),
        2 => Just(Op::Reload),
    ];
    vec(op, 0..24)
}

fn numbers() -> impl Strategy<Value = Vec<Value>> {
    vec((0..9i64).prop_map(Value::from), 0..3)
}

/// Anything at all, nothing and lists of lists included.
fn anything() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Nil),
        any::<bool>().prop_map(Value::from),
        (0..9i64).prop_map(Value::from),
        numbers().prop_map(Value::Array),
        numbers().prop_map(|inner| Value::Array(vec![1.into(), Value::Array(inner)])),
        Just(value::map([("a", 1.into())])),
    ]
}

/// Lists, and overwrites in each of their forms.
fn lists() -> impl Strategy<Value = Value> {
    let as_map = |list: Value| value::map([("__overwrite__", list)]);
    let as_erased =
        |list: Value| value::map([("value", list), ("type", Value::from("__overwrite__"))]);
    let list = || numbers().prop_map(Value::Array);
    prop_oneof![
        9 => list(),
        1 => numbers().prop_map(|list| overwrite(&list.iter().map(|n| n.as_i64()).collect::<Vec<_>>()).unwrap()),
        1 => list().prop_map(as_map),
        1 => list().prop_map(as_erased),
    ]
}

/// Mostly names that are waited for.
fn names() -> impl Strategy<Value = Value> {
    select(vec!["a", "b", "c", "a", "b", "c", "a", "b", "c", "x"]).prop_map(Value::from)
}

fn waiting(expected: &[&str]) -> Names {
    let expected = expected.iter().map(|&name| name.to_owned()).collect();
    Names { expected, seen: BTreeSet::new() }
}

fn expected(names: &[&str]) -> Arc<BTreeSet<Arc<str>>> {
    Arc::new(names.iter().map(|&name| name.into()).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_last_value(ops in ops(anything())) {
        agree(&ChannelSpec::LastValue, Model::LastValue(None), ops)?;
    }

    #[test]
    fn an_any_value(ops in ops(anything())) {
        agree(&ChannelSpec::AnyValue, Model::LastOfStep(None), ops)?;
    }

    #[test]
    fn an_ephemeral_value(ops in ops(anything())) {
        agree(&ChannelSpec::Ephemeral, Model::LastOfStep(None), ops)?;
    }

    #[test]
    fn an_untracked_value(ops in ops(anything())) {
        agree(&ChannelSpec::Untracked, Model::Untracked(None), ops)?;
    }

    #[test]
    fn a_reducer_with_overwrites(ops in ops(lists())) {
        agree(&ChannelSpec::Reducer(Reducer::append()), Model::Aggregate(vec![]), ops)?;
    }

    #[test]
    fn a_delta_channel_with_overwrites(ops in ops(lists())) {
        agree(&ChannelSpec::Delta(DeltaReducer::append()), Model::Delta(vec![]), ops)?;
    }

    #[test]
    fn a_topic(ops in ops(anything()), accumulates: bool) {
        agree(&ChannelSpec::Topic { accumulates }, Model::Topic { values: vec![], accumulates }, ops)?;
    }

    #[test]
    fn a_last_value_after_finish(ops in ops(anything())) {
        let model = Model::LastValueAfterFinish { value: None, finished: false };
        agree(&ChannelSpec::LastValueAfterFinish, model, ops)?;
    }

    #[test]
    fn a_barrier(ops in ops(names()), of in select(vec![&["a", "b", "c"][..], &["b"]])) {
        agree(&ChannelSpec::Barrier(expected(of)), Model::Barrier(waiting(of)), ops)?;
    }

    #[test]
    fn a_barrier_after_finish(ops in ops(names()), of in select(vec![&["a", "b", "c"][..], &["b"]])) {
        let model = Model::BarrierAfterFinish { names: waiting(of), finished: false };
        agree(&ChannelSpec::BarrierAfterFinish(expected(of)), model, ops)?;
    }
}

/// The value is a number of which only the fold's order tells.
#[test]
fn a_reducer_folds_in_the_order_of_the_writes() {
    let digits = Reducer::new(Value::from(0), |sum, digit| {
        let of = |value: &Value| value.as_i64().ok_or("a number".to_owned());
        Ok(Value::from(of(&sum)? * 10 + of(digit)?))
    });
    let mut channel = ChannelSpec::Reducer(digits).open(None);
    let writes = |numbers: &[i64]| -> Vec<Shared> {
        numbers.iter().map(|&n| Arc::new(Value::from(n))).collect()
    };
    assert_eq!(channel.update(&writes(&[1, 2])), Ok(true));
    assert_eq!(channel.update(&[]), Ok(false));
    assert_eq!(channel.update(&writes(&[3])), Ok(true));
    assert_eq!(channel.get().as_deref(), Some(&Value::from(123)));
    let text: Shared = Arc::new("four".into());
    let refused = channel.update(&[text]);
    assert_eq!(refused, Err(ChannelError::Unfit("a number".to_owned())));
    assert_eq!(channel.get().as_deref(), Some(&Value::from(123)), "unchanged");
}

/// LangGraph's `DeltaChannel` takes an overwrite with None for the empty value of its type, where
/// `BinaryOperatorAggregate` takes it for None; and a plain value that another kind of channel left
/// behind for its own.
#[test]
fn a_delta_channel_takes_nothing_for_its_initial_value() {
    let nothing = || -> Shared { Arc::new(overwrite(&()).unwrap()) };
    let stored: Shared = Arc::new(Value::Array(vec![1.into()]));
    let mut delta = ChannelSpec::Delta(DeltaReducer::append()).open(Some(stored.clone()));
    assert_eq!(delta.get(), Some(stored.clone()));
    assert_eq!(delta.update(&[nothing()]), Ok(true));
    assert_eq!(delta.get().as_deref(), Some(&Value::Array(vec![])));
    let mut plain = ChannelSpec::Reducer(Reducer::append()).open(Some(stored));
    assert_eq!(plain.update(&[nothing()]), Ok(true));
    assert_eq!(plain.get().as_deref(), Some(&Value::Nil));
}

/// A graph that was changed between two runs: LangGraph compares the names, not their number.
#[test]
fn a_barrier_does_not_open_by_names_that_it_does_not_wait_for() {
    let stored: Shared = Arc::new(set_value(["x"]));
    let mut channel = ChannelSpec::Barrier(expected(&["a"])).open(Some(stored));
    assert!(!channel.is_available());
    assert_eq!(channel.update(&[Arc::new("a".into())]), Ok(true));
    assert!(!channel.is_available());
    assert!(!channel.consume());
}
