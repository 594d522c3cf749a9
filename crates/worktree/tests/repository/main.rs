//! Repositories and their worktrees, on real directories.

#![expect(clippy::disallowed_methods, reason = "the tests do what other programs do, and make files look old")]

mod discovery;
mod doctor;
mod doctor_beside;
mod interrupted;
mod numbers;
mod place;
mod planted;
mod stopped;
mod worktrees;
