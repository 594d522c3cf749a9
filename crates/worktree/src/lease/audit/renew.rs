//! Starts a new log in place of a broken one, which is kept.

use lokt_core::ledger::chain::Digest;
use serde_json::{Map, Value};

use super::lines::Place;
use super::log::{Closed, Log, PATIENCE, sync};
use super::note::event;
use super::settle::listed;
use super::{LOG, REPAIR, chains};
use crate::repo::Repository;
use lokt_sys::disk::Disk;
use lokt_sys::error::{At as _, Error, ErrorKind};

/// Maximum number of broken logs: more are no accident.
const BROKEN_MAX: u32 = 10_000;

/// A new log.
#[derive(Debug, PartialEq, Eq)]
pub struct Anew {
    /// The new name of the old one, if there was one.
    pub aside: Option<String>,
}

/// Moves a broken log aside and starts a new one, which says so. Events that the chains still have
/// are added by their next commands. `None`: nothing is broken any more.
pub fn begin_anew(repo: &Repository) -> Result<Option<Anew>, Error> {
    let at = repo.path.join("audit");
    let busy = |Closed(why): Closed| Error::new(ErrorKind::Busy, why);
    let mut log = Log::locked(repo, PATIENCE).map_err(busy)?;
    // Examined now that no process writes.
    let Some(broken) = repo.audit_log().examine()?.value.broken else { return Ok(None) };
    let disk = repo.audit().at("open", &at, "")?;
    let mut details = Map::new();
    details.insert("problem".into(), format!("line {}: {}", broken.line, broken.why).into());
    let mut aside = None;
    if log.file.is_some() {
        details.insert("sha256".into(), digest(&log).map_err(busy)?);
        let name = move_aside(disk).at("move", &at, LOG)?;
        details.insert("old_file".into(), name.clone().into());
        aside = Some(name);
    }
    let newest = chains::newest_of_all(repo).into_iter().map(|(_, slot)| slot.anchor);
    details.insert("void".into(), listed(newest.filter(|anchor| anchor.count > 0)));
    log.file = None;
    log.end = Place::default();
    let event = event(repo, REPAIR, LOG, details)?;
    log.append([&event]).map_err(busy)?;
    sync(repo).map_err(|why| Error::new(ErrorKind::Busy, why))?;
    Ok(Some(Anew { aside }))
}

fn digest(log: &Log<'_>) -> Result<Value, Closed> {
    let failed = |error: std::io::Error| Closed(format!("the audit log can't be read: {error}"));
    let mut bytes = vec![0; usize::try_from(log.size()?).unwrap_or(0)];
    let mut filled = 0;
    if let Some(file) = &log.file {
        while filled < bytes.len() {
            match file.read_at(&mut bytes[filled..], filled as u64).map_err(failed)? {
                0 => break,
                got => filled += got,
            }
        }
    }
    Ok(Digest::of(&bytes[..filled]).to_string().into())
}

fn move_aside(disk: &dyn Disk) -> std::io::Result<String> {
    for number in 1..BROKEN_MAX {
        let name = format!("{LOG}.broken.{number}");
        match disk.rename_new(LOG, &name) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            done => return done.map(|()| name),
        }
    }
    Err(std::io::ErrorKind::AlreadyExists.into())
}
