//! Which database a URL names, and what of a URL is not supported.

use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, LoadBalanceHosts, TargetSessionAttrs};

use crate::checkpoint::saver::SaverError;

/// A database, as a URL names it.
pub(super) struct Target {
    pub config: Config,
    /// `host:port` of each server, in the order in which they are tried.
    pub authorities: Vec<String>,
    /// Waited for one connection at most.
    pub connect_limit: Option<Duration>,
}

impl Target {
    pub fn parse(url: &str) -> Result<Target, SaverError> {
        let config: Config = url.parse().map_err(|error| refused(super::errors::chain(&error)))?;
        if config.get_user().is_none() {
            return Err(refused("it names no user; write postgres://user:password@host/database"));
        }
        let hosts = config.get_hosts();
        let addresses = config.get_hostaddrs();
        let ports = config.get_ports();
        let port = |nth: usize| ports.get(nth).or(ports.first()).copied().unwrap_or(5432);
        let mut authorities = Vec::new();
        for nth in 0..hosts.len().max(addresses.len()) {
            let host = match (addresses.get(nth), hosts.get(nth)) {
                (Some(address), _) if address.is_ipv6() => format!("[{address}]"),
                (Some(address), _) => address.to_string(),
                (None, Some(Host::Tcp(host))) if host.contains(':') => format!("[{host}]"),
                (None, Some(Host::Tcp(host))) => host.clone(),
                (None, _) => {
                    return Err(refused("Unix sockets are not supported; name a host"));
                }
            };
            authorities.push(format!("{host}:{}", port(nth)));
        }
        if authorities.is_empty() {
            return Err(refused("it names no host; write postgres://user:password@host/database"));
        }
        if config.get_target_session_attrs() != TargetSessionAttrs::Any {
            return Err(refused("target_session_attrs is not supported; name the primary"));
        }
        if config.get_load_balance_hosts() != LoadBalanceHosts::Disable {
            return Err(refused("load_balance_hosts is not supported; hosts are tried in order"));
        }
        if config.get_tcp_user_timeout().is_some() {
            return Err(refused(
                "tcp_user_timeout is not supported; see PostgresOptions::answer_limit",
            ));
        }
        let connect_limit = config.get_connect_timeout().copied().filter(|limit| !limit.is_zero());
        Ok(Target { config, authorities, connect_limit })
    }

    /// Where it is, for messages; never with the password.
    pub fn name(&self) -> String {
        let database = self.config.get_dbname().or(self.config.get_user()).unwrap_or_default();
        format!("database {database:?} on {}", self.authorities.join(" or "))
    }
}

fn refused(problem: impl std::fmt::Display) -> SaverError {
    SaverError::Store(format!("the postgres URL cannot be used: {problem}"))
}
