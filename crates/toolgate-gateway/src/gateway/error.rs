//! Why the gateway cannot start.

use toolgate::stack::StackError;

/// Why the gateway cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// The settings cannot be used.
    #[error("{0}")]
    Settings(String),
    /// A chain cannot be built.
    #[error(transparent)]
    Stack(#[from] StackError),
    /// Names collide.
    #[error("the namespace `{namespace}` is refused: {collision}")]
    Collision {
        /// The namespace.
        namespace: String,
        /// Both owners, and what to do.
        collision: String,
    },
}
