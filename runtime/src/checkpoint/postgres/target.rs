//! Which database a URL names, and what of a URL is not supported.

use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, LoadBalanceHosts, TargetSessionAttrs};

use super::errors::chain;
use crate::checkpoint::saver::SaverError;

/// A database, as a URL names it.
pub(super) struct Target {
    pub config: Config,
    /// In the order in which they are tried.
    pub servers: Vec<Server>,
    /// Is it to be made sure whom we talk to?
    #[cfg_attr(not(feature = "tls"), allow(dead_code))]
    pub verifies: bool,
    /// How long one server's connection is waited for.
    pub connect_limit: Option<Duration>,
}

#[derive(Clone)]
pub(super) struct Server {
    /// What its certificate is for.
    #[cfg_attr(not(feature = "tls"), allow(dead_code))]
    pub name: String,
    /// `host:port`.
    pub authority: String,
}

impl Target {
    pub fn parse(url: &str) -> Result<Target, SaverError> {
        let (url, verifies) = without_verification(url)?;
        let config: Config = url.parse().map_err(|error| refused(chain(&error)))?;
        let unsupported = if config.get_user().is_none() {
            "it names no user; write postgres://user:password@host/database"
        } else if config.get_target_session_attrs() != TargetSessionAttrs::Any {
            "target_session_attrs is not supported; name the primary"
        } else if config.get_load_balance_hosts() != LoadBalanceHosts::Disable {
            "load_balance_hosts is not supported; hosts are tried in order"
        } else if config.get_tcp_user_timeout().is_some() {
            "tcp_user_timeout is not supported; see PostgresOptions::answer_limit"
        } else {
            ""
        };
        if !unsupported.is_empty() {
            return Err(refused(unsupported));
        }
        let connect_limit = config.get_connect_timeout().copied().filter(|limit| !limit.is_zero());
        Ok(Target { servers: servers(&config)?, config, verifies, connect_limit })
    }

    /// Where it is, for messages; never with the password.
    pub fn name(&self) -> String {
        let database = self.config.get_dbname().or(self.config.get_user()).unwrap_or_default();
        let servers: Vec<&str> = self.servers.iter().map(|server| &*server.authority).collect();
        format!("database {database:?} on {}", servers.join(" or "))
    }
}

fn servers(config: &Config) -> Result<Vec<Server>, SaverError> {
    let (hosts, addresses, ports) =
        (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
    let mut servers = Vec::new();
    for nth in 0..hosts.len().max(addresses.len()) {
        let host = match hosts.get(nth) {
            Some(Host::Tcp(host)) => Some(host.clone()),
            Some(_) => return Err(refused("Unix sockets are not supported; name a host")),
            None => None,
        };
        let address = addresses.get(nth).map(ToString::to_string);
        let name = host.clone().or(address.clone()).unwrap_or_default();
        let at = address.or(host).unwrap_or_default();
        let at = if at.contains(':') { format!("[{at}]") } else { at };
        let port = ports.get(nth).or(ports.first()).copied().unwrap_or(5432);
        servers.push(Server { name, authority: format!("{at}:{port}") });
    }
    match servers.is_empty() {
        true => Err(refused("it names no host; write postgres://user:password@host/database")),
        false => Ok(servers),
    }
}

/// The URL in words that tokio-postgres knows, which leaves verification to others.
fn without_verification(url: &str) -> Result<(String, bool), SaverError> {
    let separators = |c: char| c == '?' || c == '&' || c.is_ascii_whitespace();
    let part = |key: &str| {
        let found = url.split(separators).skip(1).find_map(|part| part.strip_prefix(key));
        found.and_then(|rest| rest.strip_prefix('='))
    };
    if part("sslrootcert").is_some() {
        return Err(refused(
            "sslrootcert is not supported; give the certificates as \
             PostgresOptions::root_certificates",
        ));
    }
    match part("sslmode") {
        Some("verify-full") => {
            Ok((url.replacen("sslmode=verify-full", "sslmode=require", 1), true))
        }
        Some("verify-ca") => Err(refused("sslmode=verify-ca is not supported; use verify-full")),
        Some("allow") => Err(refused("sslmode=allow is not supported; use prefer")),
        _ => Ok((url.to_owned(), false)),
    }
}

pub(super) fn refused(problem: impl std::fmt::Display) -> SaverError {
    SaverError::Store(format!("the postgres URL cannot be used: {problem}"))
}
