//! Trees of files: copied as they are, or not at all. Tests with mounts need the superuser and fail without.

#![expect(clippy::disallowed_methods, reason = "the tests do what other programs do to a tree")]

mod beside;
mod ends;
mod faithful;
mod hashing;
mod places;
mod reuse;
mod scene;
mod writers;

/// Copies beside each kind of writer; `tree_long` makes more of them.
const TRIES: usize = 6;
