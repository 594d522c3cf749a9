//! Judges a file system before anything is tried on it. Pure: maps the kernel's name for it to what
//! that means for locks.
//!
//! On file systems that belong to one kernel, the kernel implements `flock`. FUSE passes it to a
//! program, which usually doesn't handle it; then it is local to the mount. Processes that reach
//! the same files another way (bindfs and the directory under it, two machines with one sshfs)
//! aren't excluded, and nothing reports that. No trial from one side can detect it.

use lokt_sys::mounts::MountedOn;

/// Trust in locks on a file system, judged by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trust {
    /// One kernel writes to it.
    Local,
    /// Locks work within the limit that the sentence states.
    Limited(String),
    /// Locks may exclude nobody; the sentence says why.
    None(String),
}

const FUSE: u64 = 0x6573_5546;
const NFS: u64 = 0x6969;
pub(super) const OVERLAY: u64 = 0x794c_7630;

/// File systems that one kernel writes to, and that leave `flock` to it.
const LOCAL: [(u64, &str); 16] = [
    (0xef53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0x0102_1994, "tmpfs"),
    (OVERLAY, "overlay"),
    (0xf2f5_2010, "f2fs"),
    (0x2fc1_2fc1, "zfs"),
    (0xca45_1a4e, "bcachefs"),
    (0x8584_58f6, "ramfs"),
    (0x3153_464a, "jfs"),
    (0x5265_4973, "reiserfs"),
    (0x3434, "nilfs2"),
    (0xf15f, "ecryptfs"),
    (0x4d44, "vfat"),
    (0x2011_bab0, "exfat"),
    (0x7366_746e, "ntfs3"),
];

/// File systems that several machines may write to.
const SHARED: [(u64, &str); 8] = [
    (NFS, "nfs"),
    (0x0102_1997, "9p"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb3"),
    (0x00c3_6400, "ceph"),
    (0x0bd0_0bd0, "lustre"),
    (0x0116_1970, "gfs2"),
    (0x786f_4256, "vboxsf"),
];

/// Returns the common name of a file system.
pub(super) fn name(mount: &MountedOn) -> String {
    let known = LOCAL.iter().chain(&SHARED).find(|(magic, _)| Some(*magic) == mount.magic);
    match (mount.kind.as_str(), known, mount.magic) {
        ("", Some((_, name)), _) => (*name).to_owned(),
        ("", None, Some(FUSE)) => "fuse".to_owned(),
        ("", None, Some(magic)) => format!("a file system of type {magic:#x}"),
        ("", None, None) => "an unknown file system".to_owned(),
        (kind, ..) => kind.to_owned(),
    }
}

/// Judges how far locks on it can be trusted.
pub(super) fn judge(mount: &MountedOn) -> Trust {
    let is_among = |known: &[(u64, &str)]| known.iter().any(|(magic, _)| Some(*magic) == mount.magic);
    let has = |option: &str| mount.options.split(',').any(|set| set == option);
    match mount.magic {
        // It has the magic number of FUSE, but a disk under it that nothing else can mount.
        Some(FUSE) if mount.kind == "fuseblk" => Trust::Limited(
            "locks are local to this mount: everybody must reach the root through it, and not through another one"
                .into(),
        ),
        Some(FUSE) => Trust::None(format!(
            "locks on a FUSE file system may be local to the mount{}, and that can't be tried from here: who reaches the \
             same files another way is not excluded",
            source(mount)
        )),
        Some(NFS) if has("nolock") || has("local_lock=all") || has("local_lock=flock") => Trust::None(format!(
            "it is mounted{} so that locks are local to this machine (nolock or local_lock): other machines are not \
             excluded",
            source(mount)
        )),
        Some(NFS) => Trust::Limited(
            "processes of other machines can't be looked at: a lock of theirs without --ttl ends by `unlock` alone"
                .into(),
        ),
        _ if is_among(&LOCAL) => Trust::Local,
        _ if is_among(&SHARED) => Trust::None(format!(
            "locks on it may be local to this machine{}, and that can't be tried from here: others are not excluded then",
            source(mount)
        )),
        _ => Trust::Limited("lokt doesn't know it; what could be tried from here has been".into()),
    }
}

fn source(mount: &MountedOn) -> String {
    if mount.source.is_empty() { String::new() } else { format!(" (of {})", mount.source) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(magic: u64, kind: &str, options: &str) -> MountedOn {
        MountedOn {
            magic: Some(magic),
            kind: kind.into(),
            source: "src".into(),
            options: options.into(),
            ..MountedOn::default()
        }
    }

    #[test]
    fn fuse_is_not_believed_unless_a_disk_is_under_it() {
        for kind in ["fuse", "fuse.sshfs", "fuse.bindfs", "virtiofs", ""] {
            assert!(matches!(judge(&mount(FUSE, kind, "rw")), Trust::None(_)), "{kind}");
        }
        assert!(matches!(judge(&mount(FUSE, "fuseblk", "rw")), Trust::Limited(_)));
    }

    #[test]
    fn nfs_is_believed_only_if_its_locks_leave_the_machine() {
        assert!(matches!(judge(&mount(NFS, "nfs4", "rw,local_lock=none")), Trust::Limited(_)));
        for options in ["rw,nolock", "rw,local_lock=all", "rw,local_lock=flock"] {
            assert!(matches!(judge(&mount(NFS, "nfs", options)), Trust::None(_)), "{options}");
        }
    }

    #[test]
    fn disks_of_one_kernel_are_local_and_what_is_unknown_is_said_to_be() {
        for (magic, name) in LOCAL {
            assert_eq!(judge(&mount(magic, name, "rw")), Trust::Local, "{name}");
        }
        assert!(matches!(judge(&mount(1, "new", "rw")), Trust::Limited(_)));
        assert!(matches!(judge(&mount(0x0102_1997, "9p", "rw")), Trust::None(_)));
    }

    #[test]
    fn nothing_that_is_not_believed_here_is_taken_for_local_elsewhere() {
        for (magic, kind) in SHARED.into_iter().chain([(FUSE, "fuse")]) {
            assert!(!lokt_core::liveness::is_local(Some(magic)), "{kind}");
            assert_eq!(name(&mount(magic, "", "")), kind, "where the table of mounts can't be read");
        }
    }
}
