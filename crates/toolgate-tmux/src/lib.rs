#![doc = include_str!("../README.md")]

pub mod call;
pub mod engine;
pub mod environment;
pub mod filters;
pub mod guard;
pub mod info;
mod server;
pub mod target;
pub mod tool;
mod tools;

pub use server::{NAME, NotServed, Options, Tmux, serve_stdio};
