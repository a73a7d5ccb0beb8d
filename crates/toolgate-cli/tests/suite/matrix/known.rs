//! What is wrong today.

use Via::{Modern, StdioModern, Tmux, TmuxModern, WrapModern};

use crate::harness::matrix::Via;

/// `toolgate tmux`, whose messages rmcp reads and writes.
const TMUX: &[Via] = &[Tmux, TmuxModern];
/// Scenarios that fail through these transports, and why. An entry that passes fails its test, so that it is removed with the fix.
pub const KNOWN: &[(&[Via], &str, &str)] = &[
    // Batches.
    (&[Tmux], "a batch", "rmcp reads no batches"),
    (&[Tmux], "a batch with a number in it", "rmcp reads no batches"),
    (&[Tmux], "a batch of notifications only", "rmcp reads no batches"),
    // Lists.
    (TMUX, "the size of a page is the namespace's", "page_size is not heeded"),
    // What is offered.
    (&[StdioModern, Modern], "a vendor's notification to the server", "dropped"),
    (&[StdioModern, Modern], "a vendor's notification to the client", "dropped"),
    // Processes.
    (
        &[WrapModern],
        "a change that narrows is applied by itself, and told of",
        "the client's subscription is its server's, and the gateway adds nothing to it",
    ),
];
