//! Verifies that a snapshot is what it was when it was taken.

use crate::snapshot::catalog::Snapshots;
use std::collections::BTreeMap;

use lokt_core::snapshot::entry::{Entry, Kind};
use lokt_core::snapshot::ignore::Ignore;
use lokt_core::snapshot::payload::READY;
use lokt_core::snapshot::receipt::Receipt;

use super::answers::{Difference, Listed, Verification};
use super::capture::volume;
use super::catalog::BYTES_MAX;
use super::diff::{between, read_tree};
use super::places::receipt_file;
use super::trouble::{of_tree, was_halted};
use lokt_sys::disk;
use lokt_sys::error::{At as _, Error, ErrorKind};
use lokt_tree::{Control, HashOptions, Known, Names};

/// Maximum number of problems that are reported one by one.
const TOLD: usize = 100;

impl Snapshots<'_> {
    /// Reads the whole snapshot and compares it. `known` has the hashes of files that snapshots
    /// share and that were already read. `None`: the work was told to stop.
    pub fn verify(&self, listed: &Listed, known: &Known, control: &Control<'_>) -> Result<Option<Verification>, Error> {
        let descriptor = &listed.descriptor;
        let mut verification = Verification {
            id: descriptor.id.clone(),
            checksum_valid: descriptor.checksum_valid,
            payload_hash_valid: true,
            problems: Vec::new(),
            files: 0,
            bytes: 0,
        };
        if !descriptor.checksum_valid {
            verification.problems.push("its description was changed".into());
        }
        if let Some(problem) = self.receipt_problem(listed)? {
            verification.checksum_valid = false;
            verification.problems.push(problem);
        }
        let options = HashOptions { names: Names::Files, known, since: None };
        let read = match read_tree(&self.repo.tree_of(&descriptor.id), &Ignore::default(), &options, control) {
            Ok(read) => read,
            Err(error) if was_halted(&error) => return Ok(None),
            Err(error) => {
                let error = of_tree(error);
                verification.payload_hash_valid = false;
                verification.problems.push(error.to_string());
                return Ok(Some(verification));
            }
        };
        let is_ours = descriptor.schema.is_ours();
        // The marker of `jvs` is not a file of the user.
        let theirs = read.entries.iter().filter(|entry| is_ours || entry.path != READY);
        (verification.files, verification.bytes) = volume(theirs);
        if is_ours {
            match self.stored_manifest(listed) {
                Ok(Some(manifest)) => verification.note(&between(&as_files(manifest.entries), &read.entries)),
                Ok(None) => {}
                Err(error) if error.kind() == ErrorKind::PayloadMismatch => {
                    verification.payload_hash_valid = false;
                    verification.problems.push(error.to_string());
                }
                Err(error) => return Err(error),
            }
        } else {
            match self.old_root_hash(&descriptor.id, descriptor.schema, &read.entries, control) {
                Ok(hash) if hash == descriptor.root_hash => {}
                Ok(_) => {
                    verification.payload_hash_valid = false;
                    verification.problems.push("its files are not those that it was made of".into());
                }
                Err(error) if was_halted(&error) => return Ok(None),
                Err(error) => return Err(of_tree(error)),
            }
        }
        Ok(Some(verification))
    }

    /// Returns a problem of the receipt, which vouches for one descriptor.
    fn receipt_problem(&self, listed: &Listed) -> Result<Option<String>, Error> {
        let path = receipt_file(&listed.descriptor.id);
        Ok(match self.repo.disk.read(&path, BYTES_MAX).at("read", &self.repo.path, &path)? {
            disk::Entry::Missing => None,
            disk::Entry::File(content) => match Receipt::parse(&content.bytes) {
                Ok(receipt) if receipt.descriptor_checksum == listed.descriptor.checksum => None,
                Ok(_) => Some("its description isn't the one that it was published with".into()),
                Err(why) => Some(format!("its receipt is damaged: {why}")),
            },
            disk::Entry::NotRegular(kind) => Some(format!("its receipt is {kind}")),
            disk::Entry::TooBig(_) => Some("its receipt is too long".into()),
        })
    }
}

/// Turns hard links into files: in the store, every name is a file of its own.
pub(super) fn as_files(mut entries: Vec<Entry>) -> Vec<Entry> {
    let files: BTreeMap<Vec<u8>, Kind> = entries
        .iter()
        .filter(|entry| matches!(entry.kind, Kind::File { .. } | Kind::Symlink { .. }))
        .map(|entry| (entry.path.clone(), entry.kind.clone()))
        .collect();
    for entry in &mut entries {
        if let Kind::HardLink { to } = &entry.kind
            && let Some(kind) = files.get(to)
        {
            entry.kind = kind.clone();
        }
    }
    entries
}

impl Verification {
    fn note(&mut self, difference: &Difference) {
        let Difference { added, removed, modified, touched } = difference;
        for (what, paths) in [
            ("is missing", removed),
            ("was changed", modified),
            ("was added", added),
            ("has another mode, time or attribute", touched),
        ] {
            for path in paths {
                self.payload_hash_valid = false;
                if self.problems.len() < TOLD {
                    self.problems.push(format!("{} {what}", String::from_utf8_lossy(path)));
                }
            }
        }
    }
}
