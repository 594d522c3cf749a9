//! What the tests of all crates share; never published.
//!
//! | module | what it gives |
//! | --- | --- |
//! | [`machine`] | clocks and processes that do what a test says |
//! | [`mem_disk`] | a disk in memory that knows what was synced, and forgets the rest at a power cut |
//! | [`fault_disk`] | a disk that fails, tears or dies at its n-th call |
//! | [`hook_disk`] | a disk that does something else first |
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
//! | [`scribe`] | writes down what a process does, for the judges of `lokt_core::history` |
//! | [`moved_clock`] | the real command with a wall clock that is wrong |
//! | [`judge`] | reads their history and says which promise was broken |

pub mod chronicle;
pub mod cmd;
pub mod dice;
pub mod fault_disk;
pub mod guarding;
pub mod hook_disk;
pub mod judge;
pub mod line;
pub mod machine;
pub mod mem_disk;
pub mod mounted;
pub mod moved_clock;
pub mod scribe;
pub mod session;
pub mod storm;
pub mod strace;
pub mod swarm;
pub mod tally;
pub mod tenancy;
pub mod trees;
pub mod words;
