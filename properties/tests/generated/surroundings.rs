//! Everything around a graph and its clients: how it is served and stored, and what goes wrong.

use durasim_models::PaymentSettings;
use durasim_properties::Scenario;
use durasim_properties::scenario::{Delays, Effects, Fault, Shape, Store, When, server_name};
use durasim_runtime::{CancelStyle, Durability, Profile, StreamMode};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use crate::{graphs, scripts};

/// A graph of its own, disturbed.
pub fn scenario() -> impl Strategy<Value = Scenario> {
    let clients = scripts::clients(json!({ "steps": [], "laps": 0 }));
    (graphs::graph(), clients, surroundings()).prop_map(|((kind, graph), clients, around)| {
        let name = format!("generated {kind}");
        Scenario { name, graph: kind.to_owned(), declared: Some(graph), clients, ..around }
    })
}

/// The paying graph with a provider that loses replies. Every message means the same booking.
pub fn paying() -> impl Strategy<Value = Scenario> {
    let clients = scripts::clients(json!({ "steps": [], "booking": "b-1" }));
    let latency = prop_oneof![Just([0, 5]), Just([5, 80]), Just([100, 900])];
    (clients, surroundings(), latency, 0..=2u64).prop_map(|(clients, around, latency, lost)| {
        let provider = PaymentSettings {
            latency_before_ms: latency,
            lose_reply: [lost, 4],
            ..PaymentSettings::default()
        };
        let (name, graph) = ("generated booking".to_owned(), "pay-booking-key".to_owned());
        Scenario { name, graph, effects: Effects::Http, provider, clients, ..around }
    })
}

/// A scenario without a graph or clients. What does not go together is put right: several workers
/// share no memory, and a direct client would die with its process.
fn surroundings() -> impl Strategy<Value = Scenario> {
    let kept = (
        select(&[Durability::Sync, Durability::Async, Durability::Exit][..]),
        select(&[Store::Sqlite, Store::Memory][..]),
        select(&[Profile::Safe, Profile::Faithful][..]),
        delays(),
    );
    let served = (
        select(&[Shape::Inline, Shape::Direct, Shape::Background, Shape::Shielded][..]),
        select(&[CancelStyle::Scope, CancelStyle::Task, CancelStyle::Close][..]),
        modes(),
        1..=2u32,
    );
    let parts = (kept, served, vec(fault(), 0..=2), any::<u64>());
    parts.prop_map(|(kept, served, mut faults, seed)| {
        let (durability, store, profile, delays) = kept;
        let (shape, cancel, stream_modes, mut workers) = served;
        if store == Store::Memory || shape == Shape::Direct {
            workers = 1;
        }
        if shape == Shape::Direct {
            faults.retain(|fault| !matches!(fault, Fault::Kill { .. }));
        }
        for fault in &mut faults {
            if let Fault::Kill { process, .. } = fault
                && workers == 1
            {
                *process = server_name(1);
            }
        }
        Scenario {
            durability,
            store,
            profile,
            delays,
            shape,
            cancel,
            stream_modes,
            workers,
            faults,
            seed: seed >> 11,
            ..Scenario::default()
        }
    })
}

fn delays() -> impl Strategy<Value = Delays> {
    let slowest = || prop_oneof![Just(0), Just(30), Just(900)];
    let delays = (slowest(), slowest(), prop_oneof![Just([1, 1]), Just([1, 5]), Just([20, 120])]);
    delays.prop_map(|(put, writes, network_ms)| Delays {
        put_ms: [0, put],
        put_writes_ms: [0, writes],
        network_ms,
    })
}

/// Mode `custom` makes every node a task of its own.
fn modes() -> impl Strategy<Value = Vec<StreamMode>> {
    prop_oneof![
        Just(vec![StreamMode::Updates]),
        Just(vec![StreamMode::Updates, StreamMode::Custom]),
        Just(vec![StreamMode::Values]),
        Just(vec![StreamMode::Values, StreamMode::Updates, StreamMode::Custom]),
        Just(vec![StreamMode::Custom]),
    ]
}

fn fault() -> impl Strategy<Value = Fault> {
    let kill = (1..=2u32, select(&[500, 3_000, 9_000][..]), select(&[1, 200, 6_000][..]));
    prop_oneof![
        kill.prop_map(|(nth, most, restart_after_ms)| Fault::Kill {
            process: server_name(nth),
            when: When::WithinMs([0, most]),
            restart_after_ms,
        }),
        (1..=12u64).prop_map(|nth| Fault::FailPut { nth }),
        (1..=12u64).prop_map(|nth| Fault::FailPutWrites { nth }),
    ]
}
