//! The tools, one file for each family.

mod capture_since;
mod pane_io;
mod search_panes;
mod server_tools;
mod session_tools;
mod wait_text;

use crate::tool::Tool;

/// Every tool, in the order in which they are listed.
#[must_use]
pub(crate) fn all() -> Vec<Tool> {
    let families = [
        server_tools::tools(),
        session_tools::tools(),
        pane_io::tools(),
        capture_since::tools(),
        search_panes::tools(),
        wait_text::tools(),
    ];
    families.into_iter().flatten().collect()
}
