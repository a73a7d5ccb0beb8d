#![doc = include_str!("../README.md")]

pub mod call;
mod complete;
pub mod config;
pub mod engine;
pub mod environment;
pub mod filters;
mod front;
pub mod guard;
pub mod info;
mod instructions;
mod options;
mod prompts;
mod resources;
mod server;
pub mod target;
pub mod tool;
mod tools;
mod toolsets;
mod variables;

pub use config::TmuxConfig;
pub use options::Options;
pub use server::{NAME, NotServed, Tmux, serve_stdio};
pub use toolsets::{Choice, NoSuchTool, Toolset};
pub use variables::{BadVariable, VARIABLES, Variables};
