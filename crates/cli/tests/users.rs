//! Several users, one root: who may, who may not, and that what can't be read is held, never stale.
//!
//! These tests act as other users, so they run as root, as CI does.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::common::programs::copy_of_lokt;
use crate::common::{
    Call, LOKT, Root, Said, Sleeper, alive, chmod, elsewhere, go_lease, go_record, make_old, mode, names_in, put,
};

const ALICE: u32 = 20_001;
const BOB: u32 = 20_002;
const EVE: u32 = 20_003;
const TEAM: u32 = 30_000;

/// A root that belongs to Alice and the team, and a copy of the binary that everybody can run.
struct House {
    root: Root,
    lokt: PathBuf,
}

impl House {
    /// The root directory is there and has `mode`.
    fn new(mode: u32) -> Self {
        let house = Self::without_root();
        fs::create_dir(house.root.path()).expect("a temp directory is writable");
        house.give(&house.root.path(), ALICE, mode);
        house
    }

    fn without_root() -> Self {
        let euid = rustix::process::geteuid();
        assert!(euid.is_root(), "these tests act as other users: run them as root, as CI does");
        let root = Root::new();
        chmod(root.outside(), 0o755);
        let lokt = copy_of_lokt(root.outside());
        Self { root, lokt }
    }

    fn give(&self, path: &Path, uid: u32, mode: u32) {
        assert!(path.starts_with(self.root.outside()), "only what is ours is given away");
        chown(path, Some(uid), Some(TEAM)).expect("root may");
        chmod(path, mode);
    }

    /// Runs `words` as user `uid` of the team; the owner is the user's name.
    fn run(&self, uid: u32, words: &str) -> Said {
        self.call(uid, TEAM, &["--clear-groups"], words).run()
    }

    /// Runs `words` as a user who isn't of the team.
    fn run_stranger(&self, uid: u32, words: &str) -> Said {
        self.call(uid, uid, &["--clear-groups"], words).run()
    }

    fn call(&self, uid: u32, gid: u32, groups: &[&str], words: &str) -> Call {
        Call::new("setpriv")
            .args([format!("--reuid={uid}"), format!("--regid={gid}")])
            .args(groups)
            .args(["--"])
            .args([&self.lokt])
            .args(words.split_whitespace())
            .env("LOKT_ROOT", self.root.path())
            .env("LOKT_OWNER", format!("user-{uid}"))
            .cwd(self.root.outside())
    }

    /// Checks everything below the root.
    fn every_file(&self, check: impl Fn(&Path, &fs::Metadata)) {
        let mut count = 0;
        for (path, _) in self.root.snapshot().into_iter().filter(|(path, _)| *path != self.root.path()) {
            check(&path, &fs::symlink_metadata(&path).expect("it is there"));
            count += 1;
        }
        assert!(count > 5, "there is something to check");
    }
}

// --- two users of one group

#[test]
fn two_users_of_one_group_share_a_root() {
    lokt_testkit::need!(root);
    let house = House::new(0o2770);
    house.run(ALICE, "lock x --ttl 5m").exits(0, "it is free");
    house.run(BOB, "lock x").exits(2, "it is Alice's").notes("user-20001", "Bob hears whose it is");
    house.run(BOB, "unlock x").exits(4, "it is Alice's");
    house.run(BOB, "why x").exits(2, "Bob can ask");
    house.run(BOB, "status x").exits(0, "Bob can look");
    house.run(BOB, "lock y").exits(0, "Bob has locks of his own");
    house.run(ALICE, "lock y").exits(2, "which Alice respects");
    house.run(ALICE, "unlock x").exits(0, "Alice ends hers");
    house.run(BOB, "lock x").exits(0, "Bob gets it");
    house.run(BOB, "lock x --ttl 5m").exits(0, "Bob refreshes it");
    house.run(BOB, "unlock --all").exits(0, "Bob ends his").says("released 2 lock(s)", "all of them");
}

#[test]
fn users_of_one_group_can_break_each_others_locks() {
    lokt_testkit::need!(root);
    let house = House::new(0o2770);
    house.run(ALICE, "lock x").exits(0, "it is free");
    house.run(BOB, "unlock --force x").exits(0, "Bob may force");
    house.run(BOB, "lock x").exits(0, "it is free");
    house.run(ALICE, "unlock --force x").exits(0, "so may Alice");
    let victims: Vec<_> = house
        .root
        .audit()
        .iter()
        .filter_map(|event| event["extra"]["pruned_owner"].as_str().map(ToOwned::to_owned))
        .collect();
    assert_eq!(victims, ["user-20001", "user-20002"], "both are in one log");
}

#[test]
fn users_of_one_group_can_evict_each_others_stale_locks() {
    lokt_testkit::need!(root);
    let house = House::new(0o2770);
    house.run(ALICE, "lock x --ttl 1h").exits(0, "it is free");
    let end = house.root.record("x")["expires_at"].as_str().expect("it has an end").to_owned();
    house.root.edit("x", &format!("\"expires_at\": \"{end}\""), "\"expires_at\": \"2026-01-01T00:00:00Z\"");
    house.run(BOB, "lock x").exits(0, "it has expired");
    assert_eq!(house.root.record("x")["owner"], "user-20002", "Bob has it");
    house.root.put("locks/y.json", "garbage");
    house.give(&house.root.record_path("y"), ALICE, 0o660);
    house.run(BOB, "lock y").exits(0, "what is no record is moved aside");
}

#[test]
fn files_in_a_shared_root_are_the_groups() {
    lokt_testkit::need!(root);
    for (root_mode, umask) in [(0o2770, "022"), (0o770, "077"), (0o770, "000")] {
        let house = House::new(root_mode);
        for uid in [ALICE, BOB] {
            let lokt = house.lokt.display().to_string();
            let script = format!(
                "umask {umask}; exec setpriv --reuid={uid} --regid={TEAM} --clear-groups -- {lokt} lock x{uid}"
            );
            Call::new("sh")
                .args(["-c", &script])
                .env("LOKT_ROOT", house.root.path())
                .env("LOKT_OWNER", "me")
                .run()
                .exits(0, "it is free");
        }
        house.every_file(|path, meta| {
            let expected = if meta.is_dir() { 0o770 } else { 0o660 };
            assert_eq!(meta.mode() & 0o777, expected, "{} under umask {umask}", path.display());
            assert_eq!(meta.gid(), TEAM, "{} is the team's", path.display());
        });
    }
}

#[test]
fn a_user_with_another_first_group_shares_too() {
    lokt_testkit::need!(root);
    for root_mode in [0o2770, 0o770] {
        let house = House::new(root_mode);
        let carol = |words: &str| house.call(EVE, EVE, &["--groups", "30000"], words).run();
        carol("lock x").exits(0, "it is free");
        house.run(ALICE, "lock x").exits(2, "Alice respects it");
        house.run(ALICE, "unlock --force x").exits(0, "and can break it");
        house.run(ALICE, "lock x").exits(0, "it is free");
        carol("lock x").exits(2, "Carol respects it");
        house.every_file(|path, meta| assert_eq!(meta.gid(), TEAM, "{} is the team's", path.display()));
    }
}

#[test]
fn a_user_outside_the_group_is_told_so() {
    lokt_testkit::need!(root);
    let house = House::new(0o2770);
    house.run(ALICE, "lock x").exits(0, "it is free");
    for words in ["lock x", "lock y", "unlock x", "unlock --force x", "status", "status x", "exists x", "why x"] {
        let said = house.run_stranger(EVE, words).exits(1, "Eve may not even look");
        said.notes(&house.root.path().display().to_string(), "the path is named").notes("Permission denied", "and why");
    }
    let said = house.run_stranger(EVE, "lock x --json").exits(1, "Eve may not even look");
    assert_eq!(said.failure(), "E_IO", "the code is stable");
    assert_eq!(house.root.record("x")["owner"], "user-20001", "Alice keeps it");
}

// --- a private root

#[test]
fn a_first_use_under_any_umask_gives_a_usable_root() {
    lokt_testkit::need!(root);
    for umask in ["0777", "0277", "0177", "0377", "0077"] {
        let house = House::without_root();
        house.give(house.root.outside(), ALICE, 0o755);
        let lokt = house.lokt.display();
        let run = |umask: &str, words: &str| {
            let script =
                format!("umask {umask}; exec setpriv --reuid={ALICE} --regid={TEAM} --clear-groups -- {lokt} {words}");
            let call = Call::new("sh").args(["-c", &script]).cwd(house.root.outside());
            call.env("LOKT_ROOT", house.root.path()).env("LOKT_OWNER", "a").run()
        };
        for words in ["lock x", "guard y --ttl 5s -- true", "freeze z --ttl 5m", "lock x --ttl 5m"] {
            run(umask, words).exits(0, &format!("{words} works under umask {umask}"));
        }
        house.every_file(|path, meta| {
            let needed = if meta.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(meta.mode() & needed, needed, "{} under umask {umask}", path.display());
            assert_eq!(meta.mode() & 0o077, 0, "{} is private", path.display());
        });
        for words in ["unlock x", "guard x y -- true", "unfreeze z", "doctor --json"] {
            run("022", words).exits(0, &format!("{words} works after a first use under umask {umask}"));
        }
    }
}

#[test]
fn files_in_a_private_root_are_their_owners() {
    lokt_testkit::need!(root);
    for umask in ["022", "000"] {
        let house = House::new(0o700);
        let lokt = house.lokt.display().to_string();
        let script =
            format!("umask {umask}; exec setpriv --reuid={ALICE} --regid={TEAM} --clear-groups -- {lokt} lock x");
        let call = Call::new("sh").args(["-c", &script]).env("LOKT_ROOT", house.root.path()).env("LOKT_OWNER", "a");
        call.run().exits(0, "it is free");
        house.every_file(|path, meta| {
            let expected = if meta.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(meta.mode() & 0o777, expected, "{} under umask {umask}", path.display());
        });
    }
}

#[test]
fn a_root_made_by_lokt_is_private() {
    lokt_testkit::need!(root);
    let house = House::without_root();
    house.give(house.root.outside(), ALICE, 0o755);
    house.run(ALICE, "lock x").exits(0, "it is free");
    assert_eq!(mode(&house.root.path()), 0o700, "the root is private");
    assert_eq!(mode(&house.root.record_path("x")), 0o600, "and what is in it");
}

#[test]
fn what_root_makes_in_another_users_root_is_that_users() {
    lokt_testkit::need!(root);
    for root_mode in [0o700, 0o2770] {
        let house = House::new(root_mode);
        house.root.run("admin", "lock x --ttl 5m").exits(0, "it is free");
        house.root.run("admin", "lock x --ttl 5m").exits(0, "it is the admin's");
        house.every_file(|path, meta| {
            assert_eq!((meta.uid(), meta.gid()), (ALICE, TEAM), "{} is Alice's", path.display());
        });
        house.run(ALICE, "lock x").exits(2, "Alice can read it, and is refused");
        house.run(ALICE, "unlock --force x").exits(0, "and can break it");
        house.run(ALICE, "lock x").exits(0, "and can go on");
    }
}

#[test]
fn a_root_that_root_makes_in_another_users_directory_is_that_users() {
    lokt_testkit::need!(root);
    let house = House::without_root();
    let project = house.root.outside().join("project");
    fs::create_dir(&project).expect("a temp directory is writable");
    house.give(&project, ALICE, 0o755);
    let root = project.join("deep/er/root");
    house.root.lokt("admin").env("LOKT_ROOT", &root).args(["lock", "x"]).run().exits(0, "it is free");
    for path in [&root, &project.join("deep"), &root.join("locks/x.json"), &root.join(".gitignore")] {
        let meta = fs::metadata(path).expect("it is there");
        assert_eq!((meta.uid(), meta.gid()), (ALICE, TEAM), "{} is Alice's", path.display());
    }
    let alice = |words| house.call(ALICE, TEAM, &["--clear-groups"], words).env("LOKT_ROOT", &root).run();
    alice("lock x").exits(2, "Alice is not locked out of her own project, only refused");
    alice("lock y").exits(0, "and can go on");
}

// --- what can't be read is held, never stale

/// Alice's records in a shared root, of which Bob can read none.
fn unreadable(house: &House) {
    house.run(ALICE, "lock live --ttl 1h").exits(0, "it is free");
    house.root.put_record("expired", &elsewhere(go_lease("expired", "a", 60, -5)));
    house.root.put_record("dead", &go_record("dead", "a"));
    house.root.put("locks/garbage.json", "garbage");
    house.root.put("locks/empty.json", "");
    make_old(&house.root.record_path("empty"));
    for path in names_in(&house.root.path().join("locks")) {
        house.give(&path, ALICE, 0o600);
    }
}

#[test]
fn a_record_that_may_not_be_read_is_held() {
    lokt_testkit::need!(root);
    let house = House::new(0o2770);
    unreadable(&house);
    let before = house.root.snapshot();
    for name in ["live", "expired", "dead", "garbage", "empty"] {
        for command in ["lock", "unlock", "unlock --break-stale", "status", "exists", "why"] {
            let said =
                house.run(BOB, &format!("{command} {name}")).exits(1, "what can't be read is an error, never stale");
            said.notes(&format!("locks/{name}.json: Permission denied"), "the path is named, and why");
        }
        let said = house.run(BOB, &format!("lock {name} --json")).exits(1, "it is an error, never stale");
        assert_eq!(said.failure(), "E_IO", "the code is stable");
    }
    let json = house.run(BOB, "status --json").exits(0, "the list can be made").json();
    for row in json.as_array().expect("it is a list") {
        assert_eq!((&row["state"], &row["live"]), (&json!("unreadable"), &json!(true)), "each counts as held: {row}");
    }
    house.run(BOB, "unlock --all").exits(0, "nothing is Bob's").says("no locks matched", "and nothing is released");
    house.run(BOB, "status --prune-expired").exits(0, "the list can be made");
    assert_eq!(house.root.snapshot(), before, "nothing has changed");
}

#[test]
fn a_freeze_that_may_not_be_read_freezes() {
    lokt_testkit::need!(root);
    let house = House::new(0o2770);
    house.run(ALICE, "lock warm-up").exits(0, "it is free");
    house.root.put_freeze("x", &go_lease("x", "ops", 60, -5));
    house.give(&house.root.path().join("freezes"), ALICE, 0o2770);
    house.give(&house.root.path().join("freezes/x.json"), ALICE, 0o600);
    house.run(BOB, "lock x").exits(2, "an unreadable freeze counts as a freeze, expired or not");
    house.run(ALICE, "lock x").exits(0, "whoever can read it sees that it is over");
}

#[test]
fn a_directory_that_may_not_be_written_is_named() {
    lokt_testkit::need!(root);
    let house = House::new(0o555);
    house.run(ALICE, "status").exits(0, "looking works").says("no locks", "there are none");
    house.run(ALICE, "why x").exits(0, "looking works");
    let said = house.run(ALICE, "lock x").exits(1, "nothing can be made there");
    said.notes(&house.root.path().display().to_string(), "the path is named").notes("Permission denied", "and why");
    let said = house.run(ALICE, "lock x --json").exits(1, "nothing can be made there");
    assert_eq!(said.failure(), "E_IO", "the code is stable");
    assert_eq!(names_in(&house.root.path()), [""; 0].map(Path::new), "nothing is left there");
}

#[test]
fn a_record_whose_directory_became_read_only_stays() {
    lokt_testkit::need!(root);
    let house = House::new(0o700);
    house.run(ALICE, "lock x").exits(0, "it is free");
    let locks = house.root.path().join("locks");
    chmod(&locks, 0o500);
    house.run(ALICE, "status x").exits(0, "looking works");
    for words in ["lock x", "unlock x", "unlock --force x"] {
        house.run(ALICE, words).exits(1, "nothing can be changed there").notes("Permission denied", "and why");
    }
    house.run(BOB, "lock x").exits(1, "nobody else gets in");
    chmod(&locks, 0o700);
    assert_eq!(house.root.record("x")["owner"], "user-20001", "Alice has it still");
    house.run(ALICE, "unlock x").exits(0, "and can end it");
}

#[test]
fn a_device_is_no_record() {
    lokt_testkit::need!(root);
    let house = House::new(0o700);
    house.run(ALICE, "lock warm-up").exits(0, "it is free");
    let path = house.root.record_path("x");
    Call::new("mknod").args([path.as_os_str()]).args(["c", "1", "5"]).run().exits(0, "root makes devices");
    house.root.run("admin", "lock x").exits(65, "/dev/zero by another name").notes("is a device", "it says so");
    house.root.run("admin", "unlock --force x").exits(0, "force gets rid of everything");
}

// --- errors of the disk

/// Runs `words` while every `call` on `path` fails with `error`.
fn with_error(root: &Root, path: &Path, call: &str, error: &str, words: &str) -> Said {
    Call::new("strace")
        .args(["-qq", "-o", "/dev/null", "-P"])
        .args([path])
        .args(["-e", &format!("trace={call}"), "-e", &format!("inject={call}:error={error}"), LOKT])
        .args(words.split_whitespace())
        .env("LOKT_ROOT", root.path())
        .env("LOKT_OWNER", "b")
        .run()
}

#[test]
fn a_record_that_the_disk_cannot_give_is_held() {
    lokt_testkit::need!("strace");
    let root = Root::used();
    root.put_record("live", &alive(go_record("live", "a")));
    root.put_record("expired", &elsewhere(go_lease("expired", "a", 60, -5)));
    root.put_record("dead", &go_record("dead", "a"));
    root.put("locks/garbage.json", "garbage");
    let before = root.snapshot();
    for name in ["live", "expired", "dead", "garbage"] {
        let path = root.record_path(name);
        for command in ["lock", "unlock", "unlock --break-stale", "exists", "why", "status", "status --prune-expired"] {
            let said = with_error(&root, &path, "read", "EIO", &format!("{command} {name}"));
            let said = said.exits(1, "what can't be read is an error, never stale");
            said.notes(&format!("locks/{name}.json: Input/output error"), "the path is named, and why");
        }
        let said = with_error(&root, &path, "read", "EIO", "status").exits(0, "the list can be made");
        said.says("[UNREADABLE]", "it is marked");
        with_error(&root, &path, "read", "EIO", "unlock --all").exits(0, "nothing is b's");
    }
    assert_eq!(root.snapshot(), before, "nothing has changed");
}

#[test]
fn a_record_that_cannot_be_opened_for_want_of_descriptors_is_held() {
    lokt_testkit::need!("strace");
    let root = Root::used();
    root.put_record("expired", &go_lease("expired", "a", 60, -5));
    let said = with_error(&root, &root.path().join("locks"), "openat", "EMFILE", "lock expired");
    said.exits(1, "what can't be read is an error, never stale").notes("Too many open files", "and why");
    assert_eq!(root.record("expired")["owner"], "a", "nobody took it");
    root.run("b", "lock expired").exits(0, "once it can be read it is broken");
}

#[test]
fn interrupted_calls_are_repeated() {
    lokt_testkit::need!("strace");
    let root = Root::used();
    root.put_record("x", &go_lease("x", "a", 60, -5));
    let said = Call::new("strace")
        .args(["-qq", "-o", "/dev/null", "-e", "trace=read,openat,flock,fsync,renameat,renameat2,write"])
        .args(["-e", "inject=read,openat,flock,fsync,renameat,renameat2,write:error=EINTR:when=1"])
        .args([LOKT, "lock", "x"])
        .env("LOKT_ROOT", root.path())
        .env("LOKT_OWNER", "b")
        .run();
    said.exits(0, "an interrupted call is no error");
    assert_eq!(root.record("x")["owner"], "b", "b has it");
}

// --- processes that can't be seen

#[test]
fn a_process_that_is_hidden_is_not_dead() {
    lokt_testkit::need!(root);
    let (house, mut sleeper) = (House::new(0o2770), Sleeper::new());
    house.root.run("admin", &format!("lock bound --bind {}", sleeper.pid())).exits(0, "it is free");
    house.root.put_record("old", &alive(go_record("old", "admin")));
    house.give(&house.root.record_path("old"), ALICE, 0o660);
    // Bob sees his own processes only.
    let bob = |words: &str| {
        let lokt = house.lokt.display();
        let script = format!(
            "mount -t proc -o hidepid=2 proc /proc && exec setpriv --reuid={BOB} --regid={TEAM} --clear-groups -- {lokt} {words}"
        );
        let call = Call::new("unshare").args(["--mount", "sh", "-c", &script]);
        call.env("LOKT_ROOT", house.root.path()).env("LOKT_OWNER", "bob").cwd(house.root.outside()).run()
    };
    for name in ["bound", "old"] {
        bob(&format!("lock {name}")).exits(2, "a process of somebody else's is hidden, not dead");
        bob(&format!("unlock --break-stale {name}")).exits(1, "and not stale");
        let json = bob(&format!("status {name} --json")).exits(0, "it is held").json();
        assert_eq!((&json["pid_status"], &json["live"]), (&json!("alive"), &json!(true)), "{name}: it counts as alive");
    }
    sleeper.end();
    bob("lock bound").exits(0, "one that is gone is gone, hidden or not");
}

// --- where to lock

/// `root --json` as `uid` in `dir`, without `LOKT_ROOT`.
fn root_seen_by(house: &House, uid: u32, dir: &Path) -> serde_json::Value {
    let call = house.call(uid, TEAM, &["--clear-groups"], "root --json").env("LOKT_ROOT", "").cwd(dir);
    call.run().exits(0, "there is always an answer").json()
}

#[test]
fn what_a_stranger_puts_above_decides_nothing_but_a_colleagues_repository_is_shared() {
    lokt_testkit::need!(root);
    let house = House::without_root();
    let common = house.root.outside().join("common");
    let project = house.root.outside().join("project");
    for (dir, owner, mode, git_owner) in [(&common, 0, 0o1777, EVE), (&project, ALICE, 0o2775, ALICE)] {
        for below in ["work", ".git/objects", ".git/refs", ".lokt"] {
            fs::create_dir_all(dir.join(below)).expect("a temp directory is writable");
        }
        put(&dir.join(".git/HEAD"), "ref: refs/heads/main\n");
        house.give(dir, owner, mode);
        house.give(&dir.join("work"), BOB, 0o755);
        for mark in [".git", ".git/HEAD", ".git/objects", ".git/refs", ".lokt"] {
            house.give(&dir.join(mark), git_owner, 0o775);
        }
    }
    let seen = root_seen_by(&house, BOB, &common.join("work"));
    let expected = common.join("work/.lokt").display().to_string();
    assert_eq!(
        (&seen["root_method"], &seen["root_path"]),
        (&json!("local"), &json!(expected)),
        "eve decides nothing for bob"
    );
    let seen = root_seen_by(&house, BOB, &project.join("work"));
    let expected = project.join(".git/lokt").display().to_string();
    assert_eq!(
        (&seen["root_method"], &seen["root_path"]),
        (&json!("git"), &json!(expected)),
        "alice's project is bob's too"
    );
}
