//! Asks the linker to pack the relocations of an optimised program, where the C library can read them so.
//!
//! The loader reads all of them at each start, so they stay resident. toolgate has 66,000: 17 kB packed, 1.6 MB otherwise.

use std::{env, process::Command};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let is_native = variable("HOST") == variable("TARGET");
    let is_glibc =
        variable("CARGO_CFG_TARGET_OS") == "linux" && variable("CARGO_CFG_TARGET_ENV") == "gnu";
    if is_native && is_glibc && variable("PROFILE") == "release" && reads_packed_relocations() {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Whether the machine that builds, and presumably runs, the program has glibc 2.36 or later.
fn reads_packed_relocations() -> bool {
    let Ok(done) = Command::new("getconf").arg("GNU_LIBC_VERSION").output() else { return false };
    let text = String::from_utf8_lossy(&done.stdout);
    let version = text.trim().strip_prefix("glibc ").and_then(|version| version.split_once('.'));
    let Some((major, minor)) = version else { return false };
    let minor = minor.split('.').next().unwrap_or_default();
    matches!((major.parse(), minor.parse()), (Ok(major), Ok(minor)) if (major, minor) >= (2_u32, 36_u32))
}
