#![doc = include_str!("../README.md")]

mod baseline;
mod buffers;
pub mod call;
pub mod commands;
mod complete;
pub mod config;
mod cursor;
pub mod engine;
pub mod environment;
pub mod filters;
mod front;
mod grid;
pub mod guard;
pub mod info;
mod instructions;
mod limits;
pub mod mask;
mod options;
mod patterns;
mod programs;
pub mod progress;
mod prompts;
pub mod record;
mod resources;
mod server;
pub mod target;
pub mod tool;
mod tools;
mod toolsets;
mod variables;
mod waiting;

pub use config::TmuxConfig;
pub use options::Options;
pub use server::{NAME, NotServed, Tmux, serve_stdio};
pub use toolsets::{Choice, NoSuchTool, Toolset};
pub use variables::{BadVariable, VARIABLES, Variables};
