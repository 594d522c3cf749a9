//! Reading a chain: which link is the last, and what it says.
//!
//! Links are never changed and never made twice. A process that has read the last one knows
//! everything, and learns that it wasn't the last when it adds the next.

use super::fences::Fences;
use crate::repo::Repository;
use lokt_core::name::LockName;
use std::io;

use jiff::Timestamp;
use lokt_core::lease::names::File;
use lokt_core::lease::record::{RECORD_BYTES_MAX, Record};
use lokt_core::lease::slot::{Base, Slot, Tag};
use lokt_core::lease::state::State;
use lokt_core::time::Moment;

use super::commit::Added;
use super::view::Due;
use lokt_sys::disk::{Content, Entry, Stamp};
use lokt_sys::error::{At as _, Error, ErrorKind};

/// Maximum number of reads while other processes prune: they can't prune indefinitely.
const READS_MAX: usize = 200;

/// Maximum distance of a foreign link above the ceiling: no chain will ever get there.
const FAR: u64 = 1 << 32;

/// The directory with all chains.
pub(crate) const LOCKS: &str = "locks";

/// The links that the directory lists.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// Numbers, highest first.
    pub(crate) slots: Vec<u64>,
}

/// A link that can't be read.
#[derive(Debug)]
pub(crate) struct Damaged {
    pub(crate) number: u64,
    pub(crate) why: String,
}

/// A chain as it was read.
#[derive(Debug)]
pub(crate) struct Links {
    /// The clocks, read before the directory.
    pub(crate) now: Moment,
    pub(crate) base: Base,
    /// The clock of a file server, also read before the directory.
    pub(crate) served: Option<Timestamp>,
    /// The last readable link; `None` if there is none yet.
    pub(crate) last: Option<Slot>,
    /// Its file.
    pub(crate) stamp: Option<Stamp>,
    /// The last link, if it is unreadable.
    pub(crate) damaged: Option<Damaged>,
    /// The token of the last grant that was noted outside of the chain, if it belongs to another
    /// chain.
    pub(crate) elsewhere: u64,
    /// The highest link of another chain above the last one of this chain; 0 if there is none.
    pub(crate) stranger: u64,
    /// Number of links.
    pub(crate) count: usize,
}

/// The result of reading a chain.
pub(crate) enum Reading {
    /// There is no chain yet, or no longer.
    Unborn,
    Born(Box<Links>),
}

impl Links {
    /// Returns the number of the next link.
    pub(crate) fn next(&self) -> u64 {
        let next = self.last.as_ref().map_or(self.base.first, |last| last.next);
        self.damaged.as_ref().map_or(next, |damaged| next.max(damaged.number + 1))
    }

    /// Returns the last number of the block that this chain may use.
    pub(crate) fn ceiling(&self) -> u64 {
        self.last.as_ref().map_or(self.base.block, |last| last.ceiling)
    }

    pub(crate) fn acquire_seq(&self) -> u64 {
        self.last.as_ref().map_or(self.base.acquire_seq, |last| last.acquire_seq)
    }

    /// Returns the state of snapshots.
    pub(crate) fn state(&self) -> State {
        self.last.as_ref().map(|last| last.state.clone()).unwrap_or_default()
    }

    /// Returns the lease, live or not.
    pub(crate) fn record(&self) -> Option<&Record> {
        self.last.as_ref().filter(|_| self.damaged.is_none())?.record.as_deref()
    }

    /// Returns the tag that the view should have.
    pub(crate) fn tag(&self) -> Option<Tag> {
        self.record()?;
        self.last.as_ref().map(|last| Tag { chain: last.chain.clone(), number: last.number })
    }

    /// Returns what the views should show.
    pub(crate) fn due(&self) -> Option<Due<'_>> {
        Some(Due { tag: self.tag()?, record: self.record()? })
    }

    /// Returns the chain with one more link, as far as that is known without reading it again.
    pub(crate) fn with(&self, added: Added) -> Self {
        Self {
            now: self.now,
            base: self.base.clone(),
            served: self.served,
            last: Some(added.slot),
            stamp: Some(added.stamp),
            damaged: None,
            elsewhere: self.elsewhere,
            stranger: self.stranger,
            count: self.count + 1,
        }
    }
}

/// The chain of a worktree: its files and their contents.
#[derive(Clone, Copy)]
pub(crate) struct Chain<'w> {
    pub(super) repo: &'w Repository,
    pub(super) name: &'w LockName,
}

impl Chain<'_> {
    pub(super) fn fences(&self) -> Fences<'_> {
        Fences { repo: self.repo, name: self.name }
    }

    /// Returns the directory of the chain, as a path in `.jvs`.
    pub(crate) fn dir(&self) -> String {
        format!("locks/{}.lock.d", self.name)
    }

    /// Returns a file of the chain, as a path in `.jvs`.
    pub(crate) fn file(&self, file: &File) -> String {
        format!("{}/{}", self.dir(), file.name())
    }

    pub(crate) fn list(&self) -> Result<Listing, Error> {
        let mut listing = Listing::default();
        let dir = self.dir();
        // Not a directory that was moved aside.
        self.repo.disk.refresh(LOCKS);
        let listed = self.repo.disk.each_name(&dir, &mut |name| match File::parse(name) {
            File::Slot(number) => listing.slots.push(number),
            File::Base | File::Watch(_) | File::Pulse(_) | File::Other => {}
        });
        listed.at("list", &self.repo.path, &dir)?;
        listing.slots.sort_unstable_by(|one, other| other.cmp(one));
        Ok(listing)
    }

    /// Returns the first file of the chain; `None` if there is none.
    pub(crate) fn read_base(&self) -> Result<Option<Base>, Error> {
        let path = self.file(&File::Base);
        let Some(content) = self.read_file(&path)? else { return Ok(None) };
        Base::parse(&content.bytes).map(Some).map_err(|why| {
            let message = format!("{} is damaged: {why}", self.repo.path.join(&path).display());
            let hint = "`lokt lease break --force --reason TEXT` moves the chain aside and begins a new one";
            Error::new(ErrorKind::Damaged, message).hint(hint)
        })
    }

    /// Reads the chain. The clocks are read first: everything that was there before `now` is
    /// included.
    pub(crate) fn read(&self) -> Result<Reading, Error> {
        for _ in 0..READS_MAX {
            let now = self.repo.machine.now();
            let served = self.server_clock();
            // Also first: a grant is in the chain before it is noted there.
            let granted = self.fences().noted_grant()?;
            let listing = self.list()?;
            let Some(base) = self.read_base()? else { return Ok(Reading::Unborn) };
            let count = listing.slots.len();
            let elsewhere = granted.as_ref().filter(|(chain, _)| *chain != base.chain).map_or(0, |(_, token)| *token);
            let (last, stamp, damaged, stranger) = (None, None, None, 0);
            let mut links = Links { now, base, served, last, stamp, damaged, elsewhere, stranger, count };
            let Some(strangers) = self.read_links(&mut links, &listing)? else { continue };
            let highest = links.last.as_ref().map_or(0, |last| last.number);
            if let Some(number) = granted.filter(|(chain, number)| *chain == links.base.chain && *number > highest)
                && links.damaged.is_none()
            {
                links.damaged = Some(Damaged { number: number.1, why: "its last links are missing".into() });
            }
            let is_near = |number: &u64| *number < links.ceiling().saturating_add(FAR);
            links.stranger = strangers.iter().copied().filter(is_near).max().unwrap_or(0);
            // No link of ours can be added under the number of one of them.
            while strangers.contains(&links.next()) {
                let why = "it is a link of another chain, in the place of the next one".into();
                links.damaged = Some(Damaged { number: links.next(), why });
            }
            return Ok(Reading::Born(Box::new(links)));
        }
        let message = format!("{} changes too fast to be read", self.repo.path.join(self.dir()).display());
        Err(Error::new(ErrorKind::Busy, message))
    }

    /// Returns the numbers above the last link that are used by links of other chains. `None`: a
    /// listed link has vanished, so the listing is outdated.
    fn read_links(&self, links: &mut Links, listing: &Listing) -> Result<Option<Vec<u64>>, Error> {
        let mut strangers = Vec::new();
        for &number in listing.slots.iter().take_while(|number| **number >= links.base.first) {
            let content = match self.read_file(&self.file(&File::Slot(number))) {
                Ok(Some(content)) => Ok(content),
                Ok(None) => return Ok(None),
                // Any file with a link's name uses up its number.
                Err(error) if error.kind() == ErrorKind::NotARecord => Err(error.to_string()),
                Err(error) => return Err(error),
            };
            let read = content.and_then(|content| Ok((Slot::parse(&content.bytes)?, content.stamp)));
            match read {
                // Left by a process that was suspended before an older chain was deleted: it will
                // notice.
                Ok((slot, _)) if slot.chain != links.base.chain || slot.number != number => strangers.push(number),
                Ok((slot, stamp)) => {
                    links.last = Some(slot);
                    links.stamp = Some(stamp);
                    return Ok(Some(strangers));
                }
                Err(why) if links.damaged.is_none() => links.damaged = Some(Damaged { number, why }),
                Err(_) => {}
            }
        }
        Ok(Some(strangers))
    }

    /// Reads a small file of `.jvs`; `None` if there is none.
    pub(crate) fn read_file(&self, path: &str) -> Result<Option<Content>, Error> {
        let shown = || self.repo.path.join(path).display().to_string();
        match self.repo.disk.read(path, RECORD_BYTES_MAX) {
            Ok(Entry::File(content)) => Ok(Some(content)),
            Ok(Entry::Missing) => Ok(None),
            Ok(Entry::NotRegular(kind)) => {
                Err(Error::new(ErrorKind::NotARecord, format!("{} is {kind}, not a file of a lease", shown())))
            }
            Ok(Entry::TooBig(size)) => {
                let message = format!("{} has {size} bytes, more than any file of a lease", shown());
                Err(Error::new(ErrorKind::NotARecord, message))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("read", &self.repo.path.join(path), error)),
        }
    }
}
