//! What the real stack did. Typed in by hand from the measurement's own tables; nothing here is
//! computed, and nothing here may be changed to please the simulator.
//!
//! The stack: LangGraph 1.2.9 behind FastAPI 0.118.3, Starlette 0.48.0 and uvicorn 0.38.0 over real
//! sockets, langgraph-checkpoint-sqlite 3.1.0 (and langgraph-checkpoint-postgres 3.1.1 on
//! PostgreSQL 15, with the same cells), Python 3.11, Linux, 2 cores.
//!
//! Cells are separated by blanks; `-` is empty. Transcripts are in letters: p plan, c charge,
//! n notify, f finish.

use durasim_runtime::{Durability, StreamMode};

use super::concurrent::Loads;
use super::handlers::{Handler, HandlerTable, Sample, Then};
use super::quantity::Quantity::{Checkpoints, Executed, Next, Problem, Stored};
use super::streaming::{End, Streamed};
use crate::scenario::{Leave, Shape};

/// A durability as a caller gives it. `None` is a caller that gives none.
type Given = Option<Durability>;

const DEFAULT: Given = None;
const SYNC: Given = Some(Durability::Sync);
const ASYNC: Given = Some(Durability::Async);
const EXIT: Given = Some(Durability::Exit);

/// Six chunks of visible progress, seen to the end or left at the third. The measurement has one
/// line for the three durabilities that store every step, because they gave the same.
#[rustfmt::skip]
pub(super) const STREAMING: &[Streamed] = &[
    // UI, stored chunks, checkpoint rows, write rows, next
    Streamed { graph: "monolithic", visible: StreamMode::Custom, given: &[DEFAULT, SYNC, ASYNC], end: End::Complete, cells: "6 6 3 10 -" },
    Streamed { graph: "monolithic", visible: StreamMode::Custom, given: &[DEFAULT, SYNC, ASYNC], end: End::Cancel3, cells: "3 0 2 7 long_streaming_node" },
    Streamed { graph: "monolithic", visible: StreamMode::Custom, given: &[EXIT], end: End::Complete, cells: "6 6 1 0 -" },
    Streamed { graph: "monolithic", visible: StreamMode::Custom, given: &[EXIT], end: End::Cancel3, cells: "3 0 1 0 long_streaming_node" },
    Streamed { graph: "stepwise", visible: StreamMode::Updates, given: &[DEFAULT, SYNC, ASYNC], end: End::Complete, cells: "6 6 8 35 -" },
    Streamed { graph: "stepwise", visible: StreamMode::Updates, given: &[DEFAULT, SYNC, ASYNC], end: End::Cancel3, cells: "3 3 4 21 -" },
    Streamed { graph: "stepwise", visible: StreamMode::Updates, given: &[EXIT], end: End::Complete, cells: "6 6 1 0 -" },
    Streamed { graph: "stepwise", visible: StreamMode::Updates, given: &[EXIT], end: End::Cancel3, cells: "3 3 1 5 -" },
];

/// A node with an effect on either side of its question, answered. Effects before and after the
/// question; checkpoint and write rows while it waits; the same rows when all is done.
pub(super) const INTERRUPT: [(Given, &str); 4] = [
    (DEFAULT, "2 1 3 6 4 10"),
    (SYNC, "2 1 3 6 4 10"),
    (ASYNC, "2 1 3 6 4 10"),
    (EXIT, "2 1 1 1 2 1"),
];

/// The tables of handlers, each with its own samples.
pub(super) const HANDLERS: &[HandlerTable] = &[BY_SHAPE, ORPHANS];

const BY_SHAPE: HandlerTable = HandlerTable {
    name: "handlers",
    title: "what a disconnect leaves behind, by shape of the handler",
    about: "The booking graph (p plan, c charge, n notify, f finish) streams its updates over \
            HTTP; the client leaves after the second chunk.\nLooked at 0.3 s and 4.3 s after \
            that; from there the thread gets a message, or, in a trial of its own, is continued \
            with None.\nexecuted: every effect of the thread. stored: the head's transcript. \
            ckpts: checkpoint rows.",
    keys: ["shape", "durability"],
    put_ms: 0,
    samples: &[
        Sample::After { ms: 300, shows: &[Executed, Stored, Next, Checkpoints] },
        Sample::After { ms: 4300, shows: &[Executed, Stored, Next, Checkpoints] },
        Sample::Then { next: Then::Message, shows: &[Executed, Stored] },
        Sample::Then { next: Then::Continue, shows: &[Executed, Stored, Problem] },
    ],
    rows: SHAPES,
};

/// The put takes longer than a chunk's way to the client and the close's way back, so that at sync
/// a disconnect after a chunk that leaves before its put always meets that put.
const ORPHANS: HandlerTable = HandlerTable {
    name: "orphans",
    title: "what runs on after a disconnect, by stream modes and width of the step",
    about: "Inline handlers. lin: the booking graph; fan: two notifications at once (a, b). With \
            custom or messages, or several\ntasks in the step, nodes run as tasks of their own: \
            they are not cancelled, and nothing records them.",
    keys: ["handler", "durability"],
    put_ms: 20,
    samples: &[
        Sample::After { ms: 4300, shows: &[Executed, Stored, Next, Checkpoints] },
        Sample::Then { next: Then::Message, shows: &[Executed, Stored] },
    ],
    rows: ON_THEIR_OWN,
};

#[rustfmt::skip]
const SHAPES: &[Handler] = &[
    // 0.3 s, 4.3 s: executed, stored, next, ckpts; a message: executed, transcript; None: executed, transcript, error
    left_at_2(Shape::Inline, SYNC, &["pc pc notify 4", "pc pc notify 4", "pcpcnf pcpcnf", "pcnf pcnf -"]),
    left_at_2(Shape::Inline, ASYNC, &["pc pc notify 4", "pc pc notify 4", "pcpcnf pcpcnf", "pcnf pcnf -"]),
    left_at_2(Shape::Inline, EXIT, &["pc - - 0", "pc - - 0", "pcpcnf pcnf", "pc - EmptyInputError"]),
    left_at_2(Shape::Shielded, SYNC, &["pc pc notify 4", "pcn pcn finish 5", "pcnpcnf pcnpcnf", "pcnf pcnf -"]),
    left_at_2(Shape::Shielded, ASYNC, &["pc pc notify 4", "pcn pcn finish 5", "pcnpcnf pcnpcnf", "pcnf pcnf -"]),
    left_at_2(Shape::Shielded, EXIT, &["pc - - 0", "pcn pcn finish 1", "pcnpcnf pcnpcnf", "pcnf pcnf -"]),
    left_at_2(Shape::Background, SYNC, &["pc pc notify 4", "pcnf pcnf - 6", "pcnfpcnf pcnfpcnf", "pcnf pcnf -"]),
    left_at_2(Shape::Background, ASYNC, &["pc pc notify 4", "pcnf pcnf - 6", "pcnfpcnf pcnfpcnf", "pcnf pcnf -"]),
    left_at_2(Shape::Background, EXIT, &["pc - - 0", "pcnf pcnf - 1", "pcnfpcnf pcnfpcnf", "pcnf pcnf -"]),
];

#[rustfmt::skip]
const ON_THEIR_OWN: &[Handler] = &[
    // 4.3 s: executed, stored, next, ckpts; a message: executed, transcript
    orphan("lin_updates", SYNC, &["pc pc notify 4", "pcpcnf pcpcnf"]),
    orphan("lin_updates", ASYNC, &["pc pc notify 4", "pcpcnf pcpcnf"]),
    orphan("lin_updates", EXIT, &["pc - - 0", "pcpcnf pcnf"]),
    orphan("lin_custom", SYNC, &["pc pc - 3", "pcpcnf ppcnf"]),
    orphan("lin_custom", ASYNC, &["pcn pc notify 4", "pcnpcnf pcpcnf"]),
    orphan("lin_custom", EXIT, &["pcn - - 0", "pcnpcnf pcnf"]),
    orphan("lin_messages", SYNC, &["pc pc - 3", "pcpcnf ppcnf"]),
    orphan("lin_messages", ASYNC, &["pcn pc notify 4", "pcnpcnf pcpcnf"]),
    orphan("lin_messages", EXIT, &["pcn - - 0", "pcnpcnf pcnf"]),
    orphan("fan_updates", SYNC, &["pcab pc notify_a,notify_b 4", "pcabpcabf pcpcabf"]),
    orphan("fan_updates", ASYNC, &["pcab pc notify_a,notify_b 4", "pcabpcabf pcpcabf"]),
    orphan("fan_updates", EXIT, &["pcab - - 0", "pcabpcabf pcabf"]),
];

/// Charges executed, checkpoints, forks, most charges in one checkpoint, edge sum, and whether the
/// last is the first. The measurement had 50, 12 to 20 trials of each line, all alike.
#[rustfmt::skip]
pub(super) const AT_ONCE: [(Durability, u32, &str); 5] = [
    (Durability::Async, 4, "3 16 1 2 3 yes"),
    (Durability::Async, 2, "3 16 1 2 3 yes"),
    (Durability::Async, 1, "3 16 1 2 3 yes"),
    (Durability::Sync, 4, "3 16 1 2 3 yes"),
    (Durability::Exit, 4, "3 2 0 1 2 no"),
];

/// Forks, charges in the head's transcript, and that transcript. The steps are those of the
/// first request's run: r0 left at step 2, so its input is 3.
#[rustfmt::skip]
pub(super) const LOADS: [(&str, Loads, &str); 7] = [
    ("r0's last (charge done, next=notify)", Loads::Left, "1 2 pcpcnf"),
    ("r1's input checkpoint", Loads::Step(3), "1 2 pcpcnf"),
    ("r1 after __start__", Loads::Step(4), "1 2 pcpcnf"),
    ("r1 after plan", Loads::Step(5), "1 2 pcppcnf"),
    ("r1 after charge", Loads::Step(6), "1 3 pcpcpcnf"),
    ("r1 after notify", Loads::Step(7), "1 3 pcpcnpcnf"),
    ("r1 finished", Loads::Step(8), "0 3 pcpcnfpcnf"),
];

const fn left_at_2(shape: Shape, given: Given, cells: &'static [&'static str]) -> Handler {
    Handler {
        name: shape.name(),
        graph: "booking",
        shape,
        given,
        modes: &[StreamMode::Updates],
        leave: Leave::AfterChunk(2),
        cells,
    }
}

const fn orphan(name: &'static str, given: Given, cells: &'static [&'static str]) -> Handler {
    let (graph, modes): (_, &[StreamMode]) = match name.as_bytes() {
        b"lin_custom" => ("booking", &[StreamMode::Updates, StreamMode::Custom]),
        b"lin_messages" => ("booking", &[StreamMode::Updates, StreamMode::Messages]),
        b"fan_updates" => ("fan", &[StreamMode::Updates]),
        _ => ("booking", &[StreamMode::Updates]),
    };
    let leave = Leave::AfterChunk(2);
    Handler { name, graph, shape: Shape::Inline, given, modes, leave, cells }
}
