//! The `instructions` in the handshake, which the client's model reads.

use std::fmt::Write as _;

use toolgate::Tier;

use crate::call::ServerState;

/// The maximum length of the instructions.
const MAX_INSTRUCTION_BYTES: usize = 2048;

/// The text for the response to `initialize` or `server/discover`.
pub(crate) fn instructions(shared: &ServerState, safety: Option<Tier>) -> String {
    let mut text = String::from(
        "tmux sessions, windows and panes. Ids are exact: sessions $1, windows @1, panes %1; prefer them to names.\n\
         Where a pane is meant, pane_id wins; else the active pane of window_id, session_id or session_name. Where a window \
         is meant, window_id wins; else window_index in the session, or its current window. socket_name is another tmux \
         server, as tmux -L.\n\
         Look: list_panes and list_windows tell what there is, snapshot_pane and capture_pane what is on a screen, \
         search_panes where a text is.\n\
         Act: run_command runs a command and gives its output and exit status; send_keys types, with enter=false \
         for control keys as C-c.\n\
         Wait: wait_for_text waits for output, capture_since gives what is new. Do not poll with capture_pane.\n\
         Resources tell the same as text: tmux://panes/%250/content is the screen of %0, and .../tail what is new \
         in it; both can be subscribed to.\n",
    );
    match safety {
        Some(tier) => {
            // Writing to a string cannot fail.
            let _ = write!(text, "Safety level: {tier}; tools above it are hidden and refused.");
        }
        None => text.push_str("Safety level: none; no tool is refused for what it is."),
    }
    if safety == Some(Tier::Readonly) {
        text.push_str(" Nothing can be typed or changed: ask the user to.");
    }
    if !shared.options.suppress_history {
        text.push_str(
            "\nrun_command keeps commands in the shell's history unless suppress_history is set.",
        );
    }
    let Some((pane, socket)) = shared.guard.own_pane() else {
        return text;
    };
    // If the text is too long, first the socket is left out, then the sentence about the own pane.
    let named = socket.map(|socket| format!(" (socket {socket})"));
    let contexts = [named.unwrap_or_default(), String::new()].map(|socket| {
        format!(
            "{text}\nThis server runs in pane {pane}{socket}: it has is_caller in results, and no tool \
             ends it or types into it."
        )
    });
    contexts.into_iter().find(|told| told.len() <= MAX_INSTRUCTION_BYTES).unwrap_or(text)
}
