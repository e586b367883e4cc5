//! In a build without the feature `tls`.

use tokio_postgres::NoTls;
use tokio_postgres::config::SslMode;

use super::target::{Server, Target, refused};
use crate::checkpoint::saver::SaverError;
use crate::doors::Doors;

#[derive(Clone)]
pub(super) struct Tls;

impl Tls {
    pub fn new(target: &Target, _: &Doors, _: Option<&str>) -> Result<Tls, SaverError> {
        match target.config.get_ssl_mode() {
            SslMode::Disable | SslMode::Prefer => Ok(Tls),
            _ => Err(refused("this build has no TLS; build it with the feature tls")),
        }
    }

    pub fn to(&self, _: &Server) -> NoTls {
        NoTls
    }
}
