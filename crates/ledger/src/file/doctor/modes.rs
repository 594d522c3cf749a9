//! The modes of events: all users may read them, and only their owner may write them.

use lokt_core::ledger::seq::Seq;

use super::{Doctor, Repair, Repairable};
use crate::file::Names;
use lokt_sys::look::{Look, look};
use lokt_sys::parallel;

/// Mode of events, as documented, whatever the umask.
pub(super) const EVENT_MODE: u32 = 0o644;

impl Doctor<'_> {
    /// One finding for all events: the documented recipe makes every event private.
    pub(super) fn mode_finding(self, names: &Names) -> Option<Repairable> {
        let odd = parallel::map(&names.numbers, |number| {
            let seq = Seq::new(*number)?;
            let mode = self.event_look(seq)?.mode;
            let readable_by_all = mode & 0o444 == 0o444;
            let writable_by_others = mode & 0o022 != 0;
            (!readable_by_all || writable_by_others).then_some((seq, mode))
        });
        let odd: Vec<(Seq, u32)> = odd.into_iter().flatten().collect();
        let (first, mode) = *odd.first()?;
        let message = match odd.len() {
            1 => format!("event {first} has the mode {mode:03o}, and not {EVENT_MODE:03o}"),
            count => {
                format!("{count} events don't have the mode {EVENT_MODE:03o}, the first: event {first} ({mode:03o})")
            }
        };
        let seqs = odd.into_iter().map(|(seq, _)| seq).collect();
        Some(
            Repairable::new("mode", message)
                .at(first, self.log.at(&self.log.file(first)))
                .hint("other users can't read them, or could change them")
                .repair(Repair::Mode(seqs), format!("give those of ours the mode {EVENT_MODE:03o}")),
        )
    }

    /// An event's file, inspected by path, on this machine's own disks.
    pub(super) fn event_look(self, seq: Seq) -> Option<Look> {
        look(&self.log.at(&self.log.file(seq))).ok().flatten().filter(|found| found.kind.is_none())
    }
}
