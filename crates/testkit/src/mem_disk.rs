//! A disk in memory that knows what was synced.
//!
//! Every file has two contents and every directory two sets of entries: the ones that programs see, and the ones that a power cut would
//! leave. Syncing makes them equal. What a real file system does between the two extremes (it may keep a rename and lose the content that
//! was renamed) is covered by [`PowerCut`]'s variants. Not modelled: torn sectors, a disk that lies about a sync.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use lokt_sys::changes::Changes;
use lokt_sys::disk::{
    Content, Disk, Entry, LockedFile, Mount, NewFile, NoMutex, OpenFile, Opening, PulseFile, Stamp, Unlock, Unnamed,
};
use lokt_sys::threads::{Condvar, Mutex, MutexGuard, locked};
use lokt_sys::wakeup::Wakeup;

use crate::tally::{self, Trial};

/// ext4's magic number.
const EXT4: u64 = 0xef53;

/// What survives when the power goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerCut {
    /// Only what was synced.
    SyncedOnly,
    /// Every creation, rename and removal, but only synced contents: the rest is empty.
    NamesWithoutContents,
    /// Everything: the cut came just after the kernel had written it all by itself.
    Everything,
}

/// The disk. Clones are the same disk.
#[derive(Clone, Default)]
pub struct MemDisk {
    state: Arc<Mutex<State>>,
    /// Rings when the mutex becomes free.
    bell: Arc<Condvar>,
}

#[derive(Default)]
struct State {
    files: HashMap<u64, File>,
    names: BTreeMap<String, u64>,
    /// Directories that were made as such; others are there while something is in them.
    dirs: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    locked_files: Vec<u64>,
    mutex_held: bool,
    next_ino: u64,
    mount_id: u64,
    now: Timestamp,
    /// A test set the clock, so it is shown.
    has_clock: bool,
}

#[derive(Default, Clone)]
struct File {
    bytes: Vec<u8>,
    durable: Option<Vec<u8>>,
    modified: Timestamp,
}

impl MemDisk {
    /// An empty disk.
    pub fn new() -> Self {
        let disk = Self::default();
        disk.state().mount_id = 100;
        disk.state().now = "2026-01-01T00:00:00Z".parse().expect("a good time");
        disk
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// The process that used the disk is gone: the kernel drops its locks.
    pub fn drop_locks(&self) {
        let mut state = self.state();
        state.mutex_held = false;
        state.locked_files.clear();
        self.bell.notify_all();
    }

    /// The power goes; the disk is mounted again.
    pub fn power_cut(&self, cut: PowerCut) {
        tally::count(Trial::Cut);
        self.drop_locks();
        let mut state = self.state();
        state.mount_id += 1;
        match cut {
            PowerCut::SyncedOnly => state.names = state.durable_names.clone(),
            PowerCut::NamesWithoutContents => state.durable_names = state.names.clone(),
            PowerCut::Everything => {
                state.durable_names = state.names.clone();
                for file in state.files.values_mut() {
                    file.durable = Some(file.bytes.clone());
                }
            }
        }
        for file in state.files.values_mut() {
            file.bytes = file.durable.clone().unwrap_or_default();
        }
    }

    /// A file's bytes, for a look past the traits.
    pub fn peek(&self, path: &str) -> Option<Vec<u8>> {
        let state = self.state();
        state.names.get(path).map(|ino| state.files[ino].bytes.clone())
    }

    /// All paths below `dir`.
    pub fn below(&self, dir: &str) -> Vec<String> {
        let prefix = format!("{dir}/");
        self.state().names.keys().filter(|path| path.starts_with(&prefix)).cloned().collect()
    }

    /// Somebody puts a file there, durably.
    pub fn plant(&self, path: &str, bytes: &[u8]) {
        let mut state = self.state();
        let ino = state.new_file(bytes);
        if let Some(file) = state.files.get_mut(&ino) {
            file.durable = Some(bytes.to_vec());
        }
        state.names.insert(path.into(), ino);
        state.durable_names.insert(path.into(), ino);
    }

    /// The clock of the file system shows this from now on, and everybody may look at it. What was written before is older.
    pub fn set_clock(&self, now: Timestamp) {
        let mut state = self.state();
        (state.now, state.has_clock) = (now, true);
    }

    /// Every file, for a comparison.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let state = self.state();
        state.names.iter().map(|(path, ino)| (path.clone(), state.files[ino].bytes.clone())).collect()
    }

    /// Somebody empties a file.
    pub fn truncate(&self, path: &str) {
        let mut state = self.state();
        if let Some(ino) = state.names.get(path).copied()
            && let Some(file) = state.files.get_mut(&ino)
        {
            file.bytes.clear();
        }
    }

    /// Somebody deletes a file, or everything below a directory, durably.
    pub fn delete(&self, path: &str) {
        let gone = |name: &String| name == path || name.starts_with(&format!("{path}/"));
        let mut state = self.state();
        state.names.retain(|name, _| !gone(name));
        state.durable_names.retain(|name, _| !gone(name));
    }
}

/// Asserts that a path is below the disk: the real one would follow it elsewhere.
fn inside(path: &str) {
    let is_name = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('\0');
    assert!(matches!(path, "" | ".") || path.split('/').all(is_name), "a path leads out of the disk: {path:?}");
}

/// What is under a path: files and directories, each with its path below and its number.
struct Tree {
    files: Vec<(String, u64)>,
    dirs: Vec<(String, u64)>,
}

impl State {
    fn new_file(&mut self, bytes: &[u8]) -> u64 {
        self.next_ino += 1;
        self.files.insert(self.next_ino, File { bytes: bytes.to_vec(), durable: None, modified: self.now });
        self.next_ino
    }

    fn stamp(&self, ino: u64) -> Stamp {
        let file = &self.files[&ino];
        Stamp { dev: 1, ino, size: file.bytes.len() as u64, modified: file.modified }
    }

    fn ino(&self, path: &str) -> io::Result<u64> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn ino_or_new(&mut self, path: &str) -> u64 {
        self.ino(path).unwrap_or_else(|_| {
            let ino = self.new_file(b"");
            self.names.insert(path.into(), ino);
            ino
        })
    }

    /// A directory's number, if it is one.
    fn dir_ino(&self, path: &str) -> Option<u64> {
        let inside = format!("{path}/");
        self.dirs.get(path).copied().or_else(|| self.names.keys().any(|name| name.starts_with(&inside)).then_some(0))
    }

    fn is_taken(&self, path: &str) -> bool {
        self.names.contains_key(path) || self.dir_ino(path).is_some()
    }

    /// What is under `path`, taken out: a file, or a directory with what is in it, each with its path below.
    fn take_out(&mut self, path: &str) -> io::Result<Tree> {
        if !self.is_taken(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let below = |name: &String| name == path || name.starts_with(&format!("{path}/"));
        let cut = |map: &mut BTreeMap<String, u64>| -> Vec<(String, u64)> {
            let out =
                map.iter().filter(|(name, _)| below(name)).map(|(name, ino)| (name[path.len()..].to_owned(), *ino));
            let out = out.collect();
            map.retain(|name, _| !below(name));
            out
        };
        Ok(Tree { files: cut(&mut self.names), dirs: cut(&mut self.dirs) })
    }

    fn put_in(&mut self, path: &str, Tree { files, dirs }: Tree) {
        self.names.extend(files.into_iter().map(|(rest, ino)| (format!("{path}{rest}"), ino)));
        self.dirs.extend(dirs.into_iter().map(|(rest, ino)| (format!("{path}{rest}"), ino)));
    }

    /// Changes whenever a name in the root does.
    fn root_stamp(&self) -> Stamp {
        use std::hash::{DefaultHasher, Hash as _, Hasher as _};
        let mut hasher = DefaultHasher::new();
        for entry in self.names.iter().chain(&self.dirs).filter(|(path, _)| !path.contains('/')) {
            entry.hash(&mut hasher);
        }
        let modified = Timestamp::from_nanosecond(i128::from(hasher.finish() >> 2)).unwrap_or(Timestamp::MAX);
        Stamp { dev: 1, ino: 0, size: 0, modified }
    }

    fn sync_names(&mut self, dir: &str) {
        let inside = |path: &str| path.rsplit_once('/').map_or("", |(parent, _)| parent) == dir;
        self.durable_names.retain(|path, _| !inside(path));
        let here: Vec<(String, u64)> =
            self.names.iter().filter(|(path, _)| inside(path)).map(|(path, ino)| (path.clone(), *ino)).collect();
        self.durable_names.extend(here);
    }
}

impl Disk for MemDisk {
    fn read(&self, path: &str, limit: usize) -> io::Result<Entry> {
        inside(path);
        let state = self.state();
        let Some(ino) = state.names.get(path) else {
            return Ok(if state.is_taken(path) { Entry::NotRegular("a directory") } else { Entry::Missing });
        };
        let bytes = state.files[ino].bytes.clone();
        if bytes.len() > limit {
            return Ok(Entry::TooBig(bytes.len() as u64));
        }
        Ok(Entry::File(Content { bytes, stamp: state.stamp(*ino) }))
    }

    fn open(&self, path: &str) -> io::Result<Opening> {
        inside(path);
        let ino = self.state().names.get(path).copied();
        Ok(ino.map_or(Opening::Missing, |ino| Opening::File(Box::new(MemReader { disk: self.clone(), ino }))))
    }

    fn tail(&self, path: &str, limit: usize) -> io::Result<Vec<u8>> {
        inside(path);
        let bytes = self.peek(path).unwrap_or_default();
        Ok(bytes[bytes.len().saturating_sub(limit)..].to_vec())
    }

    fn create(&self, path: &str, bytes: &[u8]) -> io::Result<Box<dyn NewFile>> {
        inside(path);
        let mut state = self.state();
        if state.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let ino = state.new_file(bytes);
        state.names.insert(path.into(), ino);
        Ok(Box::new(MemFile { disk: self.clone(), ino }))
    }

    fn overwrite(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        inside(path);
        let mut state = self.state();
        let ino = state.ino_or_new(path);
        let file = state.files.get_mut(&ino).expect("every name has a file");
        let keep = file.bytes.len().max(bytes.len());
        file.bytes.resize(keep, 0);
        file.bytes[..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn append(&self, path: &str, bytes: &[u8]) -> io::Result<u64> {
        inside(path);
        let mut state = self.state();
        let ino = state.ino_or_new(path);
        let file = state.files.get_mut(&ino).expect("every name has a file");
        if !file.bytes.is_empty() && !file.bytes.ends_with(b"\n") {
            file.bytes.push(b'\n');
        }
        file.bytes.extend_from_slice(bytes);
        Ok(file.bytes.len() as u64)
    }

    fn cut(&self, path: &str, size: u64) -> io::Result<()> {
        inside(path);
        let mut state = self.state();
        let ino = state.ino(path)?;
        let file = state.files.get_mut(&ino).expect("every name has a file");
        file.bytes.resize(usize::try_from(size).expect("a short test"), 0);
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        inside(from);
        inside(to);
        let mut state = self.state();
        let tree = state.take_out(from)?;
        state.put_in(to, tree);
        Ok(())
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        inside(from);
        inside(to);
        let mut state = self.state();
        if state.is_taken(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let tree = state.take_out(from)?;
        state.put_in(to, tree);
        Ok(())
    }

    fn exchange(&self, one: &str, other: &str) -> io::Result<()> {
        inside(one);
        inside(other);
        let mut state = self.state();
        if !state.is_taken(one) || !state.is_taken(other) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let (first, second) = (state.take_out(one)?, state.take_out(other)?);
        state.put_in(one, second);
        state.put_in(other, first);
        Ok(())
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        inside(path);
        let mut state = self.state();
        if state.names.remove(path).is_none() && state.is_taken(path) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Ok(())
    }

    fn stamp(&self, path: &str) -> io::Result<Option<Stamp>> {
        inside(path);
        let state = self.state();
        if path == "." {
            return Ok(Some(state.root_stamp()));
        }
        let dir = || state.dir_ino(path).map(|ino| Stamp { dev: 1, ino, size: 0, modified: state.now });
        Ok(state.names.get(path).map(|ino| state.stamp(*ino)).or_else(dir))
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        inside(dir);
        let prefix = if dir.is_empty() { String::new() } else { format!("{dir}/") };
        let state = self.state();
        let mut names: Vec<String> = state
            .names
            .keys()
            .chain(state.dirs.keys())
            .filter_map(|path| path.strip_prefix(&prefix))
            .map(|rest| rest.split('/').next().unwrap_or(rest).to_owned())
            .collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    fn each_name(&self, dir: &str, see: &mut dyn FnMut(&str)) -> io::Result<()> {
        self.list(dir)?.iter().for_each(|name| see(name));
        Ok(())
    }

    fn sync_fs(&self) -> io::Result<()> {
        let mut state = self.state();
        state.durable_names = state.names.clone();
        for file in state.files.values_mut() {
            file.durable = Some(file.bytes.clone());
        }
        Ok(())
    }

    fn create_as(&self, path: &str, bytes: &[u8], _mode: u32) -> io::Result<Box<dyn NewFile>> {
        self.create(path, bytes)
    }

    fn unnamed<'d>(&'d self, bytes: &[u8], _mode: u32) -> io::Result<Box<dyn Unnamed + 'd>> {
        let ino = self.state().new_file(bytes);
        Ok(Box::new(MemFile { disk: self.clone(), ino }))
    }

    fn link(&self, path: &str, to: &str) -> io::Result<()> {
        inside(path);
        inside(to);
        let mut state = self.state();
        let ino = state.ino(path)?;
        if state.is_taken(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.names.insert(to.into(), ino);
        Ok(())
    }

    fn make_dir(&self, dir: &str) -> io::Result<()> {
        inside(dir);
        let mut state = self.state();
        if state.is_taken(dir) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.next_ino += 1;
        let ino = state.next_ino;
        state.dirs.insert(dir.into(), ino);
        Ok(())
    }

    fn sync(&self, path: &str) -> io::Result<()> {
        inside(path);
        let mut state = self.state();
        let ino = state.ino(path)?;
        let file = state.files.get_mut(&ino).expect("every name has a file");
        file.durable = Some(file.bytes.clone());
        Ok(())
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        inside(dir);
        self.state().sync_names(dir);
        Ok(())
    }

    fn probe(&self, path: &str) -> io::Result<Option<LockedFile>> {
        inside(path);
        let state = self.state();
        Ok(state
            .names
            .get(path)
            .map(|ino| LockedFile { stamp: state.stamp(*ino), locked: state.locked_files.contains(ino) }))
    }

    fn create_pulse(&self, path: &str, bytes: &[u8]) -> io::Result<Box<dyn PulseFile>> {
        inside(path);
        let mut state = self.state();
        if state.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let ino = state.new_file(bytes);
        state.names.insert(path.into(), ino);
        state.locked_files.push(ino);
        Ok(Box::new(MemPulse { disk: self.clone(), ino }))
    }

    fn remove_dir(&self, dir: &str) -> io::Result<()> {
        inside(dir);
        let mut state = self.state();
        let inside = format!("{dir}/");
        if !state.names.keys().chain(state.dirs.keys()).any(|path| path.starts_with(&inside)) {
            state.dirs.remove(dir);
        }
        Ok(())
    }

    fn watch(&self, _path: &str, _bell: &Wakeup) -> io::Result<bool> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn changes(&self, _path: &str) -> io::Result<Changes> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn changed(&self, path: &str) -> io::Result<Option<Timestamp>> {
        let state = self.state();
        Ok(state.names.get(path).filter(|_| state.has_clock).map(|ino| state.files[ino].modified))
    }

    fn file_clock(&self) -> io::Result<Option<Timestamp>> {
        let state = self.state();
        Ok(state.has_clock.then_some(state.now))
    }

    fn mount(&self) -> Mount {
        Mount { fs: Some(EXT4), id: Some(self.state().mount_id) }
    }

    fn lock(&self, patience: Duration) -> Result<Box<dyn Unlock>, NoMutex> {
        let waited = self.bell.wait_timeout_while(self.state(), patience, |state| state.mutex_held);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        if state.mutex_held {
            return Err(NoMutex::Busy("another caller of this test".into()));
        }
        state.mutex_held = true;
        Ok(Box::new(MemUnlock { disk: self.clone() }))
    }
}

struct MemFile {
    disk: MemDisk,
    ino: u64,
}

impl NewFile for MemFile {
    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        let file = state.files.get_mut(&self.ino).expect("every open file is there");
        file.durable = Some(file.bytes.clone());
        Ok(())
    }

    fn keep_locked(&self) -> io::Result<()> {
        self.disk.state().locked_files.push(self.ino);
        Ok(())
    }
}

impl Unnamed for MemFile {
    fn sync(&self) -> io::Result<()> {
        NewFile::sync(self)
    }

    fn stamp(&self) -> io::Result<Stamp> {
        Ok(self.disk.state().stamp(self.ino))
    }

    fn link(&self, path: &str) -> io::Result<()> {
        inside(path);
        let mut state = self.disk.state();
        if state.is_taken(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.names.insert(path.into(), self.ino);
        Ok(())
    }
}

impl Drop for MemFile {
    fn drop(&mut self) {
        self.disk.state().locked_files.retain(|ino| *ino != self.ino);
    }
}

struct MemReader {
    disk: MemDisk,
    ino: u64,
}

impl OpenFile for MemReader {
    fn stamp(&self) -> io::Result<Stamp> {
        Ok(self.disk.state().stamp(self.ino))
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let state = self.disk.state();
        let bytes = &state.files[&self.ino].bytes;
        let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }
}

struct MemPulse {
    disk: MemDisk,
    ino: u64,
}

impl PulseFile for MemPulse {
    fn id(&self) -> (u64, u64) {
        (1, self.ino)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.state();
        let file = state.files.get_mut(&self.ino).expect("every open file is there");
        let keep = file.bytes.len().max(bytes.len());
        file.bytes.resize(keep, 0);
        file.bytes[..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn let_go(&self) {
        self.disk.state().locked_files.retain(|ino| *ino != self.ino);
    }

    fn inheritable(&self) -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Drop for MemPulse {
    fn drop(&mut self) {
        self.let_go();
    }
}

struct MemUnlock {
    disk: MemDisk,
}

impl Unlock for MemUnlock {
    fn unlock(self: Box<Self>) {}
}

impl Drop for MemUnlock {
    fn drop(&mut self) {
        self.disk.state().mutex_held = false;
        self.disk.bell.notify_all();
    }
}
