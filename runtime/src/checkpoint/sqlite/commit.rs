//! Writes of several callers in one transaction.

use std::collections::VecDeque;

use super::call::Call;
use super::connection::{Begin, Failure, OpenFile, Transaction};
use crate::checkpoint::saver::SaverError;

/// Does all of these, in order, and tells each caller after the commit. What is given back met a
/// locked file: nothing of it happened. To be called in the saver's turn.
///
/// They share one commit. If one of them fails, nothing of that commit is kept and each is done once
/// more in a commit of its own, so that only those fail that fail by themselves. That costs no more
/// than it did without sharing, and asks for no savepoint where all goes well.
pub(super) fn all(
    file: &OpenFile,
    mut calls: VecDeque<Call>,
    told: &dyn Fn(Failure) -> SaverError,
) -> Result<(), (VecDeque<Call>, rusqlite::Error)> {
    match together(file, calls.make_contiguous()) {
        // The last one first: it is a checkpoint more often than not. Until whoever waits for that has
        // woken up, what was written beside it is told as well, and need not wake it another time.
        Ok(()) => calls.into_iter().rev().for_each(|call| call.end(Ok(()))),
        Err(Failure::Busy(error)) => return Err((calls, error)),
        Err(failure) if calls.len() == 1 => {
            if let Some(call) = calls.pop_front() {
                call.end(Err(told(failure)));
            }
        }
        Err(_) => {
            while let Some(mut call) = calls.pop_front() {
                match together(file, [&mut call]) {
                    Ok(()) => call.end(Ok(())),
                    Err(Failure::Busy(error)) => {
                        calls.push_front(call);
                        return Err((calls, error));
                    }
                    Err(failure) => call.end(Err(told(failure))),
                }
            }
        }
    }
    Ok(())
}

/// A transaction that has the write lock from its start, so that it is refused before it did anything
/// and not in the middle.
fn together<'c>(
    file: &OpenFile,
    calls: impl IntoIterator<Item = &'c mut Call>,
) -> Result<(), Failure> {
    let transaction = Transaction::begin(&file.connection, Begin::Write)?;
    file.deletions.begin();
    calls.into_iter().try_for_each(|call| call.attempt(file))?;
    Ok(transaction.commit()?)
}
