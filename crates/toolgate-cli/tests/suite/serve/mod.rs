//! `toolgate serve` and `toolgate stdio`: many clients, many servers.

mod bounds;
mod catalog;
mod chaos;
mod config;
mod direct;
mod direct_notifications;
mod eras;
mod fidelity;
mod field;
mod head_to_head;
mod http;
mod inspect;
mod lies;
mod lives;
mod namespaces;
mod older;
mod own_layers;
mod program;
mod servers;
mod stdio;
mod streams;
