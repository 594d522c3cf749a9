//! Folding the events: reading them in blocks, in parallel, from where an earlier command left off.

use std::io;
use std::path::Path;

use lokt_core::ledger::chain::Leaf;
use lokt_core::ledger::draft::EVENT_BYTES_MAX;
use lokt_core::ledger::fold::{Folded, Mark};
use lokt_core::ledger::seq::{Named, Seq, Style};
use lokt_core::ledger::stored::Stored;

use super::FileLog;
use lokt_sys::disk::{Disk, Entry, Stamp};
use lokt_sys::error::{At as _, Error};
use lokt_sys::parallel;

/// Maximum number of events in memory at a time.
const BLOCK: u64 = 4096;
/// Longest gap whose numbers are checked one by one: a listing can miss a name that is being made.
const PROBED_MAX: u64 = 64;
/// Reads the events of one ledger.
#[derive(Clone, Copy)]
pub(super) struct Folder<'l> {
    pub(super) disk: &'l dyn Disk,
    /// The directory of the events, for messages.
    pub(super) root: &'l Path,
    pub(super) style: Style,
}

impl FileLog {
    /// The reader of the events.
    pub(super) fn folder(&self) -> Folder<'_> {
        Folder { disk: &*self.disk, root: &self.path, style: self.settings.style }
    }
}

/// The content of a number.
enum Read {
    /// `None`: it adds only to the chain. Most of many thousands do; they are dropped before the
    /// next is read.
    Event {
        event: Option<Box<Stored>>,
        leaf: Leaf,
        mark: Mark,
        identity: Option<Vec<u8>>,
    },
    Damaged {
        why: String,
        leaf: Leaf,
        mark: Option<Mark>,
    },
    Missing,
}

impl Folder<'_> {
    /// The fold of all events up to `head`, from the cache on.
    pub(super) fn folded(&self, head: u64) -> Result<Folded, Error> {
        let mut folded = self.cached();
        if folded.through > head {
            folded = Folded::new(self.style);
        }
        self.fold_on(&mut folded, head)?;
        Ok(folded)
    }

    /// The fold of all events up to `head`, from the first on.
    pub(super) fn folded_anew(&self, head: u64) -> Result<Folded, Error> {
        let mut folded = Folded::new(self.style);
        self.fold_on(&mut folded, head)?;
        Ok(folded)
    }

    /// Reads on, up to the event `head`. If events were removed in the meantime, ends at the
    /// highest that is left.
    pub(super) fn fold_on(&self, folded: &mut Folded, head: u64) -> Result<(), Error> {
        while folded.through < head {
            let last = head.min(folded.through + BLOCK);
            let block: Vec<Seq> = (folded.through + 1..=last).filter_map(Seq::new).collect();
            let reads = self.read_all(&block, Some(last))?;
            if reads.iter().any(|read| matches!(read, Read::Missing)) {
                return self.fold_gaps(folded, head);
            }
            take_in(folded, &block, reads);
        }
        Ok(())
    }

    /// Reads on in a ledger with gaps: only what a listing shows, however far apart the numbers
    /// are.
    fn fold_gaps(&self, folded: &mut Folded, head: u64) -> Result<(), Error> {
        let mut numbers = Vec::new();
        let range = folded.through + 1..=head;
        let listed = self.disk.each_name("", &mut |name| {
            if let Named::Event(seq) = self.style.named(name)
                && range.contains(&seq.get())
            {
                numbers.push(seq);
            }
        });
        listed.at("list", self.root, "")?;
        numbers.sort_unstable();
        for block in numbers.chunks(usize::try_from(BLOCK).expect("it is small")) {
            let reads = self.read_all(block, None)?;
            for (seq, read) in block.iter().zip(reads) {
                if matches!(read, Read::Missing) {
                    continue;
                }
                self.fold_gap(folded, *seq)?;
                take_in(folded, &[*seq], vec![read]);
            }
        }
        Ok(())
    }

    /// Folds what is between the last event and `next` and isn't in the listing. A listing can miss
    /// what is made at the same time.
    fn fold_gap(&self, folded: &mut Folded, next: Seq) -> Result<(), Error> {
        let gap: Vec<Seq> = (folded.through + 1..next.get()).take(64).filter_map(Seq::new).collect();
        let Some(before) = Seq::new(next.get() - 1).filter(|_| !gap.is_empty()) else { return Ok(()) };
        if before.get() - folded.through > PROBED_MAX {
            folded.missing(before);
            return Ok(());
        }
        for seq in gap {
            match self.read(seq, true)? {
                Read::Missing if seq == before => folded.missing(seq),
                Read::Missing => {}
                read => {
                    if let Some(missing) = Seq::new(seq.get() - 1).filter(|missing| missing.get() > folded.through) {
                        folded.missing(missing);
                    }
                    take_in(folded, &[seq], vec![read]);
                }
            }
        }
        Ok(())
    }

    /// `last`: the event whose bytes are kept, because the fold may end there; `None`: all of them.
    fn read_all(&self, block: &[Seq], last: Option<u64>) -> Result<Vec<Read>, Error> {
        let ends = |seq: &Seq| last.is_none_or(|last| seq.get() == last);
        parallel::map(block, |seq| self.read(*seq, ends(seq))).into_iter().collect()
    }

    fn read(&self, seq: Seq, ends: bool) -> Result<Read, Error> {
        let name = self.style.file_name(seq);
        let entry = match self.disk.read(&name, EVENT_BYTES_MAX) {
            // The documented recipe makes events that only their owner may read.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return self
                    .odd(&name, "it may not be read; its owner's `lokt ledger doctor --fix` mends that".to_owned());
            }
            done => done.at("read", self.root, &name)?,
        };
        Ok(match entry {
            Entry::Missing => Read::Missing,
            Entry::File(content) => {
                let mark = mark_of(&content.stamp);
                match Stored::parse(&content.bytes) {
                    Ok(event) => {
                        let leaf = Leaf::event(&event, &content.bytes);
                        let event = (!Folded::is_plain(self.style, &event)).then(|| Box::new(event));
                        Read::Event { event, leaf, mark, identity: ends.then_some(content.bytes) }
                    }
                    Err(damage) => {
                        Read::Damaged { why: damage.0, leaf: Leaf::damaged(&content.bytes), mark: Some(mark) }
                    }
                }
            }
            Entry::NotRegular(kind) => self.odd(&name, format!("it is {kind}"))?,
            Entry::TooBig(bytes) => self.odd(&name, format!("it has {bytes} bytes, more than an event may have"))?,
        })
    }

    fn odd(&self, name: &str, why: String) -> Result<Read, Error> {
        let mark = self.disk.stamp(name).at("look at", self.root, name)?.as_ref().map(mark_of);
        Ok(Read::Damaged { why, leaf: Leaf::damaged(b""), mark })
    }
}

/// Folds events that were read.
fn take_in(folded: &mut Folded, block: &[Seq], reads: Vec<Read>) {
    for (seq, read) in block.iter().zip(reads) {
        match read {
            Read::Event { event, leaf, mark, identity } => {
                match event {
                    Some(event) => folded.event(*seq, &event, leaf, mark),
                    None => folded.plain(*seq, leaf, mark),
                }
                if let Some(bytes) = identity {
                    folded.identify(&bytes);
                }
            }
            Read::Damaged { why, leaf, mark } => folded.damaged(*seq, &why, leaf, mark),
            Read::Missing => folded.missing(*seq),
        }
    }
}

pub(super) fn mark_of(stamp: &Stamp) -> Mark {
    let modified_ns = i64::try_from(stamp.modified.as_nanosecond()).unwrap_or(i64::MAX);
    Mark { ino: stamp.ino, modified_ns, size: stamp.size }
}
