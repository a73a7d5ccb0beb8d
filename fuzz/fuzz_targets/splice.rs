//! `cargo +nightly fuzz run splice`: see `toolgate_wire::properties::check_splice`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| toolgate_wire::properties::check_splice(bytes).unwrap());
