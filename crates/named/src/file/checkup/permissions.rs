//! Checks who owns the files in the root, and who may access them.
//!
//! A root is private (0700, files 0600), or its directory is group-writable and it belongs to the
//! group (0770, files 0660). Repairs take permissions away from others than these, only on our own
//! files, and only where nobody else has any.

use std::collections::BTreeSet;

use lokt_core::name::LockName;

use super::{Check, Finding, Patient, real_dir, typed};
use crate::file::freezes::FREEZES_DIR;
use crate::file::line::{HELD_DIR, LINE_DIR};
use crate::file::tokens::{CEILING, NEXT};
use crate::file::{ASIDE_DIR, LOCKS_DIR, TEMP_DIR, audit_write};
use lokt_sys::files::real_path;
use lokt_sys::look::{Look, look, tighten, us};

const NAME: &str = "permissions";

/// A file of the root, with its path below it.
struct File {
    path: String,
    look: Look,
}

pub(super) fn check(patient: &Patient) -> Check {
    let root = match look(&real_path(patient.store.root())) {
        Ok(Some(root)) => root,
        Ok(None) => return Check::new(NAME, []),
        Err(error) => return Check::new(NAME, [Finding::error(format!("look at {}: {error}", patient.shown("")))]),
    };
    let files = files(patient);
    let shared = root.mode & 0o020 != 0;
    let keep = if shared { 0o770 } else { 0o700 };
    let alone = root.uid == us() && files.iter().all(|file| file.look.uid == us());
    let mut findings = Vec::new();
    findings.extend(open_root(patient, &root));
    findings.extend(too_open(patient, &files, keep, alone));
    findings.extend(strangers(patient, &root, &files, shared));
    if shared {
        findings.extend(too_tight(patient, &files));
    }
    Check::new(NAME, findings)
}

/// Returns the directories and files that have the right type; others are reported elsewhere.
/// Pulses and temp files are created with their permissions and exist only briefly, and nobody else
/// can enter their directories.
fn files(patient: &Patient) -> Vec<File> {
    let disk = &patient.store().disk;
    let records = [LOCKS_DIR, FREEZES_DIR].into_iter().flat_map(|dir| {
        let files = disk.list(dir).unwrap_or_default().into_iter();
        files.filter(|file| LockName::from_file_name(file).is_some()).map(move |file| format!("{dir}/{file}"))
    });
    let counter = [CEILING, NEXT].into_iter().map(ToOwned::to_owned);
    let files = counter.chain(audit_write::files()).chain(records).filter_map(|path| seen(patient, path));
    let dirs = [LOCKS_DIR, FREEZES_DIR, "state", TEMP_DIR, ASIDE_DIR, HELD_DIR, LINE_DIR].into_iter();
    let dirs = dirs.filter_map(|path| seen(patient, path.to_owned())).filter(|dir| dir.look.is_dir);
    dirs.chain(files.filter(|file| file.look.kind.is_none())).collect()
}

fn seen(patient: &Patient, path: String) -> Option<File> {
    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    real_dir(patient.store.root(), parent)?;
    Some(File { look: look(&patient.path(&path)).ok()??, path })
}

/// Returns the maximum permissions of a file in a root: those of its directories, without the right
/// to enter.
fn allowed(look: &Look, keep: u32) -> u32 {
    if look.is_dir { keep } else { keep & 0o666 }
}

/// Reports a root that anybody can write to. Its mode is never changed: its owner chose it, and may
/// keep other things in it.
fn open_root(patient: &Patient, root: &Look) -> Option<Finding> {
    let (shown, mode) = (patient.shown(""), root.mode);
    let finding = Finding::error(format!("{shown} (mode {mode:04o}) can be written to by anybody"));
    let hint = format!("`chmod o-w {}`, as its owner", typed(patient.store.root()));
    (root.mode & 0o002 != 0).then(|| finding.hint(hint))
}

fn too_open(patient: &Patient, files: &[File], keep: u32, alone: bool) -> Option<Finding> {
    let is_open = |file: &&File| file.look.mode & !allowed(&file.look, keep) & 0o077 != 0;
    let open: Vec<&File> = files.iter().filter(is_open).collect();
    let first = open.first()?;
    let anybody_writes = open.iter().any(|file| file.look.mode & 0o002 != 0);
    let more = if open.len() > 1 { format!(" and {} more", open.len() - 1) } else { String::new() };
    let (path, mode) = (patient.shown(&first.path), first.look.mode);
    let message = format!("{path} (mode {mode:04o}){more} can be used by more than {}", whom(keep));
    let path = typed(patient.store.root());
    let hint = match (alone, keep) {
        (true, _) => "`lokt doctor --fix` takes that away".to_owned(),
        (false, 0o700) => format!("`chmod -R go= {path}`, as the owner"),
        (false, _) => format!("`chmod -R o= {path}`, as the owner"),
    };
    let finding = if anybody_writes { Finding::error(message) } else { Finding::warn(message) }.hint(hint);
    // Where others have files, taking permissions away might lock them out of their own locks.
    if !alone {
        return Some(finding);
    }
    patient.mend(finding, || {
        let mut changed = 0;
        for file in &open {
            changed += usize::from(tighten(patient.store.root(), &file.path, &file.look, allowed(&file.look, keep))?);
        }
        Ok::<_, std::io::Error>((changed > 0).then(|| format!("took it away from {changed} of them")))
    })
}

fn whom(keep: u32) -> &'static str {
    if keep == 0o700 { "its owner" } else { "its owner and group" }
}

/// Reports files that don't belong to the root's owner, in a root that isn't shared.
fn strangers(patient: &Patient, root: &Look, files: &[File], shared: bool) -> Vec<Finding> {
    let theirs = |file: &&File| file.look.uid != root.uid && !shared;
    let uids: BTreeSet<u32> = files.iter().filter(theirs).map(|file| file.look.uid).collect();
    let path = typed(patient.store.root());
    let one = |uid: &u32| {
        let mut of_theirs = files.iter().filter(|file| file.look.uid == *uid);
        let first = of_theirs.next().map(|file| patient.shown(&file.path)).unwrap_or_default();
        let more = match of_theirs.count() {
            0 => String::new(),
            others => format!(" and {others} more"),
        };
        let (whose, owner) = (if *uid == 0 { "root".to_owned() } else { format!("user {uid}") }, root.uid);
        Finding::warn(format!("{first}{more} belong to {whose}, but this root is user {owner}'s alone"))
            .hint(format!("`sudo chown -R {owner} {path}`, or `chmod g+w {path}` to share it with its group"))
    };
    let mut findings: Vec<Finding> = uids.iter().map(one).collect();
    if root.uid != us() && us() != 0 && !shared {
        findings.push(
            Finding::warn(format!("this root belongs to user {}, and is not shared with a group", root.uid))
                .hint("set LOKT_ROOT to another one, or ask its owner to `chmod g+w` it"),
        );
    }
    findings
}

/// Reports files that the group can't use in a root that belongs to the group.
fn too_tight(patient: &Patient, files: &[File]) -> Option<Finding> {
    let needed = |look: &Look| if look.is_dir { 0o070 } else { 0o060 };
    let tight: Vec<&File> =
        files.iter().filter(|file| file.look.mode & needed(&file.look) != needed(&file.look)).collect();
    let first = tight.first()?;
    let more = if tight.len() > 1 { format!(" and {} more", tight.len() - 1) } else { String::new() };
    let message = format!(
        "{} (mode {:04o}){more} can't be used by the group, with whom this root is shared",
        patient.shown(&first.path),
        first.look.mode
    );
    Some(Finding::warn(message).hint(format!("`chmod -R g+rwX {}`, as the owner", typed(patient.store.root()))))
}
