use std::sync::{Arc, Mutex, PoisonError};

/// Asks a run to end early, in good order: at the edge of its super-step, with everything stored, so
/// that it can be resumed. Clones are handles to one and the same; make a new one for each run. Runs
/// inside nodes are asked too. LangGraph's `RunControl`.
#[derive(Debug, Clone, Default)]
pub struct RunControl(Arc<Mutex<Option<Arc<str>>>>);

impl RunControl {
    pub fn new() -> RunControl {
        RunControl::default()
    }

    /// The run ends with [`super::RunError::Drained`] before its next super-step, if one is left to
    /// do. The last reason counts.
    pub fn request_drain(&self, reason: &str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason.into());
    }

    /// Why the run is asked to end, once it is.
    pub fn drain_reason(&self) -> Option<Arc<str>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
