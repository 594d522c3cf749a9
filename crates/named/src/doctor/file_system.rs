//! Checks that the file system under the root does what locks are built on.

use std::path::Path;
use std::process::Command;

use super::trust::{Trust, judge, name};
use super::{Check, Finding, OTHER_ROOT, Place, Status, Untried, trial};
use crate::root::State;
use lokt_sys::mounts::{MountedOn, mounted_on};
use lokt_sys::probe_dir::ProbeDir;
use lokt_sys::signals::Blocked;

const NAME: &str = "file_system";

pub(super) fn check(place: &Place, probe: Result<&ProbeDir, &Untried>, rival: &dyn Fn(&Path) -> Command) -> Check {
    let Some(dir) = &place.dir else {
        return Check::new(NAME, [Finding::skipped(format!("{} can't be used", place.root.display()))]);
    };
    let mount = mounted_on(dir);
    let kind = name(&mount);
    let mut findings = Vec::new();
    match probe.map_err(ToString::to_string).and_then(|probe| {
        trial::hold(probe, rival).map_err(|error| format!("two processes couldn't be set against each other: {error}"))
    }) {
        Ok(problems) => findings.extend(problems.into_iter().map(|problem| {
            Finding::error(format!("{kind}: named locks can't be trusted here: {problem}")).hint(OTHER_ROOT)
        })),
        Err(why) => findings.push(Finding::warn(format!("{kind}: what locks need could not be tried: {why}"))),
    }
    let known = by_name(&mount, || seen_twice(&mount, probe, rival));
    if known.status() != Status::Ok || findings.is_empty() {
        findings.push(known);
    }
    Check::new(NAME, findings)
}

/// Judges the file system by its type, before anything is tried. `proof` returns evidence that
/// locks can't be trusted there.
fn by_name(mount: &MountedOn, proof: impl FnOnce() -> Option<String>) -> Finding {
    let kind = name(mount);
    match judge(mount) {
        Trust::Local => Finding::info(format!("{kind}, local")),
        Trust::Limited(why) => Finding::warn(format!("{kind}: {why}")).hint(OTHER_ROOT),
        Trust::None(why) => {
            let why = proof().unwrap_or(why);
            Finding::error(format!("{kind}: named locks can't be trusted here: {why}")).hint(OTHER_ROOT)
        }
    }
}

/// The file system under a directory, and whether locks on it can be trusted.
#[derive(Debug, Clone)]
pub struct FileSystem {
    /// Its common name.
    pub name: String,
    /// Its mount point; empty if that is unknown.
    pub mount_point: String,
    /// The check that [`Doctor::examine`](super::Doctor::examine) reports about it.
    pub check: Check,
    /// Facts worth knowing although nothing is wrong.
    pub notes: Vec<String>,
}

impl FileSystem {
    /// Tests the file system under the directory `dir`. `rival` is the same as for a
    /// [`Doctor`](super::Doctor).
    pub fn examine(dir: &Path, rival: &dyn Fn(&Path) -> Command) -> Self {
        let mount = mounted_on(dir);
        let place = Place { root: dir.to_owned(), dir: Some(dir.to_owned()), state: State::Missing };
        // Signals wait until the directory has been removed. It takes only a moment.
        let _signals = Blocked::stops().and_all();
        let check = check(&place, place.probe().as_ref(), rival);
        let notes = super::overlay::check(&place).findings.into_iter().map(|finding| finding.message).collect();
        Self { name: name(&mount), mount_point: mount.point, check, notes }
    }

    /// Judges a file system that is mounted like this by its type. Nothing is tried.
    pub fn by_name(magic: u64, kind: &str, point: &str, options: &str) -> Self {
        let mount = MountedOn {
            magic: Some(magic),
            kind: kind.to_owned(),
            point: point.to_owned(),
            options: options.to_owned(),
            ..MountedOn::default()
        };
        let check = Check::new(NAME, [by_name(&mount, || None)]);
        Self { name: name(&mount), mount_point: mount.point, check, notes: Vec::new() }
    }

    /// Adds the findings about a second file system that shows the same files: a problem with
    /// either is a problem for locks in them.
    #[must_use]
    pub fn seen_through(mut self, other: Self) -> Self {
        let against = other.check.findings.into_iter().filter(|finding| finding.status() != Status::Ok);
        for finding in against {
            if !self.check.findings.iter().any(|known| known.message == finding.message) {
                self.check.findings.push(finding);
            }
        }
        for note in other.notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        self
    }

    /// Reports whether locks on it can be trusted: no finding says otherwise.
    pub fn is_trusted(&self) -> bool {
        self.check.status() == Status::Ok
    }
}

/// Returns proof that locks are local to the mount, if the other side of it can be seen. The
/// opposite couldn't be proven: there may be more than two sides.
fn seen_twice(
    mount: &MountedOn,
    probe: Result<&ProbeDir, &Untried>,
    rival: &dyn Fn(&Path) -> Command,
) -> Option<String> {
    let probe = probe.ok()?;
    let there = mount.underneath(probe.path())?;
    let reaches = trial::reaches(probe, &there, rival).ok()?;
    (!reaches).then(|| {
        format!(
            "a lock taken in {} does not keep out who sees the same files in {}; that was tried",
            mount.point, mount.source
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system(magic: u64, kind: &str, options: &str) -> FileSystem {
        FileSystem::by_name(magic, kind, "/mnt", options)
    }

    #[test]
    fn what_speaks_against_one_of_two_ways_speaks_against_both_and_is_said_once() {
        let (own, bound) = (|| system(0xef53, "ext4", "rw"), || system(0x6573_5546, "fuse.bindfs", "rw"));
        let both = own().seen_through(bound());
        assert!(!both.is_trusted() && both.name == own().name, "{both:?}");
        let twice = bound().seen_through(bound());
        assert_eq!(twice.check.findings.len(), 1, "{twice:?}");
        assert!(own().seen_through(own()).is_trusted(), "two ways that are one kernel's");
    }

    #[test]
    fn what_reaches_beyond_this_machine_or_not_beyond_a_mount_is_not_trusted() {
        for (magic, kind, options, word) in [
            (0x6969, "nfs", "rw,nolock", "nolock"),
            (0x6969, "nfs4", "rw,local_lock=all", "local_lock"),
            (0x6969, "nfs4", "rw,local_lock=none", "other machines"),
            (0x6573_5546, "fuse.bindfs", "rw", "FUSE"),
            (0x6573_5546, "fuseblk", "rw", "local to this mount"),
            (0xff53_4d42, "cifs", "rw", "local to this machine"),
            (0x1234, "new", "rw", "doesn't know it"),
        ] {
            let system = system(magic, kind, options);
            assert!(!system.is_trusted(), "{kind} {options} is not trusted");
            let said = &system.check.findings[0].message;
            assert!(said.contains(word), "{kind} {options}: {word:?} is said: {said}");
        }
        for (magic, kind) in [(0xef53, "ext4"), (0x0102_1994, "tmpfs"), (0x794c_7630, "overlay")] {
            assert!(system(magic, kind, "rw").is_trusted(), "{kind} is one kernel's");
        }
    }
}
