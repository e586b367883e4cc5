//! The accept loop: HTTP/1.1 over whatever the listener door gives.

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;

use crate::doors::{Doors, Listener};

/// Serves `router` until the listener fails. Each connection is a task of its own.
pub async fn serve(
    mut listener: impl Listener,
    router: Router,
    doors: &Doors,
) -> std::io::Result<()> {
    let mut count = 0_u64;
    loop {
        let (io, peer) = listener.accept().await?;
        let service = TowerToHyperService::new(router.clone());
        let connection = async move {
            let served = http1::Builder::new().serve_connection(TokioIo::new(io), service).await;
            if let Err(error) = served {
                tracing::debug!(%peer, %error, "connection ended early");
            }
        };
        count += 1;
        drop(doors.executor.spawn(&format!("connection/{count}"), connection));
    }
}
