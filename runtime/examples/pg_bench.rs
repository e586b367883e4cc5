use durasim_runtime::checkpoint::id::IdMint;
use durasim_runtime::checkpoint::postgres::*;
use durasim_runtime::checkpoint::saver::*;
use durasim_runtime::checkpoint::*;
use durasim_runtime::{Doors, Saver, Value};
use std::sync::Arc;
use std::time::Instant;
#[allow(clippy::all, clippy::disallowed_methods)]
#[tokio::main(flavor = "current_thread")]
async fn main() {
    let url = std::env::args().nth(1).unwrap();
    let doors = Doors::production();
    let saver = PostgresSaver::open(&url, &doors).await.unwrap();
    let mint = IdMint::new(&doors);
    let key = ThreadKey::root("bench");
    saver.delete_thread("bench").await.unwrap();
    let big: Arc<Value> = Arc::new(Value::Binary(vec![7; 1 << 20]));
    for (name, claimed, with_big) in [
        ("plain", false, false),
        ("claimed", true, false),
        ("plain", false, false),
        ("claimed", true, false),
        ("claimed+1MiB untouched", true, true),
    ] {
        let claim = || Claim { since: claimed.then(|| mint.moment()), parent_is_head: false };
        let mut parent: Option<Arc<str>> = None;
        let n = 2000;
        let mut times = [0f64; 2];
        for i in 0..n {
            let id = mint.mint(i);
            let v: Arc<str> = format!("{:032}.0.{}", i + 1, rand(&doors)).into();
            let mut c = Checkpoint {
                layout: durasim_runtime::checkpoint::LAYOUT_VERSION,
                ts: "2026-11-29T18:57:34.411469+00:00".into(),
                id: id.clone(),
                channel_values: Default::default(),
                channel_versions: Default::default(),
                versions_seen: Default::default(),
                updated_channels: None,
            };
            c.channel_values.insert("steps".into(), Arc::new(Value::Array(vec!["a".into(); 10])));
            c.channel_values.insert("branch:to:b".into(), Arc::new(Value::Nil));
            c.channel_versions.insert("steps".into(), v.clone());
            c.channel_versions.insert("branch:to:b".into(), v.clone());
            let new = c.channel_versions.clone();
            if with_big {
                c.channel_values.insert("big".into(), big.clone());
                c.channel_versions
                    .insert("big".into(), "00000000000000000000000000000001.0.1".into());
            }
            let m = Metadata {
                source: Source::Loop,
                step: i,
                parents: Default::default(),
                extra: Default::default(),
            };
            let mut w = PutWrites::new(
                &key,
                &id,
                "8e5a7c7e-9a4d-4b0c-9bd6-9a1a2a7f2a3f",
                "~__pregel_pull, a",
                vec![
                    ("steps".into(), Arc::new(Value::Array(vec!["a".into()]))),
                    ("branch:to:b".into(), Arc::new(Value::Nil)),
                ],
            );
            w.claim = claim();
            let mut p = Put::new(&key, parent.as_deref(), c, m);
            p.new_versions = new;
            p.claim = claim();
            let t = Instant::now();
            saver.put_writes(w).await.unwrap();
            times[0] += t.elapsed().as_secs_f64();
            let t = Instant::now();
            saver.put(p).await.unwrap();
            times[1] += t.elapsed().as_secs_f64();
            parent = Some(id);
        }
        println!(
            "{name}: put_writes {:.0} us, put {:.0} us",
            times[0] / n as f64 * 1e6,
            times[1] / n as f64 * 1e6
        );
    }
    let t = Instant::now();
    for _ in 0..500 {
        saver.get_tuple(&key, None).await.unwrap();
    }
    println!("get {:.0} us", t.elapsed().as_secs_f64() / 500. * 1e6);
}
fn rand(d: &Doors) -> u64 {
    d.entropy.u64("x")
}
