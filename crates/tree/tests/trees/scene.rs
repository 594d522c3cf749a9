//! What the tests share: trees to copy, file systems to copy them on, and a way to say what is in one.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

pub(crate) use lokt_testkit::mounted::Mounted;
pub(crate) use lokt_testkit::trees::{described, put, set_mode, set_mtime, set_xattr};
use lokt_tree::{Captured, Consistency, Control, Ignore, Manifest, Reuse, Silent, Tree, TreeError};
use lokt_tree::{Header, capture, restore};

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

/// A tree with one file that is written to among some that aren't.
pub(crate) fn written_to(at: &Path) -> PathBuf {
    let source = at.join("source");
    for name in 0..20 {
        put(&source.join(format!("quiet/{name}")), &vec![7; 10_000]);
    }
    put(&source.join("sub/file"), &[]);
    source
}
