//! Panics inside a run are results, not noise.
//!
//! The hook of this OS process is replaced once: on a thread that runs a simulation it keeps the
//! place of the panic for the trace and prints nothing; on every other thread it does what it did.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::sync::Once;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// From here on, panics on this thread are kept instead of printed.
pub(super) fn this_thread() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if QUIET.try_with(Cell::get).unwrap_or(false) {
                let place = info.location().map(|l| format!("{}:{}", l.file(), l.line()));
                let _ = PLACE.try_with(|kept| kept.replace(place));
            } else {
                before(info);
            }
        }));
    });
    QUIET.set(true);
}

/// What a caught panic said, and where.
pub(crate) fn message(payload: Box<dyn Any + Send>) -> String {
    let said = payload
        .downcast_ref::<&'static str>()
        .map(|s| (*s).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "(a panic without a message)".to_owned());
    match PLACE.take() {
        Some(place) => format!("{said}, at {place}"),
        None => said,
    }
}
