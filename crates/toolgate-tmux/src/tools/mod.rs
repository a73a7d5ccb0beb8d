//! The tools, one file for each family.

mod pane_io;
mod run_command;
mod server_tools;
mod session_tools;

use crate::tool::Tool;

/// Every tool, in the order in which they are listed.
#[must_use]
pub(crate) fn all() -> Vec<Tool> {
    let families =
        [server_tools::tools(), session_tools::tools(), pane_io::tools(), run_command::tools()];
    families.into_iter().flatten().collect()
}
