#![doc = include_str!("../README.md")]

mod baseline;
mod buffers;
pub mod call;
mod cursor;
pub mod engine;
pub mod environment;
pub mod filters;
mod grid;
pub mod guard;
pub mod info;
mod limits;
mod options;
mod patterns;
mod programs;
pub mod progress;
mod server;
pub mod target;
pub mod tool;
mod tools;
mod waiting;

pub use options::Options;
pub use server::{NAME, NotServed, Tmux, serve_stdio};
