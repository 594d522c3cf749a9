//! The hash over the files of a snapshot that `jvs` made, or has to read.

use crate::snapshot::catalog::Snapshots;
use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::Ordering;

use lokt_core::snapshot::descriptor::Schema;
use lokt_core::snapshot::entry::{Entry, Kind};
use lokt_core::snapshot::hash::{Hash, SHA256};
use lokt_core::snapshot::id::SnapshotId;
use lokt_core::snapshot::payload::{Payload, jvs_line, jvs_root_hash};
use sha2::{Digest as _, Sha256};

use lokt_sys::plain_file::PlainFile;
use lokt_tree::{Control, TreeError};

impl Snapshots<'_> {
    /// Returns the hash by the recipe of the program that wrote the descriptor.
    pub(super) fn old_root_hash(
        &self,
        id: &SnapshotId,
        schema: Schema,
        entries: &[Entry],
        control: &Control<'_>,
    ) -> Result<Hash, TreeError> {
        let tree = self.repo.tree_of(id);
        let mut lines = Vec::with_capacity(entries.len());
        for entry in entries {
            let payload = match &entry.kind {
                Kind::Dir => Payload::Dir,
                Kind::Symlink { target } => Payload::Symlink { target },
                Kind::File { size, .. } => Payload::File { size: *size, content: sha256(&tree, entry, control)? },
                Kind::HardLink { .. } => unreachable!("in the store every name is a file"),
            };
            lines.extend(jvs_line(schema, &entry.path, entry.mode, entry.mtime, payload));
        }
        Ok(Hash::new(SHA256, &jvs_root_hash(lines)))
    }
}

fn sha256(tree: &Path, entry: &Entry, control: &Control<'_>) -> Result<[u8; 32], TreeError> {
    let path = tree.join(OsStr::from_bytes(&entry.path));
    let failed = |error| TreeError::Io { what: "read", path: path.clone(), error };
    let mut file = PlainFile::open(&path).map_err(|error| failed(error.into()))?;
    let (mut hasher, mut buffer) = (Sha256::new(), vec![0; 1 << 18]);
    loop {
        if control.halt.load(Ordering::Relaxed) {
            return Err(TreeError::Halted);
        }
        match file.read(&mut buffer).map_err(failed)? {
            0 => return Ok(hasher.finalize().into()),
            count => hasher.update(&buffer[..count]),
        }
    }
}
