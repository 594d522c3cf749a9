//! Every command against everything that a user, a script or an attacker can put in its way.
//!
//! [`calls`] is the table of all commands with their exit codes; the other files are what is put in their way. For every pair: the right
//! exit code, an error that names the path, one JSON value with `--json`, nothing outside the root touched, nothing lost, no hang, no panic,
//! nothing on the terminal that could move its cursor or forge a line, and afterwards the root still works. A new command gets its rows in
//! the table, and is covered.

mod arguments;
mod calls;
mod disks;
mod names;
mod records;
mod roots;
mod scene;
mod state;
mod variables;
