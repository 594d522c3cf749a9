//! Files that were left behind by writers.
//!
//! Other programs write `.event-*.tmp` inside the lock and rename them: one that exists while the
//! lock is free was left behind. Ours (`.lokt-*.tmp`, where the file system needs them) are locked
//! for as long as their writer lives.

use lokt_core::ledger::writer_lock::LOCK;

use super::{Doctor, Repair, Repairable, Where};
use lokt_sys::error::{At as _, Error};

impl Doctor<'_> {
    pub(super) fn temp_findings(self, from: Where) -> Result<Vec<Repairable>, Error> {
        let (mut theirs, mut ours) = (Vec::new(), Vec::new());
        let listed = self.log.disk.each_name("", &mut |name| match name.strip_suffix(".tmp") {
            Some(stem) if stem.starts_with(".event-") => theirs.push(name.to_owned()),
            Some(stem) if stem.starts_with(".lokt-") => ours.push(name.to_owned()),
            _ => {}
        });
        listed.at("list", &self.log.path, "")?;
        ours.retain(|name| self.log.disk.probe(name).is_ok_and(|found| found.is_some_and(|file| !file.locked)));
        let mut findings = Vec::new();
        // While another program is inside, they are in use. One that existed before the lock was
        // free, and still does, was left behind.
        if from == Where::Outside && self.log.disk.stamp(LOCK).at("look at", &self.log.path, LOCK)?.is_some() {
            theirs.clear();
        }
        theirs.retain(|name| self.log.disk.stamp(name).is_ok_and(|there| there.is_some()));
        if !theirs.is_empty() {
            findings.push(self.temps(theirs, "that other programs left behind"));
        }
        if !ours.is_empty() {
            findings.push(self.temps(ours, "that lokt left behind when it was killed"));
        }
        Ok(findings)
    }

    fn temps(self, mut names: Vec<String>, whose: &str) -> Repairable {
        names.sort_unstable();
        let what = match names.as_slice() {
            [one] => format!("a temporary file {whose}: {one}"),
            [first, ..] => format!("{} temporary files {whose}, the first: {first}", names.len()),
            [] => String::new(),
        };
        let path = self.log.at(names.first().map_or("", String::as_str));
        Repairable::new("temp", what)
            .path(path)
            .hint("they hold events that were never published")
            .repair(Repair::Remove(names), "remove what nobody is writing, inside the lock")
    }
}
