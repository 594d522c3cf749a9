//! The commands, run as a user runs them: the real binary, real files, real processes.

mod common;

mod discovery;
mod exists;
mod hostile;
mod lock;
mod owners;
mod root_and_version;
mod seed_expiry;
mod seed_reentrant;
mod status;
mod unlock;
mod usage;
mod users;
mod why;
