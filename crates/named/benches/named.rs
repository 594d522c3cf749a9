//! The library's acquire + release against the bare system calls that it can't do without, on the same disk in the same run.
//!
//!     cargo bench -p lokt-named --bench named
//!
//! *synced* is an owner part (`lock`, `unlock`), *unsynced* a process part (`lock --bind`), which can't outlive its boot. The bare calls:
//! lock the directory, write a temp file and rename it without replacing, append an audit line, unlock; sync file and directory; then lock,
//! read the record, remove it, append, unlock, sync the directory.

use std::hint::black_box;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use criterion::{Criterion, criterion_group, criterion_main};
use lokt_core::decide::{Breaking, Terms};
use lokt_core::name::LockName;
use lokt_named::{Condition, Grant, Lokt};
use rustix::fs::{
    AtFlags, CWD, FlockOperation, Mode, OFlags, RenameFlags, flock, fsync, mkdirat, openat, renameat_with, unlinkat,
};

const RECORD: [u8; 600] = [b'x'; 600];
const LINE: [u8; 220] = [b'y'; 220];

struct Bare {
    root: PathBuf,
    locks: OwnedFd,
}

impl Bare {
    fn new(root: &Path) -> io::Result<Self> {
        mkdirat(CWD, root, Mode::RWXU)?;
        mkdirat(CWD, root.join("locks"), Mode::RWXU)?;
        let locks = openat(CWD, root.join("locks"), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
        Ok(Self { root: root.to_owned(), locks })
    }

    fn inside(&self, work: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let dir = openat(CWD, &self.root, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
        flock(&dir, FlockOperation::LockExclusive)?;
        work()?;
        let log = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND;
        rustix::io::write(openat(CWD, self.root.join("audit.log"), log, Mode::RUSR | Mode::WUSR)?, &LINE)?;
        Ok(flock(&dir, FlockOperation::Unlock)?)
    }

    fn cycle(&self, synced: bool) -> io::Result<()> {
        let mut temp = None;
        self.inside(|| {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
            let file = openat(&self.locks, "temp", flags, Mode::RUSR | Mode::WUSR)?;
            rustix::io::write(&file, &RECORD)?;
            renameat_with(&self.locks, "temp", &self.locks, "x.json", RenameFlags::NOREPLACE)?;
            temp = Some(file);
            Ok(())
        })?;
        if let (Some(file), true) = (&temp, synced) {
            fsync(file)?;
            fsync(&self.locks)?;
        }
        self.inside(|| {
            let file = openat(&self.locks, "x.json", OFlags::RDONLY, Mode::empty())?;
            let mut buffer = [0_u8; 4096];
            black_box(rustix::io::read(&file, &mut buffer)?);
            Ok(unlinkat(&self.locks, "x.json", AtFlags::empty())?)
        })?;
        if synced {
            fsync(&self.locks)?;
        }
        Ok(())
    }
}

fn named(criterion: &mut Criterion) {
    // Below the target directory, so that it is the disk that is measured and not a temp file system.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the target directory is writable");
    let lokt =
        Lokt::create(&dir.path().join("lokt"), lokt_sys::machine::identity("bench".into(), None)).expect("a new root");
    let bare = Bare::new(&dir.path().join("bare")).expect("a new directory");
    let name = LockName::new("x").expect("a good name");
    let pid = lokt.me().pid;
    let unlock = || lokt.unlock(&name, Breaking::No, Condition::default()).expect("the disk works");

    let mut synced = criterion.benchmark_group("synced");
    synced.bench_function("bare", |bench| bench.iter(|| bare.cycle(true).expect("the disk works")));
    synced.bench_function("lokt", |bench| {
        bench.iter(|| {
            let said = lokt.take(&name, Terms { ttl_sec: Some(60), reason: None }).expect("the disk works");
            assert!(matches!(said.value, Grant::Granted(_)));
            black_box(unlock());
        });
    });
    synced.finish();

    let mut unsynced = criterion.benchmark_group("unsynced");
    unsynced.bench_function("bare", |bench| bench.iter(|| bare.cycle(false).expect("the disk works")));
    unsynced.bench_function("lokt", |bench| {
        bench.iter(|| {
            let said = lokt.bind(&name, Terms { ttl_sec: Some(60), reason: None }, pid).expect("the disk works");
            assert!(matches!(said.value, Grant::Granted(_)));
            black_box(unlock());
        });
    });
    unsynced.finish();
}

/// Both in turns, so that a noisy moment of the disk hits both: the ratio of medians.
fn ratios(_: &mut Criterion) {
    const ROUNDS: usize = 400;
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the target directory is writable");
    let lokt =
        Lokt::create(&dir.path().join("lokt"), lokt_sys::machine::identity("bench".into(), None)).expect("a new root");
    let bare = Bare::new(&dir.path().join("bare")).expect("a new directory");
    let name = LockName::new("x").expect("a good name");
    let pid = lokt.me().pid;
    let terms = || Terms { ttl_sec: Some(60), reason: None };
    for synced in [true, false] {
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            times[0].push(timed(|| bare.cycle(synced).expect("the disk works")));
            times[1].push(timed(|| {
                let said = if synced { lokt.take(&name, terms()) } else { lokt.bind(&name, terms(), pid) };
                assert!(matches!(said.expect("the disk works").value, Grant::Granted(_)));
                black_box(lokt.unlock(&name, Breaking::No, Condition::default()).expect("the disk works"));
            }));
        }
        let [bare_us, lokt_us] = times.map(|mut times| {
            times.sort_unstable();
            times[ROUNDS / 2]
        });
        let (part, ratio) = (if synced { "synced" } else { "unsynced" }, f64::from(lokt_us) / f64::from(bare_us));
        writeln!(io::stdout(), "{part}, in turns: lokt {lokt_us} us, bare {bare_us} us, ratio {ratio:.2}")
            .expect("stdout is open");
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn timed(work: impl FnOnce()) -> u32 {
    let start = std::time::Instant::now();
    work();
    u32::try_from(start.elapsed().as_micros()).expect("less than an hour")
}

criterion_group!(benches, named, ratios);
criterion_main!(benches);
