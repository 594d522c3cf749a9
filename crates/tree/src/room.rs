//! Checks for free space before a copy, instead of filling the disk and failing.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use lokt_core::snapshot::entry::{Entry, Kind};
use rustix::fs::{AtFlags, Mode, OFlags, fstatvfs, ioctl_ficlone, openat, unlinkat};
use rustix::process::geteuid;

use super::TreeError;
use super::beneath::{Cursor, Tree, split};
use super::one::open_source;
use super::stat::look;

/// Fails if `needed` bytes exceed the free space at `into`, unless its file system proves that it
/// can clone the file `sample`.
pub(super) fn check(
    into: BorrowedFd<'_>,
    path: &Path,
    needed: u64,
    sample: impl FnOnce() -> Option<OwnedFd>,
) -> Result<(), TreeError> {
    let Ok(found) = fstatvfs(into) else { return Ok(()) };
    // A few blocks are reserved for the superuser.
    let blocks = if geteuid().is_root() { found.f_bfree } else { found.f_bavail };
    let free = blocks.saturating_mul(found.f_frsize);
    // File systems without a size limit report no size.
    if needed <= free || found.f_blocks == 0 || sample().is_some_and(|sample| clones(into, &sample)) {
        return Ok(());
    }
    Err(TreeError::NoSpace { path: path.to_owned(), needed, free })
}

/// Like `check`, for a stored copy of `leaves`. Only the copy itself knows its holes.
pub(super) fn check_restore(
    stored: &Tree,
    into: BorrowedFd<'_>,
    path: &Path,
    leaves: &[&Entry],
) -> Result<(), TreeError> {
    let size = |entry: &&Entry| if let Kind::File { size, .. } = entry.kind { size } else { 0 };
    let apparent: u64 = leaves.iter().map(size).sum();
    // Most trees have no large holes, so each file is inspected only if it matters.
    if check(into, path, apparent, || None).is_ok() {
        return Ok(());
    }
    let mut cursor = Cursor::new(stored.root());
    let mut needed = 0_u64;
    for entry in leaves {
        let (dir, name) = split(&entry.path);
        let found = cursor.at(dir).and_then(|dir| look(dir, name));
        needed = needed.saturating_add(found.map_or(size(entry), |seen| seen.stat.blocks * 512));
    }
    let sample = || {
        let entry = leaves.iter().find(|entry| size(entry) > 0)?;
        let (dir, name) = split(&entry.path);
        open_source(Cursor::new(stored.root()).at(dir).ok()?, name).ok()
    };
    check(into, path, needed, sample)
}

/// Tests cloning with a file that is removed at once.
fn clones(into: BorrowedFd<'_>, sample: &OwnedFd) -> bool {
    let name = ".clone";
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let Ok(file) = openat(into, name, flags, Mode::from_raw_mode(0o600)) else { return false };
    let cloned = ioctl_ficlone(&file, sample).is_ok();
    unlinkat(into, name, AtFlags::empty()).is_ok() && cloned
}
