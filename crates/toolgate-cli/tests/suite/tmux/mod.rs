//! `toolgate tmux` against a real tmux.

mod adversary;
mod batch;
mod buffers;
mod channels;
mod clients;
mod commands;
mod commands_parts;
mod config;
mod contract;
mod endings;
mod engine;
mod guard;
mod mask;
mod options;
mod original;
mod panes;
mod prompts;
mod record;
mod resources;
mod run;
mod search;
mod since;
mod tools;
mod wait;
mod windows;
