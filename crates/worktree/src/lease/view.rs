//! The views of a lease: lock files for tools that know nothing else. lokt never decides by a view
//! of its own, but honours that of another tool.
//!
//! One view is `<worktree>.lock`, a hard link to the file of the chain that it shows. The other is
//! `lock.json` of `jvs`, in its format. It is published only in repositories that `jvs` uses, and
//! honoured everywhere. A view appears atomically: it is created where none exists, or swapped with
//! an older one of ours. The file that a swap removes is inspected, so that nothing of other tools
//! is lost.

use super::chain::Chain;
use lokt_core::name::LockName;
use std::io;

use lokt_core::lease::jvs;
use lokt_core::lease::names::File;
use lokt_core::lease::record::{Parsed, RECORD_BYTES_MAX, Record, parse};
use lokt_core::lease::slot::{Tag, tag};
use lokt_core::ledger::chain::Digest;

use super::chain::{Links, Reading};
use super::commit::Added;
use crate::repo::{FILE_MODE, Repository, publish_new};
use lokt_sys::disk::{Content, Entry};
use lokt_sys::error::{At as _, Error, ErrorKind};
use lokt_sys::exchange::{PutBackError, Swapped, Taken, put_back, swap_if, take_if};

/// Maximum number of attempts: others change it too, but not indefinitely.
const TRIES: usize = 64;

/// A file that other tools read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Board {
    /// `locks/<worktree>.lock`
    Record,
    /// `worktrees/<worktree>/lock.json`
    Jvs,
}

impl Board {
    pub(crate) const ALL: [Self; 2] = [Self::Record, Self::Jvs];
}

/// The content that a view has to show.
pub(crate) struct Due<'a> {
    pub(crate) tag: Tag,
    pub(crate) record: &'a Record,
}

/// The content of a view.
#[derive(Debug, Clone)]
pub(crate) enum View {
    Missing,
    Ours(Tag),
    Foreign(Foreign),
    /// Not a file, or not a lock file; the text says what it is.
    Odd(String),
}

/// Another tool's lock.
#[derive(Debug, Clone)]
pub(crate) struct Foreign {
    /// The record, or why it is unreadable.
    pub(crate) record: Result<Box<Record>, String>,
    /// Equal for the same file with the same content.
    pub(crate) identity: String,
}

impl Foreign {
    pub(crate) fn token(&self) -> Option<u64> {
        self.record.as_ref().ok().and_then(|record| record.token).map(lokt_core::hold::Fence::get)
    }
}

/// Whether the view agrees with the chain.
#[derive(Debug)]
pub(crate) enum Shown {
    Right,
    /// Another tool's view is there instead.
    Foreign,
}

/// The lock files that other tools read.
#[derive(Clone, Copy)]
pub(crate) struct Views<'w> {
    pub(super) repo: &'w Repository,
    pub(super) name: &'w LockName,
}

impl Views<'_> {
    fn chain(&self) -> Chain<'_> {
        Chain { repo: self.repo, name: self.name }
    }

    /// Returns its path in `.jvs`.
    pub(crate) fn path(&self, board: Board) -> String {
        match board {
            Board::Record => format!("locks/{}.lock", self.name),
            Board::Jvs => format!("worktrees/{}/lock.json", self.name),
        }
    }

    /// Returns the views that show a lease of ours. `jvs` refuses a repository in our format
    /// anyway.
    fn boards(&self) -> &'static [Board] {
        if self.repo.jvs_format().is_read() { &Board::ALL } else { &Board::ALL[..1] }
    }

    /// Reads a view of `chain`.
    pub(crate) fn read(&self, board: Board, chain: &str) -> Result<View, Error> {
        self.read_at(board, &self.path(board), chain)
    }

    fn read_at(&self, board: Board, path: &str, chain: &str) -> Result<View, Error> {
        let shown = || self.repo.path.join(path).display().to_string();
        match self.repo.disk.read(path, RECORD_BYTES_MAX).at("read", &self.repo.path, path)? {
            Entry::Missing => Ok(View::Missing),
            Entry::File(content) => Ok(view(board, &content, chain, &shown)),
            Entry::NotRegular(kind) => Ok(View::Odd(format!("{} is {kind}, not a lock", shown()))),
            Entry::TooBig(size) => Ok(View::Odd(format!("{} has {size} bytes, more than any lock", shown()))),
        }
    }

    /// Reads a view with respect to a chain. If a view claims to belong to the chain, but is ahead
    /// of it even after a second read of the chain, it is not ours.
    pub(crate) fn view_from(&self, board: Board, links: &Links) -> Result<View, Error> {
        let view = self.read(board, &links.base.chain)?;
        let is_ahead = |links: &Links| matches!(&view, View::Ours(tag) if tag.number >= links.next());
        if !is_ahead(links) {
            return Ok(view);
        }
        match self.chain().read()? {
            Reading::Born(now) if is_ahead(&now) => self.read(board, ""),
            _ => Ok(view),
        }
    }

    /// Makes the views show what the chain says, and checks again that the chain still says so.
    pub(crate) fn settle(&self) -> Result<Shown, Error> {
        for board in self.boards() {
            if let Shown::Foreign = self.settle_board(*board)? {
                return Ok(Shown::Foreign);
            }
        }
        Ok(Shown::Right)
    }

    fn settle_board(&self, board: Board) -> Result<Shown, Error> {
        for _ in 0..TRIES {
            let Reading::Born(links) = self.chain().read()? else { return Ok(Shown::Right) };
            let view = self.view_from(board, &links)?;
            match (links.due(), view) {
                (Some(right), View::Ours(there)) if right.tag == there => return Ok(Shown::Right),
                (None, View::Missing) => return Ok(Shown::Right),
                (_, View::Foreign(_)) => return Ok(Shown::Foreign),
                // It tells neither other tools nor us anything.
                (_, View::Odd(_)) => return Ok(Shown::Right),
                (Some(right), View::Missing) => self.publish_view(board, &right)?,
                (Some(right), View::Ours(_)) => self.swap(board, &right)?,
                (None, View::Ours(there)) => {
                    self.remove_view(board, &links.base.chain, |found| *found == View::Ours(there.clone()))?;
                }
            }
        }
        let message =
            format!("{} is changed by others again and again", self.repo.path.join(self.path(board)).display());
        Err(Error::new(ErrorKind::Busy, message))
    }

    /// Does the same after a link of ours, which is usually still the last: then only the view is
    /// read. A process that adds the next link later settles the view too.
    pub(crate) fn settle_after(&self, added: &Added) -> Result<Shown, Error> {
        for board in self.boards() {
            if !self.settles_at_once(*board, added)? {
                return self.settle();
            }
        }
        Ok(Shown::Right)
    }

    fn settles_at_once(&self, board: Board, added: &Added) -> Result<bool, Error> {
        let right = added.due();
        for _ in 0..2 {
            match (&right, self.read(board, &added.slot.chain)?) {
                (Some(right), View::Missing) => self.publish_view(board, right)?,
                (Some(right), View::Ours(there)) if there.number < right.tag.number => self.swap(board, right)?,
                (Some(right), View::Ours(there)) if there == right.tag && self.chain().is_last(&added.slot)? => {
                    return Ok(true);
                }
                (None, View::Missing) if self.chain().is_last(&added.slot)? => return Ok(true),
                _ => break,
            }
        }
        Ok(false)
    }

    /// Publishes the view where none is. A faster process is handled in the next round.
    pub(crate) fn publish_view(&self, board: Board, right: &Due<'_>) -> Result<(), Error> {
        let to = self.path(board);
        match self.make(board, right, &to) {
            // Pruned or deleted in the meantime.
            Err(error) if matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound) => Ok(()),
            done => done.at("write", &self.repo.path, &to),
        }
    }

    /// Creates a view atomically, under a name that must be free.
    fn make(&self, board: Board, right: &Due<'_>, path: &str) -> io::Result<()> {
        let disk = &*self.repo.disk;
        match board {
            Board::Record => disk.link(&self.chain().file(&File::Slot(right.tag.number)), path),
            Board::Jvs if publish_new(disk, path, &jvs::to_bytes(right.record, &right.tag), FILE_MODE)? => Ok(()),
            Board::Jvs => Err(io::ErrorKind::AlreadyExists.into()),
        }
    }

    /// Replaces an older view of ours.
    fn swap(&self, board: Board, right: &Due<'_>) -> Result<(), Error> {
        let to = self.path(board);
        let disk = &self.repo.disk;
        let temp = self.temp()?;
        match self.make(board, right, &temp) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            done => done.at("write", &self.repo.path, &temp)?,
        }
        // If it is newer than ours, or a foreign one, it is put back.
        let is_expected = |temp: &str| {
            let came_out = self.read_at(board, temp, &right.tag.chain)?;
            let is_older = matches!(&came_out, View::Ours(there) if there.number < right.tag.number);
            Ok::<_, Error>(is_older || matches!(came_out, View::Missing))
        };
        let swapped = swap_if(&**disk, &temp, &to, is_expected);
        let undone = match &swapped {
            Ok(Swapped::Unexpected | Swapped::Unjudged(_)) => put_back(&**disk, &temp, &to, None, None).failure,
            _ => None,
        };
        let _ = disk.remove(&temp);
        let swapped = match swapped {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            done => done.at("write", &self.repo.path, &to)?,
        };
        match (swapped, undone) {
            (Swapped::Unjudged(error), _) => Err(error),
            (_, Some(PutBackError::Exchange(error) | PutBackError::Examine(error))) => {
                Err(Error::io("write", &self.repo.path.join(&to), error))
            }
            _ => Ok(()),
        }
    }

    /// Removes the view that showed `jvs` the lease of the worktree that had this one's directory
    /// before.
    pub(crate) fn remove_view_of(&self, before: &Self) -> Result<(), Error> {
        match before.chain().read()? {
            Reading::Born(links) if self.repo.jvs_format().is_read() => {
                self.remove_view(Board::Jvs, &links.base.chain, |found| matches!(found, View::Ours(_)))
            }
            _ => Ok(()),
        }
    }

    /// Removes the view if it is the expected one.
    pub(crate) fn remove_view(&self, board: Board, chain: &str, is_meant: impl Fn(&View) -> bool) -> Result<(), Error> {
        let (temp, from) = (self.temp()?, self.path(board));
        let disk = &self.repo.disk;
        let is_expected = |temp: &str| self.read_at(board, temp, chain).map(|found| is_meant(&found));
        match take_if(&**disk, &from, &temp, is_expected).at("take away", &self.repo.path, &from)? {
            Taken::Missing | Taken::Restored => Ok(()),
            Taken::Taken => disk.remove(&temp).at("remove", &self.repo.path, &temp),
            // There is a newer one.
            Taken::Displaced(error)
                if matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound) =>
            {
                disk.remove(&temp).at("remove", &self.repo.path, &temp)
            }
            Taken::Displaced(error) => Err(Error::io("put back", &self.repo.path.join(&from), error)),
            Taken::Unjudged(error) => Err(error),
        }
    }

    /// Makes the view survive a power cut, for tools that know nothing else.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        self.chain().sync_if_there("locks")
    }

    /// A unique name that no program looks for.
    fn temp(&self) -> Result<String, Error> {
        Ok(format!("locks/.lokt-{:032x}.tmp", self.repo.random()?))
    }
}

impl PartialEq for View {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Missing, Self::Missing) => true,
            (Self::Ours(one), Self::Ours(other)) => one == other,
            (Self::Foreign(one), Self::Foreign(other)) => one.identity == other.identity,
            (Self::Odd(one), Self::Odd(other)) => one == other,
            _ => false,
        }
    }
}

fn view(board: Board, content: &Content, chain: &str, shown: &dyn Fn() -> String) -> View {
    if let Some(tag) = tag(&content.bytes).filter(|tag| tag.chain == chain) {
        return View::Ours(tag);
    }
    let parsed = match board {
        Board::Record => parse(&content.bytes),
        Board::Jvs => jvs::parse(&content.bytes),
    };
    let record = match parsed {
        Parsed::Record(record) => Ok(record),
        Parsed::Corrupt(why) if board == Board::Jvs => Err(format!("{}, the lock of jvs: {why}", shown())),
        Parsed::Corrupt(why) => Err(why),
    };
    let stamp = content.stamp;
    let digest = Digest::of(&content.bytes);
    let identity = format!("view/{}/{}/{}", stamp.ino, stamp.modified.as_nanosecond(), digest);
    View::Foreign(Foreign { record, identity })
}
