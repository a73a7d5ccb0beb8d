//! The state of clients: who makes a request, sessions, requests in both directions, and notifications.

pub(crate) mod active_requests;
pub(crate) mod caller;
pub(crate) mod client_requests;
mod elicitor;
pub(crate) mod legacy_session;
pub(crate) mod notifications;
pub(crate) mod replay;
pub(crate) mod session_table;
pub(crate) mod side_channel;
