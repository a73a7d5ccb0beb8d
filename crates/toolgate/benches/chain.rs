//! Bench.
fn main() {
    divan::main();
}
