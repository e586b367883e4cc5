//! Waiting: for rows, for keys, for advisory locks; and giving up.

use crate::script::compare;

const ROWS: [&str; 2] = [
    "a create table t (id int primary key, n int)",
    "a insert into t values (1, 1), (2, 2), (3, 3), (4, 4)",
];

fn with_rows(label: &str, script: &[&str]) {
    compare(label, &[&ROWS[..], script].concat());
}

#[test]
fn rows_for_update() {
    with_rows(
        "for_update",
        &[
            "a begin",
            "a select * from t where id in (1, 2) order by id for update",
            "b select * from t where id = 1 for update nowait",
            "b select * from t order by id for update skip locked",
            "b begin",
            "b select * from t order by id limit 1 for update skip locked",
            "c begin",
            "c select * from t order by id limit 1 for update skip locked",
            "d select * from t order by id limit 1 for update skip locked",
            "d select * from t order by id for update",
            "b commit",
            "c rollback",
            "a update t set n = n + 10 where id = 1",
            "a commit",
            "a select * from t order by id for update",
            "a begin",
            "a update t set n = 0 where id = 3",
            "b select * from t where n = 3 for update",
            "a commit",
            "a begin",
            "a update t set n = 5 where id = 3",
            "b select * from t where n < 5 order by id for update",
            "a commit",
        ],
    );
}

#[test]
fn a_row_that_no_longer_fits_stays_locked() {
    with_rows(
        "recheck",
        &[
            "a begin",
            "a update t set n = 100 where id = 1",
            "b begin",
            "b update t set n = n + 1 where n = 1",
            "a commit",
            "c update t set n = 0 where id = 1",
            "b commit",
            "c select * from t order by id",
            "a begin",
            "a delete from t where id = 2",
            "b select * from t where id = 2 for update",
            "c select * from t where id = 2 for update",
            "a commit",
            "a select count(*) from t",
        ],
    );
}

#[test]
fn waiters_go_in_the_order_they_came() {
    with_rows(
        "order",
        &[
            "a begin",
            "a update t set n = 10 where id = 1",
            "b begin",
            "b update t set n = n * 2 where id = 1",
            "c begin",
            "c update t set n = n + 1 where id = 1",
            "a commit",
            "b commit",
            "c commit",
            "a select n from t where id = 1",
        ],
    );
}

#[test]
fn a_queue_that_skips_what_is_locked() {
    compare(
        "queue",
        &[
            "a create table jobs (id bigserial primary key, state text not null default 'new', worker text)",
            "a insert into jobs (worker) values (null), (null), (null) returning id",
            "a begin",
            "a update jobs set state = 'taken', worker = 'a' where id = (select id from jobs where state = 'new' order by id for update skip locked limit 1) returning *",
            "b begin",
            "b with next as (select id from jobs where state = 'new' order by id limit 1 for update skip locked) update jobs set state = 'taken', worker = 'b' from next where jobs.id = next.id returning jobs.*",
            "c update jobs set state = 'taken', worker = 'c' where id in (select id from jobs where state = 'new' order by id limit 5 for update skip locked) returning id",
            "c update jobs set state = 'taken' where id in (select id from jobs where state = 'new' for update skip locked) returning id",
            "a rollback",
            "c delete from jobs where id = any(array(select id from jobs where state = 'new' order by id for update skip locked)) returning id",
            "b commit",
            "a select * from jobs order by id",
            "a delete from jobs using (select 1 as one) x where worker = 'b' returning id, one",
        ],
    );
}

#[test]
fn keys_that_are_being_taken() {
    with_rows(
        "keys",
        &[
            "a begin",
            "a insert into t values (5, 5)",
            "b insert into t values (5, 50)",
            "c insert into t values (5, 51) on conflict (id) do nothing",
            "d insert into t values (5, 52) on conflict (id) do update set n = excluded.n + t.n returning *",
            "a commit",
            "a select * from t where id = 5",
            "a begin",
            "a insert into t values (6, 6)",
            "b insert into t values (6, 60)",
            "a rollback",
            "a select * from t where id = 6",
            "a begin",
            "a delete from t where id = 1",
            "b insert into t values (1, 10)",
            "a commit",
            "a select * from t where id = 1",
            "a begin",
            "a delete from t where id = 2",
            "b insert into t values (2, 20) on conflict (id) do update set n = 0",
            "a rollback",
            "a select * from t where id = 2",
            "a begin",
            "a update t set n = 7 where id = 3",
            "b insert into t values (3, 30) on conflict (id) do update set n = t.n + excluded.n where t.n = 7",
            "c insert into t values (3, 30) on conflict (id) do nothing",
            "a commit",
            "a select * from t where id = 3",
            "a begin",
            "a insert into t values (8, 8)",
            "a savepoint s",
            "a insert into t values (9, 9)",
            "b insert into t values (9, 90)",
            "a rollback to s",
            "a insert into t values (9, 99)",
            "a commit",
            "a select * from t order by id",
        ],
    );
}

#[test]
fn deadlocks() {
    with_rows(
        "deadlock",
        &[
            "b set deadlock_timeout = '700ms'",
            "a begin",
            "b begin",
            "a update t set n = 10 where id = 1",
            "b update t set n = 20 where id = 2",
            "a update t set n = 11 where id = 2",
            "b update t set n = 21 where id = 1",
            "sleep 700",
            "a commit",
            "b select 1",
            "b rollback",
            "a select * from t order by id",
            "a select pg_advisory_lock(1)",
            "b select pg_advisory_lock(2)",
            "a select pg_advisory_lock(2)",
            "b select pg_advisory_lock(1)",
            "sleep 700",
            "b select pg_advisory_unlock(2)",
            "a select pg_advisory_unlock_all()",
        ],
    );
}

#[test]
fn giving_up() {
    with_rows(
        "timeouts",
        &[
            "b set lock_timeout = 250",
            "a begin",
            "a update t set n = 10 where id = 1",
            "b update t set n = 20 where id = 1",
            "sleep 200",
            "b begin",
            "b select 1",
            "b update t set n = 20 where id = 1",
            "sleep 200",
            "b select 1",
            "b rollback",
            "b set lock_timeout = 0",
            "b set statement_timeout = 250",
            "b update t set n = 20 where id = 1",
            "sleep 200",
            "b select pg_sleep(10)",
            "sleep 200",
            "b set statement_timeout = 0",
            "b update t set n = 20 where id = 1",
            "b.cancel",
            "b select 1",
            "b.cancel",
            "b select 2",
            "c set idle_in_transaction_session_timeout = 300",
            "c begin",
            "c update t set n = 20 where id = 2",
            "b update t set n = 30 where id = 2",
            "sleep 400",
            "c select 1",
            "c select 2",
            "a select * from t order by id",
        ],
    );
}

#[test]
fn who_hangs_up_lets_go() {
    with_rows(
        "hang_up",
        &[
            "a begin",
            "a update t set n = 10 where id = 1",
            "a select pg_advisory_lock(5)",
            "b select pg_advisory_lock(5)",
            "c update t set n = n + 1 where id = 1",
            "a.quit",
            "a select * from t order by id",
            // A waiting statement goes on although nobody will hear of it.
            "a begin",
            "a update t set n = 100 where id = 2",
            "c update t set n = n + 5 where id = 2",
            "c.quit",
            "a commit",
            "sleep 100",
            "a select * from t order by id",
        ],
    );
}

#[test]
fn advisory_locks() {
    compare(
        "advisory",
        &[
            "a select pg_advisory_lock(1)",
            "a select pg_advisory_lock(1)",
            "b select pg_try_advisory_lock(1)",
            "b select pg_try_advisory_lock(1, 1), pg_try_advisory_lock(4294967297)",
            "c select pg_try_advisory_lock(1, 1), pg_try_advisory_lock(4294967297)",
            "a select pg_advisory_unlock(1)",
            "b select pg_try_advisory_lock(1)",
            "a select pg_advisory_unlock(1)",
            "a select pg_advisory_unlock(1)",
            "b select pg_try_advisory_lock(1)",
            "a select pg_advisory_xact_lock(1)",
            "b select pg_advisory_unlock(1)",
            "a begin",
            "a select pg_advisory_xact_lock(2)",
            "a select pg_advisory_unlock(2)",
            "b select pg_try_advisory_lock(2)",
            "b select pg_advisory_lock(2)",
            "a commit",
            "b select pg_advisory_unlock_all()",
            "a select pg_try_advisory_lock_shared(3)",
            "b select pg_try_advisory_lock_shared(3)",
            "c select pg_try_advisory_lock(3)",
            "c select pg_advisory_lock(3)",
            "d select pg_advisory_lock_shared(3)",
            "a select pg_advisory_unlock_shared(3)",
            "b select pg_advisory_unlock(3)",
            "b select pg_advisory_unlock_shared(3)",
            "c select pg_advisory_unlock(3)",
            "a begin",
            "a select pg_advisory_lock(9)",
            "a rollback",
            "b select pg_try_advisory_lock(9)",
            "a select pg_try_advisory_lock(hashtext('thread')), pg_try_advisory_lock(hashtextextended('thread', 0))",
            "b select pg_try_advisory_lock(hashtext('thread')), pg_try_advisory_lock(hashtextextended('thread', 0))",
            "b select pg_try_advisory_lock(null)",
            "b select pg_advisory_lock('x')",
            "a select hashtext(''), hashtext('a'), hashtext('thread-7'), hashtext('exactly12byt'), hashtext('longer than twelve bytes')",
            "a select hashtextextended('', 0), hashtextextended('a', 1), hashtextextended('longer than twelve bytes', -1)",
        ],
    );
}

#[test]
fn tables_are_locked() {
    with_rows(
        "tables",
        &[
            "a begin",
            "a lock table t in exclusive mode",
            "b select count(*) from t",
            "b insert into t values (9, 9)",
            "c select * from t where id = 1 for update",
            "a commit",
            "a lock table t",
            "a begin",
            "a lock table t",
            "b select count(*) from t",
            "a rollback",
            "a begin",
            "a select * from t where id = 1",
            "b begin",
            "b alter table t add column m int",
            "c select count(*) from t",
            "a commit",
            "b commit",
        ],
    );
}
