//! Processes of servers: their start, their end with toolgate, and their output beside the protocol.

pub(crate) mod child;
pub mod keeper;
pub(crate) mod stray_output;
