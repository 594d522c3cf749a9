//! The counter of fencing tokens: `state/ceiling` (synced) and `state/next` (not). The counting
//! itself is in [`lokt_core::counter`].

use lokt_core::audit::{self, Event};
use lokt_core::counter::{self, Draw, LEAP, NEXT_BYTES, Next, Place};
use lokt_core::hold::{Fence, Hold, Identity};
use lokt_core::name::LockName;
use lokt_core::record::{self, Parsed, RECORD_BYTES_MAX};
use lokt_core::time::Moment;

use super::{FileStore, LOCKS_DIR, audit_write, record_path};
use lokt_sys::disk::Entry;
use lokt_sys::error::{At as _, Error, ErrorKind};
use lokt_sys::mutex::Inside;

pub(crate) const CEILING: &str = "state/ceiling";
pub(crate) const NEXT: &str = "state/next";
/// Maximum bytes that are read from the end of an audit file. Tokens grow, so the newest are there;
/// our files are never longer than this.
const TAIL_BYTES: usize = 16 << 20;

/// A token that is ready to be used, once [`Tokens::use_token`] has recorded it.
pub(crate) struct Drawn {
    draw: Draw,
    /// Set if the ceiling was lost and counting restarted, above every token that could be seen.
    rebased: bool,
}

/// One file of the counter.
#[derive(Debug)]
pub(crate) enum CounterFile<T> {
    Missing,
    Damaged,
    /// No token can be drawn for this reason.
    InTheWay(String),
    Known(T),
}

impl Drawn {
    pub(crate) fn token(&self) -> Fence {
        self.draw.token
    }

    /// Reports whether counting restarts with this token, so that it must be recorded even if it
    /// isn't used.
    pub(crate) fn is_rebased(&self) -> bool {
        self.rebased
    }

    /// Reports whether it needs a new ceiling, as one in a thousand does.
    pub(crate) fn raises(&self) -> bool {
        self.draw.raise.is_some()
    }

    /// Returns the audit event about it, if there is one.
    pub(crate) fn event(&self, name: &str, me: &Identity, now: &Moment) -> Option<Event> {
        let event = Event::new("token-rebase", name, me, now.wall);
        self.rebased.then(|| {
            event.with("fencing_token", self.draw.token.get()).with("reason", "the token counter was lost or old")
        })
    }
}

/// The counter of a root: draws fencing tokens.
pub(crate) struct Tokens<'s> {
    pub(super) store: &'s FileStore,
}

impl Tokens<'_> {
    /// Returns the next token, greater than that of the existing hold. Nothing is written yet.
    pub(crate) fn draw_token(&self, _: &Inside, before: Option<&Hold>) -> Result<Drawn, Error> {
        let drawn = self.draw_counted()?;
        match before.and_then(|hold| hold.token).filter(|token| is_plausible(*token) && *token >= drawn.token()) {
            None => Ok(drawn),
            // The counter is older than the record: an old `state/` was restored.
            Some(seen) => {
                let next = self.next()?;
                // Wherever counting starts, the ceiling never decreases.
                let floor =
                    (seen.get() + LEAP).max(self.ceiling()?.unwrap_or(0)).max(next.map_or(0, |next| next.ceiling()));
                self.draw_from(None, floor, true)
            }
        }
    }

    fn next(&self) -> Result<Option<Next>, Error> {
        Ok(self.small_file(NEXT, NEXT_BYTES)?.and_then(|bytes| Next::parse(&bytes)))
    }

    fn ceiling(&self) -> Result<Option<u64>, Error> {
        Ok(self.small_file(CEILING, NEXT_BYTES)?.and_then(|bytes| counter::parse_ceiling(&bytes)))
    }

    /// Returns the contents of the two files of the counter. The second is rewritten in place: only
    /// inside the mutex it is certainly complete.
    pub(crate) fn counter(&self, _: &Inside) -> (CounterFile<u64>, CounterFile<Next>) {
        (self.kept(CEILING, counter::parse_ceiling), self.kept(NEXT, Next::parse))
    }

    fn kept<T>(&self, path: &str, parse: impl Fn(&[u8]) -> Option<T>) -> CounterFile<T> {
        match self.store.disk.read(path, NEXT_BYTES).at("read", &self.store.root, path) {
            Ok(Entry::Missing) => CounterFile::Missing,
            Ok(Entry::File(content)) => parse(&content.bytes).map_or(CounterFile::Damaged, CounterFile::Known),
            Ok(Entry::TooBig(_)) => CounterFile::Damaged,
            Ok(Entry::NotRegular(kind)) => {
                CounterFile::InTheWay(format!("{} is {kind}", self.store.root.join(path).display()))
            }
            Err(error) => CounterFile::InTheWay(error.to_string()),
        }
    }

    fn draw_counted(&self) -> Result<Drawn, Error> {
        let place = self.place();
        let next = self.next()?;
        if let Some(draw) = counter::quick(next.as_ref(), place) {
            return Ok(Drawn { draw, rebased: false });
        }
        let (floor, rebased) = match self.ceiling()? {
            Some(ceiling) => (ceiling, false),
            None => self.floor()?,
        };
        self.draw_from(next.as_ref(), floor, rebased)
    }

    fn draw_from(&self, next: Option<&Next>, floor: u64, rebased: bool) -> Result<Drawn, Error> {
        let place = self.place();
        let draw = counter::raise(next, floor, place).ok_or_else(|| {
            Error::new(
                ErrorKind::Unusable,
                format!("{} has used up all 2^53 fencing tokens", self.store.root.display()),
            )
        })?;
        Ok(Drawn { draw, rebased })
    }

    fn place(&self) -> Place<'_> {
        Place { boot_id: self.store.me.boot_id.as_deref(), mount: self.store.disk.mount().id }
    }

    /// Records a token as used, before anything carries it.
    pub(crate) fn use_token(&self, _: &Inside, drawn: &Drawn) -> Result<(), Error> {
        if let Some(ceiling) = drawn.draw.raise {
            let temp = self.store.temp_path()?;
            let file = self.store.disk.create(&temp, &counter::encode_ceiling(ceiling)).at(
                "write",
                &self.store.root,
                CEILING,
            )?;
            file.sync().at("sync", &self.store.root, CEILING)?;
            self.store.disk.rename(&temp, CEILING).at("replace", &self.store.root, CEILING)?;
            self.store.disk.sync_dir("state").at("sync", &self.store.root, "state")?;
            // This file is rewritten in place. One that is too long could never be read again, and
            // every token would be synced.
            if matches!(self.store.disk.stamp(NEXT), Ok(Some(stamp)) if stamp.size > NEXT_BYTES as u64) {
                self.store.disk.remove(NEXT).at("replace", &self.store.root, NEXT)?;
            }
        }
        self.store.disk.overwrite(NEXT, &drawn.draw.next.encode()).at("write", &self.store.root, NEXT)
    }

    fn small_file(&self, path: &str, limit: usize) -> Result<Option<Vec<u8>>, Error> {
        Ok(match self.store.disk.read(path, limit).at("read", &self.store.root, path)? {
            Entry::File(content) => Some(content.bytes),
            Entry::Missing | Entry::TooBig(_) => None,
            Entry::NotRegular(kind) => {
                let message = format!("{} is {kind}, not lokt's token counter", self.store.root.join(path).display());
                return Err(Error::new(ErrorKind::NotARecord, message)
                    .hint("move it away; tokens will go on above all that were used"));
            }
        })
    }

    /// Returns where to count from if the ceiling is lost: above every visible token, with room for
    /// those that can't be seen. If no token was ever issued, in a new root or in one that only the
    /// Go program has used, it starts at the beginning.
    fn floor(&self) -> Result<(u64, bool), Error> {
        let mut highest = 0;
        let mut used = false;
        // Our records are in files with such names.
        for name in self
            .store
            .disk
            .list(LOCKS_DIR)
            .at("list", &self.store.root, LOCKS_DIR)?
            .iter()
            .filter_map(|file| LockName::from_file_name(file))
        {
            match self.store.disk.read(&record_path(&name), RECORD_BYTES_MAX).map(|entry| match entry {
                Entry::File(content) => Some(record::parse(&content.bytes)),
                _ => None,
            }) {
                // Every record of ours has parts and a token.
                Ok(Some(Parsed::Hold(hold))) => {
                    used |= hold.token.is_some() || hold.parts.is_some();
                    highest = highest.max(hold.token.filter(|token| is_plausible(*token)).map_or(0, Fence::get));
                }
                _ => used = true,
            }
        }
        for file in audit_write::files() {
            let bytes = self.store.disk.tail(&file, TAIL_BYTES).at("read", &self.store.root, &file)?;
            // Lines that are no longer in the log may have named tokens. Only a log from which
            // nothing is gone can prove that there were none.
            let is_cut = bytes.len() == TAIL_BYTES || file != audit_write::LOG && !bytes.is_empty();
            used |= is_cut || bytes.split(|byte| *byte == b'\n').any(audit::may_be_of_a_token);
            let tokens =
                bytes.split(|byte| *byte == b'\n').filter_map(audit::token_in).filter(|token| is_plausible(*token));
            highest = tokens.map(Fence::get).fold(highest, u64::max);
        }
        Ok(if used { (highest + LEAP, true) } else { (0, false) })
    }

    /// Reports whether this root has issued tokens, as far as its records and its log tell.
    pub(crate) fn gave_tokens(&self) -> bool {
        self.floor().map_or(true, |(_, used)| used)
    }
}

/// Reports whether a token can come from counting, which never gets to half of the range. A greater
/// number was typed by hand, and must not use up all the rest.
pub(crate) fn is_plausible(token: Fence) -> bool {
    token.get() < Fence::LIMIT / 2
}
