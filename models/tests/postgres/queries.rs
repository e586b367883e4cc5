//! What queries answer.

use crate::script::compare;

#[test]
fn expressions() {
    compare(
        "expressions",
        &[
            "a select 1, 'x', null, true, 1.50, 2147483648, -1, 1::bigint, 'x'::text",
            "a select 1 + 2 * 3, 7 / 2, -7 / 2, 7 % 3, 1 + 1::bigint, 1.5::float8 * 2",
            "a select 1 < 2, 'a' < 'b', 'B' < 'a', null = 1, 1 is null, null is null, 1 is distinct from null",
            "a select true and null, false and null, true or null, not null::bool",
            "a select 1 in (1, 2), 3 in (1, 2), 3 in (1, null), 1 not in (2, 3), null in (1)",
            "a select 2 between 1 and 3, 2 not between 1 and 3",
            "a select 1 = any('{1,2}'::int[]), 3 = any('{1,null}'::int[]), 1 <> all('{2,3}'::int[])",
            "a select coalesce(null, 2, 3), nullif(1, 1), nullif(1, 2), greatest(1, null, 3), least(2, 1)",
            "a select case when 1 = 2 then 'a' when 1 = 1 then 'b' else 'c' end, case 3 when 3 then 'three' end",
            "a select 'a' || 'b', 'a' || 1, 'x' || null, '\\x01'::bytea || '\\x02'::bytea",
            "a select 'abc' like 'a%', 'abc' like '_b_', 'abc' like 'b', 'ABC' ilike 'a%', 'a%c' like 'a\\%c'",
            "a select length('héllo'), octet_length('héllo'), lower('ABC'), upper('abc'), substr('hello', 2, 3), replace('aXb', 'X', '-')",
            "a select array[1,2,3], array['a','b c',null,'\"q\"','{}'], array[array[1,2],array[3,4]], '{}'::text[]",
            "a select array[1,2] || 3, array[1] || array[2,3], cardinality(array[1,2]), array_length(array[1,2], 1), (array[7,8])[2]",
            "a select 1::text, true::text, 1.0::float8::text, '1'::int, 1::bool, true::int, 2.5::int, 3.5::int, 2.5::float8::int",
            "a select '2026-01-02 03:04:05+00'::timestamptz, '2026-01-02 03:04:05+00'::timestamptz + interval '1 hour 30 minutes'",
            "a select '2026-03-31 00:00:00+00'::timestamptz - '1 month'::interval, '2026-01-02'::timestamptz - '2026-01-01'::timestamptz",
            "a select interval '90 seconds', interval '1 day' + interval '2 hours', make_interval(secs => 1.5), 2 * interval '10 seconds'",
            "a select extract(epoch from '1970-01-02 00:00:00+00'::timestamptz), extract(epoch from interval '1.5 seconds')",
            "a select now() = now(), now() <= clock_timestamp(), now() < now() + interval '1 second'",
            "a select encode('\\x00ff'::bytea, 'hex'), decode('00ff', 'hex')",
            "a select 1e10, 1.0e-5::float8, 'NaN'::float8, 'Infinity'::float8, 123456789012345678901234567890",
            "a select (1), ((2)) as two, 3 three, -(-4)",
            "a values (1, 'a'), (2, 'b')",
            "a select * from (values (1, 'a'), (2, null)) as v(n, s) order by n desc",
            "a select exists(select 1), exists(select 1 where false), (select 5), (select 5 where false)",
        ],
    );
}

#[test]
fn json() {
    compare(
        "json",
        &[
            "a select '{\"b\":1,\"a\":[1,2,{\"c\":null}],\"long\":true,\"b\":2}'::jsonb",
            "a select '[1.0, 1.50, 1e2, -0, 0.1e-2, 12345678901234567890.123]'::jsonb, '\"tab\\tquote\\\"\\u00e9\"'::jsonb",
            "a select '{\"a\":{\"b\":[10,20]}}'::jsonb -> 'a', '{\"a\":\"x\"}'::jsonb ->> 'a', '[1,2,3]'::jsonb -> -1, '[1,2]'::jsonb ->> 5, '{\"a\":null}'::jsonb ->> 'a'",
            "a select '{\"a\":{\"b\":[10,20]}}'::jsonb #> '{a,b,1}', '{\"a\":{\"b\":[10,20]}}'::jsonb #>> '{a,b}'",
            "a select '{\"a\":1,\"b\":2}'::jsonb @> '{\"a\":1.0}', '[1,[2]]'::jsonb @> '[[2]]', '[1,2]'::jsonb @> '1', '{\"a\":[1,2]}'::jsonb @> '{\"a\":1}', '{\"a\":1}'::jsonb <@ '{\"a\":1,\"b\":2}'",
            "a select '{\"a\":1}'::jsonb = '{\"a\":1.0}'::jsonb, '{\"a\":1}'::jsonb || '{\"b\":2}'::jsonb, '{\"a\":1,\"b\":2}'::jsonb - 'a'",
            "a select jsonb_typeof('1'), jsonb_typeof('{}'), jsonb_array_length('[1,2,3]'), jsonb_build_object('a', 1, 'b', 'x', 'c', null), to_jsonb('x'::text), to_jsonb(1)",
            "a select * from jsonb_each_text('{\"a\":1,\"b\":\"x\",\"c\":null,\"d\":[1]}')",
            "a select key, value from jsonb_each('{\"a\":1,\"b\":\"x\"}') as e",
            "a select * from jsonb_array_elements('[1,\"x\",null]') as item",
            "a select * from jsonb_array_elements_text('[1,\"x\",null]')",
            "a select * from jsonb_object_keys('{\"b\":1,\"a\":2}')",
            "a select * from jsonb_each_text('[1]')",
            "a select '{\"a\":\"5\"}'::jsonb ->> 'a' = '5', ('{\"a\":5}'::jsonb -> 'a')::int, '{\"a\":1}'::jsonb ? 'a'",
            "a select '3'::jsonb < '4'::jsonb, '\"a\"'::jsonb < '1'::jsonb, '[]'::jsonb < '{}'::jsonb",
            "a select jsonb_agg(x) from (values (1), (null), (3)) as v(x)",
        ],
    );
}

#[test]
fn tables() {
    compare(
        "tables_read",
        &[
            "a create table t (id int primary key, g text, n int, at timestamptz default now(), unique (g, n))",
            "a insert into t (id, g, n) values (1, 'a', 10), (2, 'a', 20), (3, 'b', 30), (4, 'b', null), (5, null, 50)",
            "a create table u (id int, t_id int)",
            "a insert into u values (1, 1), (2, 1), (3, 3), (4, null)",
            "a select id, g, n from t order by g, n desc",
            "a select id, g, n from t order by g desc nulls last, n nulls first",
            "a select id from t order by 1 desc limit 2 offset 1",
            "a select g, count(*), count(n), sum(n), min(n), max(n) from t group by g order by g",
            "a select count(*), sum(n), max(g) from t where false",
            "a select g from t group by g having count(*) > 1 order by g",
            "a select distinct g from t order by g",
            "a select t.id, u.id as uid from t join u on u.t_id = t.id order by t.id, u.id",
            "a select t.id, u.id from t left join u on u.t_id = t.id order by t.id, u.id",
            "a select t.id, u.id from t left join u on u.t_id = t.id and u.id > 1 where t.n > 5 order by t.id, u.id",
            "a select a.id, b.id from t a, t b where a.g = b.g and a.id < b.id order by 1, 2",
            "a select id, (select count(*) from u where u.t_id = t.id) as c from t order by id",
            "a select id from t where exists (select 1 from u where t_id = t.id) order by id",
            "a select id from t where id not in (select t_id from u where t_id is not null) order by id",
            "a select array_agg(id order by id desc), array_agg(array[id, n] order by id), string_agg(g, ',' order by id) from t where n is not null",
            "a select array_agg(g order by id) from t",
            "a select count(distinct g), count(*) filter (where n > 20), bool_and(id > 0), bool_or(id > 4) from t",
            "a select id from t where id = 1 union all select id from u where id = 1 union all select null order by 1",
            "a select g from t union select 'z' order by g",
            "a with x as (select id, n from t where n > 15) select x.id, u.id from x left join u on u.t_id = x.id order by 1",
            "a select * from unnest('{1,2}'::int[], '{a,b,c}'::text[]) as v(n, s)",
            "a select * from unnest('{1,2}'::int[])",
            "a select * from generate_series(1, 3) as n",
            "a insert into t (id, g, n) select n, 'new', n from generate_series(10, 12) as n returning id, g",
            "a insert into t (id) values (1) on conflict do nothing",
            "a insert into t (id, g, n) values (20, 'a', 10) on conflict (g, n) do update set id = t.id + 100 returning id",
            "a update t set n = n + 1, g = default where id >= 10 and id < 100 returning id, g, n",
            "a update t set n = u.id from u where u.t_id = t.id and t.id = 3 returning t.id, t.n, u.id",
            "a delete from t where id in (10, 11) returning id, g, id * 2 as double",
            "a delete from t using u where u.t_id = t.id and u.id = 3",
            "a select id, g, n from t order by id",
            "a select count(*) from t where at <= now()",
            "a create table v (id serial primary key, n int default 3)",
            "a insert into v default values returning *",
            "a alter table t add column extra text default 'old'",
            "a insert into t (id, extra) values (30, 'new'), (31, default)",
            "a select id, extra from t where id > 25 or id = 1 order by id",
            "a select id, g as x, 'lit' as y from t where g = 'b' and n is null",
            "a select v.* from v where id = 1",
            "a select max(id) + 1, max(g) from t",
        ],
    );
}
