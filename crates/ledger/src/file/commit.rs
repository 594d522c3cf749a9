//! The one way in which events are added.
//!
//! The composer is asked before any lock is acquired, and its answer is written and synced. Inside
//! the lock it is asked again only if the ledger has moved, and its new answer is written and
//! synced there only if it differs. So a plain event costs no other writer the time of its sync,
//! and a decision is always about the ledger that it is added to.
//!
//! An event gets its name only if nothing has it. If a program that ignores the lock was there
//! first, everything is listed, composed and tried again. When both locks are free, the directory
//! is synced; an event that was replaced by then is appended again. Only then is it acknowledged.

use std::io;
use std::thread;

use lokt_core::ledger::chain::Leaf;
use lokt_core::ledger::draft::Added;
use lokt_core::ledger::seq::Seq;
use lokt_core::ledger::stored::Stored;

use super::FileLog;
use super::basis::{Basis, Cache, HeadBy};
use super::failures::{is_full, not_all, not_durable, not_known};
use super::head::Head;
use super::inside::Inside;
use super::prepared::Prepared;
use crate::log::{Committed, Compose, Composed, Need, Piece, Rehearsed};
use lokt_sys::call::Call;
use lokt_sys::disk::Stamp;
use lokt_sys::error::{At as _, Error, ErrorKind};
use lokt_sys::warnings::{Warning, WithWarnings};

/// Maximum number of times that a program that ignores the lock may be faster.
pub(super) const RERUNS_MAX: usize = 3;
/// Maximum number of times that events are appended because they were replaced at once.
const ATTEMPTS_MAX: usize = 3;
/// Number of second names that take longer to make than a thread takes to start.
const WORTH_A_THREAD: usize = 64;

/// One commit: what is asked for, and what to say about it.
pub(super) struct Commit<'l, 'c> {
    log: &'l FileLog,
    composer: &'c mut dyn Compose,
    call: &'c Call<'c>,
    /// The events carry the chain.
    is_chained: bool,
    need: Need,
    warnings: Vec<Warning>,
}

/// Events that have their names, but aren't acknowledged.
struct Published<'l> {
    /// The number and the file of each.
    events: Vec<(Seq, Stamp)>,
    filler: Option<Seq>,
    /// Our lock was taken away in the meantime.
    lost_lock: bool,
    /// The files, kept open: while they are, no other ones get their inode numbers.
    _files: Prepared<'l>,
}

impl FileLog {
    /// Composes on the ledger as it is, without adding anything.
    pub(super) fn rehearsal(&self, composer: &mut dyn Compose) -> Result<WithWarnings<Option<Rehearsed>>, Error> {
        let need = composer.need().max(Need::Head);
        let mut basis = Basis::read(self, need, Cache::Believed, HeadBy::Look)?;
        let warnings = basis.head.warning(self).into_iter().collect();
        let value = match basis.compose(composer, None)? {
            Composed::Add(pieces) => {
                render(self, &pieces, &basis, None, false)?;
                Some(Rehearsed { head: basis.head.seq, count: pieces.len() as u64 })
            }
            Composed::Nothing | Composed::Refused => {
                self.keep_what_was_read(basis.folded);
                None
            }
        };
        Ok(WithWarnings { value, warnings })
    }
}

impl<'l, 'c> Commit<'l, 'c> {
    pub(super) fn new(log: &'l FileLog, composer: &'c mut dyn Compose, call: &'c Call<'c>) -> Self {
        let is_chained = log.settings.chain || composer.is_chained();
        let need = if is_chained { Need::Fold } else { composer.need() };
        Self { log, composer, call, is_chained, need, warnings: Vec::new() }
    }

    /// Adds what the composer says.
    pub(super) fn run(mut self) -> Result<WithWarnings<Option<Committed>>, Error> {
        let value = self.commit()?;
        Ok(WithWarnings { value, warnings: self.warnings })
    }

    fn commit(&mut self) -> Result<Option<Committed>, Error> {
        let log = self.log;
        let mut cache = Cache::Believed;
        let (mut kept, mut filler) = (Vec::new(), None);
        for _ in 0..ATTEMPTS_MAX {
            let Some(published) = self.publish(cache)? else { return Ok(None) };
            let (Some((first, _)), Some((last, _))) = (published.events.first(), published.events.last()) else {
                return Ok(None);
            };
            let (first, last) = (*first, *last);
            keep_and_sync(log, &published.events).map_err(|error| not_durable(log, first, last, &error))?;
            log.is_still_here(Some(first))?;
            if published.lost_lock {
                log.writer_lock().see_them_out(self.call).map_err(|error| not_known(first, last, &error))?;
            }
            let lost = replaced(log, &published.events)?;
            let numbers = published.events.iter().enumerate().filter(|(nth, _)| !lost.contains(nth));
            kept.extend(numbers.map(|(_, (seq, _))| *seq));
            filler = filler.or(published.filler);
            if lost.is_empty() {
                // Events that were appended again come after those that others added in the
                // meantime.
                let first = kept.first().copied().unwrap_or(first);
                return Ok(Some(Committed { first, last, count: kept.len() as u64, filler }));
            }
            for nth in &lost {
                let (seq, _) = published.events[*nth];
                let what = "was replaced by another program at once, and is appended again";
                self.warnings.push(Warning::OtherPrograms(format!("event {seq} {what}")));
            }
            self.composer.lost(&lost);
            // Caches that others wrote in the meantime may contain the event that is gone.
            cache = Cache::Doubted;
        }
        let message = format!("another program replaces events in {} as soon as they are there", log.path.display());
        Err(Error::new(ErrorKind::Busy, message).hint("`lokt ledger verify` names what was replaced"))
    }

    /// Prepares outside, publishes inside.
    fn publish(&mut self, cache: Cache) -> Result<Option<Published<'l>>, Error> {
        let log = self.log;
        let mut basis = Basis::read(log, self.need, cache, HeadBy::Note)?;
        let mut composed = basis.compose(self.composer, None);
        if self.need >= Need::Head && !matches!(composed, Ok(Composed::Add(_))) {
            basis = Basis::read(log, self.need, cache, HeadBy::Look)?;
            composed = basis.compose(self.composer, None);
        }
        let pieces = match composed? {
            Composed::Add(pieces) => pieces,
            Composed::Nothing => return Ok(None),
            Composed::Refused => {
                log.keep_what_was_read(basis.folded);
                return Ok(None);
            }
        };
        let events = render(log, &pieces, &basis, None, self.is_chained)?;
        let prepared = self.prepare(events)?;
        let mut inside = log.enter(self.call)?;
        self.warnings.append(&mut inside.warnings);
        log.is_still_here(None)?;
        if !log.is_settled {
            inside.settle()?;
        }
        self.publish_inside(inside, basis, prepared, cache)
    }

    fn publish_inside(
        &mut self,
        mut inside: Inside<'l>,
        mut basis: Basis<'l>,
        mut prepared: Prepared<'l>,
        cache: Cache,
    ) -> Result<Option<Published<'l>>, Error> {
        let log = self.log;
        let mut head = inside.catch_up()?;
        if head.is_listed() {
            inside.sweep();
            self.warnings.extend(log.backups().doubt(&head, &inside));
        }
        let filler = if inside.owes_filler { Some(inside.fill(&mut head)?) } else { None };
        let mut events = Vec::new();
        for rerun in 0..=RERUNS_MAX {
            let is_other = basis.is_other();
            // A decision may have expired while the lock was waited for.
            let is_old = self.need == Need::Fold && (inside.has_waited() || basis.is_old());
            let is_moved = is_other || is_old || (self.need >= Need::Head && head.seq != basis.head.seq);
            if is_moved || rerun > 0 || filler.is_some() {
                let read_again = if is_other || rerun > 0 { Some(cache) } else { None };
                basis.move_on(&head, read_again, &inside)?;
                let composed = basis.compose(self.composer, filler);
                // The note may be older than the last tick of the directory's clock: a composer
                // that adds nothing would never find out.
                if !matches!(composed, Ok(Composed::Add(_))) && rerun < RERUNS_MAX {
                    let seen = log.heads().catch_up()?;
                    if seen.seq != head.seq {
                        head = seen;
                        continue;
                    }
                }
                let Composed::Add(pieces) = composed? else {
                    inside.close(&mut head)?;
                    let left = inside.leave(&head, 0, &mut |mutex| {
                        if let Some(folded) = &mut basis.folded {
                            log.folder().keep(folded, mutex);
                        }
                    });
                    self.warnings.extend(left.warnings);
                    return Ok(None);
                };
                // An event that has a name must not get another, even if the same is decided once
                // more.
                let is_used = !events.is_empty();
                if is_used || render(log, &pieces, &basis, filler, self.is_chained)? != prepared.events {
                    // It follows events that came in the meantime, and its time says so.
                    basis.written = basis.now;
                    prepared = self.prepare(render(log, &pieces, &basis, filler, self.is_chained)?)?;
                }
            }
            let (published, ended) = publish_all(&inside, &prepared, &head);
            let count = published.len();
            let first = Seq::new(head.seq + 1).ok_or_else(|| is_full(log))?;
            events.extend(published);
            if let Err(error) = ended {
                if error.kind() == io::ErrorKind::AlreadyExists && rerun < RERUNS_MAX {
                    self.composer.published(count);
                    head = log.heads().listed()?;
                    continue;
                }
                return Err(not_all(log, first, count, prepared.events.len(), error));
            }
            head.seq += count as u64;
            inside.owes_filler = false;
            self.warnings.extend(head.warning(log));
            let left = inside.leave(&head, events.len() as u64, &mut |mutex| {
                // Events that can't be read now are read by the next command.
                if let Some(folded) = &mut basis.folded
                    && log.folder().fold_on(folded, head.seq).is_ok()
                {
                    log.folder().keep(folded, mutex);
                }
            });
            self.warnings.extend(left.warnings);
            return Ok(Some(Published { events, filler, lost_lock: left.lost_lock, _files: prepared }));
        }
        unreachable!("the last attempt returns")
    }

    fn prepare(&mut self, events: Vec<Vec<u8>>) -> Result<Prepared<'l>, Error> {
        self.log.prepare(events, &mut |done, total| self.composer.progress(done, total))
    }
}

/// Makes events that were just published durable, and gives them their second names, which needn't
/// be durable.
fn keep_and_sync(log: &FileLog, events: &[(Seq, Stamp)]) -> io::Result<()> {
    if events.len() < WORTH_A_THREAD {
        log.backups().keep_all(events);
        return log.disk.sync_dir("");
    }
    // Many names take as long as the sync of a directory.
    thread::scope(|scope| {
        if thread::Builder::new().spawn_scoped(scope, || log.backups().keep_all(events)).is_err() {
            log.backups().keep_all(events);
        }
        log.disk.sync_dir("")
    })
}

/// The bytes of the events that follow `basis`.
fn render(
    log: &FileLog,
    pieces: &[Piece],
    basis: &Basis<'_>,
    filler: Option<Seq>,
    is_chained: bool,
) -> Result<Vec<Vec<u8>>, Error> {
    let style = log.settings.style;
    let mut chain = basis.folded.as_ref().map(|folded| folded.chain).filter(|_| is_chained);
    let mut filler = filler.filter(|filler| filler.get() == basis.head.seq);
    let mut events = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let digest = chain.as_ref().map(|chain| chain.for_next(filler));
        let added =
            Added { id: piece.id.as_deref(), token: piece.token, filler: filler.take(), chain: digest.as_ref() };
        let bad = |why: String| Error::new(ErrorKind::BadEvent, why);
        let bytes = piece.draft.render(style, basis.written.wall, added).map_err(|error| bad(error.0))?;
        if let Some(chain) = &mut chain {
            let stored = Stored::parse(&bytes).map_err(|error| bad(error.0))?;
            chain.push(Leaf::event(&stored, &bytes));
        }
        events.push(bytes);
    }
    Ok(events)
}

/// Publishes what is prepared after `head`. Returns the numbers and files of those that have their
/// names, and what ended it early.
pub(super) fn publish_all(
    inside: &Inside<'_>,
    prepared: &Prepared<'_>,
    head: &Head,
) -> (Vec<(Seq, Stamp)>, io::Result<()>) {
    let mut events = Vec::with_capacity(prepared.events.len());
    for nth in 0..prepared.events.len() {
        let seq = Seq::new(head.seq + 1 + nth as u64);
        let published = seq.ok_or_else(|| io::ErrorKind::FileTooLarge.into()).and_then(|seq| {
            let stamp = prepared.stamp(nth)?;
            prepared.publish(nth, &inside.log.file(seq))?;
            Ok((seq, stamp))
        });
        match published {
            Ok(event) => events.push(event),
            Err(error) => return (events, Err(error)),
        }
    }
    (events, Ok(()))
}

/// The indices of published events that aren't there any more.
fn replaced(log: &FileLog, events: &[(Seq, Stamp)]) -> Result<Vec<usize>, Error> {
    let mut lost = Vec::new();
    for (nth, (seq, stamp)) in events.iter().enumerate() {
        let file = log.file(*seq);
        let there = log.disk.stamp(&file).at("look at", &log.path, &file)?;
        // Not its times: touching an event doesn't replace it.
        let identity = |stamp: Stamp| (stamp.dev, stamp.ino, stamp.size);
        if there.map(identity) != Some(identity(*stamp)) {
            lost.push(nth);
        }
    }
    Ok(lost)
}
