//! What the tests share: trees to copy, file systems to copy them on, and a way to say what is in one.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use lokt::tree::{Captured, Consistency, Control, Ignore, Manifest, Reuse, Silent, Tree, TreeError};
use lokt::tree::{Header, capture, restore};
use tempfile::TempDir;

/// Nobody stops anything.
pub(crate) static GO_ON: AtomicBool = AtomicBool::new(false);

pub(crate) fn control() -> Control<'static> {
    Control::new(&Silent, &GO_ON)
}

pub(crate) fn take(from: &Path, into: &Path, consistency: Consistency) -> Result<Captured, TreeError> {
    take_with(from, into, consistency, None)
}

pub(crate) fn take_with(
    from: &Path,
    into: &Path,
    consistency: Consistency,
    reuse: Option<Reuse<'_>>,
) -> Result<Captured, TreeError> {
    let tree = Tree::open(from).expect("the source is there");
    capture(&tree, &Ignore::default(), into, consistency, reuse, &control())
}

/// A quiet tree, copied.
pub(crate) fn quiesced(from: &Path, into: &Path) -> Captured {
    take(from, into, Consistency::Quiesced).expect("nobody writes to it")
}

pub(crate) fn manifest(captured: &Captured) -> Manifest {
    let header = Header { scanned_at: captured.scan.at, trusted: captured.trusted };
    Manifest { header, entries: captured.copied.entries.clone() }
}

pub(crate) fn restored(captured: &Captured, from: &Path, into: &Path) {
    let done = restore(&captured.copied.entries, from, into, &control()).expect("it can be restored");
    done.sync(&control()).expect("it can be synced");
}

pub(crate) fn put(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().expect("it is in something")).expect("directories");
    fs::File::create(path).and_then(|mut file| std::io::Write::write_all(&mut file, bytes)).expect("a file");
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
}

pub(crate) fn set_mtime(path: &Path, secs: i64, nanos: u32) {
    let time = |tv_nsec| rustix::fs::Timespec { tv_sec: secs, tv_nsec };
    let omit = rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
    let times = rustix::fs::Timestamps { last_access: omit, last_modification: time(nanos.into()) };
    let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
    rustix::fs::utimensat(rustix::fs::CWD, path, &times, flags).expect("it is ours");
}

/// Everything about a tree that a copy must have, found by other means than the engine's.
pub(crate) fn described(root: &Path) -> BTreeMap<Vec<u8>, String> {
    let (mut all, mut first) = (BTreeMap::new(), BTreeMap::new());
    describe(root, root, &mut all, &mut first);
    all
}

fn describe(root: &Path, path: &Path, all: &mut BTreeMap<Vec<u8>, String>, first: &mut BTreeMap<(u64, u64), Vec<u8>>) {
    let meta = fs::symlink_metadata(path).expect("it is there");
    let name = path.strip_prefix(root).expect("it is below").as_os_str().as_bytes().to_vec();
    let content = if meta.is_symlink() {
        format!("link {}", fs::read_link(path).expect("a link").display())
    } else if meta.is_dir() {
        "dir".to_owned()
    } else {
        let same = first.entry((meta.dev(), meta.ino())).or_insert_with(|| name.clone());
        let is_sparse = meta.blocks() * 512 < meta.len();
        format!("file {} as {same:?} sparse {is_sparse}", blake3(path))
    };
    let xattrs = xattrs(path);
    let line = format!(
        "{content} {:o} {}:{} {}.{} {xattrs:?}",
        meta.mode(),
        meta.uid(),
        meta.gid(),
        meta.mtime(),
        meta.mtime_nsec()
    );
    all.insert(name, line);
    if meta.is_dir() {
        let mut names: Vec<_> =
            fs::read_dir(path).expect("it is readable").map(|entry| entry.expect("it lists").path()).collect();
        names.sort();
        for name in names {
            describe(root, &name, all, first);
        }
    }
}

fn blake3(path: &Path) -> String {
    // Not the hash of the engine: whoever is wrong must not agree with themselves.
    use std::hash::{DefaultHasher, Hasher as _};
    let mut hasher = DefaultHasher::new();
    hasher.write(&fs::read(path).expect("it is readable"));
    format!("{:x}", hasher.finish())
}

pub(crate) fn xattrs(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut names = vec![0_u8; 65536];
    let length = rustix::fs::llistxattr(path, &mut names[..]).unwrap_or(0);
    let names = names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let value = |name: &[u8]| {
        let mut value = vec![0_u8; 65536];
        let length = rustix::fs::lgetxattr(path, name, &mut value[..]).expect("it is listed");
        (String::from_utf8_lossy(name).into_owned(), value[..length].to_vec())
    };
    names.map(value).collect()
}

pub(crate) fn set_xattr(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::lsetxattr(path, name, value, rustix::fs::XattrFlags::empty()).expect("it can be set");
}

/// A file system of the test's own, until this is dropped.
pub(crate) struct Mounted {
    dir: TempDir,
}

impl Mounted {
    /// Runs `script` in a new directory; it mounts something at `at`. `$1` is the file system.
    pub(crate) fn new(kind: &str, script: &str) -> Self {
        let mounted = Self { dir: tempfile::tempdir().expect("there is room for a temp directory") };
        let text = format!("set -e; mkdir at; {script}");
        let made = Command::new("sh").args(["-c", &text, "sh", kind]).current_dir(mounted.dir.path()).output();
        let made = made.expect("a shell runs");
        let why = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "{kind} can be made and mounted here; that needs root, and its tools: {why}");
        mounted
    }

    /// An image of so many megabytes, most of them holes, as a block device.
    pub(crate) fn image(kind: &str, megabytes: u32) -> Self {
        let make = "mkfs.\"$1\" -q image";
        Self::new(kind, &format!("truncate -s {megabytes}M image; {make}; mount -o loop -t \"$1\" image at"))
    }

    pub(crate) fn tmpfs() -> Self {
        Self::new("tmpfs", "mount -t tmpfs none at")
    }

    pub(crate) fn overlay() -> Self {
        let script = "mkdir lower upper work; mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work none at";
        Self::new("overlay", script)
    }

    pub(crate) fn at(&self) -> PathBuf {
        self.dir.path().join("at")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily: whatever a failed test left in there must not keep it. A loop device goes with its mount.
        let _ = Command::new("umount").arg("--lazy").arg(self.at()).status();
    }
}
