//! Reading what the events say, from where an earlier command left off.
//!
//! The cache is `.lokt/fold.json` and, because keys only ever become more, `.lokt/ids` beside it: a line per key of which only the first
//! bytes count, as many as the cache says. Both are written under the mutex and never synced; what a power cut leaves of them doesn't
//! fit its checksum or its form, and is void. Nothing but speed depends on them.

use std::io;
use std::path::Path;

use lokt_core::ledger::chain::{Digest, Leaf};
use lokt_core::ledger::draft::EVENT_BYTES_MAX;
use lokt_core::ledger::fold::{Folded, Mark};
use lokt_core::ledger::seq::{Named, Seq, Style};
use lokt_core::ledger::stored::Stored;

use crate::error::{At as _, Error};
use crate::parallel;
use crate::sys::disk::{Disk, Entry, Opening, Stamp};

const CACHE: &str = ".lokt/fold.json";
const CACHE_NEW: &str = ".lokt/fold.tmp";
const IDS: &str = ".lokt/ids";
const IDS_NEW: &str = ".lokt/ids.tmp";
/// A longer cache isn't worth reading.
const CACHE_BYTES_MAX: usize = 64 << 20;
/// No line of a key is longer: a number, a blank, a digest, a newline.
const ID_LINE_MAX: u64 = 16 + 1 + 64 + 1;
/// So many events are in memory at a time.
const BLOCK: u64 = 4096;
/// A gap of so many numbers is looked at one by one before it is believed.
const PROBED_MAX: u64 = 64;
/// Reading a few events again costs less than writing the cache and renaming it over the old one; the more so, the greater it is.
const SMALL_BYTES: usize = 64 << 10;
/// A small cache is written so many events after the last,
const KEEP_SMALL_EVERY: u64 = 16;
/// a great one so many.
const KEEP_EVERY: u64 = 128;

/// Reads the events of one ledger.
#[derive(Clone, Copy)]
pub(crate) struct Folder<'a> {
    pub(crate) disk: &'a dyn Disk,
    /// The directory of the events, for messages.
    pub(crate) root: &'a Path,
    pub(crate) style: Style,
}

/// What is in a slot.
enum Read {
    /// `None`: it says nothing but what it adds to the chain. Of many thousands, most do; they are gone before the next is read.
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
    /// What the cache says, or nothing; not yet caught up.
    pub(crate) fn cached(&self) -> Folded {
        self.read_cache().unwrap_or_else(|| Folded::new(self.style))
    }

    fn read_cache(&self) -> Option<Folded> {
        let Entry::File(cache) = self.disk.read(CACHE, CACHE_BYTES_MAX).ok()? else { return None };
        let folded = Folded::decode(&cache.bytes, self.style)?;
        self.is_current(&folded)?;
        let ids = if folded.ids_bytes == 0 { 0 } else { self.disk.stamp(IDS).ok()??.size };
        // No event has two keys.
        let is_possible = folded.ids_bytes <= folded.through.saturating_mul(ID_LINE_MAX);
        (is_possible && ids >= folded.ids_bytes).then_some(folded)
    }

    /// Is the ledger that was read still the one that is there? The number of its head doesn't tell: a late writer may have put its
    /// event into a filler's place, and a ledger that became shorter may have grown again.
    pub(crate) fn holds(&self, folded: &Folded) -> bool {
        folded.through == 0 || self.is_current(folded).is_some()
    }

    fn is_current(&self, folded: &Folded) -> Option<()> {
        let end = self.style.file_name(Seq::new(folded.through)?);
        let Entry::File(event) = self.disk.read(&end, EVENT_BYTES_MAX).ok()? else { return None };
        if !folded.ends_with(&event.bytes) {
            return None;
        }
        for (number, mark) in folded.watched() {
            let stamp = self.disk.stamp(&self.style.file_name(Seq::new(*number)?)).ok()?;
            if stamp.as_ref().map(mark_of) != *mark {
                return None;
            }
        }
        Some(())
    }

    /// Reads on, up to the event `head`. If events were removed meanwhile, ends at the highest that is left.
    pub(crate) fn fold_on(&self, folded: &mut Folded, head: u64) -> Result<(), Error> {
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

    /// The same for a ledger with gaps: only what a listing shows is read, however far apart the numbers are.
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

    /// Takes in what is between the last event and `next`, which isn't in the listing. A listing can miss what is made at the same time.
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

    /// `last`: whose bytes are kept, because the fold may end there; `None`: all of them.
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

    /// Keeps what was read for the next command. Only under the mutex. What fails costs speed, nothing else.
    pub(crate) fn keep(&self, folded: &mut Folded) {
        let _ = self.try_keep(folded);
    }

    fn try_keep(&self, folded: &mut Folded) -> Option<()> {
        let stored = self.disk.stamp(CACHE).ok()?;
        let size = stored.map_or(0, |stamp| usize::try_from(stamp.size).unwrap_or(usize::MAX));
        let every = if size > SMALL_BYTES { KEEP_EVERY } else { KEEP_SMALL_EVERY };
        // One that was of no use is replaced at once.
        if stored.is_some() && folded.kept > 0 && folded.through < folded.kept + every {
            return Some(());
        }
        self.keep_ids(folded)?;
        let bytes = folded.encode()?;
        self.replace(CACHE_NEW, CACHE, &bytes)?;
        folded.kept = folded.through;
        Some(())
    }

    /// Puts the new keys where the old ones are.
    fn keep_ids(&self, folded: &mut Folded) -> Option<()> {
        let size = self.disk.stamp(IDS).ok()?.map_or(0, |stamp| stamp.size);
        let mut lines = String::new();
        for (seq, key) in &folded.fresh_ids {
            lines.push_str(&id_line(*seq, key));
        }
        if size == folded.ids_bytes {
            if !lines.is_empty() {
                self.disk.append(IDS, lines.as_bytes()).ok()?;
            }
        } else {
            let mut all = self.old_ids(folded)?;
            all.extend(lines.as_bytes());
            // The cache that is there counts bytes of the file that is there.
            self.disk.remove(CACHE).ok()?;
            self.replace(IDS_NEW, IDS, &all)?;
        }
        folded.ids_bytes += lines.len() as u64;
        folded.fresh_ids.clear();
        Some(())
    }

    fn replace(&self, new: &str, path: &str, bytes: &[u8]) -> Option<()> {
        self.disk.remove(new).ok()?;
        self.disk.create(new, bytes).ok()?;
        self.disk.rename(new, path).ok()
    }

    /// The lines of the keys that were kept. What is behind them isn't read, however much it is.
    fn old_ids(&self, folded: &Folded) -> Option<Vec<u8>> {
        if folded.ids_bytes == 0 {
            return Some(Vec::new());
        }
        let Opening::File(file) = self.disk.open(IDS).ok()? else { return None };
        if file.stamp().ok()?.size < folded.ids_bytes {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(folded.ids_bytes).ok()?];
        let mut done = 0;
        while done < bytes.len() {
            match file.read_at(&mut bytes[done..], done as u64).ok()? {
                0 => return None,
                got => done += got,
            }
        }
        Some(bytes)
    }

    /// The number of the first event that has this key. If the kept keys can't be read, everything is folded again.
    pub(crate) fn seq_of_id(&self, folded: &mut Folded, key: &str) -> Result<Option<Seq>, Error> {
        let digest = Digest::of(key.as_bytes());
        let kept = self.old_ids(folded).map_or(Err(NoIds), |lines| find_id(&lines, &digest));
        let old = if let Ok(old) = kept {
            old
        } else {
            let head = folded.through;
            *folded = Folded::new(self.style);
            self.fold_on(folded, head)?;
            None
        };
        let fresh = || folded.fresh_ids.iter().find(|(_, fresh)| *fresh == digest).map(|(seq, _)| *seq);
        Ok(old.or_else(fresh))
    }
}

/// Folds what was read.
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

fn mark_of(stamp: &Stamp) -> Mark {
    let modified_ns = i64::try_from(stamp.modified.as_nanosecond()).unwrap_or(i64::MAX);
    Mark { ino: stamp.ino, modified_ns, size: stamp.size }
}

fn id_line(seq: Seq, key: &Digest) -> String {
    format!("{seq} {key}\n")
}

/// What should be lines of keys isn't, or not all of it is.
struct NoIds;

/// Looks for a key in the lines of the kept ones.
fn find_id(lines: &[u8], key: &Digest) -> Result<Option<Seq>, NoIds> {
    let wanted = key.to_string();
    let mut found = None;
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        let (number, digest) = id_of(line).ok_or(NoIds)?;
        if found.is_none() && digest == wanted.as_bytes() {
            found = Some(number);
        }
    }
    Ok(found)
}

fn id_of(line: &[u8]) -> Option<(Seq, &[u8])> {
    let line = line.strip_suffix(b"\n")?;
    let (number, digest) = line.split_at_checked(line.len().checked_sub(64)?)?;
    let number = std::str::from_utf8(number.strip_suffix(b" ")?).ok()?.parse().ok()?;
    let is_digest = digest.iter().all(u8::is_ascii_hexdigit);
    Seq::new(number).filter(|_| is_digest).map(|seq| (seq, digest))
}
