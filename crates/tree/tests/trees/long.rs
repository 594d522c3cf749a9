//! Copies beside writers, many more of them than in `tree`.

mod beside;
#[expect(dead_code, unused_imports, reason = "it is the scene of all tests of trees")]
mod scene;

/// Copies beside each kind of writer.
const TRIES: usize = 50;
