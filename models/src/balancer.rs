//! A load balancer that passes bytes on: one backend per connection, in turn.
//!
//! Whichever side ends first, the other learns of it: an end of file is passed on as one, and when
//! a side breaks, the other is closed too.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use durasim_sim::{Labels, Process, SimStream, World};

/// Starts a process `name` that listens on `port` and spreads connections over `backends`, each a
/// process name with the same port. A backend that refuses is skipped; when all do, the client's
/// connection is closed without an answer.
pub fn start(world: &World, name: &str, port: u16, backends: Vec<String>) -> Process {
    let backends: Arc<[String]> = backends.into();
    world.process(name, name, move |process| {
        let backends = backends.clone();
        Box::pin(async move {
            let listener = process.listen(port).expect("the port is free");
            let turn = Arc::new(AtomicUsize::new(0));
            while let Ok(client) = listener.accept().await {
                let passing = pass(process.clone(), client, backends.clone(), turn.clone(), port);
                drop(process.spawn("connection", passing));
            }
        })
    })
}

async fn pass(
    process: Process,
    mut client: SimStream,
    backends: Arc<[String]>,
    turn: Arc<AtomicUsize>,
    port: u16,
) {
    for _ in 0..backends.len() {
        let backend = &backends[turn.fetch_add(1, Ordering::Relaxed) % backends.len()];
        let Ok(mut server) = process.connect(backend, port).await else { continue };
        let fields = vec![("client", client.peer().into()), ("backend", backend.as_str().into())];
        process.note(Labels::none(), "balancer.routed", fields);
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
        return;
    }
}
