//! Generated programs for several connections: the real server and the model answer the same.
//!
//! Steps are made one after another. Who waits is passed over until it is answered, and a second one
//! may come to wait only behind the first in a line, as the server promises an order there and
//! nowhere else. Deadlocks and lock timeouts are short enough to come within the step that causes
//! them.

use std::collections::{BTreeMap, BTreeSet};

use durasim_cluster::Cluster;
use durasim_models::postgres::PostgresSettings;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::script::{Stage, assert_same};
use crate::side::Side;

/// What a step may wait for, as lines of different kinds have no order among each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    Never,
    ForRows,
    ForKeys,
    ForAdvisory,
}

#[derive(Debug, Clone)]
struct Step {
    connection: char,
    waits: Waits,
    /// Lines of the script language, without the connection.
    lines: Vec<String>,
}

const SETUP: [&str; 4] = [
    "a create table t (id int primary key, k text unique, n int not null default 0, j jsonb)",
    "a create table b (tid text, ch text, ver text not null, data bytea, primary key (tid, ch, ver))",
    "a insert into t values (1, 'a', 10, '{\"a\":1,\"b\":[1,2]}'), (2, 'b', 20, '{\"v\":{\"x\":\"1\",\"y\":\"2\"}}'), (3, 'c', 30, null), (4, null, 40, '[1,\"a\"]')",
    "a insert into b values ('t', 'x', '1', '\\x01'), ('t', 'y', '1', '\\x02'), ('t', 'y', '2', null)",
];

fn text(options: &[&str]) -> BoxedStrategy<String> {
    let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
    select(options).boxed()
}

fn predicate() -> BoxedStrategy<String> {
    prop_oneof![
        4 => (1..6_i32).prop_map(|id| format!("id = {id}")),
        1 => (1..6_i32, 1..6_i32).prop_map(|(a, b)| format!("id = {a} or id = {b}")),
        1 => (0..50_i32).prop_map(|n| format!("n < {n}")),
        1 => text(&["k = 'a'", "k is null", "k >= 'b'", "n between 15 and 35", "not (n > 20)", "true",
            "j @> '{\"a\":1}'", "id in (select id from t where n > 15)", "id = any('{2,3}')"]),
    ]
    .boxed()
}

fn key() -> BoxedStrategy<String> {
    text(&["'a'", "'b'", "'z'", "null", "'new'"])
}

fn insert() -> BoxedStrategy<String> {
    let row = (1..8_i32, key(), 0..50_i32).prop_map(|(id, k, n)| format!("({id}, {k}, {n})"));
    let conflict = text(&[
        "",
        "",
        " on conflict do nothing",
        " on conflict (id) do nothing",
        " on conflict (k) do nothing",
        " on conflict (id) do update set n = excluded.n + t.n",
        " on conflict (id) do update set n = t.n + 1, k = excluded.k where t.n < 25",
        " on conflict (k) do update set n = excluded.n",
    ]);
    let returning = text(&["", " returning *", " returning id, n * 2 as m"]);
    (prop::collection::vec(row, 1..3), conflict, returning)
        .prop_map(|(rows, conflict, returning)| {
            format!("insert into t (id, k, n) values {}{conflict}{returning}", rows.join(", "))
        })
        .boxed()
}

fn change() -> BoxedStrategy<String> {
    let set = text(&[
        "n = n + 1",
        "n = n * 2, j = '{\"a\":1}'",
        "k = 'z'",
        "id = id + 10",
        "n = default",
        "n = null",
        "j = j || '{\"c\":3}'",
        "n = (select max(n) from t)",
    ]);
    let returning = text(&["", " returning id, n", " returning *"]);
    prop_oneof![
        3 => (set, predicate(), returning.clone())
            .prop_map(|(set, of, returning)| format!("update t set {set} where {of}{returning}")),
        1 => (predicate(), returning)
            .prop_map(|(of, returning)| format!("delete from t where {of}{returning}")),
    ]
    .boxed()
}

fn lock_rows() -> BoxedStrategy<String> {
    let wait = text(&["", " skip locked", " nowait"]);
    let limit = text(&["", " limit 1", " limit 2 offset 1"]);
    let queue = text(&[
        "update t set n = n + 100 where id = (select id from t where n < 90 order by id limit 1 for update skip locked) returning id, n",
        "with x as (select id from t order by n, id limit 1 for update skip locked) delete from t using x where x.id = t.id returning t.id",
    ]);
    prop_oneof![
        3 => (predicate(), limit, wait).prop_map(|(of, limit, wait)| {
            format!("select id, n from t where {of} order by id{limit} for update{wait}")
        }),
        1 => queue,
    ]
    .boxed()
}

fn read() -> BoxedStrategy<String> {
    prop_oneof![
        2 => (predicate(), text(&["id", "n desc, id", "k nulls first, id", "k desc, id"]))
            .prop_map(|(of, order)| format!("select id, k, n from t where {of} order by {order}")),
        2 => text(&[
            "select id, j, j -> 'a', j ->> 'b', j -> 0, j #>> '{v,x}' from t order by id",
            "select id from t where j @> '[1]' or j ? 'v' order by id",
            "select t.id, e.key, e.value from t, jsonb_each_text(t.j -> 'v') e order by 1, 2",
            "select array_agg(array[ch::bytea, ver::bytea, data] order by ch, ver) from b where tid = 't'",
            "select t.id, (select array_agg(array[b.ch::bytea, b.data] order by b.ch) from jsonb_each_text(t.j -> 'v') inner join b on b.tid = 't' and b.ch = jsonb_each_text.key and b.ver = jsonb_each_text.value) from t order by id",
            "select k is null as none, count(*), sum(n), min(id), max(k) from t group by k is null order by 1",
            "select a.id, b.ch from t a left join b on b.ver = a.n::text or b.ver = a.id::text order by 1, 2",
            "select count(*), coalesce(sum(n), 0) from t where n > 15",
            "select id from t where n > 15 union all select length(ch) from b order by 1",
            "select distinct n % 3 from t order by 1 desc",
        ]),
    ]
    .boxed()
}

fn wrong() -> BoxedStrategy<String> {
    text(&[
        "select 1 / 0",
        "select nothing",
        "select * from nothing",
        "selec",
        "insert into t (id, n) values (9, null)",
        "insert into t (id, k) values (9, 'a'), (9, 'q')",
        "insert into b (tid, ch) values ('t', 'q')",
        "select 'x'::int",
        "update t set j = '{' where id = 1",
        "update t set j = '{\"a\":\"\\u0000\"}' where id = 1",
        "select pg_advisory_unlock(3)",
    ])
}

fn control() -> BoxedStrategy<String> {
    text(&[
        "begin",
        "begin",
        "begin",
        "commit",
        "commit",
        "rollback",
        "savepoint s",
        "savepoint r",
        "rollback to s",
        "rollback to r",
        "release s",
        "set lock_timeout = 60",
        "set local lock_timeout = 60",
        "reset lock_timeout",
        "show lock_timeout",
    ])
}

fn advisory() -> BoxedStrategy<String> {
    text(&[
        "select pg_advisory_lock(1)",
        "select pg_advisory_lock(2)",
        "select pg_try_advisory_lock(1)",
        "select pg_try_advisory_lock(2)",
        "select pg_advisory_unlock(1)",
        "select pg_advisory_unlock(2)",
        "select pg_advisory_xact_lock(1)",
        "select pg_try_advisory_xact_lock(2)",
        "select pg_advisory_unlock_all()",
        "select pg_try_advisory_lock_shared(1)",
    ])
}

fn several() -> BoxedStrategy<(Waits, Vec<String>)> {
    let part = prop_oneof![insert(), change(), read(), wrong(), control()];
    prop::collection::vec(part, 2..4)
        .prop_map(|parts| (Waits::ForKeys, vec![format!(" {}", parts.join("; "))]))
        .boxed()
}

/// Prepared statements and pipelines, with mistakes in the middle now and then.
fn extended() -> BoxedStrategy<(Waits, Vec<String>)> {
    let name = text(&["p", "q", "_"]);
    let statement = text(&[
        "insert into t (id, k, n) values ($1, $2, $3) on conflict (id) do nothing",
        "insert into t (id, n) select i, $3 from unnest(array[$1::int]) as u(i) where $2::text is not null",
        "update t set n = $1 where k = $2 and id > $3 returning id, n",
        "select id, k, n from t where id = $1 or k = $2 or n = $3 order by id",
        "select $1::int + 1, $2::text, $3::bigint",
        "begin",
        "commit",
        "select nothing",
    ]);
    let values = text(&["5 a 7", "1 null 10", "x a 7", "2 b", "3 new 3"]);
    let parse = (name.clone(), statement).prop_map(|(name, sql)| {
        vec![format!(".parse {name} {sql}"), format!(".describe S {name}")]
    });
    let bind = (name.clone(), values, text(&["bind", "bindb"]), 0..3_i32).prop_map(
        |(name, values, bind, most)| {
            vec![
                format!(".{bind} _ {name} {values}"),
                ".describe P _".to_owned(),
                format!(".execute _ {most}"),
            ]
        },
    );
    let bare =
        name.clone().prop_map(|name| vec![format!(".bind _ {name}"), ".execute _ 0".to_owned()]);
    let close = name.prop_map(|name| vec![format!(".close S {name}")]);
    let part = prop_oneof![3 => parse, 4 => bind, 1 => bare, 1 => close];
    prop::collection::vec(part, 1..4)
        .prop_map(|parts| {
            let mut lines: Vec<String> = parts.concat();
            lines.push(".sync".to_owned());
            (Waits::ForKeys, lines)
        })
        .boxed()
}

fn step() -> BoxedStrategy<Step> {
    let simple = |strategy: BoxedStrategy<String>, waits| {
        strategy.prop_map(move |sql| (waits, vec![format!(" {sql}")]))
    };
    let what = prop_oneof![
        3 => simple(insert(), Waits::ForKeys),
        4 => simple(change(), Waits::ForRows),
        3 => simple(lock_rows(), Waits::ForRows),
        3 => simple(read(), Waits::Never),
        1 => simple(wrong(), Waits::ForKeys),
        7 => simple(control(), Waits::Never),
        2 => simple(advisory(), Waits::ForAdvisory),
        2 => several(),
        3 => extended(),
        1 => Just((Waits::Never, vec![".quit".to_owned()])),
    ];
    (select(vec!['a', 'b', 'c']), what)
        .prop_map(|(connection, (waits, lines))| Step { connection, waits, lines })
        .boxed()
}

/// Runs the program on the real server, and what of it could be run on the model.
async fn both(real: &Side, program: &[Step]) {
    let mut stage = Stage::new(real);
    let mut script: Vec<String> = SETUP.iter().map(|line| (*line).to_owned()).collect();
    script.extend(["a", "b", "c"].map(|name| format!("{name} set deadlock_timeout = 50")));
    for line in &script {
        stage.step(line).await;
    }
    let mut waiting: BTreeMap<char, Waits> = BTreeMap::new();
    let mut gone = BTreeSet::new();
    for step in program {
        let alone = waiting.is_empty();
        let behind = waiting.len() == 1 && waiting.values().all(|waits| *waits == step.waits);
        let in_line = behind && matches!(step.waits, Waits::ForRows | Waits::ForAdvisory);
        let passed_over = waiting.contains_key(&step.connection) || gone.contains(&step.connection);
        if passed_over || !(alone || in_line || step.waits == Waits::Never) {
            continue;
        }
        for line in &step.lines {
            let line = format!("{}{line}", step.connection);
            stage.step(&line).await;
            script.push(line);
        }
        if step.lines[0] == ".quit" {
            gone.insert(step.connection);
        }
        waiting.insert(step.connection, step.waits);
        let still: Vec<String> = stage.waiting().cloned().collect();
        waiting.retain(|name, _| still.contains(&name.to_string()));
    }
    // Everybody ends what it has begun, so that nobody waits for ever.
    for name in ["a", "b", "c"] {
        let line = format!("{name}.quit");
        stage.step(&line).await;
        script.push(line);
    }
    let real = stage.end().await;
    let model = Side::model(PostgresSettings::default());
    let script: Vec<&str> = script.iter().map(String::as_str).collect();
    let model = crate::script::run(&model, &script).await;
    assert_same(&unordered(real), &unordered(model));
}

/// Rows of a statement that asks for no order have none, and which of several bad ones is met first
/// is open, too.
fn unordered(mut transcript: Vec<String>) -> Vec<String> {
    for line in &mut transcript {
        if let Some(at) = line.find(" (Failing row contains") {
            line.truncate(at);
        }
    }
    let mut at = 0;
    while at < transcript.len() {
        let is_row = |line: &String| line.get(1..).is_some_and(|rest| rest.starts_with(": row"));
        let rows = transcript[at..].iter().take_while(|line| is_row(line)).count();
        let ordered = transcript[..at].iter().rev().find(|line| line.starts_with("> "));
        if ordered.is_none_or(|line| !line.contains("order by") || line.contains(';')) {
            transcript[at..at + rows].sort();
        }
        at += rows.max(1);
    }
    transcript
}

#[test]
fn generated_programs_have_the_same_answers() {
    let Some(cluster) = Cluster::for_test() else { return };
    let wanted = std::env::var("DURASIM_GENERATED").ok().and_then(|n| n.parse::<u64>().ok());
    let (cases, first) = match wanted {
        None => (12, 0),
        // Others each time.
        Some(n) => (n, u64::from(std::process::id()) << 20),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for case in first..first + cases {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&case.to_be_bytes());
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
        let mut runner = TestRunner::new_with_rng(Config::default(), rng);
        let program =
            prop::collection::vec(step(), 10..40).new_tree(&mut runner).unwrap().current();
        let real = Side::real(&cluster, "differential");
        let judged = std::panic::AssertUnwindSafe(|| runtime.block_on(both(&real, &program)));
        if let Err(panic) = std::panic::catch_unwind(judged) {
            eprintln!("case {case}:");
            for step in &program {
                step.lines.iter().for_each(|line| eprintln!("  {}{line}", step.connection));
            }
            std::panic::resume_unwind(panic);
        }
    }
}
