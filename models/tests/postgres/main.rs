//! The model of PostgreSQL, held against the real server: the same scripts, the same answers.
#![cfg(not(madsim))]

mod client;
mod saver;
mod script;
mod side;

use script::compare;

#[test]
fn smoke() {
    compare(
        "smoke",
        &[
            "a create table t (a text not null, b integer, c jsonb, d bytea, primary key (a))",
            "a insert into t (a, b) values ('x', 1), ('y', 2)",
            "a select * from t order by a",
            "a select a, b + 1 as c from t where a = 'x'",
            "a insert into t (a, b) values ('x', 1)",
            "a begin",
            "a update t set b = b + 1 where a = 'x' returning *",
            "b update t set b = b + 10 where a = 'x' returning b",
            "a commit",
            "b select * from t order by a",
        ],
    );
}
