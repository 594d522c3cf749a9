//! Does the file system under the root do what locks are built on?

use std::path::Path;
use std::process::Command;

use super::trust::{Trust, judge, name};
use super::{Check, Finding, OTHER_ROOT, Place, Untried, trial};
use crate::sys::mounts::{MountedOn, mounted_on};
use crate::sys::probe_dir::ProbeDir;

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
            Finding::fail(format!("{kind}: named locks can't be trusted here: {problem}")).hint(OTHER_ROOT)
        })),
        Err(why) => findings.push(Finding::warn(format!("{kind}: what locks need could not be tried: {why}"))),
    }
    match judge(&mount) {
        Trust::Local if findings.is_empty() => findings.push(Finding::note(format!("{kind}, local"))),
        Trust::Local => {}
        Trust::Limited(why) => findings.push(Finding::warn(format!("{kind}: {why}")).hint(OTHER_ROOT)),
        Trust::None(why) => {
            let why = seen_twice(&mount, probe, rival).unwrap_or(why);
            let message = format!("{kind}: named locks can't be trusted here: {why}");
            findings.push(Finding::fail(message).hint(OTHER_ROOT));
        }
    }
    Check::new(NAME, findings)
}

/// The proof that locks are local to the mount, where the other side of it can be seen. That they aren't couldn't be proven: there may be
/// more than two sides.
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
