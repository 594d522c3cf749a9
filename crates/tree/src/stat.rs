//! Metadata of one file, and the conditions under which two readings prove that nothing happened in
//! between.

use std::os::fd::BorrowedFd;

use lokt_core::snapshot::entry::Time;
use rustix::fs::{AtFlags, FileType, StatxAttributes, StatxFlags, fstat, makedev, statat, statx};
use rustix::io::Errno;

/// Metadata of one file, directory or link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// The device that it is on.
    pub dev: u64,
    /// Its inode number.
    pub ino: u64,
    /// Type and permissions.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its length in bytes.
    pub size: u64,
    /// Disk usage in blocks of 512 bytes.
    pub blocks: u64,
    /// Time of the last change of its bytes; its owner can set it.
    pub mtime: Time,
    /// Time of the last change of anything about it; set by the kernel only.
    pub ctime: Time,
    /// Number of hard links.
    pub nlink: u64,
}

impl Stat {
    /// Permissions with the suid, sgid and sticky bits.
    pub fn permissions(&self) -> u32 {
        self.mode & 0o7777
    }

    pub(super) fn file_type(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }

    /// Reports whether nothing happened to it in between. The block count may change without any
    /// change to the file: disk space is allocated late.
    pub fn is_untouched(&self, since: &Self) -> bool {
        Self { blocks: since.blocks, ..*self } == *since
    }

    /// Reports whether it is the same directory with the same permissions, whatever came and went
    /// in it.
    pub(super) fn is_same_place(&self, since: &Self) -> bool {
        let rights = |stat: &Self| (stat.dev, stat.ino, stat.mode, stat.uid, stat.gid);
        rights(self) == rights(since)
    }

    /// Reports whether it has holes.
    pub(super) fn is_sparse(&self) -> bool {
        self.blocks.saturating_mul(512) < self.size
    }
}

/// A file, with the mount that it is seen through, if the kernel reports it.
pub(super) struct Seen {
    pub(super) stat: Stat,
    pub(super) mount: Option<u64>,
    pub(super) is_mount_root: bool,
}

/// Stats `name` in `dir` without following links; `dir` itself if the name is empty.
pub(super) fn look(dir: BorrowedFd<'_>, name: &[u8]) -> Result<Seen, Errno> {
    let itself = if name.is_empty() { AtFlags::EMPTY_PATH } else { AtFlags::empty() };
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | itself;
    let found = match statx(dir, name, flags, StatxFlags::BASIC_STATS | StatxFlags::MNT_ID) {
        // Sandboxes that don't know statx.
        Err(Errno::NOSYS) => {
            return Ok(Seen { stat: from_stat(&statat(dir, name, flags)?), mount: None, is_mount_root: false });
        }
        done => done?,
    };
    let stat = Stat {
        dev: makedev(found.stx_dev_major, found.stx_dev_minor),
        ino: found.stx_ino,
        mode: found.stx_mode.into(),
        uid: found.stx_uid,
        gid: found.stx_gid,
        size: found.stx_size,
        blocks: found.stx_blocks,
        mtime: Time { secs: found.stx_mtime.tv_sec, nanos: found.stx_mtime.tv_nsec },
        ctime: Time { secs: found.stx_ctime.tv_sec, nanos: found.stx_ctime.tv_nsec },
        nlink: found.stx_nlink.into(),
    };
    let mount = (found.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(found.stx_mnt_id);
    Ok(Seen { stat, mount, is_mount_root: found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) })
}

/// Stats an open file.
pub(super) fn look_at(fd: BorrowedFd<'_>) -> Result<Stat, Errno> {
    Ok(from_stat(&fstat(fd)?))
}

#[expect(clippy::useless_conversion, reason = "the types differ between processors")]
#[expect(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "the kernel gives no others")]
fn from_stat(found: &rustix::fs::Stat) -> Stat {
    Stat {
        dev: found.st_dev.into(),
        ino: found.st_ino.into(),
        mode: found.st_mode,
        uid: found.st_uid,
        gid: found.st_gid,
        size: found.st_size as u64,
        blocks: found.st_blocks as u64,
        mtime: time(found.st_mtime, found.st_mtime_nsec as u32),
        ctime: time(found.st_ctime, found.st_ctime_nsec as u32),
        nlink: found.st_nlink.into(),
    }
}

fn time(secs: i64, nanos: u32) -> Time {
    Time { secs, nanos }
}

/// Converts a time for setting it.
pub(super) fn timespec(time: Time) -> rustix::fs::Timespec {
    rustix::fs::Timespec { tv_sec: time.secs, tv_nsec: time.nanos.into() }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn both_ways_of_looking_see_the_same() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = std::fs::File::create(dir.path().join("a")).expect("a file");
        let place = std::fs::File::open(dir.path()).expect("it opens");
        let by_name = look(place.as_fd(), b"a").expect("it is there").stat;
        assert_eq!(by_name, look_at(file.as_fd()).expect("it is open"), "one is compared with the other");
    }
}
