//! `mkdir -p target/single_line; cargo +nightly fuzz run single_line target/single_line corpus/single_line` (stable: with `RUSTC_BOOTSTRAP=1`): see `toolgate_wire::properties::check_single_line`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| toolgate_wire::properties::check_single_line(bytes).unwrap());
