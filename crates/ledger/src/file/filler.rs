//! Fillers: events without content, under the number that a writer whose lock was taken over may
//! still use.

use std::io;

use lokt_core::ledger::draft::{Added, Draft};
use lokt_core::ledger::seq::Seq;
use lokt_core::ledger::stored::Stored;

use super::commit::{RERUNS_MAX, publish_all};
use super::failures::is_full;
use super::head::Head;
use super::inside::Inside;
use crate::answers::Slot;
use lokt_sys::error::{At as _, Error, ErrorKind};

impl Inside<'_> {
    /// Fills the number that a writer whose lock was taken over was about to use. When that writer
    /// comes back, it replaces nothing of ours. Always uses a new number: if the head is a filler
    /// already, that one may be for another writer.
    pub(super) fn fill(&self, head: &mut Head) -> Result<Seq, Error> {
        for _ in 0..=RERUNS_MAX {
            let seq = Seq::new(head.seq + 1).ok_or_else(|| is_full(self.log))?;
            // The event after a filler names it, so that readers know why a late writer may replace
            // it.
            let filler = self.filler_at(head.seq)?;
            let draft = Draft::filler(self.log.settings.style);
            let bytes =
                draft.render(self.log.settings.style, self.log.now().wall, Added { filler, ..Added::default() });
            let bytes = bytes.map_err(|error| Error::new(ErrorKind::BadEvent, error.0))?;
            let prepared = self.log.prepare(vec![bytes], &mut |_, _| {})?;
            match publish_all(self, &prepared, head).1 {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => *head = self.log.heads().listed()?,
                Err(error) => return Err(Error::io("write", &self.log.at(&self.log.file(seq)), error)),
                Ok(()) => {
                    head.seq = seq.get();
                    return Ok(seq);
                }
            }
        }
        Err(Error::new(
            ErrorKind::Busy,
            format!("another program writes to {} without a lock", self.log.path.display()),
        ))
    }

    /// Ends a take-over after which nothing is to be added: with a second filler, which names the
    /// first.
    pub(super) fn close(&mut self, head: &mut Head) -> Result<(), Error> {
        if self.owes_filler {
            self.fill(head)?;
            self.log.disk.sync_dir("").at("sync", &self.log.path, "")?;
            self.owes_filler = false;
        }
        Ok(())
    }

    /// Returns the number if its event is a filler.
    fn filler_at(&self, number: u64) -> Result<Option<Seq>, Error> {
        let Some(seq) = Seq::new(number) else { return Ok(None) };
        let Slot::Event(bytes) = self.log.slot(seq)? else { return Ok(None) };
        Ok(Stored::parse(&bytes).is_ok_and(|event| event.is_filler()).then_some(seq))
    }
}
