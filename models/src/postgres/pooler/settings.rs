//! The knobs of the pooler, with PgBouncer's defaults.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PoolerSettings {
    /// Connections to the server (`default_pool_size`).
    pub pool_size: usize,
    /// Clients beyond this many are refused.
    pub max_client_conn: usize,
    /// How long a client waits for a connection before it is sent away; 0 is for ever.
    pub query_wait_timeout_ms: u64,
    /// Connections that nobody has used for so long are closed; 0 is never.
    pub server_idle_timeout_ms: u64,
    /// Connections that are so old are closed when they come back; 0 is never.
    pub server_lifetime_ms: u64,
    /// How many prepared statements of clients the pooler keeps track of on each connection to the
    /// server; 0 leaves them where they were prepared.
    pub max_prepared_statements: usize,
    /// Who the pooler is to the server.
    pub user: String,
    pub password: Option<String>,
    pub database: String,
}

impl Default for PoolerSettings {
    fn default() -> PoolerSettings {
        PoolerSettings {
            pool_size: 20,
            max_client_conn: 100,
            query_wait_timeout_ms: 120_000,
            server_idle_timeout_ms: 600_000,
            server_lifetime_ms: 3_600_000,
            max_prepared_statements: 0,
            user: "pooler".to_owned(),
            password: None,
            database: "postgres".to_owned(),
        }
    }
}
