//! Observation and cancellation of work on a tree.

use std::fmt;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::TreeError;

/// Maximum number of threads: more would only wait for the same disk.
const THREADS_MAX: usize = 8;

/// The step that is in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Reading names and times.
    Scanning,
    /// Copying files.
    Copying,
    /// Waiting for the disk.
    Syncing,
    /// Checking whether anything changed.
    Checking,
    /// Reading files for their hashes.
    Hashing,
}

/// Receives progress reports, from any thread, after every few files and every few megabytes.
pub trait Progress: Sync {
    /// Reports how much of `files` and `bytes` is done; 0 of 0 if the total is not known yet.
    fn step(&self, phase: Phase, files_done: u64, files: u64, bytes_done: u64, bytes: u64);
}

/// Ignores progress.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn step(&self, _: Phase, _: u64, _: u64, _: u64, _: u64) {}
}

/// Controls how work on a tree is observed, stopped and spread over threads.
#[derive(Clone, Copy)]
pub struct Control<'a> {
    /// Receiver of progress reports.
    pub progress: &'a dyn Progress,
    /// Becomes true when the work is to stop: checked between files and between megabytes.
    pub halt: &'a AtomicBool,
    /// Maximum number of threads.
    pub threads: usize,
}

impl<'a> Control<'a> {
    /// Uses as many threads as there are processors, within reason.
    pub fn new(progress: &'a dyn Progress, halt: &'a AtomicBool) -> Self {
        let threads = thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX);
        Self { progress, halt, threads }
    }

    /// Returns an error if the work is to stop.
    pub fn check(&self) -> Result<(), TreeError> {
        if self.halt.load(Ordering::Relaxed) { Err(TreeError::Halted) } else { Ok(()) }
    }
}

impl fmt::Debug for Control<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("halt", &self.halt).field("threads", &self.threads).finish_non_exhaustive()
    }
}

/// Counts the work done in one phase.
pub(super) struct Meter<'a> {
    pub(super) control: &'a Control<'a>,
    phase: Phase,
    files: u64,
    bytes: u64,
    files_done: AtomicU64,
    bytes_done: AtomicU64,
}

impl<'a> Meter<'a> {
    pub(super) fn new(control: &'a Control<'a>, phase: Phase, files: u64, bytes: u64) -> Self {
        control.progress.step(phase, 0, files, 0, bytes);
        Self { control, phase, files, bytes, files_done: AtomicU64::new(0), bytes_done: AtomicU64::new(0) }
    }

    /// Adds progress. Returns an error if the work is to stop.
    pub(super) fn add(&self, files: u64, bytes: u64) -> Result<(), TreeError> {
        self.control.check()?;
        let files_done = self.files_done.fetch_add(files, Ordering::Relaxed) + files;
        let bytes_done = self.bytes_done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.control.progress.step(self.phase, files_done, self.files, bytes_done, self.bytes);
        Ok(())
    }
}
