//! The one way in which events are added.
//!
//! Whoever appends is a [`Compose`]: shown how the ledger stands, it says which events to add, or why none. It is asked before any lock
//! is taken, and what it says is written and synced; inside the lock it is asked again only if the ledger has moved, and what it says
//! then is written and synced there only if it is something else. So a plain event costs nobody else the time of its sync, and a
//! decision is always about the ledger that it is added to.
//!
//! An event gets its name only if nothing has it. Whoever ignores the lock can be there first: then everything is listed, composed
//! and tried again. When both locks are free the directory is synced; an event that was replaced until then is appended again. Only
//! then it is acknowledged.

use std::io;
use std::thread;

use lokt_core::ledger::chain::Leaf;
use lokt_core::ledger::draft::{Added, Draft};
use lokt_core::ledger::fold::Folded;
use lokt_core::ledger::seq::Seq;
use lokt_core::ledger::stored::Stored;
use lokt_core::time::Moment;

use super::Ledger;
use super::answers::Progress;
use super::failures::not_known;
use super::fold::Folder;
use super::head::Head;
use super::prepared::Prepared;
use super::standing::{Cache, HeadBy, Standing};
use crate::error::{At as _, Error, ErrorKind};
use crate::sys::disk::Stamp;

/// So often somebody who ignores the lock may be faster before it is no accident.
pub(super) const RERUNS_MAX: usize = 3;
/// So often an event may be replaced before it is acknowledged.
const ATTEMPTS_MAX: usize = 3;
/// So many events after the cache, it is worth a lock to keep what was read.
const WORTH_KEEPING: u64 = 256;

/// So many names aren't made in the time that a thread takes to start.
const WORTH_A_THREAD: usize = 64;

/// What a composer must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    /// Nothing: it adds the same to any ledger.
    Nothing,
    /// The highest number.
    Head,
    /// What all events say.
    Fold,
}

/// How a ledger stands.
pub(crate) struct View<'v> {
    /// The highest number, not counting a filler that our own take-over added.
    pub(crate) head: u64,
    /// The number that the next event gets.
    pub(crate) next: Seq,
    /// The lowest number that is missing, as far as it is known.
    pub(crate) gap: Option<u64>,
    /// What the events say, for those who need it.
    pub(crate) folded: Option<&'v mut Folded>,
    /// The time to compose for.
    pub(crate) now: Moment,
}

/// An event to be added.
pub(crate) struct Piece {
    pub(crate) draft: Draft,
    /// The key that it is known by.
    pub(crate) id: Option<String>,
    /// The claim under which it is added.
    pub(crate) token: Option<Seq>,
}

impl From<Draft> for Piece {
    fn from(draft: Draft) -> Self {
        Self { draft, id: None, token: None }
    }
}

/// Says what to add. Must be pure: it may be asked several times.
pub(crate) trait Compose {
    /// Why nothing is to be added.
    type Denied;
    /// What it must know.
    fn need(&self) -> Need;
    /// Which events to add; none is an answer, too.
    fn compose(&mut self, view: &mut View<'_>) -> Result<Result<Vec<Piece>, Self::Denied>, Error>;
    /// The first so many of the last composition have been published; it will be asked for the rest.
    fn published(&mut self, _count: usize) {}
    /// These of all that were published were replaced before they could be acknowledged; it will be asked for them.
    fn lost(&mut self, _which: &[usize]) {}
}

/// Events that were added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Committed {
    /// The first number.
    pub(crate) first: Seq,
    /// The last.
    pub(crate) last: Seq,
    /// How many: another program's may be among them.
    pub(crate) count: u64,
    /// The number that was filled.
    pub(crate) filler: Option<Seq>,
}

/// What came of it.
pub(crate) enum Outcome<T, D> {
    /// Added.
    Committed(T),
    /// There was nothing to add.
    Nothing,
    /// Not to be added.
    Denied(D),
}

/// Events that have their names, but aren't acknowledged.
struct Published<'l> {
    /// The number and the file of each.
    events: Vec<(Seq, Stamp)>,
    filler: Option<Seq>,
    /// Our lock was taken away meanwhile.
    lost_lock: bool,
    /// The files, kept open: while they are, no other ones get their numbers.
    _files: Prepared<'l>,
}

impl Ledger {
    pub(crate) fn folder(&self) -> Folder<'_> {
        Folder { disk: &*self.disk, root: &self.path, style: self.settings.style }
    }

    /// Says what would be added, without adding anything: after which number, and how many events.
    pub(crate) fn rehearse<C: Compose>(
        &self,
        composer: &mut C,
        warnings: &mut Vec<String>,
    ) -> Result<Result<(u64, u64), C::Denied>, Error> {
        let mut standing = self.standing(composer.need().max(Need::Head), Cache::Believed, HeadBy::Look)?;
        warnings.extend(standing.head.warning(self));
        Ok(match self.composed(composer, &mut standing, None)? {
            Ok(pieces) => {
                self.rendered(&pieces, &standing, None, false)?;
                Ok((standing.head.seq, pieces.len() as u64))
            }
            Err(denied) => Err(denied),
        })
    }

    /// Adds what `composer` says. `chained`: with the chain.
    pub(crate) fn commit<C: Compose>(
        &self,
        composer: &mut C,
        chained: bool,
        warnings: &mut Vec<String>,
        progress: &mut Progress<'_>,
    ) -> Result<Outcome<Committed, C::Denied>, Error> {
        let mut cache = Cache::Believed;
        let (mut kept, mut filler) = (Vec::new(), None);
        for _ in 0..ATTEMPTS_MAX {
            let published = match self.publish(composer, chained, cache, warnings, progress)? {
                Outcome::Committed(published) => published,
                Outcome::Nothing => return Ok(Outcome::Nothing),
                Outcome::Denied(denied) => return Ok(Outcome::Denied(denied)),
            };
            let (Some((first, _)), Some((last, _))) = (published.events.first(), published.events.last()) else {
                return Ok(Outcome::Nothing);
            };
            let (first, last) = (*first, *last);
            self.keep_and_sync(&published.events).map_err(|error| self.not_durable(first, last, &error))?;
            self.is_still_here(Some(first))?;
            if published.lost_lock {
                self.see_them_out().map_err(|error| not_known(first, last, &error))?;
            }
            let lost = self.replaced(&published)?;
            let numbers = published.events.iter().enumerate().filter(|(nth, _)| !lost.contains(nth));
            kept.extend(numbers.map(|(_, (seq, _))| *seq));
            filler = filler.or(published.filler);
            if lost.is_empty() {
                // What was appended again is behind what others did meanwhile.
                let first = kept.first().copied().unwrap_or(first);
                return Ok(Outcome::Committed(Committed { first, last, count: kept.len() as u64, filler }));
            }
            for nth in &lost {
                let (seq, _) = published.events[*nth];
                warnings.push(format!("event {seq} was replaced by another program at once, and is appended again"));
            }
            composer.lost(&lost);
            // What others cached meanwhile may know of the event that is gone.
            cache = Cache::Doubted;
        }
        let message = format!("another program replaces events in {} as soon as they are there", self.path.display());
        Err(Error::new(ErrorKind::Busy, message).hint("`lokt ledger verify` names what was replaced"))
    }

    /// Makes events that were just published durable, and gives them their second names, which needn't be.
    fn keep_and_sync(&self, events: &[(Seq, Stamp)]) -> io::Result<()> {
        if events.len() < WORTH_A_THREAD {
            self.keep_events(events);
            return self.disk.sync_dir("");
        }
        // Many names take as long as the sync of a directory.
        thread::scope(|scope| {
            if thread::Builder::new().spawn_scoped(scope, || self.keep_events(events)).is_err() {
                self.keep_events(events);
            }
            self.disk.sync_dir("")
        })
    }

    /// Prepares outside, publishes inside.
    fn publish<C: Compose>(
        &self,
        composer: &mut C,
        chained: bool,
        cache: Cache,
        warnings: &mut Vec<String>,
        progress: &mut Progress<'_>,
    ) -> Result<Outcome<Published<'_>, C::Denied>, Error> {
        let need = if chained { Need::Fold } else { composer.need() };
        let mut standing = self.standing(need, cache, HeadBy::Note)?;
        let mut composed = self.composed(composer, &mut standing, None);
        if need >= Need::Head && !matches!(&composed, Ok(Ok(pieces)) if !pieces.is_empty()) {
            standing = self.standing(need, cache, HeadBy::Look)?;
            composed = self.composed(composer, &mut standing, None);
        }
        let pieces = match composed? {
            Ok(pieces) => pieces,
            Err(denied) => {
                self.keep_what_was_read(standing.folded);
                return Ok(Outcome::Denied(denied));
            }
        };
        if pieces.is_empty() {
            return Ok(Outcome::Nothing);
        }
        let mut prepared = self.prepare(self.rendered(&pieces, &standing, None, chained)?, progress)?;

        let mut inside = self.enter()?;
        warnings.append(&mut inside.warnings);
        self.is_still_here(None)?;
        if !self.is_settled {
            self.settle()?;
        }
        let mut head = inside.catch_up()?;
        if head.is_listed() {
            self.sweep();
            warnings.extend(self.doubt_kept(&head));
        }
        let filler = if inside.owes_filler { Some(self.fill(&mut head)?) } else { None };
        let mut events = Vec::new();
        for rerun in 0..=RERUNS_MAX {
            let is_other = standing.folded.as_ref().is_some_and(|folded| !self.folder().holds(folded));
            // What was good when it was composed may have expired while the lock was waited for.
            let is_old = need == Need::Fold && (inside.has_waited() || self.is_old(&standing));
            let is_moved = is_other || is_old || (need >= Need::Head && head.seq != standing.head.seq);
            if is_moved || rerun > 0 || filler.is_some() {
                let read_again = if is_other || rerun > 0 { Some(cache) } else { None };
                self.move_on(&mut standing, &head, read_again)?;
                let composed = self.composed(composer, &mut standing, filler);
                // The note may be older than the last tick of the directory's clock: who adds nothing would never find out.
                if !matches!(&composed, Ok(Ok(pieces)) if !pieces.is_empty()) && rerun < RERUNS_MAX {
                    let seen = self.catch_up()?;
                    if seen.seq != head.seq {
                        head = seen;
                        continue;
                    }
                }
                let pieces = match composed? {
                    Ok(pieces) => pieces,
                    Err(denied) => {
                        self.close(&mut inside, &mut head)?;
                        warnings.extend(inside.leave(&head, 0, &mut || self.keep(&mut standing.folded)).warnings);
                        return Ok(Outcome::Denied(denied));
                    }
                };
                if pieces.is_empty() {
                    self.close(&mut inside, &mut head)?;
                    warnings.extend(inside.leave(&head, 0, &mut || self.keep(&mut standing.folded)).warnings);
                    return Ok(Outcome::Nothing);
                }
                // What has got a name must not get another, even if the same is decided once more.
                let is_used = !events.is_empty();
                if is_used || self.rendered(&pieces, &standing, filler, chained)? != prepared.events {
                    // It follows what came meanwhile, and says so.
                    standing.written = standing.now;
                    prepared = self.prepare(self.rendered(&pieces, &standing, filler, chained)?, progress)?;
                }
            }
            let (published, ended) = self.publish_all(&prepared, &head);
            let count = published.len();
            let first = Seq::new(head.seq + 1).ok_or_else(|| self.is_full())?;
            events.extend(published);
            if let Err(error) = ended {
                if error.kind() == io::ErrorKind::AlreadyExists && rerun < RERUNS_MAX {
                    composer.published(count);
                    head = self.listed()?;
                    continue;
                }
                return Err(self.not_all(first, count, prepared.events.len(), error));
            }
            head.seq += count as u64;
            inside.owes_filler = false;
            warnings.extend(head.warning(self));
            let mut note = || {
                if let Some(folded) = &mut standing.folded {
                    // What can't be read now is read by whoever asks next.
                    if self.folder().fold_on(folded, head.seq).is_ok() {
                        self.folder().keep(folded);
                    }
                }
            };
            let left = inside.leave(&head, events.len() as u64, &mut note);
            warnings.extend(left.warnings);
            let lost_lock = left.lost_lock;
            return Ok(Outcome::Committed(Published { events, filler, lost_lock, _files: prepared }));
        }
        unreachable!("the last attempt returns")
    }

    fn composed<C: Compose>(
        &self,
        composer: &mut C,
        standing: &mut Standing,
        filler: Option<Seq>,
    ) -> Result<Result<Vec<Piece>, C::Denied>, Error> {
        let next = Seq::new(standing.head.seq + 1).ok_or_else(|| self.is_full())?;
        let head =
            filler.filter(|filler| filler.get() == standing.head.seq).map_or(standing.head.seq, |seq| seq.get() - 1);
        composer.compose(&mut View {
            head,
            next,
            gap: standing.head.gap,
            folded: standing.folded.as_mut(),
            now: standing.now,
        })
    }

    /// The bytes of the events that are to follow the standing.
    fn rendered(
        &self,
        pieces: &[Piece],
        standing: &Standing,
        filler: Option<Seq>,
        chained: bool,
    ) -> Result<Vec<Vec<u8>>, Error> {
        let style = self.settings.style;
        let mut chain = standing.folded.as_ref().map(|folded| folded.chain).filter(|_| chained);
        let mut filler = filler.filter(|filler| filler.get() == standing.head.seq);
        let mut events = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let digest = chain.as_ref().map(|chain| chain.for_next(filler));
            let added =
                Added { id: piece.id.as_deref(), token: piece.token, filler: filler.take(), chain: digest.as_ref() };
            let bad = |why: String| Error::new(ErrorKind::BadEvent, why);
            let bytes = piece.draft.render(style, standing.written.wall, added).map_err(|error| bad(error.0))?;
            if let Some(chain) = &mut chain {
                let stored = Stored::parse(&bytes).map_err(|error| bad(error.0))?;
                chain.push(Leaf::event(&stored, &bytes));
            }
            events.push(bytes);
        }
        Ok(events)
    }

    /// Publishes what is prepared after `head`. Gives the numbers and files of those that have their names, and what ended it early.
    pub(super) fn publish_all(&self, prepared: &Prepared<'_>, head: &Head) -> (Vec<(Seq, Stamp)>, io::Result<()>) {
        let mut events = Vec::with_capacity(prepared.events.len());
        for nth in 0..prepared.events.len() {
            let seq = Seq::new(head.seq + 1 + nth as u64);
            let published = seq.ok_or_else(|| io::ErrorKind::FileTooLarge.into()).and_then(|seq| {
                let stamp = prepared.stamp(nth)?;
                prepared.publish(nth, &self.file(seq))?;
                Ok((seq, stamp))
            });
            match published {
                Ok(event) => events.push(event),
                Err(error) => return (events, Err(error)),
            }
        }
        (events, Ok(()))
    }

    /// Which of the published events aren't there any more.
    fn replaced(&self, published: &Published<'_>) -> Result<Vec<usize>, Error> {
        let mut lost = Vec::new();
        for (nth, (seq, stamp)) in published.events.iter().enumerate() {
            let file = self.file(*seq);
            let there = self.disk.stamp(&file).at("look at", &self.path, &file)?;
            // Not its times: who touches an event doesn't replace it.
            let identity = |stamp: Stamp| (stamp.dev, stamp.ino, stamp.size);
            if there.map(identity) != Some(identity(*stamp)) {
                lost.push(nth);
            }
        }
        Ok(lost)
    }

    fn keep(&self, folded: &mut Option<Folded>) {
        if let Some(folded) = folded {
            self.folder().keep(folded);
        }
    }

    /// Without a lock so far: takes the mutex to keep what was read, if that was much.
    pub(crate) fn keep_what_was_read(&self, folded: Option<Folded>) {
        let Some(mut folded) = folded.filter(|folded| folded.through - folded.kept >= WORTH_KEEPING) else { return };
        if let Ok(_mutex) = crate::sys::mutex::Inside::enter(&*self.disk, std::time::Duration::ZERO) {
            self.folder().keep(&mut folded);
        }
    }

    /// Does the path still lead to the directory that we are in? Somebody may have put another one in its place.
    pub(super) fn is_still_here(&self, written: Option<Seq>) -> Result<(), Error> {
        if self.disk.is_current().at("look at", &self.path, "")? {
            return Ok(());
        }
        let what =
            written.map_or_else(String::new, |seq| format!(" when event {seq} had been written to the one before"));
        let message = format!("{} was replaced by another directory{what}", self.path.display());
        Err(Error::new(ErrorKind::Busy, message).hint("try again"))
    }
}
