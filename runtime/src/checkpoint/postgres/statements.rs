//! Every statement that goes to the server, but for the migrations. Tables, keys and order are those
//! of langgraph-checkpoint-postgres 3.1.1.
//!
//! All are sent unnamed and with the types of their parameters, so that one costs one round trip and
//! leaves nothing behind in the session: behind a pooler the next statement may meet another one. Those
//! that store rows may be prepared, if a user asks for it.

use postgres_protocol::escape::escape_literal;
use tokio_postgres::types::Type;

/// A statement that stores rows, with the types of its parameters.
pub(super) struct Insert {
    pub text: String,
    pub types: Vec<Type>,
}

/// Channels and versions that a document tells, as rows. The server fails (22023), without a name, where
/// they are damaged.
macro_rules! versions_of {
    ($document:literal) => {
        concat!("jsonb_each_text(", $document, " -> 'channel_versions')")
    };
}

/// As `versions_of`, with none where they are damaged. Planning that costs the server 10 us more.
macro_rules! sound_versions_of {
    ($document:literal) => {
        concat!(
            "jsonb_each_text(CASE jsonb_typeof(",
            $document,
            " -> 'channel_versions') WHEN 'object' THEN ",
            $document,
            " -> 'channel_versions' END)"
        )
    };
}

/// What a read gives back: one answer with rows of three kinds, from one snapshot. A checkpoint has
/// kind 0, the value of a channel kind 1, a pending write kind 2. Each channel's value is in it once,
/// however many of the checkpoints hold it.
///
/// The limit of the lookup of a value, of which there is one at most, is for the planner: it would
/// else read all values of a long thread whenever its statistics are old.
///
/// Columns: kind, namespace, checkpoint, then by kind (parent, -, -), (channel, version, type) or
/// (task, channel, type), then the checkpoint, its metadata, the bytes and the index.
macro_rules! read {
    ($which:literal) => {
        Read {
            plain: read!($which, versions_of!("t.checkpoint")),
            guarded: read!($which, sound_versions_of!("t.checkpoint")),
        }
    };
    ($which:literal, $versions:expr) => {
        concat!(
            "WITH target AS (
    SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint, metadata
    FROM checkpoints WHERE thread_id = $1 ",
            $which,
            "
)
SELECT 0, t.checkpoint_ns, t.checkpoint_id, t.parent_checkpoint_id, NULL::text, NULL::text,
    t.checkpoint, t.metadata, NULL::bytea, 0
FROM target t
UNION ALL
SELECT 1, b.checkpoint_ns, NULL::text, b.channel, b.version, b.type,
    NULL::jsonb, NULL::jsonb, b.blob, 0
FROM (
    SELECT DISTINCT t.checkpoint_ns, v.key, v.value
    FROM target t CROSS JOIN LATERAL ",
            $versions,
            " v
) held
CROSS JOIN LATERAL (
    SELECT * FROM checkpoint_blobs
    WHERE thread_id = $1 AND checkpoint_ns = held.checkpoint_ns AND channel = held.key
        AND version = held.value
    LIMIT 1
) b
UNION ALL
SELECT 2, w.checkpoint_ns, w.checkpoint_id, w.task_id, w.channel, w.type,
    NULL::jsonb, NULL::jsonb, w.blob, w.idx
FROM target t
INNER JOIN checkpoint_writes w ON w.thread_id = $1 AND w.checkpoint_ns = t.checkpoint_ns
    AND w.checkpoint_id = t.checkpoint_id"
        )
    };
}

/// A read, and how it is asked once more where the server could not read a document, so that we do and
/// name it.
pub(super) struct Read {
    pub plain: &'static str,
    pub guarded: &'static str,
}

/// Thread, namespace, id.
pub(super) const GET: Read = read!("AND checkpoint_ns = $2 AND checkpoint_id = $3");

/// Thread, namespace.
pub(super) const GET_LATEST: Read =
    read!("AND checkpoint_ns = $2 ORDER BY checkpoint_id DESC LIMIT 1");

/// Beside what a read gives, how often the thread was deleted, if ever: as the index of a row of kind 3.
macro_rules! look {
    ($which:literal) => {
        Read {
            plain: look!($which, versions_of!("t.checkpoint")),
            guarded: look!($which, sound_versions_of!("t.checkpoint")),
        }
    };
    ($which:literal, $versions:expr) => {
        concat!(
            read!($which, $versions),
            "
UNION ALL
SELECT 3, ''::text, NULL::text, NULL::text, NULL::text, NULL::text,
    NULL::jsonb, NULL::jsonb, NULL::bytea, times
FROM durasim_deleted WHERE thread_id = $1"
        )
    };
}

/// Thread, namespace, id.
pub(super) const LOOK: Read = look!("AND checkpoint_ns = $2 AND checkpoint_id = $3");

/// Thread, namespace.
pub(super) const LOOK_AT_LATEST: Read =
    look!("AND checkpoint_ns = $2 ORDER BY checkpoint_id DESC LIMIT 1");

/// Thread; namespace, upper bound of ids, part of the metadata, and limit, each of which may be null.
pub(super) const LIST: Read = read!(
    "AND ($2::text IS NULL OR checkpoint_ns = $2) AND ($3::text IS NULL OR checkpoint_id < $3)
        AND ($4::jsonb IS NULL OR metadata @> $4)
    ORDER BY checkpoint_id DESC, checkpoint_ns LIMIT $5"
);

/// Before layout 4 a checkpoint's tasks stood as writes beside its parent. Thread, namespace, parent.
pub(super) const PENDING_SENDS: &str = "
SELECT type, blob FROM checkpoint_writes
WHERE thread_id = $1 AND checkpoint_ns = $2 AND checkpoint_id = $3 AND channel = '__pregel_tasks'
ORDER BY task_path, task_id, idx";

/// How the rows of an insert come into a statement.
#[derive(Clone, Copy)]
pub(super) enum Rows {
    /// One parameter a column, row by row.
    SpelledOut(usize),
    /// One array a column. Planning that costs the server as much as the rest of a small statement.
    Arrays,
}

impl Rows {
    const MOST_SPELLED_OUT: usize = 4;

    pub fn of(count: usize) -> Rows {
        if count <= Rows::MOST_SPELLED_OUT { Rows::SpelledOut(count) } else { Rows::Arrays }
    }

    /// Of the parameters of a statement: what all rows share, and what each has of its own.
    fn types(self, shared: &[Type], own: &[(Type, Type)]) -> Vec<Type> {
        let own: Vec<Type> = match self {
            Rows::SpelledOut(count) => {
                (0..count).flat_map(|_| own.iter().map(|(of_row, _)| of_row.clone())).collect()
            }
            Rows::Arrays => own.iter().map(|(_, of_all)| of_all.clone()).collect(),
        };
        [shared, &own].concat()
    }
}

/// Rows that all begin with the parameters up to `shared` and go on with `own` more each, from the
/// parameter `first` on.
fn spell_out(rows: usize, shared: usize, first: usize, own: usize) -> String {
    let row = |row: usize| {
        let start = first + row * own;
        let columns = (1..=shared).chain(start..start + own).map(|n| format!("${n}"));
        format!("({})", columns.collect::<Vec<_>>().join(", "))
    };
    format!("VALUES {}", (0..rows).map(row).collect::<Vec<_>>().join(", "))
}

macro_rules! put_values {
    ($rows:expr) => {
        concat!(
            "INSERT INTO checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob)
",
            $rows,
            "
ON CONFLICT (thread_id, checkpoint_ns, channel, version) DO NOTHING"
        )
    };
}

macro_rules! value_arrays {
    ($condition:expr) => {
        concat!(
            "SELECT $1, $2, b.channel, b.version, b.type, b.blob
FROM unnest($7::text[], $8::text[], $9::text[], $10::bytea[]) AS b (channel, version, type, blob)
WHERE ",
            $condition
        )
    };
}

macro_rules! put_checkpoint {
    ($row:expr) => {
        concat!(
            "INSERT INTO checkpoints
    (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint, metadata)
",
            $row,
            "
ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id)
DO UPDATE SET checkpoint = EXCLUDED.checkpoint, metadata = EXCLUDED.metadata"
        )
    };
}

/// A checkpoint and the values that are new with it.
///
/// An equal key is an equal value: versions have a random tail. A checkpoint with the same id keeps
/// its parent, as with Python.
///
/// Thread, namespace, id, parent, checkpoint, metadata; channels, versions, types, bytes. A parser may
/// want a condition before `ON CONFLICT`, to tell it from that of a join.
pub(super) fn put(values: Rows) -> Insert {
    const CHECKPOINT: &str = put_checkpoint!("VALUES ($1, $2, $3, $4, $5, $6)");
    let stored = match values {
        Rows::SpelledOut(0) => None,
        Rows::SpelledOut(count) => Some(format!(put_values!("{}"), spell_out(count, 2, 7, 4))),
        Rows::Arrays => Some(put_values!(value_arrays!("true")).to_owned()),
    };
    let text = match stored {
        Some(stored) => format!("WITH values_stored AS ({stored}) {CHECKPOINT}"),
        None => CHECKPOINT.to_owned(),
    };
    Insert { text, types: put_types(values) }
}

fn put_types(values: Rows) -> Vec<Type> {
    const SHARED: [Type; 6] =
        [Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT, Type::JSONB, Type::JSONB];
    const TEXT: (Type, Type) = (Type::TEXT, Type::TEXT_ARRAY);
    values.types(&SHARED, &[TEXT, TEXT, TEXT, (Type::BYTEA, Type::BYTEA_ARRAY)])
}

/// The parent is the head, or the checkpoint is, which is then stored once more; or it is stored under
/// its parent, and others have gone on from it.
macro_rules! at_head {
    () => {
        "(coalesce((
        SELECT max(c.checkpoint_id) FROM checkpoints c
        WHERE c.thread_id = $1 AND c.checkpoint_ns = $2
    ), '') IN (coalesce($4, ''), $3) OR EXISTS (
        SELECT 1 FROM checkpoints c
        WHERE c.thread_id = $1 AND c.checkpoint_ns = $2 AND c.checkpoint_id = $3
            AND coalesce(c.parent_checkpoint_id, '') = coalesce($4, '')
    ))"
    };
}

/// As [`put`] with arrays, if the parent is the head, and else nothing. The number of checkpoints that
/// were stored is answered.
pub(super) fn put_at_head() -> Insert {
    const TEXT: &str = concat!(
        "WITH values_stored AS (",
        put_values!(value_arrays!(at_head!())),
        ") ",
        put_checkpoint!(concat!("SELECT $1, $2, $3, $4, $5, $6 WHERE ", at_head!()))
    );
    Insert { text: TEXT.to_owned(), types: put_types(Rows::Arrays) }
}

/// Pending writes: rows that exist are kept or, but for their path, replaced, as with Python.
///
/// Thread, namespace, id, task, path; indices, channels, types, bytes.
pub(super) fn put_writes(rows: Rows, replaces: bool) -> Insert {
    const SHARED: [Type; 5] = [Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT];
    const TEXT: (Type, Type) = (Type::TEXT, Type::TEXT_ARRAY);
    let own = [(Type::INT4, Type::INT4_ARRAY), TEXT, TEXT, (Type::BYTEA, Type::BYTEA_ARRAY)];
    let types = rows.types(&SHARED, &own);
    let rows = match rows {
        Rows::SpelledOut(count) => spell_out(count, 5, 6, 4),
        Rows::Arrays => "SELECT $1, $2, $3, $4, $5, w.idx, w.channel, w.type, w.blob
FROM unnest($6::int4[], $7::text[], $8::text[], $9::bytea[]) AS w (idx, channel, type, blob)
WHERE true"
            .to_owned(),
    };
    let on_conflict = match replaces {
        true => "UPDATE SET channel = EXCLUDED.channel, type = EXCLUDED.type, blob = EXCLUDED.blob",
        false => "NOTHING",
    };
    let text = format!(
        "INSERT INTO checkpoint_writes
    (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob)
{rows}
ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id, task_id, idx) DO {on_conflict}"
    );
    Insert { text, types }
}

/// How often a thread was deleted, if ever. Thread.
pub(super) const DELETIONS: &str = "SELECT times FROM durasim_deleted WHERE thread_id = $1";

/// Fails (22012) if the thread was deleted since it had been so often. In the text itself, so that it
/// goes in one message with what opens the transaction.
pub(super) fn fail_if_deleted(thread: &str, times: u32) -> String {
    let thread = escape_literal(thread);
    format!(
        "SELECT 1 / (CASE WHEN times <= {times} THEN 1 ELSE 0 END) FROM durasim_deleted \
         WHERE thread_id = {thread}"
    )
}

/// The greatest id, or null. Thread, namespace.
pub(super) const HEAD: &str =
    "SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = $1 AND checkpoint_ns = $2";

/// Everything of a thread. All parts of a statement see the same moment.
macro_rules! delete_thread {
    ($more:literal) => {
        concat!(
            "WITH ",
            $more,
            "values_gone AS (DELETE FROM checkpoint_blobs WHERE thread_id = $1),
writes_gone AS (DELETE FROM checkpoint_writes WHERE thread_id = $1)
DELETE FROM checkpoints WHERE thread_id = $1"
        )
    };
}

/// Thread.
pub(super) const DELETE: &str = delete_thread!("");

/// Besides, it is counted. Thread.
pub(super) const DELETE_AND_REMEMBER: &str = delete_thread!(
    "remembered AS (
    INSERT INTO durasim_deleted (thread_id, times) VALUES ($1, 1)
    ON CONFLICT (thread_id) DO UPDATE SET times = durasim_deleted.times + 1
),
"
);

/// Thread, and the one that it is copied to. Answers whether that one is there already.
pub(super) const COPY: &str = "
WITH occupied AS (
    SELECT EXISTS (SELECT 1 FROM checkpoints WHERE thread_id = $2)
        OR EXISTS (SELECT 1 FROM checkpoint_writes WHERE thread_id = $2) AS yes
),
checkpoints_copied AS (
    INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type,
        checkpoint, metadata)
    SELECT $2, c.checkpoint_ns, c.checkpoint_id, c.parent_checkpoint_id, c.type, c.checkpoint,
        c.metadata
    FROM occupied CROSS JOIN checkpoints c WHERE NOT occupied.yes AND c.thread_id = $1
),
values_copied AS (
    INSERT INTO checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob)
    SELECT $2, b.checkpoint_ns, b.channel, b.version, b.type, b.blob
    FROM occupied CROSS JOIN checkpoint_blobs b WHERE NOT occupied.yes AND b.thread_id = $1
    ON CONFLICT (thread_id, checkpoint_ns, channel, version) DO NOTHING
),
writes_copied AS (
    INSERT INTO checkpoint_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx,
        channel, type, blob)
    SELECT $2, w.checkpoint_ns, w.checkpoint_id, w.task_id, w.task_path, w.idx, w.channel, w.type,
        w.blob
    FROM occupied CROSS JOIN checkpoint_writes w WHERE NOT occupied.yes AND w.thread_id = $1
)
SELECT yes FROM occupied";

/// The newest checkpoint of each namespace: namespace, id, parent, checkpoint, metadata. Thread.
pub(super) const HEADS: &str = "
SELECT c.checkpoint_ns, c.checkpoint_id, c.parent_checkpoint_id, c.checkpoint, c.metadata
FROM (
    SELECT checkpoint_ns, max(checkpoint_id) AS id FROM checkpoints WHERE thread_id = $1
    GROUP BY checkpoint_ns
) head
INNER JOIN checkpoints c ON c.thread_id = $1 AND c.checkpoint_ns = head.checkpoint_ns
    AND c.checkpoint_id = head.id";

/// A checkpoint without what stands beside it: parent, checkpoint. Thread, namespace, id.
pub(super) const ANCESTOR: &str = "
SELECT parent_checkpoint_id, checkpoint FROM checkpoints
WHERE thread_id = $1 AND checkpoint_ns = $2 AND checkpoint_id = $3";

/// Values by channel and version: channel, type, bytes. Thread, namespace, channels, versions.
pub(super) const VALUES: &str = "
SELECT b.channel, b.type, b.blob
FROM unnest($3::text[], $4::text[]) AS held (channel, version)
CROSS JOIN LATERAL (
    SELECT * FROM checkpoint_blobs
    WHERE thread_id = $1 AND checkpoint_ns = $2 AND channel = held.channel
        AND version = held.version
    LIMIT 1
) b
WHERE b.type <> 'empty'";

/// What is older than a checkpoint and not needed. Writes may stand beside a checkpoint that is yet
/// to come. Thread, namespace, the checkpoint, ids that are needed.
pub(super) const PRUNE: &str = "
WITH writes_gone AS (
    DELETE FROM checkpoint_writes
    WHERE thread_id = $1 AND checkpoint_ns = $2 AND checkpoint_id < $3 AND checkpoint_id <> ALL ($4)
)
DELETE FROM checkpoints
WHERE thread_id = $1 AND checkpoint_ns = $2 AND checkpoint_id < $3 AND checkpoint_id <> ALL ($4)";

/// Values that no checkpoint of a thread holds any more; none for as long as one of them does not say
/// what it holds. Thread.
pub(super) const SWEEP: &str = concat!(
    "
DELETE FROM checkpoint_blobs b
WHERE b.thread_id = $1 AND NOT EXISTS (
    SELECT 1 FROM (
        SELECT c.checkpoint_ns, v.key, v.value FROM checkpoints c
        CROSS JOIN LATERAL ",
    sound_versions_of!("c.checkpoint"),
    " v
        WHERE c.thread_id = $1
    ) held
    WHERE held.checkpoint_ns = b.checkpoint_ns AND held.key = b.channel AND held.value = b.version
) AND NOT EXISTS (
    SELECT 1 FROM checkpoints
    WHERE thread_id = $1 AND jsonb_typeof(checkpoint -> 'channel_versions') <> 'object'
)"
);

/// The checkpoints that runs made, and what stands beside them; answers their threads. Runs.
pub(super) const DELETE_RUNS: &str = "
WITH gone AS (
    DELETE FROM checkpoints WHERE metadata ->> 'run_id' = ANY ($1)
        AND jsonb_typeof(metadata -> 'run_id') = 'string'
    RETURNING thread_id, checkpoint_ns, checkpoint_id
),
writes_gone AS (
    DELETE FROM checkpoint_writes w USING gone
    WHERE w.thread_id = gone.thread_id AND w.checkpoint_ns = gone.checkpoint_ns
        AND w.checkpoint_id = gone.checkpoint_id
)
SELECT DISTINCT thread_id FROM gone";

/// The past of some channels: of a page of checkpoints, newest first, what their documents say of
/// each channel (kind 0), and the values (1) and the writes (2) of those channels, as in a read.
///
/// Columns: kind, then by kind (checkpoint, parent, channel, version), (-, -, channel, version) or
/// (checkpoint, task, channel, -), then type, the document's value, the bytes and the index.
/// Thread, namespace, greatest id or null, channels, number of checkpoints.
pub(super) const HISTORY: &str = "
WITH target AS (
    SELECT checkpoint_id, parent_checkpoint_id, checkpoint FROM checkpoints
    WHERE thread_id = $1 AND checkpoint_ns = $2 AND ($3::text IS NULL OR checkpoint_id <= $3)
    ORDER BY checkpoint_id DESC LIMIT $5
),
told AS (
    SELECT t.checkpoint_id, t.parent_checkpoint_id, c.name,
        t.checkpoint -> 'channel_versions' ->> c.name AS version,
        t.checkpoint -> 'channel_values' -> c.name AS value
    FROM target t CROSS JOIN unnest($4::text[]) AS c (name)
)
SELECT 0, t.checkpoint_id, t.parent_checkpoint_id, t.name, t.version, NULL::text, t.value,
    NULL::bytea, 0
FROM told t
UNION ALL
SELECT 1, NULL::text, NULL::text, b.channel, b.version, b.type, NULL::jsonb, b.blob, 0
FROM (SELECT DISTINCT name, version FROM told) held
CROSS JOIN LATERAL (
    SELECT * FROM checkpoint_blobs
    WHERE thread_id = $1 AND checkpoint_ns = $2 AND channel = held.name AND version = held.version
    LIMIT 1
) b
UNION ALL
SELECT 2, w.checkpoint_id, w.task_id, w.channel, NULL::text, w.type, NULL::jsonb, w.blob, w.idx
FROM target t
INNER JOIN checkpoint_writes w ON w.thread_id = $1 AND w.checkpoint_ns = $2
    AND w.checkpoint_id = t.checkpoint_id AND w.channel = ANY ($4)";
