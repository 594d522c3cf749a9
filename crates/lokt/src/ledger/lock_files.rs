//! Claims in files of their own, `locks/*.lock` beside the ledger. Programs that know the documentation may write them; they are
//! respected as long as they last, and never written, changed or removed.

use std::path::PathBuf;

use lokt_core::ledger::lock_file::{LOCK_FILE_BYTES_MAX, LockFile};

use super::Ledger;
use crate::sys::disk::Entry;

const LOCKS: &str = "locks";
const SUFFIX: &str = ".lock";

/// What was found in `locks`.
#[derive(Debug, Default)]
pub(super) struct LockFiles {
    /// The files that say something.
    pub(super) found: Vec<LockFile>,
    /// Where each of them is.
    pub(super) paths: Vec<PathBuf>,
    /// What is wrong with the others.
    pub(super) warnings: Vec<String>,
}

impl Ledger {
    /// Reads them. What can't be read says nothing, and is told of.
    pub(super) fn lock_files(&self) -> LockFiles {
        let mut files = LockFiles::default();
        let names = match self.above.list(LOCKS) {
            Ok(names) => names,
            Err(error) => {
                files.warnings.push(format!("{} can't be listed: {error}", self.dir.join(LOCKS).display()));
                return files;
            }
        };
        for name in names.iter().filter(|name| name.ends_with(SUFFIX)) {
            let path = self.dir.join(LOCKS).join(name);
            let read = match self.above.read(&format!("{LOCKS}/{name}"), LOCK_FILE_BYTES_MAX) {
                // Released in this instant.
                Ok(Entry::Missing) => continue,
                Ok(Entry::File(content)) => LockFile::parse(&content.bytes),
                Ok(Entry::NotRegular(kind)) => Err(format!("it is {kind}")),
                Ok(Entry::TooBig(bytes)) => Err(format!("it has {bytes} bytes")),
                Err(error) => Err(error.to_string()),
            };
            match read {
                Ok(file) => {
                    files.found.push(file);
                    files.paths.push(path);
                }
                Err(why) => files.warnings.push(format!("{} is not respected: {why}", path.display())),
            }
        }
        files
    }
}
