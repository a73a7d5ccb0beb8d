//! The tools, one file for each family.

mod batch;
mod buffer_tools;
mod capture_since;
mod client_tools;
mod display_message;
mod env_tools;
mod hook_tools;
mod keys_batch;
mod layout;
mod layout_tools;
mod option_tools;
mod pane_fields;
mod pane_io;
mod pane_tools;
mod pane_view;
mod pipe_pane;
mod run_command;
mod scope;
mod search_panes;
mod server_tools;
mod session_tools;
mod sgr;
mod split_placement;
mod wait_channel;
mod wait_text;
mod window_tools;

use crate::tool::Tool;

/// All tools, in the order in which they are listed.
#[must_use]
pub(crate) fn all() -> Vec<Tool> {
    let families = [
        server_tools::tools(),
        session_tools::tools(),
        window_tools::tools(),
        pane_io::tools(),
        keys_batch::tools(),
        run_command::tools(),
        pane_tools::tools(),
        pane_view::tools(),
        capture_since::tools(),
        search_panes::tools(),
        wait_text::tools(),
        wait_channel::tools(),
        pipe_pane::tools(),
        display_message::tools(),
        layout_tools::tools(),
        client_tools::tools(),
        buffer_tools::tools(),
        option_tools::tools(),
        env_tools::tools(),
        hook_tools::tools(),
        batch::tools(),
    ];
    families.into_iter().flatten().collect()
}
