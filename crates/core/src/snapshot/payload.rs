//! The hash of `jvs` over a tree, so that its snapshots can be verified: one line for each entry,
//! sorted by their bytes, SHA-256 of all of them. The specification of `jvs` and its code differ in
//! the content of a line.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use sha2::{Digest as _, Sha256};

use super::bytes::to_hex;
use super::descriptor::{Era, Schema};
use super::entry::Time;

/// Name of the file that marks a tree of `jvs` as complete. It is not part of the tree.
pub const READY: &[u8] = b".READY";

/// Kind of an entry, as far as it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload<'a> {
    /// A file; each name of a file is one.
    File {
        /// Its size in bytes.
        size: u64,
        /// SHA-256 of its content.
        content: [u8; 32],
    },
    /// A directory.
    Dir,
    /// A symbolic link.
    Symlink {
        /// Its target.
        target: &'a [u8],
    },
}

/// Returns the line of an entry, without a newline: `type:path:metadata:content`. `None` if it
/// isn't hashed: the root, marks, and everything in snapshots in our own schema, which have a
/// manifest.
pub fn jvs_line(schema: Schema, path: &[u8], mode: u32, mtime: Time, payload: Payload<'_>) -> Option<Vec<u8>> {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let is_file = matches!(payload, Payload::File { .. });
    let is_mark = match schema {
        Schema::Code(_) | Schema::Both(_) => is_file && name == READY,
        Schema::Spec | Schema::Lokt => is_file && path == READY,
    };
    if schema == Schema::Lokt || is_mark || path.is_empty() {
        return None;
    }
    let mode = mode & 0o777;
    let is_code = schema.era().is_some();
    let (kind, metadata, content) = match payload {
        Payload::File { size, content } if schema.era() == Some(Era::Locks) => {
            ("file", format!("mode={mode:04o},size={size},mod={}", mtime.as_nanos()), to_hex(&content))
        }
        Payload::File { size, content } if is_code => {
            ("file", format!("mode={mode:04o},size={size}"), to_hex(&content))
        }
        Payload::File { size, content } => ("file", format!("{mode:04o}:{size}"), to_hex(&content)),
        Payload::Dir if is_code => ("dir", format!("mode={mode:04o}"), to_hex(&Sha256::digest(name))),
        Payload::Dir => ("dir", String::new(), String::new()),
        Payload::Symlink { target } => {
            let metadata = if is_code { format!("mode={mode:04o}") } else { String::new() };
            ("symlink", metadata, to_hex(&Sha256::digest(target)))
        }
    };
    let parts = [kind.as_bytes(), path, metadata.as_bytes(), content.as_bytes()];
    Some(parts.join(&b':'))
}

/// Returns the hash over a tree from its lines, in any order.
pub fn jvs_root_hash(mut lines: Vec<Vec<u8>>) -> [u8; 32] {
    lines.sort_unstable();
    let mut hasher = Sha256::new();
    for line in &lines {
        hasher.update(line);
        hasher.update(b"\n");
    }
    hasher.finalize().into()
}
