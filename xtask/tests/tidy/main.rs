//! Guards the layout: what no compiler checks and no reviewer should have to remember.
//!
//! Every check is a function from text to complaints, so each can be shown to fail on a small bad
//! example beside it. A complaint says where, and what to do.

mod dependencies;
mod docs;
mod layout;
mod rust;
mod sources;
mod tree;

/// Fails with every complaint at once: one run shows all there is to mend.
fn assert_tidy(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}
