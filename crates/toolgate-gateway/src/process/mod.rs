//! Processes of servers: how they are started, kept from outliving us, and what they print.

pub(crate) mod child;
pub mod keeper;
pub(crate) mod stray_output;
