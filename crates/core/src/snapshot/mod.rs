//! Snapshots: whole trees, how they are written down, and which of them are still needed.
//!
//! | module | one idea |
//! | --- | --- |
//! | [`id`] | what a snapshot is called |

pub mod id;
