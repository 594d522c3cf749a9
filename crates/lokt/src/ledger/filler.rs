//! The number that a writer whose lock was taken over was about to use gets an event that says nothing.

use std::io;

use lokt_core::ledger::draft::{Added, Draft};
use lokt_core::ledger::seq::Seq;
use lokt_core::ledger::stored::Stored;

use super::Ledger;
use super::answers::Slot;
use super::commit::RERUNS_MAX;
use super::head::Head;
use super::inside::Inside;
use crate::error::{At as _, Error, ErrorKind};

impl Ledger {
    /// Fills the number that a writer whose lock was taken over was about to use: what it puts there when it comes back replaces nothing
    /// of ours. Always a new number, even if the head is a filler already: that one may have been for another writer.
    pub(super) fn fill(&self, head: &mut Head) -> Result<Seq, Error> {
        for _ in 0..=RERUNS_MAX {
            let seq = Seq::new(head.seq + 1).ok_or_else(|| self.is_full())?;
            // What a late writer may replace is named by the event after it, so that everybody knows why.
            let filler = self.filler_at(head.seq)?;
            let draft = Draft::filler(self.settings.style);
            let bytes = draft.render(self.settings.style, self.now().wall, Added { filler, ..Added::default() });
            let bytes = bytes.map_err(|error| Error::new(ErrorKind::BadEvent, error.0))?;
            let prepared = self.prepare(vec![bytes], &mut |_, _| {})?;
            match self.publish_all(&prepared, head).1 {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => *head = self.listed()?,
                Err(error) => return Err(Error::io("write", &self.at(&self.file(seq)), error)),
                Ok(()) => {
                    head.seq = seq.get();
                    return Ok(seq);
                }
            }
        }
        Err(Error::new(ErrorKind::Busy, format!("another program writes to {} without a lock", self.path.display())))
    }

    /// A take-over after which nothing is to be added ends with a second filler, which names the first.
    pub(super) fn close(&self, inside: &mut Inside<'_>, head: &mut Head) -> Result<(), Error> {
        if inside.owes_filler {
            self.fill(head)?;
            self.disk.sync_dir("").at("sync", &self.path, "")?;
            inside.owes_filler = false;
        }
        Ok(())
    }

    /// The number, if a filler is there.
    fn filler_at(&self, number: u64) -> Result<Option<Seq>, Error> {
        let Some(seq) = Seq::new(number) else { return Ok(None) };
        let Slot::Event(bytes) = self.read(seq)? else { return Ok(None) };
        Ok(Stored::parse(&bytes).is_ok_and(|event| event.is_filler()).then_some(seq))
    }
}
