#![doc = include_str!("../README.md")]

mod asking;
mod call;
mod chain_access;
mod connection;
mod facts;
mod governed;
mod handler;
mod kept;
mod known_tools;
mod list;
mod raise;
mod request;
mod trace;
mod unwind;
mod wire;
mod within;

pub use chain_access::ChainAccess;
pub use connection::ActiveChain;
pub use governed::Governed;
pub use raise::raise;
