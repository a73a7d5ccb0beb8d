//! Layers of your own, one per file: `cargo run -p toolgate --example custom_layers` runs each against scripted tools.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "an example shows by panicking that it does not do what it says"
)]

mod audit_http;
mod feature_flags;
mod hide_secrets;
mod http_post;
mod inject_argument;
mod nested_calls;
mod rate_limit;
mod shared_state;
mod stamp_result;
mod tenants;
mod time_limit;
mod typed_arguments;

/// Runs every example on a paused clock.
pub(crate) fn main() {
    toolgate::testing::run_paused(async {
        audit_http::show().await;
        feature_flags::show().await;
        hide_secrets::show().await;
        inject_argument::show().await;
        nested_calls::show().await;
        rate_limit::show().await;
        shared_state::show().await;
        stamp_result::show().await;
        tenants::show().await;
        time_limit::show().await;
        typed_arguments::show().await;
    });
}
