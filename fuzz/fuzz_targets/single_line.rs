//! `cargo +nightly fuzz run single_line`: see `toolgate_wire::properties::check_single_line`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| toolgate_wire::properties::check_single_line(bytes).unwrap());
