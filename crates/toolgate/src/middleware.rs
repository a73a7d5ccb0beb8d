//! A folder for each middleware that comes with toolgate. What a middleware is: [`Middleware`].

pub mod audit;
pub mod breaker;
pub mod call_id;
pub mod error_results;
pub mod filter;
pub mod flags;
pub mod log;
pub mod overrides;
pub mod policy;
pub mod preconditions;
pub mod rate_limit;
pub mod response_limit;
pub mod retry;
pub mod safety;
pub mod sanitize;
pub mod scopes;
pub mod telemetry;
pub mod timeout;
pub mod trail;
pub mod validate;

pub use crate::{
    boxed::Boxed,
    layer::{Explanation, Hooks, Info, Middleware, NotificationDecision, Order},
};
