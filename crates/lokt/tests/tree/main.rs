//! Trees of files: copied as they are, or not at all. Tests with mounts need the superuser and fail without.

#![expect(clippy::disallowed_methods, reason = "the tests do what other programs do to a tree")]

mod ends;
mod faithful;
mod hashing;
mod places;
mod reuse;
mod scene;
mod writers;
