//! The tools, one file for each family.

mod batch;
mod buffer_tools;
mod env_tools;
mod hook_tools;
mod keys_batch;
mod option_tools;
mod pane_io;
mod scope;
mod server_tools;
mod session_tools;
mod wait_channel;

use crate::tool::Tool;

/// Every tool, in the order in which they are listed.
#[must_use]
pub(crate) fn all() -> Vec<Tool> {
    let families = [
        server_tools::tools(),
        session_tools::tools(),
        pane_io::tools(),
        keys_batch::tools(),
        buffer_tools::tools(),
        option_tools::tools(),
        env_tools::tools(),
        hook_tools::tools(),
        wait_channel::tools(),
        batch::tools(),
    ];
    families.into_iter().flatten().collect()
}
