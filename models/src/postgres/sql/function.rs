//! The functions that expressions may call, with the types of their arguments.

use crate::postgres::types::Type;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    // Strings and bytes.
    Concat,
    ConcatBytes,
    Length,
    OctetLength,
    Lower,
    Upper,
    Substring,
    Replace,
    Encode,
    Decode,
    HashText,
    HashTextExtended,
    // jsonb.
    JsonGet,
    JsonGetText,
    JsonPath,
    JsonPathText,
    JsonContains,
    JsonHasKey,
    JsonMerge,
    JsonRemove,
    JsonTypeOf,
    JsonArrayLength,
    JsonBuildObject,
    ToJson,
    // Arrays.
    ArrayAppend,
    ArrayConcat,
    ArrayLength,
    Cardinality,
    ArrayElement,
    // Numbers and time.
    Abs,
    Greatest,
    Least,
    MakeInterval,
    EpochOf,
    // What is around.
    Now,
    ClockTimestamp,
    Version,
    CurrentSetting,
    CurrentDatabase,
    ToRegclass,
    CurrentUser,
    CurrentSchema,
    BackendPid,
    TxidCurrent,
    // What has an effect, each done once for each call.
    Advisory(Advisory),
    AdvisoryUnlockAll,
    NextVal,
    Sleep,
    CancelBackend,
    TerminateBackend,
    SetConfig,
}

/// A call of the advisory family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advisory {
    pub deed: Deed,
    pub shared: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    Lock,
    LockXact,
    Try,
    TryXact,
    Unlock,
}

/// The types that a function takes and the one that it gives.
pub struct Signature {
    pub function: Function,
    pub arguments: Vec<Type>,
    pub result: Type,
}

/// The functions of this name, most wanted first; those with a syntax or typing of their own are
/// not here.
pub fn named(name: &str) -> Vec<Signature> {
    use Function::*;
    const TEXT: Type = Type::TEXT;
    const BYTEA: Type = Type::BYTEA;
    const JSONB: Type = Type::JSONB;
    const INT4: Type = Type::INT4;
    const INT8: Type = Type::INT8;
    let one = |function, arguments: &[Type], result| {
        vec![Signature { function, arguments: arguments.to_vec(), result }]
    };
    if let Some(found) = advisory(name) {
        return found;
    }
    match name {
        "length" => [one(Length, &[TEXT], INT4), one(OctetLength, &[BYTEA], INT4)].concat_all(),
        "char_length" => one(Length, &[TEXT], INT4),
        "octet_length" => {
            [one(OctetLength, &[TEXT], INT4), one(OctetLength, &[BYTEA], INT4)].concat_all()
        }
        "lower" => one(Lower, &[TEXT], TEXT),
        "upper" => one(Upper, &[TEXT], TEXT),
        "substr" | "substring" => {
            [one(Substring, &[TEXT, INT4], TEXT), one(Substring, &[TEXT, INT4, INT4], TEXT)]
                .concat_all()
        }
        "replace" => one(Replace, &[TEXT, TEXT, TEXT], TEXT),
        "encode" => one(Encode, &[BYTEA, TEXT], TEXT),
        "decode" => one(Decode, &[TEXT, TEXT], BYTEA),
        "hashtext" => one(HashText, &[TEXT], INT4),
        "hashtextextended" => one(HashTextExtended, &[TEXT, INT8], INT8),
        "jsonb_typeof" => one(JsonTypeOf, &[JSONB], TEXT),
        "jsonb_array_length" => one(JsonArrayLength, &[JSONB], INT4),
        "abs" => [one(Abs, &[INT4], INT4), one(Abs, &[INT8], INT8)].concat_all(),
        "now" | "transaction_timestamp" | "current_timestamp" => one(Now, &[], Type::TIMESTAMPTZ),
        "clock_timestamp" | "statement_timestamp" => one(ClockTimestamp, &[], Type::TIMESTAMPTZ),
        "version" => one(Version, &[], TEXT),
        "current_setting" => {
            [one(CurrentSetting, &[TEXT], TEXT), one(CurrentSetting, &[TEXT, Type::BOOL], TEXT)]
                .concat_all()
        }
        "set_config" => one(SetConfig, &[TEXT, TEXT, Type::BOOL], TEXT),
        // Named, not numbered, as the server shows it.
        "to_regclass" => one(ToRegclass, &[TEXT], TEXT),
        "current_database" | "current_catalog" => one(CurrentDatabase, &[], TEXT),
        "current_user" | "session_user" | "user" => one(CurrentUser, &[], TEXT),
        "current_schema" => one(CurrentSchema, &[], TEXT),
        "pg_backend_pid" => one(BackendPid, &[], INT4),
        "txid_current" => one(TxidCurrent, &[], INT8),
        "nextval" => one(NextVal, &[TEXT], INT8),
        "pg_sleep" => one(Sleep, &[Type::FLOAT8], Type::VOID),
        "pg_cancel_backend" => one(CancelBackend, &[INT4], Type::BOOL),
        "pg_terminate_backend" => one(TerminateBackend, &[INT4], Type::BOOL),
        "pg_advisory_unlock_all" => one(AdvisoryUnlockAll, &[], Type::VOID),
        _ => Vec::new(),
    }
}

fn advisory(name: &str) -> Option<Vec<Signature>> {
    let name = name.strip_prefix("pg_")?;
    let (name, shared) = match name.strip_suffix("_shared") {
        Some(name) => (name, true),
        None => (name, false),
    };
    let (deed, result) = match name {
        "advisory_lock" => (Deed::Lock, Type::VOID),
        "advisory_xact_lock" => (Deed::LockXact, Type::VOID),
        "try_advisory_lock" => (Deed::Try, Type::BOOL),
        "try_advisory_xact_lock" => (Deed::TryXact, Type::BOOL),
        "advisory_unlock" => (Deed::Unlock, Type::BOOL),
        _ => return None,
    };
    let function = Function::Advisory(Advisory { deed, shared });
    let signature = |arguments| Signature { function, arguments, result };
    Some(vec![signature(vec![Type::INT8]), signature(vec![Type::INT4, Type::INT4])])
}

/// The aggregates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AggregateKind {
    /// `count(*)`
    CountRows,
    Count,
    Sum,
    Min,
    Max,
    BoolAnd,
    BoolOr,
    ArrayAgg,
    StringAgg,
    JsonAgg,
}

pub fn aggregate_named(name: &str) -> Option<AggregateKind> {
    Some(match name {
        "count" => AggregateKind::Count,
        "sum" => AggregateKind::Sum,
        "min" => AggregateKind::Min,
        "max" => AggregateKind::Max,
        "bool_and" | "every" => AggregateKind::BoolAnd,
        "bool_or" => AggregateKind::BoolOr,
        "array_agg" => AggregateKind::ArrayAgg,
        "string_agg" => AggregateKind::StringAgg,
        "jsonb_agg" => AggregateKind::JsonAgg,
        _ => return None,
    })
}

trait ConcatAll {
    fn concat_all(self) -> Vec<Signature>;
}

impl<const N: usize> ConcatAll for [Vec<Signature>; N] {
    fn concat_all(self) -> Vec<Signature> {
        self.into_iter().flatten().collect()
    }
}
