//! What clients do.

use durasim_properties::scenario::{Client, Leave, Step};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value as Json, json};

/// One or two clients, on one thread or on two. `input` is what each of their messages says.
///
/// No two resumes of a thread overlap: only the first of two clients on it continues or answers, and
/// it stays for the end of every one but the last. Two resumes of one checkpoint share its task ids,
/// so both take the same pending write over, and one execution comes to lie on two edges of the
/// tree. That is no mistake of the runtime's but what two resumes do, and `two_resumes.rs` shows it.
pub fn clients(input: Json) -> impl Strategy<Value = Vec<Client>> {
    let second = prop::option::weighted(0.4, (script(input.clone()), any::<bool>()));
    (opening(input.clone()), script(input.clone()), second).prop_map(
        move |(first, rest, second)| {
            let mut clients = vec![client("alice", "trip-7", [vec![first], rest].concat())];
            if let Some((script, shares)) = second {
                let script = if shares { without_resumes(script, &input) } else { script };
                clients.push(client("bob", if shares { "trip-7" } else { "trip-8" }, script));
            }
            clients
        },
    )
}

fn client(name: &str, thread: &str, mut script: Vec<Step>) -> Client {
    let mut resumes: Vec<&mut Leave> = script.iter_mut().filter_map(resume).collect();
    resumes.pop();
    resumes.into_iter().for_each(|leave| *leave = Leave::Never);
    Client { name: name.to_owned(), thread: thread.to_owned(), script }
}

fn opening(input: Json) -> impl Strategy<Value = Step> {
    leave().prop_map(move |leave| Step::Send { input: input.clone(), leave })
}

fn script(input: Json) -> impl Strategy<Value = Vec<Step>> {
    let waits = prop_oneof![Just(0), Just(30), 0..1_000u64, Just(6_000)];
    let step = prop_oneof![
        3 => leave().prop_map(move |leave| Step::Send { input: input.clone(), leave }),
        3 => leave().prop_map(|leave| Step::Continue { leave }),
        2 => leave().prop_map(|leave| Step::Answer { value: json!(true), leave }),
        3 => waits.prop_map(|ms| Step::Wait { ms }),
        1 => Just(Step::Reload),
    ];
    vec(step, 0..=4)
}

fn leave() -> impl Strategy<Value = Leave> {
    prop_oneof![
        3 => Just(Leave::Never),
        2 => (1..=4u64).prop_map(Leave::AfterChunk),
        3 => prop_oneof![Just(200), Just(1_000), Just(5_000)]
            .prop_map(|most| Leave::WithinMs([0, most])),
    ]
}

/// How a step that resumes is left.
fn resume(step: &mut Step) -> Option<&mut Leave> {
    match step {
        Step::Continue { leave } | Step::Answer { leave, .. } => Some(leave),
        _ => None,
    }
}

fn without_resumes(script: Vec<Step>, input: &Json) -> Vec<Step> {
    let step = |mut step| match resume(&mut step).copied() {
        Some(leave) => Step::Send { input: input.clone(), leave },
        None => step,
    };
    script.into_iter().map(step).collect()
}
