//! A restore that exchanges a worktree entry by entry, because something in it must never move: a
//! lock root, a mount, or the repository itself. The directories on the way to that stay, too;
//! their other entries are exchanged.
//!
//! The plan is written before the link that decides, and nothing is added to it afterwards. Every
//! step is one rename that can happen once. A new entry gets a name that only one process knows,
//! and its inode is compared, as in `swap`. An old entry is moved to a name that is taken from then
//! on. So any process can finish it, and one that was suspended in between finds nothing left to
//! do.

use crate::snapshot::swap::TreeSwap;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use lokt_core::lease::state::Restore;
use lokt_core::snapshot::exchange::{Exchange, Part};

use super::swap::{LOOKS, Swapped, TRIES, can_never, inode, inode_of};
use crate::lease::Worktree;
use lokt_sys::error::{At as _, Error, ErrorKind};
use lokt_sys::look::{look, may_write};
use lokt_sys::payload;
use lokt_sys::plain_file::{NotPlain, PlainFile};
use lokt_tree::{carry_ignored, give_alike, ignored_in, split};

/// The plan of an exchange, in its directory in `restores/`.
const PLAN: &str = "plan";
/// The new tree; its entries are replaced one by one by the old ones.
const TREE: &str = "tree";
/// Prefix of the name that a part has while one process moves it.
const CLAIM: &str = ".lokt-part";
/// Hint for a restore that is impossible.
const ELSEWHERE: &str = "nothing was changed; `lokt snapshot restore ID --into NAME` puts the files elsewhere";

/// A tree with the plan of its exchange; a link that names it decides the exchange.
pub(super) struct Wrapped {
    /// Its name in the link.
    pub(super) name: String,
    /// Its directory.
    pub(super) path: PathBuf,
}

impl TreeSwap<'_> {
    /// Wraps up the complete new tree `new` with a plan of how it replaces what is there, around
    /// `anchors`, durably.
    pub(super) fn wrap(&self, new: &Path, token: Option<u64>, anchors: &[Vec<u8>]) -> Result<Wrapped, Error> {
        let place = self.worktree.repo.files_of(&self.worktree.name);
        let nonce = self.worktree.repo.random()?;
        let name = format!("{}.{}.{nonce:032x}", self.worktree.name, token.unwrap_or(0));
        let path = self.wrapper(&name);
        payload::make(&path).at("make", &path, "")?;
        let tree = path.join(TREE);
        let planned = payload::move_new(new, &tree).at("move", new, "").and_then(|()| {
            let parts = plan_parts(&tree, &place, anchors)?;
            let ino = inode(&path)?.unwrap_or(0);
            let plan = path.join(PLAN);
            payload::write_new(&plan, &Exchange { ino, parts }.to_bytes()).at("write", &plan, "")?;
            payload::sync_dir(&path).at("sync", &path, "")
        });
        if let Err(error) = planned {
            let _ = payload::destroy(&path);
            return Err(error);
        }
        Ok(Wrapped { name, path })
    }

    /// Carries out a restore in parts that was decided.
    pub(super) fn finish_parts(&self, restore: &Restore, number: u64) -> Result<Swapped, Error> {
        let wrapper = self.wrapper(&restore.tree);
        let (tree, place) = (wrapper.join(TREE), self.worktree.repo.files_of(&self.worktree.name));
        // Another process may finish it at any moment, and remove the plan: then the head is noted
        // by the time of the next check.
        for _ in 0..LOOKS {
            if self.was_done(restore, number) {
                return Ok(Swapped::done(None));
            }
            let Some(plan) = read_plan(&wrapper)? else { continue };
            match inode(&wrapper)? {
                None => continue,
                Some(ino) if ino == plan.ino => {}
                Some(_) => return Ok(Swapped::Undone("the lokt repository was copied before it was done".into())),
            }
            // The last step before the head is noted.
            if inode(&tree)?.is_none() {
                return Ok(Swapped::done(None));
            }
            let parted = Parted { worktree: self.worktree, tree: &tree, place: &place };
            let mut left = Vec::new();
            for (at, part) in plan.parts.iter().enumerate() {
                if !parted.bring(at, part)? {
                    left.push(String::from_utf8_lossy(&part.path).into_owned());
                }
            }
            if !left.is_empty() && inode(&tree)?.is_none() {
                continue;
            }
            parted.give_rights(&plan.parts);
            parted.sync(&plan.parts)?;
            match carry_ignored(&tree, &place) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                done => done.at("keep what is ignored in", &tree, "")?,
            }
            return match self.worktree.repo.gc().throw_away_tree(&tree, &format!("restored-{}", self.worktree.name)) {
                Err(error) if error.io_kind() == Some(io::ErrorKind::NotFound) => Ok(Swapped::done(None)),
                done => Ok(Swapped::Done { old_tree: Some(done?), left }),
            };
        }
        Ok(Swapped::Undone("its tree is gone".into()))
    }

    /// Removes the plan of a finished restore, once the worktree's configuration says so: until
    /// then only the plan does.
    pub(crate) fn forget_plan(&self, restore: &Restore, number: u64) {
        if restore.in_parts && self.was_done(restore, number) {
            let wrapper = self.wrapper(&restore.tree);
            let aside = self.restores().join(format!("given-up.{}", restore.tree));
            if payload::move_new(&wrapper, &aside).is_ok() {
                let _ = payload::destroy(&aside);
            }
        }
    }

    /// Reports whether all parts have taken their places.
    pub(super) fn has_parts(&self, restore: &Restore) -> bool {
        matches!(inode_of(&self.wrapper(&restore.tree).join(TREE)), Ok(None))
    }

    /// Returns the directory of a plan. Its name isn't the link's: a lokt that knows nothing of
    /// parts finds no tree, and moves nothing.
    fn wrapper(&self, tree: &str) -> PathBuf {
        let nonce = tree.rsplit('.').next().unwrap_or_default();
        self.restores().join(format!("{tree}.{nonce}"))
    }
}

/// Plans what is exchanged. Directories that stay in the old tree are created in the new one.
fn plan_parts(tree: &Path, place: &Path, anchors: &[Vec<u8>]) -> Result<Vec<Part>, Error> {
    let ignore = ignored_in(place).at("read what is ignored in", place, "")?;
    let mut parts = Vec::new();
    for dir in spine(anchors) {
        let (from, into) = (below(place, dir), below(tree, dir));
        may_write(&from).at("replace", &from, "").map_err(|error| error.hint("nothing was changed"))?;
        match look(&into).at("look at", &into, "")? {
            None => {
                payload::make(&into).at("make", &into, "")?;
                // The snapshot doesn't have it: it is to stay as it is.
                give_alike(&from, &into).at("copy the rights of", &from, "")?;
            }
            Some(found) if found.is_dir => payload::make_writable(&into).at("write to", &into, "")?,
            Some(_) => {
                return Err(in_the_way(
                    &from,
                    "something in it must not move, and the snapshot has no directory there",
                ));
            }
        }
        let mut names: BTreeMap<Vec<u8>, [bool; 2]> = BTreeMap::new();
        for (at, dir) in [&from, &into].into_iter().enumerate() {
            for name in payload::names(dir).at("list", dir, "")? {
                names.entry(name).or_default()[at] = true;
            }
        }
        for (name, [is_old, is_new]) in names {
            let path = if dir.is_empty() { name } else { [dir, b"/", &name].concat() };
            if anchors.binary_search(&path).is_ok() {
                if is_new {
                    return Err(in_the_way(
                        &below(place, &path),
                        "it must not move, and the snapshot has something there",
                    ));
                }
                continue;
            }
            if anchors.iter().any(|anchor| is_above(&path, anchor)) {
                continue;
            }
            let [old, new] = [(is_old, place), (is_new, tree)].map(|(is_there, top)| {
                let path = below(top, &path);
                let found = if is_there { look(&path) } else { Ok(None) };
                found.at("look at", &path, "").map(|found| (path, found))
            });
            let ((old_path, old), (new_path, new)) = (old?, new?);
            let is_kept = old.is_some_and(|old| ignore.hides(&path, old.is_dir));
            if new.is_none() && (is_kept || old.is_none()) {
                continue;
            }
            for (path, found) in [(&old_path, old), (&new_path, new)] {
                // Moving a directory changes its `..` entry.
                if found.is_some_and(|found| found.is_dir) {
                    may_write(path).at("move", path, "").map_err(|error| error.hint("nothing was changed"))?;
                }
            }
            parts.push(Part { path, new: new.map(|new| new.id.1), old: old.map(|old| old.id.1) });
        }
    }
    Ok(parts)
}

/// A tree that replaces another in parts.
struct Parted<'a> {
    worktree: &'a Worktree,
    tree: &'a Path,
    place: &'a Path,
}

impl Parted<'_> {
    /// Moves one part to its place, unless it is or was there. Returns false if that is impossible;
    /// then the part stays as it is.
    fn bring(&self, at: usize, part: &Part) -> Result<bool, Error> {
        let (from, to) = (below(self.tree, &part.path), below(self.place, &part.path));
        let Some(new) = part.new else {
            // The name that it gets is taken from then on: a late process moves nothing that was
            // created since.
            let is_there = part.old.is_some() && any_inode(&to)? == part.old;
            return match if is_there { payload::slip_new(&to, &from) } else { Ok(()) } {
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists) => {
                    Ok(true)
                }
                Err(error) if can_never(&error) => Ok(false),
                done => done.at("move away", &to, "").map(|()| true),
            };
        };
        let mut missed = 0;
        for _ in 0..TRIES {
            if any_inode(&to)? == Some(new) {
                self.put_back_names(at, &from)?;
                return Ok(true);
            }
            let names = self.names(at, &from)?;
            let mut found = None;
            for name in names {
                if any_inode(&name)? == Some(new) {
                    found = Some(name);
                    break;
                }
            }
            let Some(name) = found else {
                missed += 1;
                if missed < LOOKS {
                    continue;
                }
                self.put_back_names(at, &from)?;
                return Ok(false);
            };
            let claimed = self.claim_name(at, &from)?;
            match payload::slip_new(&name, &claimed) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                done => done.at("claim", &claimed, "")?,
            }
            // Another process may have exchanged it between the two checks: then this is the old
            // one.
            if any_inode(&claimed)? != Some(new) {
                continue;
            }
            match self.exchange(&claimed, &to, new) {
                Ok(()) => {}
                // Another process claimed it after us, or something appeared or vanished in its
                // place.
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists) => {}
                Err(error) if can_never(&error) => {
                    self.put_back_names(at, &from)?;
                    return Ok(false);
                }
                Err(error) => return Err(Error::io("replace", &to, error)),
            }
        }
        Err(Error::new(ErrorKind::Busy, format!("others restore worktree \"{}\" all the time", self.worktree.name)))
    }

    /// Exchanges in one step, also with nothing. If that is impossible, in two, while no other
    /// process may.
    fn exchange(&self, claimed: &Path, to: &Path, new: u64) -> io::Result<()> {
        if look(to)?.is_none() {
            return payload::slip_new(claimed, to);
        }
        match payload::slip_exchange(claimed, to) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
            done => return done,
        }
        let _inside = self.worktree.repo.inside().map_err(|error| io::Error::other(error.to_string()))?;
        if any_inode_of(claimed)? != Some(new) || any_inode_of(to)? == Some(new) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let mut old = claimed.as_os_str().to_owned();
        old.push(".old");
        payload::slip_new(to, Path::new(&old))?;
        payload::slip_new(claimed, to).inspect_err(|_| drop(payload::slip_new(Path::new(&old), to)))
    }

    /// Returns the names under which a part may be found: its own, and those that processes gave
    /// it.
    fn names(&self, at: usize, from: &Path) -> Result<Vec<PathBuf>, Error> {
        let dir = from.parent().unwrap_or(self.tree);
        let prefix = self.prefix(at);
        let names = match payload::names(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            done => done.at("list", dir, "")?,
        };
        let claims = names.into_iter().filter(|name| name.starts_with(prefix.as_bytes()));
        let claims = claims.map(|name| dir.join(OsStr::from_bytes(&name)));
        Ok(claims.chain([from.to_owned()]).collect())
    }

    /// Gives the old entry the name that it had in the worktree.
    fn put_back_names(&self, at: usize, from: &Path) -> Result<(), Error> {
        for name in self.names(at, from)?.iter().filter(|name| *name != from) {
            // Another process does the same.
            let _ = payload::slip_new(name, from);
        }
        Ok(())
    }

    fn claim_name(&self, at: usize, from: &Path) -> Result<PathBuf, Error> {
        let name = format!("{}{:032x}", self.prefix(at), self.worktree.repo.random()?);
        Ok(from.with_file_name(name))
    }

    /// Returns a prefix that no user's file has: the random number of the restore is in it.
    fn prefix(&self, at: usize) -> String {
        let wrapper = self.tree.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        let nonce = wrapper.rsplit('.').next().unwrap_or_default();
        format!("{CLAIM}.{nonce}.{at}.")
    }

    /// Gives the directories that stay the owner, permissions and attributes that they have in the
    /// snapshot. Best effort: a process that may not change them has done the rest.
    fn give_rights(&self, parts: &[Part]) {
        let mut dirs: Vec<&[u8]> = vec![&[]];
        for part in parts {
            let slashes = part.path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
            dirs.extend(slashes.map(|(slash, _)| &part.path[..slash]));
        }
        dirs.sort_unstable();
        dirs.dedup();
        // The inner ones first: afterwards, an outer one may deny us access to them.
        for dir in dirs.iter().rev() {
            // If the tree has been put away, another process has done all of this.
            let _ = give_alike(&below(self.tree, dir), &below(self.place, dir));
        }
    }

    /// Waits until the places of all parts survive a power cut.
    fn sync(&self, parts: &[Part]) -> Result<(), Error> {
        let mut dirs: Vec<&[u8]> = parts.iter().map(|part| split(&part.path).0).collect();
        dirs.dedup();
        for dir in dirs {
            for top in [self.tree, self.place] {
                let path = below(top, dir);
                match payload::sync_dir(&path) {
                    // Another process was faster, and waited for the same.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    done => done.at("sync", &path, "")?,
                }
            }
        }
        Ok(())
    }
}

/// Reads the plan in a directory; `None` if the directory or the plan is gone.
fn read_plan(wrapper: &Path) -> Result<Option<Exchange>, Error> {
    let path = wrapper.join(PLAN);
    let file = match PlainFile::open(&path) {
        Err(NotPlain::Missing) => return Ok(None),
        done => done.map_err(io::Error::from).at("read", &path, "")?,
    };
    let bytes = file.read_all().at("read", &path, "")?;
    let damaged = || Error::new(ErrorKind::Damaged, format!("{} is damaged", path.display()));
    Exchange::parse(&bytes).ok_or_else(damaged).map(Some)
}

/// Returns the tree in a directory of `restores/` that has a plan, otherwise the directory itself.
pub(super) fn tree_in(path: &Path) -> PathBuf {
    let is_wrapper = matches!(look(&path.join(PLAN)), Ok(Some(_))) && matches!(inode_of(&path.join(TREE)), Ok(Some(_)));
    if is_wrapper { path.join(TREE) } else { path.to_owned() }
}

/// Returns the directories on the way to what must not move, from the top.
fn spine(anchors: &[Vec<u8>]) -> Vec<&[u8]> {
    let mut dirs: Vec<&[u8]> = vec![&[]];
    for anchor in anchors {
        let slashes = anchor.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        dirs.extend(slashes.map(|(slash, _)| &anchor[..slash]));
    }
    dirs.sort_unstable();
    dirs.dedup();
    dirs
}

pub(super) fn is_above(dir: &[u8], path: &[u8]) -> bool {
    path.strip_prefix(dir).is_some_and(|rest| rest.first() == Some(&b'/'))
}

fn below(top: &Path, path: &[u8]) -> PathBuf {
    if path.is_empty() { top.to_owned() } else { top.join(OsStr::from_bytes(path)) }
}

fn in_the_way(path: &Path, why: &str) -> Error {
    Error::new(ErrorKind::Unusable, format!("{} can't be replaced: {why}", path.display())).hint(ELSEWHERE)
}

fn any_inode(path: &Path) -> Result<Option<u64>, Error> {
    any_inode_of(path).at("look at", path, "")
}

/// Returns the inode of whatever is there.
fn any_inode_of(path: &Path) -> io::Result<Option<u64>> {
    match look(path) {
        // A directory above it vanished, or something else has its name.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(None),
        found => Ok(found?.map(|found| found.id.1)),
    }
}
