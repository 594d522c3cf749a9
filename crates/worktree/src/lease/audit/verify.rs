//! Reads everything and compares it: each line with the one before, the last with the head, and the
//! log with what the chains know of it.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::PathBuf;

use lokt_core::lease::audit::{Anchor, Broken, Head};

use super::lines::{Line, Lines, Place, Raw, ends_with};
use super::log::{Log, PATIENCE, is_this_boot, open, read_head};
use super::settle::{Standing, Wanted, headless};
use super::{HEAD, LOG, chains};
use crate::repo::Repository;
use lokt_sys::error::{At as _, Error};
use lokt_sys::warnings::{Warning, WithWarnings};

/// Result of verifying a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditVerdict {
    /// The log.
    pub path: PathBuf,
    /// Number of lines.
    pub lines: u64,
    /// The hash of the last one.
    pub hash: String,
    /// The problem, and where it begins.
    pub broken: Option<Broken>,
}

/// The audit log of a repository.
pub struct AuditLog<'r> {
    pub(crate) repo: &'r Repository,
}

impl AuditLog<'_> {
    /// Shows every line of the audit log with its number, oldest first, whatever is in it.
    pub fn lines(&self, see: &mut dyn FnMut(u64, &[u8]) -> ControlFlow<()>) -> Result<(), Error> {
        let at = self.repo.path.join("audit");
        let Some(file) = open(self.repo).at("read", &at, LOG)? else { return Ok(()) };
        let mut lines = Lines::new(&*file, Place::default());
        let mut number = 0;
        while let Some(Raw { bytes: line, .. }) = lines.raw().at("read", &at, LOG)? {
            if line.trim_ascii().is_empty() {
                continue;
            }
            number += 1;
            if see(number, &line).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Verifies that the audit log is what was written.
    pub fn verify(&self) -> Result<WithWarnings<AuditVerdict>, Error> {
        let first = self.examine()?;
        if first.value.broken.is_none() {
            return Ok(first);
        }
        // Another process may have been writing, or starting a new log. With the mutex held, none
        // is.
        match Log::locked(self.repo, PATIENCE) {
            Ok(_log) => self.examine(),
            Err(_) => Ok(first),
        }
    }

    /// Examines the log. What was known about it is read before the log itself, which only grows. A
    /// link is created after the head that it knows.
    pub(super) fn examine(&self) -> Result<WithWarnings<AuditVerdict>, Error> {
        let path = self.repo.path.join("audit");
        let newest = chains::newest_of_all(self.repo);
        let head = read_head(self.repo);
        let known = head.as_ref().map(|head| Place::from(head).anchor(0, Some(head.boot_id.clone())));
        let mut wanted = Wanted::new(newest.iter().map(|(_, slot)| &slot.anchor).chain(&known));
        let mut unlogged: HashSet<&str> = newest.iter().map(|(_, slot)| slot.event.event_id.as_str()).collect();
        let (mut broken, mut warnings, mut end) = (None, Vec::new(), Place::default());
        // Since this machine started, nothing was lost without a deliberate change.
        let is_settled = head.as_ref().is_some_and(|head| is_this_boot(self.repo, &head.boot_id));
        if let Some(file) = open(self.repo).at("read", &path, LOG)? {
            // A power cut loses only the end. If the last known line is there, a damaged line
            // before it was changed deliberately.
            let stands = |head: &&Head| ends_with(&*file, head.size, &head.hash).unwrap_or(false);
            let stands_until = head.as_ref().filter(stands).map_or(0, |head| head.size);
            let mut lines = Lines::new(&*file, Place::default());
            loop {
                let before = lines.place.clone();
                match lines.next().at("read", &path, LOG)? {
                    None => break,
                    Some(Line::Good(event)) => {
                        wanted.see(&lines.place, &event);
                        unlogged.remove(event.event_id.as_str());
                    }
                    // After a power cut, a file system may have the length of what was written, but
                    // not the bytes.
                    Some(Line::Wiped(_)) if !is_settled && before.size >= stands_until && broken.is_none() => {
                        let why = "was lost when the machine stopped; the next command cuts it off";
                        warnings.push(Warning::Audit(format!("what came after line {} {why}", before.count)));
                        lines.place = before;
                        break;
                    }
                    Some(Line::Bad(found) | Line::Wiped(found)) => broken = broken.or(Some(found)),
                    Some(Line::Torn) => {
                        let torn = "the last line isn't whole; the next command cuts it off";
                        warnings.push(Warning::Audit(torn.to_owned()));
                    }
                }
            }
            end = lines.place;
        }
        let mut compare = |anchor: &Anchor, whose: &str, is_recent: bool| {
            if wanted.standing(anchor) != Standing::Bad || broken.is_some() {
                return;
            }
            let is_missing = anchor.count > end.count;
            let what = if is_missing { "is missing" } else { "is another" };
            let why = format!("line {} {what}: {whose} knows {}", anchor.count, anchor.hash);
            if is_recent || is_settled || !is_missing {
                broken = Some(Broken { line: anchor.count.min(end.count + 1), why });
            } else {
                let lost = format!("{why}; it may have been lost when the machine stopped");
                warnings.push(Warning::Audit(lost));
            }
        };
        if let Some(known) = &known {
            compare(known, HEAD, is_settled);
        }
        for (name, slot) in &newest {
            let whose = format!("the lease of worktree {name}");
            compare(&slot.anchor, &whose, chains::is_of_this_boot(self.repo, slot));
        }
        for (name, slot) in newest.iter().filter(|(_, slot)| unlogged.contains(slot.event.event_id.as_str())) {
            // After a new log was started, its first line says all of that.
            if wanted.standing(&slot.anchor) == Standing::Good && broken.is_none() {
                let what = &slot.event.operation;
                let missing = format!("the last {what} of worktree {name} isn't in it; its next command adds that");
                warnings.push(Warning::Audit(missing));
            }
        }
        if let (None, None, Some((name, _))) = (&broken, &head, chains::knows_lines(self.repo, &newest)) {
            broken = Some(Broken { line: end.count + 1, why: headless(name) });
        }
        let verdict = AuditVerdict { path: path.join(LOG), lines: end.count, hash: end.hash, broken };
        Ok(WithWarnings { value: verdict, warnings })
    }
}
