//! `mkdir -p target/lines; cargo +nightly fuzz run lines target/lines corpus/lines` (stable: with `RUSTC_BOOTSTRAP=1`): see `toolgate_wire::properties::check_lines`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| toolgate_wire::properties::check_lines(bytes).unwrap());
