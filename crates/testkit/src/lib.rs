//! What the tests of all crates share; never published.
//!
//! | module | what it gives |
//! | --- | --- |
//! | [`machine`] | clocks and processes that do what a test says |
//! | [`mem_disk`] | a disk in memory that knows what was synced, and forgets the rest at a power cut |
//! | [`fault_disk`] | a disk that fails, tears or dies at its n-th call |
//! | [`hook_disk`] | a disk that does something else first |
//! | [`scripted_engine`] | an engine whose requests meet what a script says |
//! | [`mod@conformance`] | what every store of named locks must do |
//! | [`mod@held`] | a lock that a program holds, asked for once |
//! | [`dice`] | random choices that can be made again |
//! | [`swarm`] | many real processes, released at one instant |
//! | [`session`] | processes on a terminal of their own, or on none |
//! | [`mod@line`] | real processes that wait in a line |
//! | [`storm`] | many real guards for a while, killed and stopped, and what must be true afterwards |
//! | [`cmd`] | the real command on a root of its own |
//! | [`chronicle`] | a ledger that many real processes write to, and what must be true of it |
//! | [`guarding`] | a guard and its command, started and killed for real |
//! | [`strace`] | a real process delayed, stopped or killed at each system call |
//! | [`tenancy`] | a repository whose leases many real processes want |
//! | [`mounted`] | file systems of a test's own |
//! | [`trees`] | trees with one of everything, and what is in one |
//! | [`words`] | what a test program without a harness is told |
//! | [`tally`] | counts what was done to lokt |
//! | [`mod@need`] | skips and counts a test that needs root or a program that is missing |
//! | [`scribe`] | writes down what a process does, for the judges of `lokt_torture::history` |
//! | [`moved_clock`] | the real command with a wall clock that is wrong |
//! | [`judge`] | reads their history and says which promise was broken |

pub mod chronicle;
pub mod cmd;
pub mod conformance;
pub mod dice;
pub mod dose;
pub mod fault_disk;
pub mod guarding;
pub mod held;
pub mod hook_disk;
pub mod judge;
pub mod line;
pub mod machine;
pub mod mem_disk;
pub mod mounted;
pub mod moved_clock;
pub mod need;
pub mod scribe;
pub mod scripted_engine;
pub mod session;
pub mod storm;
pub mod strace;
pub mod swarm;
pub mod tally;
pub mod tenancy;
pub mod trees;
pub mod words;
