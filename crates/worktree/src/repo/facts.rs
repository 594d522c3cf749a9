//! Facts that a repository states about itself: its format, its id, its policy.

use std::io;
use std::path::Path;

use lokt_core::fnv::fnv1a_64;
use lokt_core::lease::config;
use lokt_core::lease::policy::PolicyWish;

use super::{FILE_MODE, Repository};
use lokt_sys::disk::{Disk, Entry};
use lokt_sys::error::{At as _, Error, ErrorKind};
use lokt_sys::machine::Machine;

/// The format of the repositories that lokt makes. `jvs` refuses it, and so do versions of lokt
/// that know only [`JVS_FORMAT`].
pub const FORMAT: u64 = 2;
/// The format of the repositories that `jvs` makes, and that earlier versions of lokt made: `jvs`
/// reads and writes them.
pub const JVS_FORMAT: u64 = 1;
/// A line of the format's file, after the number: the worktree `main` is the directory that `.jvs`
/// is in.
const HERE: &str = "main: .";
pub(super) use lokt_sys::repository::FORMAT_FILE;
pub(super) const ID_FILE: &str = "repo_id";
pub(crate) const CONFIG_FILE: &str = "config.json";
/// Maximum size of each of these files in bytes.
const BYTES_MAX: usize = 1 << 20;

/// The format of a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Format {
    pub(super) number: u64,
    /// The worktree `main` is the directory that `.jvs` is in.
    pub(super) is_here: bool,
}

impl Format {
    /// Returns the format of a repository that is created now.
    pub(super) fn new(is_here: bool) -> Self {
        Self { number: FORMAT, is_here }
    }

    /// Returns the text of the format's file. Both facts are in one file, which is written once and
    /// last: no process sees one without the other.
    pub(super) fn to_text(self) -> String {
        let rest = if self.is_here { format!("{HERE}\n") } else { String::new() };
        format!("{}\n{rest}", self.number)
    }
}

/// Reads the format; `None` if it is not a repository, an error if it is one of a later format.
pub(super) fn format(disk: &dyn Disk, path: &Path) -> Result<Option<Format>, Error> {
    let Some(bytes) = read(disk, path, FORMAT_FILE)? else { return Ok(None) };
    let text = String::from_utf8_lossy(&bytes);
    let digits: String = text.trim_start().chars().take_while(char::is_ascii_digit).collect();
    match digits.parse::<u64>() {
        Ok(number @ JVS_FORMAT..=FORMAT) => {
            let is_here = number == FORMAT && text.lines().skip(1).any(|line| line == HERE);
            Ok(Some(Format { number, is_here }))
        }
        Ok(0) => Err(damaged(path, FORMAT_FILE, "has no format in it")),
        Err(_) if digits.is_empty() => Err(damaged(path, FORMAT_FILE, "has no format in it")),
        _ => {
            let message =
                format!("{} has format {digits}; this program knows {JVS_FORMAT} to {FORMAT}", path.display());
            Err(Error::new(ErrorKind::Format, message).hint("upgrade lokt"))
        }
    }
}

/// Returns the id. A repository of a program that gave it none gets one; if that can't be written,
/// one that depends on the path.
pub(super) fn id(disk: &dyn Disk, machine: &dyn Machine, path: &Path) -> Result<String, Error> {
    if let Some(bytes) = read(disk, path, ID_FILE)? {
        return known_id(path, &bytes);
    }
    let fresh = uuid(machine.random().at("get random bits for", path, "")?);
    match publish_new(disk, ID_FILE, format!("{fresh}\n").as_bytes(), FILE_MODE) {
        Ok(true) => Ok(fresh),
        Ok(false) => known_id(path, &read(disk, path, ID_FILE)?.unwrap_or_default()),
        Err(_) => Ok(format!("{:016x}", fnv1a_64(path.as_os_str().as_encoded_bytes()))),
    }
}

/// Checks an id, because it becomes a part of paths.
fn known_id(path: &Path, bytes: &[u8]) -> Result<String, Error> {
    let id = std::str::from_utf8(bytes).map(str::trim).unwrap_or_default();
    let is_good = (1..=64).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if is_good { Ok(id.into()) } else { Err(damaged(path, ID_FILE, "has no id in it")) }
}

/// Makes a UUID, version 4, of random bits.
fn uuid(bits: u128) -> String {
    let bits = bits & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
    let hex = format!("{bits:032x}");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// Returns the lease policy of its `config.json`; without one, nothing is requested.
pub(super) fn policy(disk: &dyn Disk, path: &Path) -> Result<PolicyWish, Error> {
    match read(disk, path, CONFIG_FILE)? {
        None => Ok(PolicyWish::default()),
        Some(bytes) => config::policy(&bytes).map_err(|why| damaged(path, CONFIG_FILE, &format!("is damaged: {why}"))),
    }
}

/// Reads a small file; `None` if there is none.
pub(super) fn read(disk: &dyn Disk, path: &Path, name: &str) -> Result<Option<Vec<u8>>, Error> {
    match disk.read(name, BYTES_MAX).at("read", path, name)? {
        Entry::Missing => Ok(None),
        Entry::File(content) => Ok(Some(content.bytes)),
        Entry::NotRegular(kind) => Err(damaged(path, name, &format!("is {kind}"))),
        Entry::TooBig(_) => Err(damaged(path, name, "is too long")),
    }
}

pub(super) fn damaged(path: &Path, name: &str, what: &str) -> Error {
    Error::new(ErrorKind::Damaged, format!("{} {what}", path.join(name).display()))
}

/// Replaces a small file of `.jvs`, durably.
pub(crate) fn replace_file(repo: &Repository, dir: &str, path: &str, bytes: &[u8]) -> Result<(), Error> {
    let within = if dir.is_empty() { String::new() } else { format!("{dir}/") };
    let temp = format!("{within}.lokt-{:032x}.tmp", repo.random()?);
    let written = repo.disk.create_as(&temp, bytes, FILE_MODE).and_then(|file| file.sync());
    let replaced = written.and_then(|()| repo.disk.rename(&temp, path));
    replaced.inspect_err(|_| drop(repo.disk.remove(&temp))).at("write", &repo.path, path)?;
    repo.disk.sync_dir(dir).at("sync", &repo.path, dir)
}

/// Creates a synced file atomically, unless something is there: then returns false. The directory
/// isn't synced yet.
pub(crate) fn publish_new(disk: &dyn Disk, path: &str, bytes: &[u8], mode: u32) -> io::Result<bool> {
    let file = disk.unnamed(bytes, mode)?;
    file.sync()?;
    match file.link(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::{Format, uuid};

    #[test]
    fn programs_that_read_only_a_number_refuse_what_they_would_misread() {
        assert_eq!(Format::new(false).to_text(), "2\n");
        assert_eq!(Format::new(true).to_text(), "2\nmain: .\n");
    }

    #[test]
    fn an_id_is_a_uuid_of_version_4() {
        assert_eq!(uuid(0), "00000000-0000-4000-8000-000000000000");
        assert_eq!(uuid(u128::MAX), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }
}
