//! The payment provider, held against the contract that it stands for: Stripe's idempotent requests
//! (<https://docs.stripe.com/api/idempotent_requests>, API v1), charges and refunds.
#![cfg(madsim)]

mod common;

use std::collections::BTreeSet;
use std::time::Duration;

use common::{MS, Seen, play, settings};
use durasim_models::{ChargeState, PaymentSettings};
use durasim_sim::{Choice, Event, Finished};
use futures::future::join;
use serde_json::json;

const ALWAYS: [u64; 2] = [1, 1];

/// The payment events of a trace, in order.
fn events(finished: &Finished<()>) -> Vec<&'static str> {
    let names = finished.trace.iter().map(|event| event.name);
    names.filter(|name| name.starts_with("payment.")).collect()
}

fn event<'a>(finished: &'a Finished<()>, name: &str) -> &'a Event {
    finished.trace.iter().find(|event| event.name == name).unwrap_or_else(|| panic!("no {name}"))
}

fn text<'a>(event: &'a Event, field: &str) -> Option<&'a str> {
    event.get(field).and_then(|value| value.as_str())
}

#[test]
fn a_charge_is_made_answered_and_traced() {
    let finished = play(1, settings(), |stage| async move {
        let seen = stage.charge("booking-1", 500, Some("key-1")).await;
        assert_eq!((seen.status(), seen.replayed()), (200, false));
        assert_eq!(seen.body()["id"], "ch_1");
        let charges = stage.ledger.charges();
        assert_eq!(charges.len(), 1);
        assert_eq!(&*charges[0].business_id, "booking-1");
        assert_eq!(charges[0].idempotency_key.as_deref(), Some("key-1"));
        assert_eq!((charges[0].amount_cents, charges[0].state), (500, ChargeState::Succeeded));
    });
    assert_eq!(events(&finished), ["payment.requested", "payment.charged"]);
    let charged = event(&finished, "payment.charged");
    assert_eq!(&*charged.process, "payments");
    assert_eq!(charged.labels.request.as_deref(), Some("request-1"));
    assert_eq!(charged.labels.thread, None);
    assert_eq!(text(charged, "charge"), Some("ch_1"));
    assert_eq!(text(charged, "business"), Some("booking-1"));
    assert_eq!(text(charged, "key"), Some("key-1"));
    assert_eq!(charged.get("cents").and_then(|cents| cents.as_u64()), Some(500));
}

#[test]
fn the_same_key_replays_the_first_answer() {
    let finished = play(1, settings(), |stage| async move {
        let first = stage.charge("booking-1", 500, Some("key-1")).await;
        let second = stage.charge("booking-1", 500, Some("key-1")).await;
        assert!(second.replayed());
        assert_eq!((second.status(), second.body()), (first.status(), first.body()));
        assert_eq!(stage.ledger.net_cents("booking-1"), 500);
        stage.charge("booking-1", 500, Some("key-2")).await;
        assert_eq!(stage.ledger.net_cents("booking-1"), 1000);
    });
    let told = ["payment.requested", "payment.charged", "payment.requested", "payment.replayed"];
    assert_eq!(events(&finished)[..4], told);
}

#[test]
fn a_saved_500_is_replayed_whether_money_moved_or_not() {
    for (settings, paid) in [
        (PaymentSettings { fail_before: ALWAYS, ..settings() }, 0),
        (PaymentSettings { fail_after: ALWAYS, ..settings() }, 500),
    ] {
        play(1, settings, move |stage| async move {
            let first = stage.charge("booking-1", 500, Some("key-1")).await;
            assert_eq!((first.status(), first.replayed()), (500, false));
            assert_eq!(first.error(), "api_error");
            let second = stage.charge("booking-1", 500, Some("key-1")).await;
            assert_eq!((second.status(), second.replayed()), (500, true));
            assert_eq!(second.body(), first.body());
            assert_eq!(stage.ledger.net_cents("booking-1"), paid);
        });
    }
}

#[test]
fn a_concurrent_request_with_the_same_key_is_told_409_and_a_later_one_gets_the_replay() {
    let finished = play(1, settings(), |stage| async move {
        // Before the charge takes effect at 100 ms, and after it, before the answer at 150 ms.
        for (key, after) in [("key-1", 40), ("key-2", 120)] {
            let slow = async {
                stage.wait(after).await;
                stage.charge(key, 500, Some(key)).await
            };
            let (first, second) = join(stage.charge(key, 500, Some(key)), slow).await;
            assert_eq!(first.status(), 200);
            assert_eq!((second.status(), second.replayed()), (409, false));
            assert_eq!(second.body()["error"]["code"], "idempotency_key_in_use");
            let third = stage.charge(key, 500, Some(key)).await;
            assert_eq!((third.status(), third.replayed()), (200, true));
            assert_eq!(third.body(), first.body());
            assert_eq!(stage.ledger.of_business(key).len(), 1);
        }
    });
    let conflicts = events(&finished).into_iter().filter(|name| *name == "payment.conflict");
    assert_eq!(conflicts.count(), 2);
}

#[test]
fn a_key_is_for_one_set_of_parameters_and_one_endpoint() {
    play(1, settings(), |stage| async move {
        stage.charge("booking-1", 500, Some("key-1")).await;
        let others = [
            stage.charge("booking-1", 501, Some("key-1")).await,
            stage.charge("booking-2", 500, Some("key-1")).await,
            stage.refund("ch_1", None, Some("key-1")).await,
        ];
        for seen in others {
            assert_eq!((seen.status(), seen.replayed()), (400, false));
            assert_eq!(seen.error(), "idempotency_error");
        }
        assert_eq!((stage.ledger.charges().len(), stage.ledger.refunds().len()), (1, 0));
        assert!(stage.charge("booking-1", 500, Some("key-1")).await.replayed());
    });
}

#[test]
fn what_fails_validation_leaves_nothing_behind_not_even_its_key() {
    play(1, settings(), |stage| async move {
        let bad = [
            r#"{"amount_cents": 500}"#,
            r#"{"business_id": "booking-1"}"#,
            r#"{"business_id": "", "amount_cents": 500}"#,
            r#"{"business_id": "booking-1", "amount_cents": -500}"#,
            r#"{"business_id": "booking-1", "amount_cents": 0}"#,
            r#"{"business_id": "booking-1", "amount_cents": 100000000}"#,
            r#"{"business_id": "booking-1", "amount_cents": 500, "tip": 1}"#,
            r#"["booking-1", 500]"#,
            "no JSON",
        ];
        for body in bad {
            let seen = stage.post("/v1/charges", Some("key-1"), body).await;
            assert_eq!((seen.status(), seen.error()), (400, "invalid_request_error"), "{body}");
        }
        let too_long = stage.charge("booking-1", 500, Some(&"k".repeat(256))).await;
        assert_eq!(too_long.status(), 400);
        assert!(stage.ledger.charges().is_empty());
        for key in ["key-1", &"k".repeat(255)] {
            let seen = stage.charge("booking-1", 500, Some(key)).await;
            assert_eq!((seen.status(), seen.replayed()), (200, false));
        }
    });
}

#[test]
fn a_key_lives_for_24_hours() {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    play(1, settings(), |stage| async move {
        stage.charge("booking-1", 500, Some("key-1")).await;
        stage.world.sleep(DAY - 200 * MS).await;
        assert!(stage.charge("booking-1", 500, Some("key-1")).await.replayed());
        stage.wait(1000).await;
        let anew = stage.charge("booking-1", 500, Some("key-1")).await;
        assert_eq!((anew.status(), anew.replayed()), (200, false));
        assert_eq!(stage.ledger.net_cents("booking-1"), 1000);
    });
}

#[test]
fn a_decline_is_an_answer_that_its_key_keeps() {
    let declining = PaymentSettings { decline_every: 2, ..settings() };
    let finished = play(1, declining, |stage| async move {
        assert_eq!(stage.charge("booking-1", 500, Some("key-1")).await.status(), 200);
        let declined = stage.charge("booking-1", 500, Some("key-2")).await;
        assert_eq!((declined.status(), declined.error()), (402, "card_error"));
        let again = stage.charge("booking-1", 500, Some("key-2")).await;
        assert_eq!((again.status(), again.replayed()), (402, true));
        assert_eq!(again.body(), declined.body());
        assert_eq!(stage.charge("booking-2", 500, None).await.status(), 200);
        assert_eq!(stage.ledger.of_business("booking-1")[1].state, ChargeState::Declined);
        assert_eq!(stage.ledger.net_cents("booking-1"), 500);
        assert_eq!(stage.refund("ch_2", None, None).await.status(), 400);
    });
    assert_eq!(text(event(&finished, "payment.declined"), "charge"), Some("ch_2"));
}

#[test]
fn no_more_is_given_back_than_was_taken() {
    let finished = play(1, settings(), |stage| async move {
        stage.charge("booking-1", 500, None).await;
        assert_eq!(stage.refund("ch_1", Some(501), None).await.status(), 400);
        assert_eq!(stage.refund("ch_1", Some(0), None).await.status(), 400);
        assert_eq!(stage.refund("ch_1", Some(200), Some("key-1")).await.body()["id"], "re_1");
        assert!(stage.refund("ch_1", Some(200), Some("key-1")).await.replayed());
        assert_eq!(stage.ledger.net_cents("booking-1"), 300);
        assert_eq!(stage.ledger.charges()[0].state, ChargeState::Succeeded);
        assert_eq!(stage.refund("ch_1", Some(301), None).await.status(), 400);
        assert_eq!(stage.refund("ch_1", None, None).await.body()["amount_cents"], 300);
        assert_eq!(stage.ledger.charges()[0].state, ChargeState::Refunded);
        let spent = stage.refund("ch_1", None, None).await;
        assert_eq!(spent.body()["error"]["code"], "charge_already_refunded");
        // Unknown to the account, found while executing: an answer that its key keeps.
        assert_eq!(stage.refund("ch_9", None, Some("key-2")).await.status(), 404);
        assert!(stage.refund("ch_9", None, Some("key-2")).await.replayed());
        let refunded: Vec<u64> = stage.ledger.refunds().iter().map(|r| r.amount_cents).collect();
        assert_eq!(refunded, [200, 300]);
        assert_eq!(stage.ledger.net_cents("booking-1"), 0);
    });
    assert_eq!(text(event(&finished, "payment.refunded"), "business"), Some("booking-1"));
}

#[test]
fn charges_are_found_by_business_id_and_by_their_own() {
    let lagging = PaymentSettings { lookup_lag_ms: 60_000, ..settings() };
    play(1, lagging, |stage| async move {
        for cents in [100, 200] {
            stage.charge("booking 1", cents, None).await;
        }
        stage.charge("booking-2", 300, None).await;
        let one = stage.get("/v1/charges/ch_2").await;
        assert_eq!((one.status(), &one.body()["amount_cents"]), (200, &json!(200)));
        assert_eq!(stage.get("/v1/charges/ch_9").await.status(), 404);
        let early = stage.get("/v1/charges?business_id=booking+1").await;
        assert_eq!(early.body()["data"], json!([]), "the look-up lags");
        stage.wait(60_000).await;
        for path in ["/v1/charges?business_id=booking+1", "/v1/charges?business_id=booking%201"] {
            let seen = stage.get(path).await;
            let ids: Vec<_> = seen.body()["data"].as_array().unwrap().iter().collect();
            assert_eq!(
                (ids.len(), &ids[0]["id"], &ids[1]["id"]),
                (2, &json!("ch_2"), &json!("ch_1"))
            );
        }
        assert_eq!(stage.get("/v1/charges").await.status(), 400);
        assert_eq!(stage.get("/v1/nothing").await.status(), 404);
    });
}

#[test]
fn a_client_that_hangs_up_is_charged_and_its_retry_gets_the_replay() {
    play(1, settings(), |stage| async move {
        stage.charge_and_hang_up("booking-1", 500, "key-1", 20).await;
        stage.wait(20).await;
        assert!(stage.ledger.charges().is_empty(), "the charge is still under way");
        assert_eq!(stage.charge("booking-1", 500, Some("key-1")).await.status(), 409);
        stage.wait(200).await;
        assert_eq!(stage.ledger.net_cents("booking-1"), 500);
        let retry = stage.charge("booking-1", 500, Some("key-1")).await;
        assert_eq!((retry.status(), retry.replayed()), (200, true));
        assert_eq!(stage.ledger.net_cents("booking-1"), 500);
    });
}

#[test]
fn after_a_lost_reply_a_key_makes_one_charge_and_no_key_makes_two() {
    let losing = PaymentSettings { lose_reply: ALWAYS, ..settings() };
    let finished = play(1, losing, |stage| async move {
        assert_eq!(stage.charge("booking-1", 500, Some("key-1")).await, Seen::Broken);
        assert_eq!(stage.ledger.net_cents("booking-1"), 500, "the charge was made all the same");
        let retry = stage.charge("booking-1", 500, Some("key-1")).await;
        assert_eq!((retry.status(), retry.replayed()), (200, true));
        assert_eq!(stage.ledger.of_business("booking-1").len(), 1);

        for _ in 0..2 {
            assert_eq!(stage.charge("booking-2", 500, None).await, Seen::Broken);
        }
        assert_eq!(stage.ledger.of_business("booking-2").len(), 2);
    });
    let lost = events(&finished).into_iter().filter(|name| *name == "payment.reply_lost").count();
    assert_eq!(lost, 3);
}

#[test]
fn a_kill_keeps_what_took_effect_and_frees_the_key_of_what_did_not() {
    // The request arrives at 3 ms, takes effect 100 later, and would be answered 50 after that.
    for (killed_after, charges, replayed) in [(50, 0, false), (130, 1, true)] {
        play(1, settings(), move |stage| async move {
            let kill = async {
                stage.wait(killed_after).await;
                stage.provider.restart();
            };
            let (seen, ()) = join(stage.charge("booking-1", 500, Some("key-1")), kill).await;
            assert_eq!(seen, Seen::Broken);
            assert_eq!(stage.ledger.charges().len(), charges);
            let retry = stage.charge("booking-1", 500, Some("key-1")).await;
            assert_eq!((retry.status(), retry.replayed()), (200, replayed));
            assert_eq!(stage.ledger.net_cents("booking-1"), 500);
        });
    }
}

/// Two clients under every mishap; the second may be away.
fn busy(seed: u64, second_too: bool) -> Finished<()> {
    let some = PaymentSettings {
        decline: [1, 4],
        fail_before: [1, 4],
        fail_after: [1, 4],
        lose_reply: [1, 4],
        ..PaymentSettings::default()
    };
    play(seed, some, move |stage| async move {
        let many = async |business: &'static str| {
            for n in 0..10 {
                stage.charge(business, 500, Some(&format!("{business}/{n}"))).await;
            }
        };
        match second_too {
            true => drop(join(many("booking-1"), many("booking-2")).await),
            false => many("booking-1").await,
        }
    })
}

#[test]
fn a_seed_decides_everything() {
    let hashes: Vec<u64> = (0..8).map(|seed| busy(seed, true).hash).collect();
    assert_eq!(hashes, (0..8).map(|seed| busy(seed, true).hash).collect::<Vec<_>>());
    assert_eq!(hashes.iter().collect::<BTreeSet<_>>().len(), 8);
}

#[test]
fn what_befalls_one_client_does_not_depend_on_another() {
    let draws = |finished: &Finished<()>| -> Vec<Choice> {
        let tape = finished.tape.iter().filter(|draw| draw.label.starts_with("payment."));
        tape.filter(|draw| &*draw.actor == "booking-1").cloned().collect()
    };
    let outcomes = |finished: &Finished<()>| -> Vec<(&'static str, Option<String>)> {
        let mine = finished.trace.iter().filter(|e| text(e, "business") == Some("booking-1"));
        mine.map(|e| (e.name, text(e, "key").map(str::to_owned))).collect()
    };
    let (alone, together) = (busy(7, false), busy(7, true));
    assert_eq!(draws(&alone), draws(&together));
    assert_eq!(outcomes(&alone), outcomes(&together));
    for name in ["payment.declined", "payment.failed", "payment.reply_lost", "payment.charged"] {
        event(&alone, name);
    }
}
