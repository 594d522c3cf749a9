//! Repairs: inside both locks, after another check.

use std::io;

use lokt_core::checkup::{Finding, Fix};
use lokt_core::ledger::draft::{Added, Draft, EVENT_BYTES_MAX};
use lokt_core::ledger::seq::Seq;

use super::modes::EVENT_MODE;
use super::{Doctor, Repair, Repairable, Where};
use crate::answers::Progress;
use crate::file::FileLog;
use crate::file::backups;
use crate::file::inside::Inside;
use crate::file::look::ASIDE;
use crate::file::settings::STATE;
use lokt_sys::call::Call;
use lokt_sys::disk::Entry;
use lokt_sys::error::{At as _, Error, ErrorKind};
use lokt_sys::look::set_mode;
use lokt_sys::warnings::{Warning, WithWarnings};

/// Caches that may know of what was repaired.
const CACHES: [&str; 2] = [".lokt/fold.json", ".lokt/head"];

/// The outcome of a repair, in words.
type Mended = Result<String, String>;

/// Acquires the locks, checks again, and repairs what can be. `lock` and `findings` were found
/// outside.
pub(super) fn mend(
    doctor: Doctor<'_>,
    lock: Option<Repairable>,
    findings: Vec<Repairable>,
    progress: &mut Progress<'_>,
) -> Result<WithWarnings<Vec<Finding>>, Error> {
    let log = doctor.log;
    let mut inside = match log.enter(&Call::UNLIMITED) {
        Ok(inside) => inside,
        Err(error) => return Ok(untouched(lock, findings, &error)),
    };
    let mut warnings = std::mem::take(&mut inside.warnings);
    let mut head = log.heads().catch_up()?;
    let filled = if inside.owes_filler { Some(inside.fill(&mut head)?) } else { None };
    inside.close(&mut head)?;
    let mut problems: Vec<Finding> = lock.into_iter().map(|lock| gone(lock, filled)).collect();
    let mender = Mender { log, _inside: &inside };
    let mut changed = false;
    for finding in doctor.examine(Where::Inside, &mut warnings, progress)? {
        let Some(repair) = &finding.repair else {
            problems.push(finding.problem);
            continue;
        };
        let fix = match mender.apply(repair) {
            Ok(done) => Fix::Done(done),
            Err(why) => Fix::Failed(why),
        };
        changed |= matches!(fix, Fix::Done(_));
        problems.push(Finding { fix, ..finding.problem });
    }
    if changed {
        log.disk.sync_dir("").at("sync", &log.path, "")?;
        for cache in CACHES {
            log.disk.remove(cache).at("remove", &log.path, cache)?;
        }
        head = log.heads().catch_up()?;
    }
    warnings.extend(inside.leave(&head, 0, &mut |_| {}).warnings);
    Ok(WithWarnings { value: problems, warnings })
}

/// The repairs, which need both locks.
struct Mender<'i, 'l> {
    log: &'l FileLog,
    _inside: &'i Inside<'l>,
}

impl Mender<'_, '_> {
    fn apply(&self, repair: &Repair) -> Mended {
        match repair {
            Repair::Lock => Ok("it was released".to_owned()),
            Repair::Restore(seq) => self.restore(*seq).map_err(|error| error.to_string()),
            Repair::Neutralise(seq) => self.neutralise(*seq).map_err(|error| error.to_string()),
            Repair::Fill(first, last) => self.fill_gap(*first, *last).map_err(|error| error.to_string()),
            Repair::Remove(names) => self.remove_temps_of(names),
            Repair::Mode(seqs) => self.set_modes(seqs),
        }
    }

    /// Restores the event that we wrote.
    fn restore(&self, seq: Seq) -> Result<String, Error> {
        let (file, second) = (self.log.file(seq), backups::name(seq.get()));
        match self.log.disk.link(&second, &file) {
            Ok(()) => return Ok("brought back".to_owned()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::io("write", &self.log.at(&file), error)),
        }
        let aside = self.aside_name(seq)?;
        self.make_aside()?;
        self.log.disk.link(&second, &aside).at("write", &self.log.path, &aside)?;
        self.swap(seq, &aside)?;
        Ok(format!("brought back; what stood in its place is {}", self.log.at(&aside).display()))
    }

    /// Puts an event without content in the place of one that can't be used.
    fn neutralise(&self, seq: Seq) -> Result<String, Error> {
        let file = self.log.file(seq);
        // The chain counts no bytes of something that is not a file, or too long.
        let original = match self.log.disk.read(&file, EVENT_BYTES_MAX).at("read", &self.log.path, &file)? {
            Entry::File(content) => content.bytes,
            _ => Vec::new(),
        };
        let aside = self.aside_name(seq)?;
        self.make_aside()?;
        let bytes = self.render(&Draft::repair(self.log.settings.style, &original))?;
        let written = self.log.disk.create_as(&aside, &bytes, EVENT_MODE).and_then(|file| file.sync());
        written.at("write", &self.log.path, &aside)?;
        self.swap(seq, &aside)?;
        // Its second name would be that of the original.
        self.log.backups().keep(seq);
        Ok(format!("put an event that says nothing in its place; the original is {}", self.log.at(&aside).display()))
    }

    /// Exchanges what is at `aside` with the event's file atomically, so that at every moment both
    /// exist.
    fn swap(&self, seq: Seq, aside: &str) -> Result<(), Error> {
        let file = self.log.file(seq);
        let judged = self.log.disk.stamp(&file).at("look at", &self.log.path, &file)?;
        match self.log.disk.exchange(aside, &file) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => return self.swap_by_link(seq, aside),
            done => done.at("exchange", &self.log.path, &file)?,
        }
        let displaced = self.log.disk.stamp(aside).at("look at", &self.log.path, aside)?;
        if displaced.map(|stamp| (stamp.dev, stamp.ino)) != judged.map(|stamp| (stamp.dev, stamp.ino)) {
            self.log.disk.exchange(aside, &file).at("exchange", &self.log.path, &file)?;
            let message = format!("{} was changed by another program meanwhile", self.log.at(&file).display());
            return Err(Error::new(ErrorKind::Busy, message).hint("try again"));
        }
        self.log.disk.sync_dir(ASIDE).at("sync", &self.log.path, ASIDE)
    }

    /// Swaps on a file system that can't exchange: the original gets a second name first.
    fn swap_by_link(&self, seq: Seq, aside: &str) -> Result<(), Error> {
        let file = self.log.file(seq);
        let new = format!("{aside}.new");
        self.log.disk.rename_new(aside, &new).at("rename", &self.log.path, &new)?;
        self.log.disk.link(&file, aside).at("link", &self.log.path, aside)?;
        self.log.disk.sync_dir(ASIDE).at("sync", &self.log.path, ASIDE)?;
        self.log.disk.rename(&new, &file).at("write", &self.log.path, &file)
    }

    fn fill_gap(&self, first: Seq, last: Seq) -> Result<String, Error> {
        let bytes = self.render(&Draft::filler(self.log.settings.style))?;
        for seq in (first.get()..=last.get()).filter_map(Seq::new) {
            let file = self.log.file(seq);
            let filler = self.log.disk.unnamed(&bytes, EVENT_MODE).at("write", &self.log.path, &file)?;
            filler.sync().at("sync", &self.log.path, &file)?;
            match filler.link(&file) {
                // A program that ignores the lock was faster, and filled it with something better.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                done => done.at("write", &self.log.path, &file)?,
            }
        }
        Ok("filled with an event that says nothing".to_owned())
    }

    fn remove_temps_of(&self, names: &[String]) -> Mended {
        for name in names {
            self.log.disk.remove(name).map_err(|error| format!("remove {}: {error}", self.log.at(name).display()))?;
        }
        Ok("removed".to_owned())
    }

    fn set_modes(&self, seqs: &[Seq]) -> Mended {
        let mut left = 0;
        for seq in seqs {
            let seen = Doctor { log: self.log }.event_look(*seq);
            let done = seen.map(|seen| {
                // It is our own second name of the event.
                let kept = self.log.disk.stamp(&backups::name(seq.get())).ok().flatten();
                let names_max = if kept.is_some_and(|kept| (kept.dev, kept.ino) == seen.id) { 2 } else { 1 };
                set_mode(&self.log.path, &self.log.file(*seq), &seen, names_max, EVENT_MODE)
            });
            left += usize::from(!matches!(done, Some(Ok(true))));
        }
        match left {
            0 => Ok(format!("gave them the mode {EVENT_MODE:03o}")),
            left => Err(format!("{left} of {} are other users'", seqs.len())),
        }
    }

    fn render(&self, draft: &Draft) -> Result<Vec<u8>, Error> {
        let bytes = draft.render(self.log.settings.style, self.log.now().wall, Added::default());
        bytes.map_err(|bad| Error::new(ErrorKind::BadEvent, bad.0))
    }

    fn aside_name(&self, seq: Seq) -> Result<String, Error> {
        let bits = self.log.random()? & 0xFFFF_FFFF;
        Ok(format!("{ASIDE}/{seq:06}-{bits:08x}.json"))
    }

    fn make_aside(&self) -> Result<(), Error> {
        match self.log.disk.make_dir(ASIDE) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            done => done.and_then(|()| self.log.disk.sync_dir(STATE)).at("make", &self.log.path, ASIDE),
        }
    }
}

/// The problem of a lock that isn't in the way any more.
fn gone(lock: Repairable, filled: Option<Seq>) -> Finding {
    let fix = match (filled, lock.repair) {
        (Some(seq), _) => Fix::Done(format!("taken over; event {seq} fills the number that its writer may still use")),
        (None, Some(_)) => Fix::Done("replaced, and released".to_owned()),
        (None, None) => Fix::Done("whoever had it released it meanwhile".to_owned()),
    };
    Finding { fix, ..lock.problem }
}

/// The problems when nothing could be repaired, because the locks couldn't be acquired.
fn untouched(lock: Option<Repairable>, findings: Vec<Repairable>, error: &Error) -> WithWarnings<Vec<Finding>> {
    let failed = |finding: Repairable| match finding.repair {
        Some(_) => Finding { fix: Fix::Failed(error.to_string()), ..finding.problem },
        None => finding.problem,
    };
    let value = lock.into_iter().chain(findings).map(failed).collect();
    WithWarnings { value, warnings: vec![Warning::Leftover(error.to_string())] }
}
