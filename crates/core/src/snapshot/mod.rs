//! Snapshots: whole trees, how they are written down, and which of them are still needed.
//!
//! | module | one idea |
//! | --- | --- |
//! | [`id`] | what a snapshot is called |
//! | [`entry`] | one thing in a tree, as a line |
//! | [`manifest`] | what is in a tree, and the hash over it |
//! | [`ignore`] | what is left out |

mod bytes;
pub mod entry;
pub mod id;
pub mod ignore;
pub mod manifest;
