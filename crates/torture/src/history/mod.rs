//! What processes did with locks, registers and ledgers, written down by themselves, and whether every promise held meanwhile.
//!
//! A history is judged afterwards and from outside: it knows nothing of how a lock is made. `lokt torture` and the torture tests write
//! one while they kill and stop the processes that write it, and share these judges.
//!
//! What makes a verdict sound is on which side of the deed its entry is written. *Asked* comes before the asking and *entered* after the
//! answer; *left* comes before the giving back. So a hold's entries lie inside of the hold, and two holds whose entries overlap did
//! overlap. Whoever did not say that it leaves is inside for as long as it is known to live: until its last entry, or until it was seen
//! alive by whoever killed it then. The judges may miss something that happened between two entries; they never condemn a lock that worked.
//!
//! | module | one idea |
//! | --- | --- |
//! | [`entry`] | one deed of one process, as a line |
//! | [`told`] | what a process tells: its deeds, or what went wrong |
//! | [`holds`] | deeds put together: who was inside of what, from when to when |
//! | [`judge`] | which promises were broken |
//! | [`mod@figures`] | how much, and how fast |

pub mod entry;
pub mod figures;
pub mod holds;
pub mod judge;
pub mod told;

pub use entry::{Deed, Entry};
pub use figures::{Figures, Measured, Percentiles, figures};
pub use holds::Hold;
pub use told::Told;
