//! Errors about events that could not be added, or may not stay.

use std::io;

use lokt_core::ledger::seq::Seq;

use super::FileLog;
use lokt_sys::error::{Error, ErrorKind};

pub(super) fn is_full(log: &FileLog) -> Error {
    Error::new(ErrorKind::Unusable, format!("{} has no numbers left", log.path.display()))
}

pub(super) fn not_all(log: &FileLog, first: Seq, count: usize, of: usize, error: io::Error) -> Error {
    let next = Seq::new(first.get() + count as u64).unwrap_or(Seq::MAX);
    let attempt = match count {
        0 => "write".to_owned(),
        _ => format!("after {count} of {of} events, from event {first} on, write"),
    };
    Error::io(&attempt, &log.at(&log.file(next)), error)
}

pub(super) fn not_durable(log: &FileLog, first: Seq, last: Seq, error: &io::Error) -> Error {
    let which = if first == last { format!("event {first} is") } else { format!("events {first} to {last} are") };
    let message = format!("{which} written, but may not survive a power cut: sync {}: {error}", log.path.display());
    Error::new(ErrorKind::Io, message).hint("an append with --id can be repeated without writing it twice")
}

pub(super) fn not_known(first: Seq, last: Seq, error: &Error) -> Error {
    let which = if first == last { format!("event {first} is") } else { format!("events {first} to {last} are") };
    let message =
        format!("{which} written, but the lock was taken away meanwhile, and whoever has it may replace that: {error}");
    Error::new(ErrorKind::Busy, message).hint("an append with --id can be repeated without writing it twice")
}
