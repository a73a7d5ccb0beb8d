//! `mkdir -p target/splice; cargo +nightly fuzz run splice target/splice corpus/splice` (stable: with `RUSTC_BOOTSTRAP=1`): see `toolgate_wire::properties::check_splice`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| toolgate_wire::properties::check_splice(bytes).unwrap());
