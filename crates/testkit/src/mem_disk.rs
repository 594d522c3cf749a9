//! A disk in memory that knows what was synced.
//!
//! Every file has two contents and every directory two sets of entries: the ones that programs see, and the ones that a power cut would
//! leave. Syncing makes them equal. What a real file system does between the two extremes (it may keep a rename and lose the content that
//! was renamed) is covered by [`PowerCut`]'s variants. Not modelled: torn sectors, a disk that lies about a sync.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use lokt::sys::bell::Bell;
use lokt::sys::disk::{
    Content, Disk, Entry, LockedFile, Mount, NewFile, NoMutex, OpenFile, Opening, PulseFile, Stamp, Unlock,
};

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
}

#[derive(Default)]
struct State {
    files: HashMap<u64, File>,
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    locked_files: Vec<u64>,
    mutex_held: bool,
    next_ino: u64,
    mount_id: u64,
    now: Timestamp,
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The process that used the disk is gone: the kernel drops its locks.
    pub fn drop_locks(&self) {
        let mut state = self.state();
        state.mutex_held = false;
        state.locked_files.clear();
    }

    /// The power goes; the disk is mounted again.
    pub fn power_cut(&self, cut: PowerCut) {
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
        let state = self.state();
        let Some(ino) = state.names.get(path) else { return Ok(Entry::Missing) };
        let bytes = state.files[ino].bytes.clone();
        if bytes.len() > limit {
            return Ok(Entry::TooBig(bytes.len() as u64));
        }
        Ok(Entry::File(Content { bytes, stamp: state.stamp(*ino) }))
    }

    fn open(&self, path: &str) -> io::Result<Opening> {
        let ino = self.state().names.get(path).copied();
        Ok(ino.map_or(Opening::Missing, |ino| Opening::File(Box::new(MemReader { disk: self.clone(), ino }))))
    }

    fn tail(&self, path: &str, limit: usize) -> io::Result<Vec<u8>> {
        let bytes = self.peek(path).unwrap_or_default();
        Ok(bytes[bytes.len().saturating_sub(limit)..].to_vec())
    }

    fn create(&self, path: &str, bytes: &[u8]) -> io::Result<Box<dyn NewFile>> {
        let mut state = self.state();
        if state.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let ino = state.new_file(bytes);
        state.names.insert(path.into(), ino);
        Ok(Box::new(MemFile { disk: self.clone(), ino }))
    }

    fn overwrite(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let ino = state.ino_or_new(path);
        let file = state.files.get_mut(&ino).expect("every name has a file");
        let keep = file.bytes.len().max(bytes.len());
        file.bytes.resize(keep, 0);
        file.bytes[..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn append(&self, path: &str, bytes: &[u8]) -> io::Result<u64> {
        let mut state = self.state();
        let ino = state.ino_or_new(path);
        let file = state.files.get_mut(&ino).expect("every name has a file");
        if !file.bytes.is_empty() && !file.bytes.ends_with(b"\n") {
            file.bytes.push(b'\n');
        }
        file.bytes.extend_from_slice(bytes);
        Ok(file.bytes.len() as u64)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        let ino = state.ino(from)?;
        state.names.remove(from);
        state.names.insert(to.into(), ino);
        Ok(())
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        let ino = state.ino(from)?;
        if state.names.contains_key(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.names.remove(from);
        state.names.insert(to.into(), ino);
        Ok(())
    }

    fn exchange(&self, one: &str, other: &str) -> io::Result<()> {
        let mut state = self.state();
        let (first, second) = (state.ino(one)?, state.ino(other)?);
        state.names.insert(one.into(), second);
        state.names.insert(other.into(), first);
        Ok(())
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.state().names.remove(path);
        Ok(())
    }

    fn stamp(&self, path: &str) -> io::Result<Option<Stamp>> {
        let state = self.state();
        Ok(state.names.get(path).map(|ino| state.stamp(*ino)))
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let prefix = format!("{dir}/");
        let state = self.state();
        let mut names: Vec<String> = state
            .names
            .keys()
            .filter_map(|path| path.strip_prefix(&prefix))
            .map(|rest| rest.split('/').next().unwrap_or(rest).to_owned())
            .collect();
        names.dedup();
        Ok(names)
    }

    fn sync(&self, path: &str) -> io::Result<()> {
        let mut state = self.state();
        let ino = state.ino(path)?;
        let file = state.files.get_mut(&ino).expect("every name has a file");
        file.durable = Some(file.bytes.clone());
        Ok(())
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        self.state().sync_names(dir);
        Ok(())
    }

    fn probe(&self, path: &str) -> io::Result<Option<LockedFile>> {
        let state = self.state();
        Ok(state
            .names
            .get(path)
            .map(|ino| LockedFile { stamp: state.stamp(*ino), locked: state.locked_files.contains(ino) }))
    }

    fn create_pulse(&self, path: &str, bytes: &[u8]) -> io::Result<Box<dyn PulseFile>> {
        let mut state = self.state();
        if state.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let ino = state.new_file(bytes);
        state.names.insert(path.into(), ino);
        state.locked_files.push(ino);
        Ok(Box::new(MemPulse { disk: self.clone(), ino }))
    }

    fn remove_dir(&self, _dir: &str) -> io::Result<()> {
        // Directories are there while something is in them.
        Ok(())
    }

    fn watch(&self, _path: &str, _bell: &Bell) -> io::Result<bool> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn changes(&self, _path: &str) -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn mount(&self) -> Mount {
        Mount { fs: Some(EXT4), id: Some(self.state().mount_id) }
    }

    fn lock(&self, _patience: Duration) -> Result<Box<dyn Unlock>, NoMutex> {
        let mut state = self.state();
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
    fn unlock(self: Box<Self>) {
        self.disk.state().mutex_held = false;
    }
}
