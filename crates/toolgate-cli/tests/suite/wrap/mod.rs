//! `toolgate wrap`: one client, one server, and each layer of the chain.

mod audit;
mod audit_chain;
mod bounds;
mod child;
mod confirm;
mod errors;
mod filter;
mod limit;
mod log;
mod metrics;
mod overrides;
mod passes;
mod policy;
mod presets;
mod rmcp;
mod safety;
mod sanitize;
mod scopes;
mod telemetry;
mod telemetry_audit;
mod validate;
