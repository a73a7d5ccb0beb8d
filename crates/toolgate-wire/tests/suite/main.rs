//! Properties of the reader: on the fuzz corpus, on generated messages, and beside other readers of JSON.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on should say where, also in the functions that tests share"
)]

mod corpus;
mod differential;
mod generated;
