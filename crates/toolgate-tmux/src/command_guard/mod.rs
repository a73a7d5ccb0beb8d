//! The command guard as a precondition in the chain. [`commands`](crate::commands) judges the text.

mod install;
mod precondition;

pub(crate) use install::{install, require};
#[cfg(test)]
pub(crate) use precondition::typed;
pub use precondition::{CommandGuard, ID, TOOLS};
