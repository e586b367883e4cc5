//! A shop's graph, its bank, and the one thing that must never happen. Try `cargo run`.

use durasim_properties::prelude::*;

fn main() -> std::process::ExitCode {
    let registry = Registry::new()
        .graph("order", order)
        .model("bank", 4000, bank)
        .property(Property::new("paid-once", "the bank pays once per thread", paid_once))
        .scenario_json(include_str!("../impatient-customer.json"));
    durasim_properties::main(registry)
}

/// Reserve, pay, confirm. Paying is a call to the bank.
fn order(world: &GraphWorld) -> StateGraph {
    let world = world.clone();
    let pay = move |_, context: NodeContext| {
        let world = world.clone();
        async move {
            let paid = world.ask(&context, "bank:4000", context.thread().unwrap_or("-")).await?;
            Ok(Update::new().set("status", paid))
        }
    };
    StateGraph::new("order")
        .key("status")
        .node("reserve", |_, _| async { Ok(Update::new().set("status", "reserved")) })
        .node("pay", pay)
        .node("confirm", |_, _| async { Ok(Update::new().set("status", "confirmed")) })
        .edge(START, "reserve")
        .edge("reserve", "pay")
        .edge("pay", "confirm")
        .edge("confirm", END)
}

/// The bank pays whatever it is asked to.
async fn bank(mut call: Call) {
    while let Some(thread) = call.read_line().await {
        call.note("bank.paid", &thread);
        call.write_line("paid").await;
    }
}

fn paid_once(outcome: &Outcome) -> Vec<(String, String)> {
    let paid = outcome.trace.iter().filter(|event| event.name == "bank.paid").count();
    if paid > 1 { vec![("order-1".into(), format!("the bank paid {paid} times"))] } else { vec![] }
}
