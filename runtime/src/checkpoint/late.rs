//! Writes that come too late: their thread was deleted, or went on without them.

use std::sync::Arc;
use std::time::SystemTime;

use super::id;
use super::saver::{Claim, SaverError};

/// What is remembered of a deletion: an id that is greater than that of every checkpoint that went,
/// and of every one that was minted before by a clock that agrees with this one.
pub(super) fn deletion(now: SystemTime, newest: Option<&str>) -> Arc<str> {
    let now = id::last_of(now);
    match newest {
        Some(newest) if *newest > *now => newest.into(),
        _ => now,
    }
}

/// Refuses a writer whose claim on the thread is not younger than the thread's last deletion.
pub(super) fn check(
    thread: &str,
    claim: &Claim,
    last_deletion: Option<&str>,
) -> Result<(), SaverError> {
    match (&claim.since, last_deletion) {
        (Some(since), Some(deletion)) if **since <= *deletion => {
            Err(SaverError::Deleted { thread: thread.to_owned() })
        }
        _ => Ok(()),
    }
}

/// Refuses a checkpoint that would make a fork, if its writer does not want one. To store it again
/// under its id is no fork.
pub(super) fn check_head(
    thread: &str,
    claim: &Claim,
    id: &str,
    parent: Option<&str>,
    head: Option<&str>,
) -> Result<(), SaverError> {
    if !claim.parent_is_head || head == parent || head == Some(id) {
        return Ok(());
    }
    Err(SaverError::NotHead {
        thread: thread.to_owned(),
        parent: parent.map(str::to_owned),
        head: head.map(str::to_owned),
    })
}
