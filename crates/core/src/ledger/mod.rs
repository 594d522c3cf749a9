//! The ledger's pure part: numbers and names of events, events as bytes, what they say about
//! claims, and the chain over them.
//!
//! | module | one idea |
//! | --- | --- |
//! | [`seq`] | numbers of events, and the two styles of file names |
//! | [`draft`] | an event to be written, from the caller's input to the bytes of the file |
//! | [`stored`] | an event that was read |
//! | [`catalogue`] | event types and members of the af program |
//! | [`moment`] | times as the ledger's programs write them |
//! | [`chain`] | one digest over all events up to a number |
//! | [`checkpoint`] | that digest, as a line to be stored elsewhere |
//! | [`fold`] | the fold of all events up to a number, and its cache |
//! | [`claims`] | all claims, folded from the events of both families |
//! | [`proof`] | events that the af program's replay would refuse |
//! | [`claiming`] | decisions about claims, and the events that record them |
//! | [`lock_file`] | a claim in a file of its own |
//! | [`meta`] | the default duration of claims |
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
