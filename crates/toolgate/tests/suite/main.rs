//! Tests of the library from outside: what does not compile, and layers of a program's own.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, also in the functions that its tests share"
)]

mod compile_fail;
mod custom_layer;
#[path = "../../examples/custom_layers/main.rs"]
mod custom_layers;
mod examples;
mod office_hours;
