//! The file under a number. Takes no lock: an event has its name only when it is complete.

use lokt_core::ledger::draft::EVENT_BYTES_MAX;
use lokt_core::ledger::seq::Seq;
use lokt_core::ledger::stored::{Damage, Stored};

use super::FileLog;
use crate::answers::Slot;
use lokt_sys::disk::{Content, Entry};
use lokt_sys::error::{At as _, Error};

/// The file under a number, unparsed.
pub(super) enum Raw {
    /// A file.
    File(Content),
    /// Nothing.
    Missing,
    /// Something that can't be an event.
    Odd(Damage),
}

impl FileLog {
    /// Reads what is under a number.
    pub(super) fn slot(&self, seq: Seq) -> Result<Slot, Error> {
        Ok(match self.raw(seq)? {
            Raw::Missing => Slot::Missing,
            Raw::Odd(damage) => Slot::Damaged(damage),
            Raw::File(content) => match Stored::parse(&content.bytes) {
                Ok(_) => Slot::Event(content.bytes),
                Err(damage) => Slot::Damaged(damage),
            },
        })
    }

    /// Reads the file under a number. Doesn't block on a FIFO, follows no link, and reads no more
    /// than an event's maximum size.
    pub(super) fn raw(&self, seq: Seq) -> Result<Raw, Error> {
        let file = self.file(seq);
        Ok(match self.disk.read(&file, EVENT_BYTES_MAX).at("read", &self.path, &file)? {
            Entry::Missing => Raw::Missing,
            Entry::File(content) => Raw::File(content),
            Entry::NotRegular(kind) => Raw::Odd(Damage(format!("is {kind}, not a file"))),
            Entry::TooBig(bytes) => {
                Raw::Odd(Damage(format!("has {bytes} bytes, and an event has at most {EVENT_BYTES_MAX}")))
            }
        })
    }
}
