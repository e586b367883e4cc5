//! A booking that asks before it charges: `cargo run -p durasim-runtime --example booking`.

use std::error::Error;
use std::sync::Arc;

use durasim_runtime::checkpoint::memory::MemorySaver;
use durasim_runtime::pregel::{Command, Input, RunConfig};
use durasim_runtime::{Doors, END, NodeContext, NodeError, Profile, START, State, TypedGraph};

#[derive(Debug, State)]
struct Booking {
    #[state(append)]
    messages: Vec<String>,
    guests: u32,
    price: Option<u32>,
    #[state(default)]
    approved: bool,
}

async fn plan(booking: Booking, _: NodeContext) -> Result<BookingUpdate, NodeError> {
    let price = 40 * booking.guests;
    let offer = format!("a table for {} at {price} euros", booking.guests);
    Ok(Booking::update().price(price).messages([offer]))
}

async fn approve(booking: Booking, context: NodeContext) -> Result<BookingUpdate, NodeError> {
    let answer = context.interrupt(format!("{}: pay?", booking.messages.join(", ")))?;
    Ok(Booking::update().approved(answer.as_bool() == Some(true)))
}

async fn charge(booking: Booking, _: NodeContext) -> Result<BookingUpdate, NodeError> {
    let paid = format!("paid {} euros", booking.price.unwrap_or_default());
    Ok(Booking::update().messages([paid]))
}

fn graph() -> TypedGraph<Booking> {
    TypedGraph::new("booking")
        .node("plan", plan)
        .node("approve", approve)
        .node("charge", charge)
        .sequence(&[START, "plan", "approve"])
        .branch("approve", &["charge", END], |booking: &Booking| match booking.approved {
            true => "charge",
            false => END,
        })
        .edge("charge", END)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let doors = Doors::production();
    let saver = Arc::new(MemorySaver::new(&doors));
    let graph = graph().compile(Some(saver), &doors, Profile::Safe.options())?;

    let thread = RunConfig::new("table-7");
    graph.invoke(Input::of(Booking::update().guests(3))?, thread.clone()).await?;
    let paused = graph.get_state("table-7", None).await?;
    println!("it asks: {}", paused.tasks[0].interrupts[0].0);

    graph.invoke(Input::Command(Command::resume(true)), thread).await?;
    let booking: Booking = graph.get_state("table-7", None).await?.values.to()?;
    println!("{booking:#?}");
    Ok(())
}
