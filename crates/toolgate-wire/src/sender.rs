//! The two sides of a connection.

/// The side that a message comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sender {
    /// A client, or what stands in its place.
    Client,
    /// A server, or what stands in its place.
    Server,
}
