//! Writes that come too late: their thread was deleted, or went on without them.

use super::saver::{Claim, SaverError};

/// Refuses a writer that looked at the thread before its last deletion.
pub(super) fn check(thread: &str, claim: &Claim, deletions: u32) -> Result<(), SaverError> {
    match claim.deletions {
        Some(seen) if seen < deletions => Err(SaverError::Deleted { thread: thread.to_owned() }),
        _ => Ok(()),
    }
}

/// Refuses a checkpoint that would make a fork, if its writer does not want one. To store it again
/// under its id is no fork: whoever asks has seen to it that it is not stored with this parent already,
/// as one is whose answer was lost, and from which others may have gone on.
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
