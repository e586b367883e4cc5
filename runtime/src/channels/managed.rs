use crate::value::Value;

/// A value that the runtime works out for each step. No channel holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Managed {
    /// True in the last step that the recursion limit allows.
    IsLastStep,
    /// Steps left before the recursion limit, this one included.
    RemainingSteps,
}

/// Where a run stands between its first step and its limit.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    pub step: i64,
    /// The step that the run must not reach.
    pub stop: i64,
}

impl Managed {
    pub fn value(self, at: Progress) -> Value {
        match self {
            Managed::IsLastStep => Value::Boolean(at.step == at.stop - 1),
            Managed::RemainingSteps => Value::from(at.stop - at.step),
        }
    }
}
