//! Claims in files of their own, `locks/*.lock` beside the ledger. Programs that follow the
//! documentation may write them. They are respected until they expire, and never written, changed
//! or removed.

use std::path::PathBuf;

use lokt_core::ledger::lock_file::{LOCK_FILE_BYTES_MAX, LockFile};

use super::FileLog;
use lokt_sys::disk::Entry;
use lokt_sys::warnings::Warning;

const LOCKS: &str = "locks";
const SUFFIX: &str = ".lock";

/// The lock files in `locks`.
#[derive(Debug, Default)]
pub(crate) struct LockFiles {
    /// Files with a valid claim.
    pub(crate) found: Vec<LockFile>,
    /// Their paths.
    pub(crate) paths: Vec<PathBuf>,
    /// Warnings about the others.
    pub(crate) warnings: Vec<Warning>,
}

impl FileLog {
    /// Reads all lock files. Unreadable ones make no claim, but a warning.
    pub(crate) fn lock_files(&self) -> LockFiles {
        let mut files = LockFiles::default();
        let names = match self.above.list(LOCKS) {
            Ok(names) => names,
            Err(error) => {
                let why = format!("{} can't be listed: {error}", self.dir.join(LOCKS).display());
                files.warnings.push(Warning::Unreadable(why));
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
                Err(why) => {
                    let why = format!("{} is not respected: {why}", path.display());
                    files.warnings.push(Warning::Unreadable(why));
                }
            }
        }
        files
    }
}
