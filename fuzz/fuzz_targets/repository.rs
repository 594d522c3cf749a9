//! Any bytes in any file of a repository's `.jvs`, and then every command on it, twice: never a panic or an endless loop, one holder, tokens
//! that grow, looking changes nothing, a sound log stays sound, a repair is done once and takes no snapshot away, and nothing outside of the
//! repository is touched.
//!
//! The input is a byte of what happens meanwhile, and a list of files, separated by NUL. The first byte of each says which file, and whether it is
//! laid over what the first commands left; the rest is what is in it. In a directory, its first line is a name.
#![cfg_attr(fuzzing, no_main)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use jiff::Timestamp;
use libfuzzer_sys::fuzz_target;
use lokt_core::lease::audit::{Event, Head as LogHead};
use lokt_core::lease::config::Isolation;
use lokt_core::lease::policy::LeasePolicy;
use lokt_core::lease::session::Session;
use lokt_core::lease::slot::{Base, Slot, tag};
use lokt_core::name::LockName;
use lokt_core::snapshot::gc::Retention;
use lokt_sys::wait_policy::WaitPolicy;
use lokt_testkit::machine::{FakeMachine, somebody};
use lokt_testkit::mem_disk::MemDisk;
use lokt_tree::{Control, Known, Silent};
use lokt_worktree::lease::doctor::{Checkup, examine_one};
use lokt_worktree::lease::{Keeping, LeaseTerms, Leasing, Releasing, Taking, TokenCheck, Worktree};
use lokt_worktree::repo::Repository;
use lokt_worktree::snapshot::{Catalog, GcWish, LATEST, SnapshotId};

/// One in `/audit/` is on the disk of the log. `/audit/events` becomes a log whose hashes are right: nobody guesses those.
const FILES: [&str; 34] = [
    "format_version",
    "repo_id",
    "config.json",
    "worktrees/main/config.json",
    "worktrees/main/fence.json",
    "worktrees/w/config.json",
    "worktrees/w/fence.json",
    "locks/main.lock",
    "locks/main.lock.d/base",
    "locks/main.lock.d/00000000000000000001",
    "locks/main.lock.d/00000000000000000002",
    "locks/main.lock.d/00000000000000000003",
    "locks/main.lock.d/watch.boot-1",
    "locks/w.lock",
    "locks/w.lock.d/base",
    "locks/w.lock.d/00000000000000000001",
    "locks/w.lock.d/watch.boot-1",
    "snapshots/1767268800000-0000000a.ready",
    "snapshots/1767268800000-0000000a.manifest",
    "snapshots/1767268800000-0000000b.ready",
    "descriptors/1767268800000-0000000a.json",
    "descriptors/1767268800000-0000000b.json",
    "intents/snapshot-1767268800000-0000000b.json",
    "intents/snapshot-1767268800000-0000000b.pulse",
    "intents/restore-1.json",
    "refs/r.json",
    "gc/pins/1767268800000-0000000a.json",
    "gc/tombstones/1767268800000-0000000a.json",
    "gc/tombstones/1767268800000-0000000b.json",
    "worktrees/W/config.json",
    "audit/audit.jsonl",
    "audit/audit.head",
    "audit/events",
    "snapshots/1767268800000-0000000b.manifest",
];
/// Files of any name are in these. Trees aren't on the disks, so nothing is where only those are.
const DIRS: [&str; 14] = [
    "worktrees/main",
    "worktrees/w",
    "worktrees/.fences",
    "worktrees",
    "locks",
    "locks/main.lock.d",
    "locks/w.lock.d",
    "staging/main",
    "staging",
    "snapshots",
    "descriptors",
    "intents",
    "refs",
    "gc/tombstones",
];
/// What else the library takes for a directory: a file can't be there as well.
const PLACES: [&str; 6] = ["worktrees/W", "staging/w", "gc", "gc/pins", "audit", "locks/W.lock.d"];
/// A small repository has about as many; more only take longer.
const FILES_MAX: usize = 24;
const NAME_BYTES_MAX: usize = 255;
/// Of the byte that says which file.
const LATER: u8 = 0x80;

/// What happens between the commands, as bits of the first byte.
const CLOCK: u8 = 1;
const HOUR: u8 = 2;
const REBOOT: u8 = 4;
const LOCKS_DELETED: u8 = 8;

fuzz_target!(|bytes: &[u8]| {
    let Some((meanwhile, files)) = bytes.split_first() else { return };
    let place = Place::new();
    let (jvs, audit) = (MemDisk::new(), MemDisk::new());
    plant(&jvs, &audit, files, false);
    if meanwhile & CLOCK != 0 {
        // Everything that is there is old.
        jvs.set_clock(moment("2026-01-03T12:00:00Z"));
        audit.set_clock(moment("2026-01-03T12:00:00Z"));
    }
    let machine = Arc::new(FakeMachine::new());
    let mut boot = 1;
    let open = |owner: &str, boot| {
        let (jvs, audit) = (Arc::new(jvs.clone()), Arc::new(audit.clone()));
        Repository::on(&place.top(), jvs, audit, machine.clone(), somebody(owner, boot)).ok()
    };
    let both = |boot| Some((open("alice", boot)?, open("bob", boot)?));
    let Some((alice, bob)) = both(boot) else { return };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    assert!(
        !alice.id().is_empty() && alice.id().bytes().all(is_plain),
        "an id can be a part of a path: {}",
        alice.id()
    );
    // A later format, or what is none.
    if alice.found(Isolation::Exclusive).is_err() {
        return;
    }
    let mut tokens = BTreeMap::new();
    let disks = (&jvs, &audit);
    looks(&alice, disks);
    takes(&alice, &bob, disks, &mut tokens);
    plant(&jvs, &audit, files, true);
    if meanwhile & HOUR != 0 {
        machine.advance_secs(3600);
    }
    if meanwhile & REBOOT != 0 {
        machine.reboot();
        boot = 2;
    }
    if meanwhile & LOCKS_DELETED != 0 {
        jvs.delete("locks");
    }
    let Some((alice, bob)) = both(boot) else { return };
    looks(&bob, disks);
    takes(&bob, &alice, disks, &mut tokens);
    collects(&bob);
    mends(&alice, disks);
    takes(&alice, &bob, disks, &mut tokens);
    place.check();
});

/// A real directory: trees aren't on the disks.
struct Place(PathBuf);

impl Place {
    #[expect(clippy::disallowed_methods, reason = "the tree of a fuzz target is written in place")]
    fn new() -> Self {
        // In memory, where there is such a place: directories are synced.
        let memory = Some(PathBuf::from("/dev/shm")).filter(|memory| memory.is_dir());
        let place = Self(memory.unwrap_or_else(std::env::temp_dir).join(format!("lokt-fuzz-{}", std::process::id())));
        let _ = fs::remove_dir_all(&place.0);
        let top = place.top();
        for dir in ["main", "worktrees/w", ".jvs/gc"] {
            fs::create_dir_all(top.join(dir)).expect("a directory of our own");
        }
        for id in ["a", "b"] {
            let tree = top.join(format!(".jvs/snapshots/1767268800000-0000000{id}"));
            fs::create_dir_all(&tree).expect("a directory of our own");
            fs::write(tree.join("file"), id).expect("a file of our own");
        }
        fs::write(place.0.join("outside"), "outside").expect("a file of our own");
        place
    }

    fn top(&self) -> PathBuf {
        self.0.join("top")
    }

    fn check(&self) {
        let found = fs::read_dir(&self.0).expect("it is still there").map(|entry| entry.expect("a name").file_name());
        assert_eq!(found.collect::<BTreeSet<_>>(), ["outside".into(), "top".into()].into(), "nothing else was touched");
        assert_eq!(fs::read(self.0.join("outside")).ok().as_deref(), Some(&b"outside"[..]), "nor changed");
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn moment(text: &str) -> Timestamp {
    text.parse().expect("a good time")
}

/// Lays the files of one of the two times on the disks.
fn plant(jvs: &MemDisk, audit: &MemDisk, files: &[u8], later: bool) {
    for file in files.split(|byte| *byte == 0).take(FILES_MAX) {
        let Some((which, content)) = file.split_first() else { continue };
        let is_later = which & LATER != 0;
        if is_later != later {
            continue;
        }
        let which = usize::from(which & !LATER) % (FILES.len() + DIRS.len());
        let Some(path) = FILES.get(which) else {
            let (name, content) =
                content.split_at(content.iter().position(|byte| *byte == b'\n').unwrap_or(content.len()));
            let path = std::str::from_utf8(name).ok().and_then(|name| named(DIRS[which - FILES.len()], name));
            if let Some(path) = path.filter(|path| !later || !is_forged(path, content.trim_ascii())) {
                jvs.plant(&path, content.trim_ascii());
            }
            continue;
        };
        match path.strip_prefix("audit/") {
            Some("events") => audit.plant("audit.jsonl", &log_of(content)),
            Some(path) => audit.plant(path, content),
            None if later && is_forged(path, content) => {}
            None => jvs.plant(path, content),
        }
    }
}

/// Where a file of this name is, if one can be there.
fn named(dir: &str, name: &str) -> Option<String> {
    let path = format!("{dir}/{name}");
    let is_name = !matches!(name, "" | "." | "..") && !name.contains('/') && name.len() <= NAME_BYTES_MAX;
    let is_dir = PLACES.contains(&path.as_str()) || DIRS.contains(&path.as_str());
    // Nobody makes directories there but the library.
    (is_name && !is_dir && !path.ends_with(".lock.d")).then_some(path)
}

/// Whoever replaces links that were used by others that could be right can give every token again. Damage is another thing.
fn is_forged(path: &str, content: &[u8]) -> bool {
    path.contains(".lock.d/") && (Base::parse(content).is_ok() || Slot::parse(content).is_ok())
}

/// A log whose lines prove each other: of the events, one a line.
fn log_of(events: &[u8]) -> Vec<u8> {
    let (mut log, mut hash) = (Vec::new(), String::new());
    let events = events.split(|byte| *byte == b'\n').filter_map(|event| serde_json::from_slice(event).ok());
    for event in events.filter_map(|event| Event::from_value(&event)) {
        let (line, next) = event.line(&hash);
        log.extend_from_slice(&line);
        hash = next;
    }
    log
}

type Disks<'d> = (&'d MemDisk, &'d MemDisk);

/// Everything but the first sightings, which are kept by whoever looks.
fn content((jvs, audit): Disks<'_>) -> [BTreeMap<String, Vec<u8>>; 2] {
    let mut files = jvs.files();
    files.retain(|path, _| !path.contains("/watch."));
    [files, audit.files()]
}

/// Whatever only looks.
fn looks(repo: &Repository, disks: Disks<'_>) {
    // What was left half done with worktrees is done first, also by whoever looks.
    let worktrees: Vec<Worktree> =
        repo.worktrees().unwrap_or_default().iter().filter_map(|entry| repo.worktree(&entry.name).ok()?).collect();
    let before = content(disks);
    let session = session(1);
    for worktree in &worktrees {
        let _ = (worktree.status(None), worktree.status(Some(&session)), worktree.check_token(7), worktree.head());
    }
    let _ = (repo.policy(), repo.gc().plan(Retention::default()), repo.gc().in_trash(), repo.audit_log().verify());
    let _ = repo.audit_log().lines(&mut |_, _| std::ops::ControlFlow::Continue(()));
    if let Ok(catalog) = repo.snapshots().catalog() {
        let _ = (catalog.named(LATEST, None), catalog.named("1", None), catalog.named("r", None));
        let _ = catalog.lineage().problems();
        let halt = AtomicBool::new(false);
        for listed in &catalog.snapshots {
            let _ = repo.snapshots().verify(listed, &Known::default(), &Control::new(&Silent, &halt));
        }
    }
    assert!(content(disks) == before, "looking changed something: {}", difference(&before, &content(disks)));
}

fn session(number: u128) -> Session {
    Session::new(number, [number, number])
}

/// Takes the lease, and gives the token.
fn taken(worktree: &Worktree, session: &Session) -> Option<u64> {
    let terms = LeaseTerms { policy: LeasePolicy::DEFAULT, purpose: None, taking: Taking::FreeOrOver, bearer: None };
    match worktree.acquire(session, &terms, &mut WaitPolicy::none()).ok()?.value {
        Leasing::Granted(lease) => Some(lease.token.get()),
        _ => None,
    }
}

/// Has somebody who looked through the log something to say about it?
fn is_doubted(repo: &Repository) -> bool {
    repo.audit_log().verify().is_ok_and(|said| !said.warnings.is_empty())
}

/// Does the log end where the last command left it, as its head says? Otherwise the next one counts from somewhere else.
fn ends_where_its_head_says(audit: &MemDisk) -> bool {
    let head = audit.peek("audit.head").and_then(|head| LogHead::parse(&head));
    head.is_none_or(|head| audit.peek("audit.jsonl").is_some_and(|log| log.len() as u64 == head.size))
}

/// Every lease is taken, kept and ended, by one and then by the other.
fn takes(one: &Repository, other: &Repository, disks: Disks<'_>, tokens: &mut BTreeMap<LockName, u64>) {
    let is_sound = |repo: &Repository| repo.audit_log().verify().is_ok_and(|said| said.value.broken.is_none());
    // Where something may have been lost with the power, what comes next may show that it wasn't the power.
    let was_sound = is_sound(one) && !is_doubted(one) && ends_where_its_head_says(disks.1);
    for name in ["main", "w"].map(|name| LockName::new(name).expect("a good name")) {
        let (Ok(Some(mine)), Ok(Some(theirs))) = (one.worktree(&name), other.worktree(&name)) else { continue };
        let (me, them) = (session(2), session(3));
        let known = mine.status(None).ok().and_then(|status| status.last_token).unwrap_or(0);
        let last = tokens.entry(name.clone()).or_default();
        *last = known.max(*last);
        if let Some(token) = taken(&mine, &me) {
            assert!(token > *last, "token-order: {token} was given after {last} of {name}");
            *last = token;
            assert_eq!(taken(&theirs, &them), None, "one-holder: somebody was let in beside {token} of {name}");
            let status = mine.status(Some(&me)).expect("memory doesn't fail");
            assert!(status.mine && status.lives, "what was granted isn't there: {status:?}");
            let check = theirs.check_token(token).expect("memory doesn't fail");
            assert!(matches!(check, TokenCheck::Current(_)), "its token is that of the lease: {check:?}");
            let view = disks.0.peek(&format!("locks/{name}.lock")).and_then(|view| tag(&view));
            assert_eq!(view.map(|tag| tag.number), Some(token), "other tools see it");
            let kept = mine.renew(&me).expect("memory doesn't fail").value;
            assert!(matches!(kept, Keeping::Renewed(_)), "no time has passed: {kept:?}");
            let ended = mine.release(&me).expect("memory doesn't fail").value;
            assert!(matches!(ended, Releasing::Released(_)), "it was ours: {ended:?}");
        }
        let _ = theirs.force_break("fuzz");
        if let Some(token) = taken(&theirs, &them) {
            assert!(token > *last, "token-order: {token} was given after {last} of {name}");
            *last = token;
            let _ = mine.release(&me);
            let _ = theirs.release(&them);
        }
    }
    assert!(!was_sound || is_sound(one), "a sound log is sound after commands: {:?}", one.audit_log().verify());
}

fn visible(catalog: &Catalog) -> BTreeSet<SnapshotId> {
    catalog.snapshots.iter().map(|listed| listed.descriptor.id.clone()).collect()
}

/// What is kept and what goes.
fn collects(repo: &Repository) {
    let Ok(before) = repo.snapshots().catalog() else { return };
    for id in visible(&before) {
        let _ = (repo.snapshots().pin(&id, Some("fuzz")), repo.snapshots().unpin(&id));
    }
    let wish = GcWish { retention: Retention { keep_last: Some(0), keep_within_ms: None }, at_once: true };
    let Ok(said) = repo.gc().run(&wish) else { return };
    let heads: BTreeSet<&SnapshotId> = before.heads.values().collect();
    for id in &said.value.removed {
        assert!(visible(&before).contains(id) && !heads.contains(id), "{id} was to stay");
    }
}

/// The doctor looks, mends, and has nothing more to mend.
fn mends(repo: &Repository, disks: Disks<'_>) {
    let before = content(disks);
    let _ = examine_one(repo, false);
    assert!(content(disks) == before, "the doctor changed something: {}", difference(&before, &content(disks)));
    let seen = repo.snapshots().catalog().map(|catalog| visible(&catalog)).unwrap_or_default();
    let _ = examine_one(repo, true);
    let again = examine_one(repo, true);
    assert_eq!(fixed(&again.checkup), Vec::<String>::new(), "what was mended is mended");
    let still = repo.snapshots().catalog().map(|catalog| visible(&catalog)).unwrap_or_default();
    assert!(still.is_superset(&seen), "a snapshot is gone: {seen:?} {still:?}");
    if let Ok(said) = repo.audit_log().verify() {
        assert_eq!(said.value.broken, None, "a log that was mended is sound");
    }
}

fn fixed(checkup: &Checkup) -> Vec<String> {
    let findings = checkup.checks.iter().flat_map(|check| &check.findings);
    findings.filter(|finding| finding.fixed().is_some()).map(|finding| format!("{finding:?}")).collect()
}

/// Which files differ.
fn difference(one: &[BTreeMap<String, Vec<u8>>; 2], other: &[BTreeMap<String, Vec<u8>>; 2]) -> String {
    let pairs = one.iter().zip(other);
    let differ = pairs.flat_map(|(one, other)| {
        let paths: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
        paths.into_iter().filter(|path| one.get(*path) != other.get(*path)).collect::<Vec<_>>()
    });
    format!("{:?}", differ.collect::<Vec<_>>())
}
