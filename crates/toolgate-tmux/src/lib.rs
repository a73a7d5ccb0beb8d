#![doc = include_str!("../README.md")]

pub mod call;
pub mod engine;
pub mod environment;
pub mod filters;
pub mod guard;
pub mod info;
mod options;
mod run;
mod server;
pub mod target;
pub mod tool;
mod tools;

pub use options::Options;
pub use server::{NAME, NotServed, Tmux, serve_stdio};
