//! How each problem is mended: inside both locks, after another look.

use std::io;

use lokt_core::ledger::draft::{Added, Draft, EVENT_BYTES_MAX};
use lokt_core::ledger::seq::Seq;

use super::modes::EVENT_MODE;
use super::{Finding, Repair, Where};
use crate::error::{At as _, Error, ErrorKind};
use crate::ledger::Ledger;
use crate::ledger::answers::{Fix, Problem, Progress};
use crate::ledger::kept;
use crate::ledger::look::ASIDE;
use crate::ledger::settings::STATE;
use crate::locks::Said;
use crate::sys::disk::Entry;
use crate::sys::look::set_mode;

/// What an earlier command knew of the events, which may be of what was mended.
const CACHES: [&str; 2] = [".lokt/fold.json", ".lokt/head"];

/// What came of it, in words.
type Mended = Result<String, String>;

impl Ledger {
    /// Takes the locks, looks again, and mends what can be. `lock` and `findings` were found outside.
    pub(super) fn mend(
        &self,
        lock: Option<Finding>,
        findings: Vec<Finding>,
        progress: &mut Progress<'_>,
    ) -> Result<Said<Vec<Problem>>, Error> {
        let mut inside = match self.enter() {
            Ok(inside) => inside,
            Err(error) => return Ok(untouched(lock, findings, &error)),
        };
        let mut warnings = std::mem::take(&mut inside.warnings);
        let mut head = self.catch_up()?;
        let filled = if inside.owes_filler { Some(self.fill(&mut head)?) } else { None };
        self.close(&mut inside, &mut head)?;
        let mut problems: Vec<Problem> = lock.into_iter().map(|lock| gone(lock, filled)).collect();
        let mut changed = false;
        for finding in self.examine(Where::Inside, &mut warnings, progress)? {
            let Some(repair) = &finding.repair else {
                problems.push(finding.problem);
                continue;
            };
            let fix = match self.apply(repair) {
                Ok(done) => Fix::Done(done),
                Err(why) => Fix::Failed(why),
            };
            changed |= matches!(fix, Fix::Done(_));
            problems.push(Problem { fix, ..finding.problem });
        }
        if changed {
            self.disk.sync_dir("").at("sync", &self.path, "")?;
            for cache in CACHES {
                self.disk.remove(cache).at("remove", &self.path, cache)?;
            }
            head = self.catch_up()?;
        }
        warnings.extend(inside.leave(&head, 0, &mut || {}).warnings);
        Ok(Said { value: problems, warnings })
    }

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

    /// Brings back the event that we wrote.
    fn restore(&self, seq: Seq) -> Result<String, Error> {
        let (file, second) = (self.file(seq), kept::name(seq.get()));
        match self.disk.link(&second, &file) {
            Ok(()) => return Ok("brought back".to_owned()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::io("write", &self.at(&file), error)),
        }
        let aside = self.aside_name(seq)?;
        self.make_aside()?;
        self.disk.link(&second, &aside).at("write", &self.path, &aside)?;
        self.swap(seq, &aside)?;
        Ok(format!("brought back; what stood in its place is {}", self.at(&aside).display()))
    }

    /// Puts an event that says nothing in the place of one that can't be used.
    fn neutralise(&self, seq: Seq) -> Result<String, Error> {
        let file = self.file(seq);
        // Of something that is no file, or too long, the chain counts no bytes.
        let original = match self.disk.read(&file, EVENT_BYTES_MAX).at("read", &self.path, &file)? {
            Entry::File(content) => content.bytes,
            _ => Vec::new(),
        };
        let aside = self.aside_name(seq)?;
        self.make_aside()?;
        let bytes = self.render(&Draft::repair(self.settings.style, &original))?;
        let written = self.disk.create_as(&aside, &bytes, EVENT_MODE).and_then(|file| file.sync());
        written.at("write", &self.path, &aside)?;
        self.swap(seq, &aside)?;
        // The second name would be that of what was put aside.
        self.keep_event(seq);
        Ok(format!("put an event that says nothing in its place; the original is {}", self.at(&aside).display()))
    }

    /// Exchanges what is at `aside` with the event's file, in one step, so that at every moment both are there.
    fn swap(&self, seq: Seq, aside: &str) -> Result<(), Error> {
        let file = self.file(seq);
        let judged = self.disk.stamp(&file).at("look at", &self.path, &file)?;
        match self.disk.exchange(aside, &file) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => return self.swap_by_link(seq, aside),
            done => done.at("exchange", &self.path, &file)?,
        }
        let displaced = self.disk.stamp(aside).at("look at", &self.path, aside)?;
        if displaced.map(|stamp| (stamp.dev, stamp.ino)) != judged.map(|stamp| (stamp.dev, stamp.ino)) {
            self.disk.exchange(aside, &file).at("exchange", &self.path, &file)?;
            let message = format!("{} was changed by another program meanwhile", self.at(&file).display());
            return Err(Error::new(ErrorKind::Busy, message).hint("try again"));
        }
        self.disk.sync_dir(ASIDE).at("sync", &self.path, ASIDE)
    }

    /// The same where a file system can't exchange: the original gets a second name first.
    fn swap_by_link(&self, seq: Seq, aside: &str) -> Result<(), Error> {
        let file = self.file(seq);
        let new = format!("{aside}.new");
        self.disk.rename_new(aside, &new).at("rename", &self.path, &new)?;
        self.disk.link(&file, aside).at("link", &self.path, aside)?;
        self.disk.sync_dir(ASIDE).at("sync", &self.path, ASIDE)?;
        self.disk.rename(&new, &file).at("write", &self.path, &file)
    }

    fn fill_gap(&self, first: Seq, last: Seq) -> Result<String, Error> {
        let bytes = self.render(&Draft::filler(self.settings.style))?;
        for seq in (first.get()..=last.get()).filter_map(Seq::new) {
            let file = self.file(seq);
            let filler = self.disk.unnamed(&bytes, EVENT_MODE).at("write", &self.path, &file)?;
            filler.sync().at("sync", &self.path, &file)?;
            match filler.link(&file) {
                // Somebody who ignores the lock was faster, and filled it with something better.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                done => done.at("write", &self.path, &file)?,
            }
        }
        Ok("filled with an event that says nothing".to_owned())
    }

    fn remove_temps_of(&self, names: &[String]) -> Mended {
        for name in names {
            self.disk.remove(name).map_err(|error| format!("remove {}: {error}", self.at(name).display()))?;
        }
        Ok("removed".to_owned())
    }

    fn set_modes(&self, seqs: &[Seq]) -> Mended {
        let mut left = 0;
        for seq in seqs {
            let seen = self.event_look(*seq);
            let done = seen.map(|seen| {
                // Our own second name of it, and no other.
                let kept = self.disk.stamp(&kept::name(seq.get())).ok().flatten();
                let names_max = if kept.is_some_and(|kept| (kept.dev, kept.ino) == seen.id) { 2 } else { 1 };
                set_mode(&self.path, &self.file(*seq), &seen, names_max, EVENT_MODE)
            });
            left += usize::from(!matches!(done, Some(Ok(true))));
        }
        match left {
            0 => Ok(format!("gave them the mode {EVENT_MODE:03o}")),
            left => Err(format!("{left} of {} are other users'", seqs.len())),
        }
    }

    fn render(&self, draft: &Draft) -> Result<Vec<u8>, Error> {
        let bytes = draft.render(self.settings.style, self.now().wall, Added::default());
        bytes.map_err(|bad| Error::new(ErrorKind::BadEvent, bad.0))
    }

    fn aside_name(&self, seq: Seq) -> Result<String, Error> {
        let bits = self.random()? & 0xFFFF_FFFF;
        Ok(format!("{ASIDE}/{seq:06}-{bits:08x}.json"))
    }

    fn make_aside(&self) -> Result<(), Error> {
        match self.disk.make_dir(ASIDE) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            done => done.and_then(|()| self.disk.sync_dir(STATE)).at("make", &self.path, ASIDE),
        }
    }
}

/// The lock was in the way and isn't any more.
fn gone(lock: Finding, filled: Option<Seq>) -> Problem {
    let fix = match (filled, lock.repair) {
        (Some(seq), _) => Fix::Done(format!("taken over; event {seq} fills the number that its writer may still use")),
        (None, Some(_)) => Fix::Done("replaced, and released".to_owned()),
        (None, None) => Fix::Done("whoever had it released it meanwhile".to_owned()),
    };
    Problem { fix, ..lock.problem }
}

/// Nothing could be mended, because the locks couldn't be had.
fn untouched(lock: Option<Finding>, findings: Vec<Finding>, error: &Error) -> Said<Vec<Problem>> {
    let failed = |finding: Finding| match finding.repair {
        Some(_) => Problem { fix: Fix::Failed(error.to_string()), ..finding.problem },
        None => finding.problem,
    };
    Said { value: lock.into_iter().chain(findings).map(failed).collect(), warnings: vec![error.to_string()] }
}
