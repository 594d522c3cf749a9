//! `publish`: a file is put in its place whole, in one step, and only under a token that is still good.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown, symlink};
use std::path::{Path, PathBuf};

use lokt_testkit::cmd::Place;
use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::json;

use crate::common::guards::Guard;
use crate::common::programs::copy_of_lokt;
use crate::common::{Call, LOKT, Root, Said, chmod, eventually, mode, names_in, put};

/// A root in which `a` holds `x` under token 1, and a directory for files beside it.
struct Desk {
    root: Root,
    token: u64,
}

impl Desk {
    fn new() -> Self {
        let root = Root::new();
        let granted = root.run("a", "lock x --json").exits(0, "it is free").json();
        let token = granted["fencing_token"].as_u64().expect("a grant has a token");
        fs::create_dir(root.outside().join("out")).expect("a temp directory is writable");
        put(&root.outside().join("new"), "new content\n");
        Self { root, token }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.outside().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name} can be read: {error}"))
    }

    /// `lokt publish x SOURCE TARGET` with the token, from the directory around the root.
    fn publish(&self, source: &str, target: &str) -> Said {
        self.under(self.token, source, target)
    }

    fn under(&self, token: u64, source: &str, target: &str) -> Said {
        self.root.lokt("a").args(["publish", "x", source, target, "--token", &token.to_string()]).run()
    }

    /// Refused or failed, and nothing was touched: neither what was there nor beside it.
    #[track_caller]
    fn touches_nothing(&self, source: &str, target: &str, code: i32, sentence: &str) -> Said {
        let before = everything(self.root.outside(), &self.root.path());
        let said = self.publish(source, target).exits(code, sentence);
        let json = self.root.lokt("a").args(["publish", "x", source, target, "--json", "--token"]);
        let json = json.args([self.token.to_string()]).run().exits(code, sentence);
        assert_eq!(json.json()["status"], "error", "{sentence}: in JSON too{json}");
        assert_eq!(everything(self.root.outside(), &self.root.path()), before, "{sentence}: nothing was touched");
        assert!(said.stdout.is_empty(), "{sentence}: nothing is claimed{said}");
        said
    }
}

/// What is below `dir`, without `but`: paths, kinds, inodes, contents.
fn everything(dir: &Path, but: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for path in names_in(dir).into_iter().filter(|path| path != but) {
        let meta = fs::symlink_metadata(&path).expect("it is there");
        let content = if meta.is_file() { fs::read(&path).unwrap_or_default() } else { Vec::new() };
        found.push(format!("{} {:o} {} {content:?}", path.display(), meta.mode(), meta.ino()));
        if meta.is_dir() {
            found.extend(everything(&path, but));
        }
    }
    found
}

/// Files that a publication left behind.
fn leftovers(dir: &Path) -> Vec<PathBuf> {
    names_in(dir).into_iter().filter(|path| path.to_string_lossy().contains(".lokt-publish-")).collect()
}

#[test]
fn a_new_file_appears_and_an_old_one_is_replaced_with_content_and_mode() {
    let desk = Desk::new();
    chmod(&desk.path("new"), 0o640);
    let said = desk.publish("new", "out/site").exits(0, "the token is good");
    said.says(&format!("published out/site under token {} of lock \"x\"\n", desk.token), "it says so");
    assert_eq!(
        (desk.read("out/site").as_str(), mode(&desk.path("out/site"))),
        ("new content\n", 0o640),
        "as the source"
    );
    let first = fs::metadata(desk.path("out/site")).expect("it is there").ino();

    put(&desk.path("new"), "newer\n");
    chmod(&desk.path("new"), 0o755);
    chmod(&desk.path("out/site"), 0o400);
    desk.publish("new", "out/site").exits(0, "what is there is replaced");
    assert_eq!((desk.read("out/site").as_str(), mode(&desk.path("out/site"))), ("newer\n", 0o755), "with the new mode");
    let meta = fs::metadata(desk.path("out/site")).expect("it is there");
    assert!(meta.ino() != first && meta.nlink() == 1, "it is another file, and nothing else");
    assert_eq!(desk.read("new"), "newer\n", "the source stays");
    assert_eq!(names_in(&desk.path("out")).len(), 1, "nothing is left beside it");
}

#[test]
fn the_answer_in_json_and_the_event() {
    let desk = Desk::new();
    let target = desk.path("out/site");
    let call = desk.root.lokt("a").args(["publish", "x", "new"]).args([&target]);
    let said = call.args(["--json", "--token", &desk.token.to_string()]).run().exits(0, "the token is good");
    let expected = json!({"status": "published", "name": "x", "fencing_token": desk.token, "source": "new",
        "target": target.to_string_lossy(), "bytes": 12});
    assert_eq!(said.json(), expected);
    assert_eq!(desk.root.events_of("x"), ["acquire", "publish"], "audited: it leaves one event");
    let event = desk.root.audit_of("x").pop().expect("there are events");
    assert_eq!(event["extra"], json!({"fencing_token": desk.token, "target": target.to_string_lossy()}), "audited");
    assert_eq!(event["lock_id"], desk.root.record("x")["lock_id"], "audited: under which hold");
}

#[test]
fn a_stale_token_publishes_nothing_and_says_so() {
    let desk = Desk::new();
    put(&desk.path("out/site"), "old\n");
    let before = everything(desk.root.outside(), &desk.root.path());
    let said = desk.under(desk.token + 7, "new", "out/site").exits(6, "all-or-nothing: it was never given");
    said.notes("is not the current one of lock \"x\"", "why").notes("note: nothing was published", "and what of it");
    desk.root.run("thief", "unlock x --force").exits(0, "force");
    desk.under(desk.token, "new", "out/site").exits(6, "all-or-nothing: it was taken away");
    desk.root.run("thief", "lock x").exits(0, "it is free");
    desk.under(desk.token, "new", "out/site").exits(6, "all-or-nothing: another has it");
    let call = desk.root.lokt("a").args(["publish", "x", "new", "out/site", "--json", "--token"]);
    let json = call.args([desk.token.to_string()]).run().exits(6, "all-or-nothing: in JSON too").json();
    assert_eq!((&json["status"], &json["code"]), (&json!("error"), &json!("E_FENCING_MISMATCH")), "{json}");
    desk.root.run("a", "publish y new out/site --token 1").exits(6, "nobody holds y");
    assert_eq!(everything(desk.root.outside(), &desk.root.path()), before, "all-or-nothing: nothing was touched");
    let denied = desk.root.audit_of("x").into_iter().filter(|event| event["event"] == "publish-deny");
    let named: Vec<_> = denied.map(|event| event["extra"]["named_token"].clone()).collect();
    let old = desk.token;
    assert_eq!(named, [old + 7, old, old, old], "audited: each refusal with the token that was named");
}

#[test]
fn an_expired_lease_publishes_nothing() {
    let desk = Desk::new();
    desk.root.run("a", "lock x --ttl 1s").exits(0, "it is ours");
    eventually("the lease ends", || desk.root.run("a", "exists x").code == 3);
    desk.touches_nothing("new", "out/site", 5, "all-or-nothing: its lease has expired");
}

#[test]
fn relative_paths_start_where_the_caller_is() {
    let desk = Desk::new();
    let publish = |dir: &Path, source: &str, target: &str| {
        let words = ["publish", "x", source, target, "--token", &desk.token.to_string()];
        desk.root.lokt("a").cwd(dir).args(words).run()
    };
    publish(&desk.path("out"), "../new", "one").exits(0, "a bare name is here");
    publish(&desk.path("out"), "../new", "./two").exits(0, "so is ./");
    publish(&desk.path("out"), "../new", "../three").exits(0, "and .. is above");
    let absolute = desk.path("out/four").display().to_string();
    publish(Path::new("/"), &desk.path("new").display().to_string(), &absolute).exits(0, "absolute paths are absolute");
    for name in ["out/one", "out/two", "three", "out/four"] {
        assert_eq!(desk.read(name), "new content\n", "{name}");
    }
    symlink("out", desk.path("way")).expect("it is new");
    desk.publish("new", "way/five").exits(0, "a directory may be a link");
    symlink("new", desk.path("pointer")).expect("it is new");
    desk.publish("pointer", "out/six").exits(0, "and so may the source");
    assert!(fs::symlink_metadata(desk.path("out/six")).expect("it is there").is_file(), "its content is published");
}

#[test]
fn names_that_look_like_flags_or_have_odd_bytes_are_names() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let desk = Desk::new();
    let token = desk.token.to_string();
    let odd = OsStr::from_bytes(b"out/\xff\x1b[31m");
    let call = desk.root.lokt("a").args(["publish", "x", "new"]).args([odd]).args(["--token", &token]);
    call.run().exits(0, "a name is bytes");
    assert_eq!(names_in(&desk.path("out")), [desk.root.outside().join(odd)], "exactly these");
    let call = desk.root.lokt("a").args(["publish", "x", "--token", &token, "--", "new", "-t"]);
    call.run().exits(0, "after -- everything is a name");
    assert_eq!(desk.read("-t"), "new content\n", "it is there");
}

#[test]
fn across_file_systems_it_is_still_one_step() {
    let desk = Desk::new();
    let far = tempfile::tempdir_in("/dev/shm").expect("there is a second file system");
    let (here, there) =
        (fs::metadata(desk.root.outside()).expect("it is there"), fs::metadata(far.path()).expect("it is there"));
    assert_ne!(here.dev(), there.dev(), "they are two file systems");
    let big: Vec<u8> = (0..3_000_000_u32).map(|n| u8::try_from(n % 251).expect("it fits")).collect();
    put(&desk.path("big"), &big);
    let target = far.path().join("big");
    desk.publish("big", &target.display().to_string()).exits(0, "to another file system");
    assert_eq!(fs::read(&target).expect("it is there"), big, "whole");
    desk.publish(&target.display().to_string(), "out/big").exits(0, "and back");
    assert_eq!(fs::read(desk.path("out/big")).expect("it is there"), big, "whole");
    assert_eq!((names_in(far.path()).len(), names_in(&desk.path("out")).len()), (1, 1), "nothing is left beside them");
}

#[test]
fn a_big_file_and_an_empty_one_arrive_whole() {
    let desk = Desk::new();
    let file = fs::File::create(desk.path("big")).expect("a temp directory is writable");
    file.set_len(64 << 20).expect("it has holes");
    put(&desk.path("empty"), "");
    desk.publish("big", "out/big").exits(0, "64 MiB");
    assert_eq!(fs::metadata(desk.path("out/big")).expect("it is there").len(), 64 << 20, "whole");
    desk.publish("empty", "out/big").exits(0, "nothing is content, too");
    assert_eq!(fs::metadata(desk.path("out/big")).expect("it is there").len(), 0, "whole");
}

#[test]
fn what_is_no_regular_file_is_never_replaced() {
    let desk = Desk::new();
    put(&desk.path("out/precious"), "old\n");
    symlink("precious", desk.path("out/link")).expect("it is new");
    symlink("nowhere", desk.path("out/dangling")).expect("it is new");
    fs::create_dir(desk.path("out/dir")).expect("it is new");
    mkfifoat(CWD, desk.path("out/fifo"), Mode::RUSR | Mode::WUSR).expect("it is new");
    for (target, kind) in [
        ("out/link", "a symbolic link"),
        ("out/dangling", "a symbolic link"),
        ("out/dir", "a directory"),
        ("out/fifo", "a FIFO"),
    ] {
        let said = desk.touches_nothing("new", target, 65, kind);
        said.notes(&format!("error: can't publish to {target}: it is {kind}, not a regular file"), "it names the path")
            .notes("hint: nothing was published; it must be a regular file, or nothing yet", "and what would do");
    }
    for target in ["out/", "out/dir/", "out/precious/", "out/new/", ".", "..", "out/..", "out/.", "out/new/.", "/"] {
        let said = desk.touches_nothing("new", target, 65, target);
        said.notes(&format!("error: can't publish to {target}: it names a directory, not a file"), "it names the path");
    }
    let said = desk.touches_nothing("new", "missing/site", 1, "its directory is missing");
    said.notes("error: publish to missing/site: No such file", "the path")
        .notes("its directory must be there", "what to do");
    let said = desk.touches_nothing("new", "new/site", 1, "its directory is a file");
    said.notes("error: publish to new/site: Not a directory", "it names the path");
}

#[test]
fn what_cannot_be_a_source_publishes_nothing() {
    let desk = Desk::new();
    put(&desk.path("out/site"), "old\n");
    mkfifoat(CWD, desk.path("fifo"), Mode::RUSR | Mode::WUSR).expect("it is new");
    symlink("nowhere", desk.path("dangling")).expect("it is new");
    for (source, code, text) in [
        ("missing", 1, "error: read missing: No such file or directory"),
        ("dangling", 1, "error: read dangling: No such file or directory"),
        ("out", 65, "error: can't read out: it is a directory, not a regular file"),
        ("fifo", 65, "error: can't read fifo: it is a FIFO, not a regular file"),
        ("/dev/zero", 65, "error: can't read /dev/zero: it is a device, not a regular file"),
    ] {
        let said = desk.touches_nothing(source, "out/site", code, source);
        said.notes(text, "it names the path").notes("hint: nothing was published", "and what became of it");
    }
}

#[test]
fn a_file_is_not_published_onto_itself() {
    let desk = Desk::new();
    fs::hard_link(desk.path("new"), desk.path("out/same")).expect("one file system");
    for target in ["new", "./new", "out/../new", "out/same"] {
        let said = desk.touches_nothing("new", target, 65, target);
        said.notes("it is the source itself", "it says why");
    }
}

#[test]
fn inside_a_guard_the_token_need_not_be_given() {
    let desk = Desk::new();
    let mut guard = Guard::start(&desk.root, "g", "deploy");
    guard.does(&format!("{LOKT} publish deploy new out/site; echo code-$?"));
    guard.heard("code-0");
    assert_eq!(desk.read("out/site"), "new content\n", "it is there");
    desk.root.run("thief", "unlock deploy --force").exits(0, "force");
    desk.root.run("thief", "lock deploy").exits(0, "it is free");
    put(&desk.path("new"), "late\n");
    guard.does(&format!("{LOKT} publish deploy new out/site; echo late-$?"));
    guard.heard("late-6");
    assert_eq!(desk.read("out/site"), "new content\n", "all-or-nothing: who lost the lock changes nothing");
    desk.root.run("a", "publish x new out/site").exits(64, "outside of one it must").notes("--token", "it says how");
}

#[test]
fn publishing_goes_on_under_a_freeze_and_needs_a_root() {
    let desk = Desk::new();
    desk.root.run("ops", "freeze x").exits(0, "it may be frozen while it is held");
    desk.publish("new", "out/site").exits(0, "what holds it goes on");
    let empty = Root::new();
    put(&empty.outside().join("new"), "new\n");
    empty.run("a", "publish x new site --token 1").exits(6, "without a root nobody holds anything");
    assert!(!empty.path().exists() && !empty.outside().join("site").exists(), "nothing is made");
    for words in ["publish x new site --token one", "publish x new", "publish ../x new site --token 1", "publish"] {
        empty.run("a", words).exits(64, words);
    }
}

#[test]
fn a_source_that_is_written_to_meanwhile_is_not_published_in_part() {
    let desk = Desk::new();
    put(&desk.path("out/site"), "old\n");
    // A file of the kernel's that says it is empty and isn't: the copy doesn't fit what was announced.
    let said = desk.touches_nothing("/proc/self/status", "out/site", 75, "what was copied isn't what was there");
    said.notes("error: /proc/self/status changed while it was copied", "it names the path");
}

// What needs other users or small disks.

const SOMEBODY: u32 = 20_011;

/// Runs `lokt WORDS` as a user for whom permissions count.
fn as_somebody(desk: &Desk, lokt: &Path, words: &[&str]) -> Said {
    let user = SOMEBODY.to_string();
    let call = Call::new("setpriv").args(["--reuid", &user, "--regid", &user, "--clear-groups"]).args([lokt]);
    call.args(words).env("LOKT_ROOT", desk.root.path()).env("LOKT_OWNER", "s").cwd(desk.root.outside()).run()
}

#[test]
fn where_one_may_not_read_or_write_nothing_is_published() {
    lokt_testkit::need!(root);
    let desk = Desk::new();
    let lokt = copy_of_lokt(desk.root.outside());
    put(&desk.path("secret"), "secret\n");
    chmod(&desk.path("secret"), 0o600);
    put(&desk.path("out/site"), "old\n");
    chmod(&desk.path("out"), 0o755);
    chmod(desk.root.outside(), 0o755);
    let mine = desk.path("mine");
    fs::create_dir(&mine).expect("it is new");
    chown(&mine, Some(SOMEBODY), Some(SOMEBODY)).expect("these tests run as root, as CI does");
    fs::remove_dir_all(desk.root.path()).expect("it is ours");
    fs::create_dir(desk.root.path()).expect("it is ours");
    chown(desk.root.path(), Some(SOMEBODY), Some(SOMEBODY)).expect("root may");
    as_somebody(&desk, &lokt, &["lock", "x"]).exits(0, "the root is theirs");
    let said = as_somebody(&desk, &lokt, &["publish", "x", "secret", "mine/site", "--token", "1"]);
    said.exits(1, "it may not be read").notes("error: read secret: Permission denied", "it names the path");
    assert_eq!(names_in(&mine), Vec::<PathBuf>::new(), "nothing is left");
    let said = as_somebody(&desk, &lokt, &["publish", "x", "new", "out/site", "--token", "1"]);
    said.exits(1, "the directory may not be written to")
        .notes("error: publish to out/site: Permission denied", "it names the path")
        .notes("its directory must be writable", "and what would do");
    assert_eq!(desk.read("out/site"), "old\n", "the target is untouched");
    chmod(&desk.path("out/site"), 0o600);
    chown(desk.path("out"), Some(SOMEBODY), Some(SOMEBODY)).expect("root may");
    as_somebody(&desk, &lokt, &["publish", "x", "new", "out/site", "--token", "1"]).exits(0, "the directory decides");
}

/// Runs a script as `a` in a mount namespace of its own, with `$0` for the command and `x` held under token 1.
fn on_mounts(text: &str) -> lokt_testkit::swarm::Ended {
    let place = Place::new(LOKT);
    let script = format!("set -u; mkdir small; \"$0\" lock x >/dev/null || exit 90; {text}");
    let ended = place.run_words("a", &["unshare", "--mount", "sh", "-c", &script, LOKT]);
    assert_ne!(ended.code, Some(99), "this test needs root, for a mount: {}", ended.stderr);
    ended
}

#[test]
fn a_full_disk_leaves_the_old_file_and_nothing_else() {
    lokt_testkit::need!(root);
    let ended = on_mounts(
        r#"mount -t tmpfs -o size=64k none small || exit 99
        echo old > small/site; head -c 100000 /dev/zero > big
        "$0" publish x big small/site --token 1; echo code $?
        cat small/site; ls -A small | wc -l; df --output=used small | tail -1"#,
    );
    assert!(ended.stderr.contains("error: publish to small/site: No space left on device"), "{ended:?}");
    assert!(ended.stderr.contains("hint: nothing was published; the whole file must fit"), "{ended:?}");
    let lines: Vec<_> = ended.stdout.lines().map(str::trim).collect();
    assert_eq!(lines, ["code 1", "old", "1", "4"], "old, alone, and the room is free again: {ended:?}");
}

#[test]
fn no_room_for_a_name_leaves_the_old_file_and_nothing_else() {
    lokt_testkit::need!(root);
    let ended = on_mounts(
        r#"mount -t tmpfs -o nr_inodes=3 none small || exit 99
        echo old > small/site; touch small/last; echo new > new
        "$0" publish x new small/site --token 1; echo code $?
        cat small/site; ls -A small | wc -l"#,
    );
    assert_eq!(ended.stdout, "code 1\nold\n2\n", "{ended:?}");
    assert!(ended.stderr.contains("error: publish to small/site: No space left on device"), "{ended:?}");
}

#[test]
fn a_read_only_file_system_is_told_and_left_alone() {
    lokt_testkit::need!(root);
    let ended = on_mounts(
        r#"mount -t tmpfs none small || exit 99
        echo old > small/site; mount -o remount,ro small || exit 98; echo new > new
        "$0" publish x new small/site --token 1; echo code $?
        cat small/site; ls -A small | wc -l"#,
    );
    assert_eq!(ended.stdout, "code 1\nold\n1\n", "{ended:?}");
    assert!(ended.stderr.contains("error: publish to small/site: Read-only file system"), "{ended:?}");
    assert!(ended.stderr.contains("its directory must be writable"), "{ended:?}");
}

#[test]
fn a_file_size_limit_is_an_error_and_leaves_nothing() {
    let desk = Desk::new();
    put(&desk.path("big"), vec![7; 300_000]);
    put(&desk.path("out/site"), "old\n");
    let script = format!("ulimit -f 100; exec {LOKT} publish x big out/site --token {}", desk.token);
    let call = Call::new("sh").args(["-c", &script]).cwd(desk.root.outside());
    let said = call.env("LOKT_ROOT", desk.root.path()).env("LOKT_OWNER", "a").run().exits(1, "it can't be written");
    said.notes("error: publish to out/site: File too large", "it says why");
    assert_eq!(desk.read("out/site"), "old\n", "the target is untouched");
    assert_eq!(leftovers(&desk.path("out")), Vec::<PathBuf>::new(), "nothing is left");
}
