//! The commands, run as a user runs them: the real binary, real files, real processes.

mod common;

mod damaged_state;
mod discovery;
mod documents;
mod environment;
mod exists;
mod foreign;
mod freezes;
mod full_disk;
mod guard;
mod guard_holds;
mod guard_lease;
mod guard_lost;
mod guard_names;
mod guard_signals;
mod hostile;
mod lock;
mod mutex;
mod namespaces;
mod no_clock_trust;
mod owners;
mod plain_renames;
mod process_limit;
mod processes;
mod root_and_version;
mod roots;
mod seed_expiry;
mod seed_reentrant;
mod shared_root;
mod status;
mod token_order;
mod unlock;
mod usage;
mod users;
mod why;
