//! `mkdir -p target/message; cargo +nightly fuzz run message target/message corpus/message` (stable: with `RUSTC_BOOTSTRAP=1`): see `toolgate_wire::properties::check_message`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| toolgate_wire::properties::check_message(bytes).unwrap());
