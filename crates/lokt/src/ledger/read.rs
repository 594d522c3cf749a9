//! What is under a number. No lock is taken: an event has its name only when it is complete.

use lokt_core::ledger::draft::EVENT_BYTES_MAX;
use lokt_core::ledger::seq::Seq;
use lokt_core::ledger::stored::{Damage, Stored};

use super::Ledger;
use super::answers::Slot;
use crate::error::{At as _, Error};
use crate::sys::disk::{Content, Entry};

/// The file under a number, whatever it says.
pub(super) enum Raw {
    /// A file.
    File(Content),
    /// Nothing.
    Missing,
    /// Something that can't be an event.
    Odd(Damage),
}

impl Ledger {
    /// Reads what is under a number.
    pub fn read(&self, seq: Seq) -> Result<Slot, Error> {
        Ok(match self.raw(seq)? {
            Raw::Missing => Slot::Missing,
            Raw::Odd(damage) => Slot::Damaged(damage),
            Raw::File(content) => match Stored::parse(&content.bytes) {
                Ok(_) => Slot::Event(content.bytes),
                Err(damage) => Slot::Damaged(damage),
            },
        })
    }

    /// The first number whose event can't be read although there are events after it, or is missing, in words. `None`: everything can be.
    pub fn unread(&self) -> Result<Option<String>, Error> {
        let folded = self.folded(self.catch_up()?.seq)?;
        // What is an event, and only makes no sense as a claim, was read.
        let is_unread =
            |number: &u64| !Seq::new(*number).is_some_and(|seq| matches!(self.read(seq), Ok(Slot::Event(_))));
        Ok(folded.trouble.into_iter().find(|(number, _)| is_unread(number)).map(|(_, what)| what))
    }

    /// Reads the file under a number. A FIFO doesn't make it wait, a link leads nowhere, and no more than an event's bytes are read.
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
