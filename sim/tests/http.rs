//! hyper, unmodified, at both ends of the simulated wire.
#![cfg(madsim)]

mod common;

use std::time::Duration;

use durasim_sim::{Event, Finished, LinkSpec, RunOptions, run};

const MS: Duration = Duration::from_millis(1);

/// One client asks for ten chunks, ten milliseconds apart, and takes so many of them.
fn stream(limit: usize) -> Finished<Result<usize, String>> {
    run(1, RunOptions::default(), move |world| {
        Box::pin(async move {
            world.net().set_default_link(LinkSpec::fixed(3 * MS));
            world.process("server", "server", common::server(10, 10 * MS));
            let client = world.process("client", "client", |_| Box::pin(async {}));
            let get = common::get(client.clone(), "/booking".into(), limit);
            let got = client.spawn("main", get).await.unwrap();
            world.sleep(20 * MS).await;
            got
        })
    })
}

fn event<'a>(trace: &'a [Event], name: &str) -> &'a Event {
    trace.iter().find(|e| e.name == name).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn a_streaming_body_arrives_whole() {
    let finished = stream(usize::MAX);
    assert_eq!(finished.value, Ok(Ok(80)));
    assert_eq!(event(&finished.trace, "body.dropped").get("left").unwrap().as_u64(), Some(0));
    assert_eq!(finished.leaked_tasks, 0);
}

#[test]
fn a_client_that_leaves_drops_the_body_after_the_latency_of_its_fin() {
    let finished = stream(3);
    assert_eq!(finished.value, Ok(Ok(24)));
    let (left, dropped) =
        (event(&finished.trace, "client.done"), event(&finished.trace, "body.dropped"));
    let after = dropped.at - left.at;
    assert!(after >= 3 * MS && after < 3 * MS + MS / 10, "{after:?}");
    assert_eq!(dropped.get("left").unwrap().as_u64(), Some(7));
}

#[test]
fn the_ends_do_not_keep_each_other_awake() {
    // A flush that sends makes two hyper ends wake each other forever: tens of thousands of polls.
    let polls = stream(usize::MAX).polls;
    assert!(polls < 200, "{polls}");
}
