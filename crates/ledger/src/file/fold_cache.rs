//! The cache of the fold, for the next command.
//!
//! It is `.lokt/fold.json` and, because the set of keys only grows, `.lokt/ids` beside it: a line
//! per key, of which only the first bytes count, as many as the cache says. Both are written under
//! the mutex and never synced; what a power cut leaves of them doesn't fit its checksum or its
//! form, and is void. Only speed depends on them.

use std::time::Duration;

use lokt_core::ledger::chain::Digest;
use lokt_core::ledger::draft::EVENT_BYTES_MAX;
use lokt_core::ledger::fold::Folded;
use lokt_core::ledger::seq::Seq;
use lokt_core::ledger::stored::Stored;

use super::FileLog;
use super::fold::{Folder, mark_of};
use super::inside::MutexHeld;
use crate::log::Keys;
use lokt_sys::disk::{Entry, Opening};
use lokt_sys::error::{At as _, Error};
use lokt_sys::mutex;

const CACHE: &str = ".lokt/fold.json";
const CACHE_NEW: &str = ".lokt/fold.tmp";
const IDS: &str = ".lokt/ids";
const IDS_NEW: &str = ".lokt/ids.tmp";
/// Maximum size of a cache: a longer one isn't worth reading.
const CACHE_BYTES_MAX: usize = 64 << 20;
/// Maximum length of a key's line: a number, a blank, a digest, a newline.
const ID_LINE_MAX: u64 = 16 + 1 + 64 + 1;
/// Size in bytes above which a cache is large. Reading a few events again costs less than replacing
/// the cache, the more so the larger it is.
const SMALL_BYTES: usize = 64 << 10;
/// Number of events after which a small cache is replaced.
const KEEP_SMALL_EVERY: u64 = 16;
/// Number of events after which a large cache is replaced.
const KEEP_EVERY: u64 = 128;

/// Minimum number of events after the cache for which it is worth a lock to keep what was read.
const WORTH_KEEPING: u64 = 256;

impl FileLog {
    /// Acquires the mutex to keep what was read without a lock, if that was much.
    pub(super) fn keep_what_was_read(&self, folded: Option<Folded>) {
        let Some(mut folded) = folded.filter(|folded| folded.through - folded.kept >= WORTH_KEEPING) else { return };
        if let Ok(mutex) = mutex::Inside::enter(&*self.disk, Duration::ZERO) {
            self.folder().keep(&mut folded, &mutex);
        }
    }
}

impl Folder<'_> {
    /// The fold of the cache, or an empty one; not yet caught up.
    pub(super) fn cached(&self) -> Folded {
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

    /// Reports whether the folded events are still the ones in the ledger. The number of the head
    /// doesn't tell: a late writer may have put its event into a filler's place, and a shortened
    /// ledger may have grown again.
    pub(super) fn holds(&self, folded: &Folded) -> bool {
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

    /// Keeps the fold for the next command. Best effort: a failure costs only speed.
    pub(super) fn keep(&self, folded: &mut Folded, _mutex: &dyn MutexHeld) {
        let _ = self.try_keep(folded);
    }

    fn try_keep(&self, folded: &mut Folded) -> Option<()> {
        let stored = self.disk.stamp(CACHE).ok()?;
        let size = stored.map_or(0, |stamp| usize::try_from(stamp.size).unwrap_or(usize::MAX));
        let every = if size > SMALL_BYTES { KEEP_EVERY } else { KEEP_SMALL_EVERY };
        // A useless one is replaced at once.
        if stored.is_some() && folded.kept > 0 && folded.through < folded.kept + every {
            return Some(());
        }
        self.keep_ids(folded)?;
        let bytes = folded.encode()?;
        self.replace(CACHE_NEW, CACHE, &bytes)?;
        folded.kept = folded.through;
        Some(())
    }

    /// Stores the new keys after the old ones.
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
            // The stored cache counts bytes of the stored keys.
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

    /// The lines of the stored keys. Bytes after them aren't read.
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

    /// The number of the first event that has this key, by the index. If the stored keys can't be
    /// read, everything is folded again.
    fn indexed_seq(&self, folded: &mut Folded, key: &str) -> Result<Option<Seq>, Error> {
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

impl Keys for Folder<'_> {
    /// The index is believed only if the event has that key: another may have its number by now.
    fn seq_of_key(&self, folded: &mut Folded, key: &str) -> Result<Option<Seq>, Error> {
        let Some(seq) = self.indexed_seq(folded, key)? else { return Ok(None) };
        let file = self.style.file_name(seq);
        if let Entry::File(content) = self.disk.read(&file, EVENT_BYTES_MAX).at("read", self.root, &file)?
            && Stored::parse(&content.bytes).is_ok_and(|event| event.id() == Some(key))
        {
            return Ok(Some(seq));
        }
        *folded = self.folded_anew(folded.through)?;
        self.indexed_seq(folded, key)
    }
}

fn id_line(seq: Seq, key: &Digest) -> String {
    format!("{seq} {key}\n")
}

/// The stored keys are incomplete or not in their format.
struct NoIds;

/// Searches the lines of the stored keys.
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
