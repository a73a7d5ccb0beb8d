//! The two sides of a connection.

/// The side that a message comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sender {
    /// A client, or a gateway in the place of one.
    Client,
    /// A server, or a gateway in the place of one.
    Server,
}
