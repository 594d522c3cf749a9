//! Grants of one lease to six processes that all want it, beside the bare system calls that a chain can't do without, on the same disk in the
//! same run.
//!
//!     cargo bench -p lokt-worktree
//!
//! The floor of a grant and its release, by six processes, too, is what a program without any decisions would do, with as many names and syncs:
//! list the directory, write a file without a name, sync it, link it to the next number, or begin again if somebody has that; give it a
//! second name beside the directory, and sync both. Then remove that name, and list, write, sync, link and sync the directory again. Of more than 128
//! numbers 64 are removed, as ours are. The six of the floor don't wait for each other: any of them adds the next number. Both sides are taken in turns; a
//! rate is the median of blocks of a second.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lokt_core::lease::config::Isolation;
use lokt_core::lease::policy::LeasePolicy;
use lokt_core::lease::session::Session;
use lokt_core::name::LockName;
use lokt_sys::machine::{Linux, Machine as _};
use lokt_sys::wait_policy::WaitPolicy;
use lokt_worktree::lease::{LeaseTerms, Leasing, Releasing, Taking};
use lokt_worktree::repo::Repository;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, fsync, linkat, open, unlinkat};
use rustix::io::Errno;

/// So many numbers stay when old ones are removed.
const KEPT: u64 = 64;
const CONTENDERS: usize = 6;
const BLOCKS: usize = 9;
const BLOCK: Duration = Duration::from_secs(1);
const LEAST: f64 = 0.6;
/// What a contender is told to be by its first argument.
const OURS: &str = "lease-until-told";
const BARE: &str = "link-until-told";

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [OURS, dir] => return until_told(lease(Path::new(dir))),
        [BARE, dir] => return until_told(bare(Path::new(dir))),
        _ => {}
    }
    // Below the target directory, so that it is the disk that is measured and not a temp file system.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the target directory is writable");
    let (ours, floor) = (dir.path().join("repository"), dir.path().join("bare"));
    fs::create_dir(&ours).expect("it is new");
    fs::create_dir(&floor).expect("it is new");
    Repository::init(&ours, Isolation::Exclusive, lokt_sys::machine::identity("bench".into(), None))
        .expect("it is founded");
    let mut rates = [const { Vec::new() }; 2];
    for _ in 0..BLOCKS {
        for (which, (word, place)) in [(OURS, &ours), (BARE, &floor)].into_iter().enumerate() {
            rates[which].push(block(word, place));
        }
    }
    let [ours, bare] = rates.map(|mut rates| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    });
    let ratio = ours / bare;
    let mark = if ratio >= LEAST { "" } else { " (missed)" };
    say("| what | | against | | ratio | budget |\n| --- | --- | --- | --- | --- | --- |");
    say(&format!(
        "| {CONTENDERS} processes, grants and releases of one lease | {ours:.0}/s | the same links and syncs | {bare:.0}/s | {ratio:.2} | at least {LEAST}{mark} |"
    ));
}

/// So many a second.
fn block(word: &str, place: &Path) -> f64 {
    let start = || -> Child {
        let program = std::env::current_exe().expect("it is running");
        let mut command = Command::new(program);
        command.arg(word).arg(place).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().expect("it is there")
    };
    let mut contenders: Vec<Child> = (0..CONTENDERS).map(|_| start()).collect();
    let began = now();
    pause();
    for contender in &mut contenders {
        drop(contender.stdin.take());
    }
    let mut count = 0;
    for mut contender in contenders {
        let mut text = String::new();
        contender.stdout.take().expect("it is piped").read_to_string(&mut text).expect("it tells");
        assert!(contender.wait().expect("it ends").success(), "a contender failed");
        count += text.trim().parse::<u32>().expect("a number");
    }
    f64::from(count) / began.elapsed().as_secs_f64()
}

/// Does it until standard input ends, and says how often.
fn until_told(mut once: impl FnMut()) {
    let stop = std::thread::spawn(|| io::stdin().read_to_end(&mut Vec::new()));
    let mut count = 0_u32;
    while !stop.is_finished() {
        once();
        count += 1;
    }
    say(&count.to_string());
}

fn lease(top: &Path) -> impl FnMut() {
    let repo = Repository::open(top, lokt_sys::machine::identity("bench".into(), None))
        .expect("it can be read")
        .expect("it is there");
    let main = LockName::new("main").expect("a good name");
    let worktree = repo.worktree(&main).expect("it can be read").expect("it is there");
    let random = || Linux.random().expect("it always works");
    let session = Session::new(random(), [random(), random()]);
    let terms = LeaseTerms { policy: LeasePolicy::DEFAULT, purpose: None, taking: Taking::FreeOrOver, bearer: None };
    move || {
        let mut patience = WaitPolicy { timeout: Duration::from_secs(60).into(), ..WaitPolicy::default() };
        let granted = worktree.acquire(&session, &terms, &mut patience).expect("no accident").value;
        assert!(matches!(granted, Leasing::Granted(_)), "{granted:?}");
        let released = worktree.release(&session).expect("no accident").value;
        assert!(matches!(released, Releasing::Released(_)), "{released:?}");
    }
}

/// What a program without any decisions would do for a grant and a release, with as many names and syncs as ours.
fn bare(dir: &Path) -> impl FnMut() {
    let views = dir.to_owned();
    let links = views.join("links");
    fs::create_dir(&links).or_else(|error| if links.is_dir() { Ok(()) } else { Err(error) }).expect("it can be made");
    let fds = [&views, &links].map(|dir| File::open(dir).expect("it is there"));
    // One for each: they don't keep each other from anything.
    let view = format!("{}.lock", std::process::id());
    move || {
        let [views, chain] = &fds;
        let granted = add(&links, chain, 1300);
        linkat(chain.as_fd(), &granted, views.as_fd(), &view, AtFlags::empty()).expect("it isn't there");
        fsync(chain).and_then(|()| fsync(views)).expect("they are synced");
        unlinkat(views.as_fd(), &view, AtFlags::empty()).expect("it is there");
        add(&links, chain, 600);
        fsync(chain).expect("it is synced");
    }
}

/// Adds a link of so many bytes: its name.
fn add(dir: &Path, fd: &File, bytes: usize) -> String {
    loop {
        let names = fs::read_dir(dir).expect("it is there").flatten();
        let numbers = names.filter_map(|entry| entry.file_name().to_str()?.parse::<u64>().ok());
        let next = numbers.max().unwrap_or(0) + 1;
        let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
        let file = File::from(open(dir, flags, Mode::from_raw_mode(0o444)).expect("it can be made"));
        (&file).write_all(&vec![b'x'; bytes]).and_then(|()| file.sync_all()).expect("there is room");
        let name = format!("{next:020}");
        let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
        match linkat(CWD, unnamed, fd.as_fd(), &name, AtFlags::SYMLINK_FOLLOW) {
            Ok(()) => {
                prune(fd.as_fd(), next);
                return name;
            }
            Err(Errno::EXIST) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Keeps the directory as short as ours is kept: 64 to 128 numbers.
fn prune(dir: BorrowedFd<'_>, number: u64) {
    if number.is_multiple_of(KEPT) && number > KEPT {
        for old in number.saturating_sub(2 * KEPT) + 1..=number - KEPT {
            let _ = unlinkat(dir, format!("{old:020}"), AtFlags::empty());
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn pause() {
    std::thread::sleep(BLOCK);
}

fn say(line: &str) {
    writeln!(io::stdout(), "{line}").expect("stdout is open");
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn now() -> Instant {
    Instant::now()
}
