//! The command guard in the chain: asks what would be typed, before it is typed. What it judges by: [`commands`](crate::commands).

mod install;
mod precondition;

pub(crate) use install::{install, require};
#[cfg(test)]
pub(crate) use precondition::typed;
pub use precondition::{CommandGuard, ID, TOOLS};
