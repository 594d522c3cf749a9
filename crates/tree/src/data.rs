//! The bytes of one file, copied and hashed. Holes stay holes.

use std::collections::VecDeque;
use std::num::NonZero;
use std::os::fd::BorrowedFd;
use std::sync::PoisonError;

use rustix::fs::{Advice, SeekFrom, fadvise, ftruncate, seek};
use rustix::io::{Errno, pread, pwrite, retry_on_intr};

use super::TreeError;
use super::control::Meter;
use lokt_sys::threads::{Condvar, Mutex, locked, scope, spawn_in};

/// Bytes of one read and one write: small enough to still be in a near cache when it is hashed.
const BLOCK: usize = 256 << 10;
/// File size in bytes from which on hashing gets its own thread.
const BESIDE_BYTES: u64 = 8 << 20;
/// Maximum number of blocks waiting to be hashed. More would leave the near caches, which costs
/// more than it saves.
const BLOCKS_WAITING: usize = 8;
/// Number of waiting blocks that are worth waking the hashing thread for.
const WORTH_WAKING: usize = 3;
/// Bytes after which write-back starts: a large copy isn't kept in memory until it is synced.
const WRITE_BACK_BYTES: u64 = 8 << 20;
/// A hole is hashed in pieces of this size.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// The side on which it failed.
#[derive(Debug)]
pub(super) enum Failed {
    Reading(Errno),
    Writing(Errno),
    /// The caller asked to stop.
    Halted(TreeError),
}

/// A BLAKE3 hash.
pub(super) type Hash = [u8; 32];

/// The result of reading a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Poured {
    /// Smaller than requested if the file was truncated in the meantime.
    pub(super) size: u64,
    pub(super) hash: Hash,
}

/// A file to read.
#[derive(Clone, Copy)]
pub(super) struct Spring<'a> {
    pub(super) fd: BorrowedFd<'a>,
    pub(super) size: u64,
    pub(super) is_sparse: bool,
}

/// Reads `spring`, hashes it, and writes it to `target` if there is one. `spare` is a buffer that
/// is reused between files.
pub(super) fn pour(
    spring: Spring<'_>,
    target: Option<BorrowedFd<'_>>,
    spare: &mut Vec<u8>,
    meter: &Meter<'_>,
) -> Result<Poured, Failed> {
    if spring.size >= BESIDE_BYTES
        && let Some(poured) = pour_beside(spring, target, meter)
    {
        return poured;
    }
    let mut here = Here { hasher: blake3::Hasher::new(), spare };
    let size = stream(spring, target, &mut here, meter)?;
    Ok(Poured { size, hash: *here.hasher.finalize().as_bytes() })
}

/// Like `pour` with a second thread; `None` if it can't be started. Whenever the second thread is
/// late, because other programs need the processors, the first one hashes instead of waiting.
fn pour_beside(
    spring: Spring<'_>,
    target: Option<BorrowedFd<'_>>,
    meter: &Meter<'_>,
) -> Option<Result<Poured, Failed>> {
    let shared = Shared::default();
    let size = scope(|scope| {
        if !spawn_in(scope, || shared.hash_until_closed()) {
            return None;
        }
        let mut beside = Beside { shared: &shared, made: 0 };
        Some(stream(spring, target, &mut beside, meter))
    })?;
    while shared.hash_next() {}
    let hash = *locked(&shared.hasher).finalize().as_bytes();
    Some(size.map(|size| Poured { size, hash }))
}

fn stream(
    spring: Spring<'_>,
    target: Option<BorrowedFd<'_>>,
    digest: &mut impl Digest,
    meter: &Meter<'_>,
) -> Result<u64, Failed> {
    let (mut at, mut written_back) = (0, 0);
    while let Some((start, end)) = next_data(spring, at).map_err(Failed::Reading)? {
        zeros(digest, start - at, meter)?;
        at = start;
        while at < end {
            let mut block = digest.block();
            let want = usize::try_from(end - at).unwrap_or(block.len()).min(block.len());
            let got = read_full(spring.fd, &mut block[..want], at).map_err(Failed::Reading)?;
            if let Some(target) = target {
                write_full(target, &block[..got], at).map_err(Failed::Writing)?;
                let end = at + got as u64;
                if let Some(length) = NonZero::new(end - written_back).filter(|length| length.get() >= WRITE_BACK_BYTES)
                {
                    // Starts the write-back of dirty pages. Pages that are already clean needn't
                    // stay in memory: the source is there.
                    let _ = fadvise(target, written_back, Some(length), Advice::DontNeed);
                    written_back = end;
                }
            }
            digest.data(block, got);
            at += got as u64;
            meter.add(0, got as u64).map_err(Failed::Halted)?;
            if got < want {
                // The file was truncated.
                return Ok(at);
            }
        }
    }
    if at < spring.size {
        zeros(digest, spring.size - at, meter)?;
        if let Some(target) = target {
            ftruncate(target, spring.size).map_err(Failed::Writing)?;
        }
    }
    Ok(spring.size)
}

/// Returns the next range at or after `at` that isn't a hole.
fn next_data(spring: Spring<'_>, at: u64) -> Result<Option<(u64, u64)>, Errno> {
    if at >= spring.size {
        return Ok(None);
    }
    if !spring.is_sparse {
        return Ok(Some((at, spring.size)));
    }
    let start = match seek(spring.fd, SeekFrom::Data(at)) {
        Ok(start) => start,
        // Only a hole is left, or the file was truncated, which is detected later.
        Err(Errno::NXIO) => return Ok(None),
        // A file system need not know its holes.
        Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(Some((at, spring.size))),
        Err(error) => return Err(error),
    };
    let end = match seek(spring.fd, SeekFrom::Hole(start)) {
        Ok(end) => end,
        Err(Errno::NXIO) => return Ok(None),
        Err(error) => return Err(error),
    };
    // The file may have grown.
    Ok((start < spring.size).then_some((start, end.min(spring.size))))
}

/// Fills `buffer` unless the file ends.
fn read_full(fd: BorrowedFd<'_>, buffer: &mut [u8], at: u64) -> Result<usize, Errno> {
    let mut filled = 0;
    while filled < buffer.len() {
        match retry_on_intr(|| pread(fd, &mut buffer[filled..], at + filled as u64))? {
            0 => break,
            got => filled += got,
        }
    }
    Ok(filled)
}

fn write_full(fd: BorrowedFd<'_>, bytes: &[u8], at: u64) -> Result<(), Errno> {
    let mut written = 0;
    while written < bytes.len() {
        match retry_on_intr(|| pwrite(fd, &bytes[written..], at + written as u64))? {
            0 => return Err(Errno::IO),
            some => written += some,
        }
    }
    Ok(())
}

fn zeros(digest: &mut impl Digest, mut count: u64, meter: &Meter<'_>) -> Result<(), Failed> {
    while count > 0 {
        let some = count.min(1 << 20);
        // Shows an observer that the work continues, and checks for a request to stop.
        meter.add(0, 0).map_err(Failed::Halted)?;
        digest.zeros(some);
        count -= some;
    }
    Ok(())
}

fn hash_zeros(hasher: &mut blake3::Hasher, mut count: u64) {
    while count > 0 {
        let some = usize::try_from(count).unwrap_or(ZEROS.len()).min(ZEROS.len());
        hasher.update(&ZEROS[..some]);
        count -= some as u64;
    }
}

/// A consumer of bytes to be hashed.
trait Digest {
    /// Returns a block to read into.
    fn block(&mut self) -> Vec<u8>;
    /// Adds the first `length` bytes of `block`.
    fn data(&mut self, block: Vec<u8>, length: usize);
    /// Adds `count` zeros.
    fn zeros(&mut self, count: u64);
}

/// Hashes immediately, on the same thread.
struct Here<'a> {
    hasher: blake3::Hasher,
    spare: &'a mut Vec<u8>,
}

impl Digest for Here<'_> {
    fn block(&mut self) -> Vec<u8> {
        let mut block = std::mem::take(self.spare);
        block.resize(BLOCK, 0);
        block
    }

    fn data(&mut self, block: Vec<u8>, length: usize) {
        self.hasher.update(&block[..length]);
        *self.spare = block;
    }

    fn zeros(&mut self, count: u64) {
        hash_zeros(&mut self.hasher, count);
    }
}

enum Block {
    Data(Vec<u8>, usize),
    Zeros(u64),
}

/// Blocks waiting to be hashed in order, by either thread: the one that has the hasher.
#[derive(Default)]
struct Shared {
    hasher: Mutex<blake3::Hasher>,
    line: Mutex<Line>,
    wake: Condvar,
}

#[derive(Default)]
struct Line {
    waiting: VecDeque<Block>,
    empty: Vec<Vec<u8>>,
    closed: bool,
}

impl Shared {
    /// Hashes the next block. Returns false if none is waiting.
    fn hash_next(&self) -> bool {
        // Lock the hasher first, then take the block: blocks stay in order.
        let mut hasher = locked(&self.hasher);
        let Some(block) = locked(&self.line).waiting.pop_front() else { return false };
        match block {
            Block::Data(bytes, length) => {
                hasher.update(&bytes[..length]);
                drop(hasher);
                locked(&self.line).empty.push(bytes);
            }
            Block::Zeros(count) => hash_zeros(&mut hasher, count),
        }
        true
    }

    fn hash_until_closed(&self) {
        loop {
            let line = locked(&self.line);
            let is_idle = |line: &mut Line| !line.closed && line.waiting.len() < WORTH_WAKING;
            let line = self.wake.wait_while(line, is_idle).unwrap_or_else(PoisonError::into_inner);
            let closed = line.closed;
            drop(line);
            while self.hash_next() {}
            if closed {
                return;
            }
        }
    }

    fn add(&self, block: Block) {
        let mut line = locked(&self.line);
        line.waiting.push_back(block);
        let is_enough = line.waiting.len() == WORTH_WAKING;
        drop(line);
        if is_enough {
            self.wake.notify_one();
        }
    }

    fn close(&self) {
        locked(&self.line).closed = true;
        self.wake.notify_one();
    }
}

/// Leaves hashing to another thread, as long as that one keeps up. When dropped, also by a panic,
/// it tells that thread to end.
struct Beside<'a> {
    shared: &'a Shared,
    made: usize,
}

impl Drop for Beside<'_> {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl Digest for Beside<'_> {
    fn block(&mut self) -> Vec<u8> {
        loop {
            if let Some(block) = locked(&self.shared.line).empty.pop() {
                return block;
            }
            if self.made < BLOCKS_WAITING {
                self.made += 1;
                return vec![0; BLOCK];
            }
            self.shared.hash_next();
        }
    }

    fn data(&mut self, block: Vec<u8>, length: usize) {
        self.shared.add(Block::Data(block, length));
    }

    fn zeros(&mut self, count: u64) {
        self.shared.add(Block::Zeros(count));
        // A hole has no blocks that could run out, so the queue is limited here.
        if locked(&self.shared.line).waiting.len() > BLOCKS_WAITING {
            self.shared.hash_next();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::{FileExt as _, MetadataExt as _};
    use std::sync::atomic::AtomicBool;

    use super::super::control::{Control, Phase, Silent};
    use super::*;

    fn poured(source: &File, target: &File, size: u64, is_sparse: bool) -> Poured {
        let halt = AtomicBool::new(false);
        let control = Control::new(&Silent, &halt);
        let meter = Meter::new(&control, Phase::Copying, 1, size);
        let spring = Spring { fd: source.as_fd(), size, is_sparse };
        pour(spring, Some(target.as_fd()), &mut Vec::new(), &meter).expect("it can be copied")
    }

    #[test]
    fn every_way_gives_the_same_bytes_and_the_same_hash() {
        for size in [0, 1, BLOCK as u64, BLOCK as u64 + 1, BESIDE_BYTES + 5] {
            let (source, target) = (tempfile::tempfile().expect("a file"), tempfile::tempfile().expect("a file"));
            let bytes: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
            source.write_all_at(&bytes, 0).expect("room");
            for is_sparse in [false, true] {
                let done = poured(&source, &target, size, is_sparse);
                assert_eq!((done.size, done.hash), (size, *blake3::hash(&bytes).as_bytes()), "{size} {is_sparse}");
                let mut copied = vec![0; bytes.len()];
                target.read_exact_at(&mut copied, 0).expect("it is as long");
                assert_eq!(copied, bytes, "{size} {is_sparse}");
            }
        }
    }

    #[test]
    fn holes_stay_holes_and_count_as_zeros() {
        let (source, target) = (tempfile::tempfile().expect("a file"), tempfile::tempfile().expect("a file"));
        source.write_all_at(b"in the middle", 3 << 20).expect("room");
        source.set_len(9 << 20).expect("room");
        let done = poured(&source, &target, 9 << 20, true);
        let mut bytes = vec![0; 9 << 20];
        bytes[3 << 20..][..13].copy_from_slice(b"in the middle");
        assert_eq!(done.hash, *blake3::hash(&bytes).as_bytes());
        let (from, to) = (source.metadata().expect("open"), target.metadata().expect("open"));
        assert_eq!((from.len(), to.len()), (9 << 20, 9 << 20));
        assert!(to.blocks() <= from.blocks(), "{} blocks became {}", from.blocks(), to.blocks());
    }

    #[test]
    fn a_file_that_ends_early_is_told_by_its_size() {
        let (source, target) = (tempfile::tempfile().expect("a file"), tempfile::tempfile().expect("a file"));
        source.write_all_at(b"short", 0).expect("room");
        for size in [100, BESIDE_BYTES] {
            assert_eq!(
                poured(&source, &target, size, false),
                Poured { size: 5, hash: *blake3::hash(b"short").as_bytes() }
            );
        }
    }
}
