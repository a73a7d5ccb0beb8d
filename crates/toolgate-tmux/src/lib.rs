//! tmp

pub mod engine;
