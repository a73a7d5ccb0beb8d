//! What a call pays for its policies.

fn main() {
    divan::main();
}
