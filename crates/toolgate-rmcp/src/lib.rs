#![doc = include_str!("../README.md")]

mod asking;
mod call;
mod connection;
mod facts;
mod governed;
mod handler;
mod kept;
mod known_tools;
mod list;
mod raise;
mod request;
mod side_door;
mod trace;
mod unwind;
mod wire;
mod within;

pub use connection::ActiveChain;
pub use governed::Governed;
pub use raise::raise;
pub use side_door::SideDoor;
