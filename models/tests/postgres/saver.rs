//! The statements of langgraph-checkpoint-postgres 3.1.1, and flat ones that do the same.

use crate::script::compare;

/// Its migrations, in order.
pub const MIGRATIONS: [&str; 11] = [
    "CREATE TABLE IF NOT EXISTS checkpoint_migrations (v INTEGER PRIMARY KEY);",
    "CREATE TABLE IF NOT EXISTS checkpoints (
    thread_id TEXT NOT NULL,
    checkpoint_ns TEXT NOT NULL DEFAULT '',
    checkpoint_id TEXT NOT NULL,
    parent_checkpoint_id TEXT,
    type TEXT,
    checkpoint JSONB NOT NULL,
    metadata JSONB NOT NULL DEFAULT '{}',
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id)
);",
    "CREATE TABLE IF NOT EXISTS checkpoint_blobs (
    thread_id TEXT NOT NULL,
    checkpoint_ns TEXT NOT NULL DEFAULT '',
    channel TEXT NOT NULL,
    version TEXT NOT NULL,
    type TEXT NOT NULL,
    blob BYTEA,
    PRIMARY KEY (thread_id, checkpoint_ns, channel, version)
);",
    "CREATE TABLE IF NOT EXISTS checkpoint_writes (
    thread_id TEXT NOT NULL,
    checkpoint_ns TEXT NOT NULL DEFAULT '',
    checkpoint_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    idx INTEGER NOT NULL,
    channel TEXT NOT NULL,
    type TEXT,
    blob BYTEA NOT NULL,
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
);",
    "ALTER TABLE checkpoint_blobs ALTER COLUMN blob DROP not null;",
    "SELECT 1;",
    "CREATE INDEX CONCURRENTLY IF NOT EXISTS checkpoints_thread_id_idx ON checkpoints(thread_id);",
    "CREATE INDEX CONCURRENTLY IF NOT EXISTS checkpoint_blobs_thread_id_idx ON checkpoint_blobs(thread_id);",
    "CREATE INDEX CONCURRENTLY IF NOT EXISTS checkpoint_writes_thread_id_idx ON checkpoint_writes(thread_id);",
    "ALTER TABLE checkpoint_writes ADD COLUMN IF NOT EXISTS task_path TEXT NOT NULL DEFAULT '';",
    "INSERT INTO checkpoint_migrations (v) VALUES (9)",
];

const SELECT: &str = "
select
    thread_id,
    checkpoint,
    checkpoint_ns,
    checkpoint_id,
    parent_checkpoint_id,
    metadata,
    (
        select array_agg(array[bl.channel::bytea, bl.type::bytea, bl.blob])
        from jsonb_each_text(checkpoint -> 'channel_versions')
        inner join checkpoint_blobs bl
            on bl.thread_id = checkpoints.thread_id
            and bl.checkpoint_ns = checkpoints.checkpoint_ns
            and bl.channel = jsonb_each_text.key
            and bl.version = jsonb_each_text.value
    ) as channel_values,
    (
        select
        array_agg(array[cw.task_id::text::bytea, cw.channel::bytea, cw.type::bytea, cw.blob] order by cw.task_id, cw.idx)
        from checkpoint_writes cw
        where cw.thread_id = checkpoints.thread_id
            and cw.checkpoint_ns = checkpoints.checkpoint_ns
            and cw.checkpoint_id = checkpoints.checkpoint_id
    ) as pending_writes
from checkpoints ";

const SENDS: &str = "
select
    checkpoint_id,
    array_agg(array[type::bytea, blob] order by task_path, task_id, idx) as sends
from checkpoint_writes
where thread_id = $1
    and checkpoint_id = any($2)
    and channel = '__pregel_tasks'
group by checkpoint_id";

const UPSERT_BLOB: &str = "
    INSERT INTO checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob)
    VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (thread_id, checkpoint_ns, channel, version) DO NOTHING";

const UPSERT_CHECKPOINT: &str = "
    INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint, metadata)
    VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id)
    DO UPDATE SET
        checkpoint = EXCLUDED.checkpoint,
        metadata = EXCLUDED.metadata;";

const UPSERT_WRITE: &str = "
    INSERT INTO checkpoint_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
    ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id, task_id, idx) DO UPDATE SET
        channel = EXCLUDED.channel,
        type = EXCLUDED.type,
        blob = EXCLUDED.blob;";

const INSERT_WRITE: &str = "
    INSERT INTO checkpoint_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
    ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id, task_id, idx) DO NOTHING";

/// Two delta channels, with the cursor of its pages.
const DELTA_1: &str = "SELECT checkpoint_id, parent_checkpoint_id, \
    checkpoint -> 'channel_versions' ->> $1 AS ver_0, \
    (checkpoint -> 'channel_values' -> $2) IS NOT NULL AS hs_0, \
    checkpoint -> 'channel_versions' ->> $3 AS ver_1, \
    (checkpoint -> 'channel_values' -> $4) IS NOT NULL AS hs_1 \
    FROM checkpoints WHERE thread_id = $5 AND checkpoint_ns = $6 \
    AND ($7::text IS NULL OR checkpoint_id < $8) ORDER BY checkpoint_id DESC LIMIT $9";

const DELTA_2: &str = "SELECT 'w'::text AS _kind, checkpoint_id, channel, \
    type, blob, task_id, idx, NULL::text AS version FROM checkpoint_writes \
    WHERE thread_id = $1 AND checkpoint_ns = $2 AND channel = $3 AND checkpoint_id = ANY($4) \
    UNION ALL \
    SELECT 'b'::text AS _kind, NULL::text AS checkpoint_id, channel, \
    type, blob, NULL::text AS task_id, NULL::int AS idx, version FROM checkpoint_blobs \
    WHERE thread_id = $5 AND checkpoint_ns = $6 AND channel = $7 AND version = $8";

/// What a saver written for another protocol client would use instead of the nested arrays.
const FLAT_BLOBS: &str = "SELECT b.channel, b.type, b.blob FROM checkpoints c \
    JOIN checkpoint_blobs b ON b.thread_id = c.thread_id AND b.checkpoint_ns = c.checkpoint_ns \
    AND b.version = c.checkpoint -> 'channel_versions' ->> b.channel \
    WHERE c.thread_id = $1 AND c.checkpoint_ns = $2 AND c.checkpoint_id = $3 ORDER BY b.channel";

const UNNEST_BLOBS: &str = "INSERT INTO checkpoint_blobs \
    (thread_id, checkpoint_ns, channel, version, type, blob) \
    SELECT $1, $2, c, v, t, b FROM unnest($3::text[], $4::text[], $5::text[], $6::bytea[]) AS u(c, v, t, b) \
    ON CONFLICT (thread_id, checkpoint_ns, channel, version) DO NOTHING";

fn once(name: &str, sql: &str, values: &str, lines: &mut Vec<String>) {
    lines.push(format!("{name}.parse _ {sql}"));
    lines.push(format!("{name}.describe S _"));
    lines.push(format!("{name}.bindb _ _ {values}"));
    lines.push(format!("{name}.describe P _"));
    lines.push(format!("{name}.execute _ 0"));
    lines.push(format!("{name}.sync"));
}

fn run(label: &str, lines: Vec<String>) {
    let mut all: Vec<String> = MIGRATIONS.iter().map(|sql| format!("a {sql}")).collect();
    all.extend(lines);
    compare(label, &all.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn the_tables_are_made_and_made_again() {
    let mut lines: Vec<String> = MIGRATIONS[..10].iter().map(|sql| format!("b {sql}")).collect();
    lines.push("b SELECT v FROM checkpoint_migrations ORDER BY v DESC LIMIT 1".to_owned());
    lines.push("b SELECT * FROM checkpoint_writes".to_owned());
    run("migrations", lines);
}

#[test]
fn checkpoints_are_put_and_got() {
    let mut lines = Vec::new();
    let checkpoint = |versions: &str| {
        format!(
            "'{{\"v\":4,\"id\":\"c\",\"channel_versions\":{versions},\"channel_values\":{{\"n\":1.50}}}}'"
        )
    };
    let first = checkpoint("{\"a\":\"1.x\",\"bb\":\"1.x\",\"n\":\"1.x\"}");
    let second = checkpoint("{\"a\":\"2.y\",\"bb\":\"1.x\",\"n\":\"2.y\"}");
    for (channel, version, blob) in [
        ("a", "1.x", "\\x00ff"),
        ("bb", "1.x", "\\x81"),
        ("a", "1.x", "\\x99"),
        ("a", "2.y", "null"),
    ] {
        once("a", UPSERT_BLOB, &format!("t ' ' {channel} {version} msgpack {blob}"), &mut lines);
    }
    once("a", UPSERT_CHECKPOINT, &format!("t ' ' c1 null {first} '{{\"step\":1}}'"), &mut lines);
    once(
        "a",
        UPSERT_CHECKPOINT,
        &format!("t ' ' c2 c1 {second} '{{\"step\":2,\"a\":[1,2]}}'"),
        &mut lines,
    );
    once(
        "a",
        UPSERT_CHECKPOINT,
        &format!("t ' ' c2 zz {second} '{{\"step\":3,\"a\":[1,2]}}'"),
        &mut lines,
    );
    for (statement, idx, channel) in [
        (INSERT_WRITE, "0", "a"),
        (INSERT_WRITE, "0", "other"),
        (INSERT_WRITE, "1", "__pregel_tasks"),
        (UPSERT_WRITE, "-3", "__interrupt__"),
        (UPSERT_WRITE, "-3", "again"),
    ] {
        once(
            "a",
            statement,
            &format!("t ' ' c1 task '~p, n' {idx} {channel} msgpack \\x01"),
            &mut lines,
        );
    }
    let latest = format!(
        "{SELECT} WHERE thread_id = $1 AND checkpoint_ns = $2 ORDER BY checkpoint_id DESC LIMIT 1"
    );
    once("a", &latest, "t ' '", &mut lines);
    let by_id =
        format!("{SELECT} WHERE thread_id = $1 AND checkpoint_ns = $2 AND checkpoint_id = $3");
    once("a", &by_id, "t ' ' c1", &mut lines);
    once("a", &by_id, "t ' ' nothing", &mut lines);
    let listed = format!(
        "{SELECT} WHERE thread_id = $1 AND metadata @> $2 AND checkpoint_id < $3 ORDER BY checkpoint_id DESC LIMIT 2"
    );
    once("a", &listed, "t '{\"a\":[2]}' c9", &mut lines);
    once("a", &listed, "t '{\"step\":1}' c9", &mut lines);
    once("a", SENDS, "t '{c1,c2}'", &mut lines);
    once("a", DELTA_1, "a n n zz t ' ' null null 1024", &mut lines);
    once("a", DELTA_1, "a n n zz t ' ' c2 c2 1024", &mut lines);
    once("a", DELTA_2, "t ' ' a '{c1,c2}' t ' ' bb 1.x", &mut lines);
    once("a", FLAT_BLOBS, "t ' ' c2", &mut lines);
    once(
        "a",
        UNNEST_BLOBS,
        "u ' ' '{x,y,y}' '{1,2,2}' '{bytes,null,bytes}' '{\"\\\\x0102\",NULL,NULL}'",
        &mut lines,
    );
    let blobs = "'{x,y,y}' '{1,2,2}' '{bytes,empty,bytes}' '{\"\\\\x0102\",NULL,NULL}'";
    once("a", UNNEST_BLOBS, &format!("u ' ' {blobs}"), &mut lines);
    lines.push("a select * from checkpoint_blobs order by thread_id, channel, version".to_owned());
    for table in ["checkpoints", "checkpoint_blobs", "checkpoint_writes"] {
        once("a", &format!("DELETE FROM {table} WHERE thread_id = $1"), "t", &mut lines);
        lines.push(format!("a select count(*) from {table}"));
    }
    run("saver", lines);
}

#[test]
fn what_jsonb_refuses_is_refused() {
    let mut lines = Vec::new();
    for json in [
        "'{\"a\":\"\\u0000\"}'",
        "'{\"a\":\"\\ud800\"}'",
        "'{\"a\":NaN}'",
        "'{\"a\":Infinity}'",
        "'{'",
    ] {
        once("a", UPSERT_CHECKPOINT, &format!("t ' ' c1 null {json} '{{}}'"), &mut lines);
    }
    once("a", UPSERT_CHECKPOINT, "t ' ' c1 null '{\"a\":\"\\ud83d\\ude00\"}' '{}'", &mut lines);
    lines.push("a select checkpoint, metadata from checkpoints".to_owned());
    run("jsonb", lines);
}
