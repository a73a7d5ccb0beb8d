//! What must not compile: running the rest of the chain twice, and other ways around it.

#[test]
fn what_must_not_compile_does_not() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
