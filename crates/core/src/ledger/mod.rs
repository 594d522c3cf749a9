//! The ledger's pure part: numbers and names of events, events as bytes, what they say about claims, and the chain over them.
//!
//! | module | one idea |
//! | --- | --- |
//! | [`seq`] | numbers of events, and the two styles of file names |
//! | [`draft`] | an event to be written, from what somebody typed to the bytes of the file |
//! | [`stored`] | an event that was read |
//! | [`catalogue`] | what the native program knows |
//! | [`moment`] | times as the ledger's programs write them |
//! | [`chain`] | one digest over all events up to a number |
//! | [`checkpoint`] | that digest, as a line to be kept elsewhere |
//! | [`fold`] | everything that the events up to a number say, and its cache |
//! | [`claims`] | who has which node, folded from the events of both families |
//! | [`proof`] | what the native program's replay would refuse |
//! | [`claiming`] | a claim's decision, and the events that it becomes |
//! | [`lock_file`] | a claim in a file of its own |
//! | [`meta`] | how long claims last by default |
//! | [`writer_lock`] | the lock file that all programs share, and what an old one proves |

pub mod catalogue;
pub mod chain;
pub mod checkpoint;
pub mod claiming;
pub mod claims;
pub mod draft;
pub mod fold;
mod json;
pub mod lock_file;
mod members;
pub mod meta;
pub mod moment;
pub mod proof;
pub mod seq;
pub mod stored;
pub mod writer_lock;
