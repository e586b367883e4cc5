//! PostgreSQL 15: the wire protocol over a byte stream, and behind it the part of SQL that savers,
//! locks, leases and queues use.
//!
//! | what | how far |
//! |---|---|
//! | protocol | version 3: trust and clear-text passwords, simple and extended queries, pipelines, portals with a limit, text and binary, CancelRequest; no TLS, no COPY, no LISTEN |
//! | transactions | READ COMMITTED, savepoints, transactional DDL and settings; no other isolation level |
//! | waiting | rows, keys, tables, advisory locks: in lines, with `lock_timeout`, `statement_timeout`, `idle_in_transaction_session_timeout`, NOWAIT, SKIP LOCKED and deadlock detection |
//! | statements | SELECT with joins, subqueries, WITH, GROUP BY, UNION, FOR UPDATE; INSERT with ON CONFLICT, UPDATE, DELETE, RETURNING; tables, keys, indexes |
//! | types | boolean, integers, double precision, text, bytea, jsonb, timestamptz (in UTC), interval, arrays; numeric is kept and compared, not computed with |
//!
//! Text compares by code points, as with collation "C" or "C.UTF-8". What the model does not know
//! (window functions, foreign keys, views, FOR SHARE and more) is refused with 0A000 and the name of
//! the construct, never answered wrongly; a few forms that the parser does not know, such as FOR NO
//! KEY UPDATE, are refused as a syntax error.
//!
//! Simplified: CREATE INDEX CONCURRENTLY does not wait for older transactions. A line for a table
//! lock is not reordered to get around a deadlock. Statements take the time that the settings say,
//! whatever they do.
//!
//! Sources: the manual, <https://www.postgresql.org/docs/15/>, above all "Concurrency Control" and
//! "Frontend/Backend Protocol"; and the server itself, against which all this is tested.

mod clock;
mod engine;
mod error;
mod exec;
mod locks;
mod pooler;
mod server;
mod session;
mod settings;
mod sql;
mod store;
mod types;
mod wire;

pub use pooler::{Pooler, PoolerSettings};
pub use server::Postgres;
pub use settings::{Micros, PostgresSettings};
pub use types::{Array, Cell, Decimal, Float, Interval, Json, Row, Scalar};
