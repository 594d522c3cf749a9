//! `lokt doctor` among several users: roots that can't be written, files of others. These act as other users, so they run as root.

use std::fs;
use std::os::unix::fs::chown;
use std::path::PathBuf;

use crate::common::exam::Exam;
use crate::common::programs::copy_of_lokt;
use crate::common::{Call, Root, chmod, mode};

const ALICE: u32 = 20_001;
const BOB: u32 = 20_002;

struct House {
    root: Root,
    lokt: PathBuf,
}

impl House {
    /// A root that Alice has used.
    fn of_alice() -> Self {
        assert!(rustix::process::geteuid().is_root(), "these tests act as other users: run them as root, as CI does");
        let root = Root::new();
        chmod(root.outside(), 0o755);
        let lokt = copy_of_lokt(root.outside());
        fs::create_dir(root.path()).expect("a temp directory is writable");
        chown(root.path(), Some(ALICE), Some(ALICE)).expect("root may");
        chmod(&root.path(), 0o700);
        let house = Self { root, lokt };
        house.call(ALICE, "lock hers --ttl 1h").run().exits(0, "it is her root");
        house
    }

    fn call(&self, uid: u32, words: &str) -> Call {
        Call::new("setpriv")
            .args([format!("--reuid={uid}"), format!("--regid={uid}"), "--clear-groups".to_owned()])
            .args([&self.lokt])
            .args(words.split_whitespace())
            .env("LOKT_ROOT", self.root.path())
            .env("LOKT_OWNER", format!("user-{uid}"))
            .cwd(self.root.outside())
    }

    fn exam(&self, uid: u32, flags: &str) -> Exam {
        Exam::of(self.call(uid, &format!("doctor --json {flags}")).run())
    }
}

#[test]
fn a_root_that_can_not_be_written_fails_and_everything_else_is_looked_at() {
    lokt_testkit::need!(root);
    let house = House::of_alice();
    for dir in ["state/tmp", "state", "locks", ""] {
        chmod(&house.root.path().join(dir), 0o500);
    }
    let before = house.root.snapshot();
    for flags in ["", "--fix"] {
        let exam = house.exam(ALICE, flags);
        assert_eq!(exam.status("writable"), "fail", "{}", exam.said);
        exam.says("writable", &["can't write to", "Permission denied", "LOKT_ROOT"]);
        exam.says("file_system", &["could not be tried"]);
        assert_eq!(exam.complaints(), ["writable", "file_system"], "{}", exam.said);
    }
    assert_eq!(house.root.snapshot(), before, "nothing changed");
}

#[test]
fn a_read_only_file_system_is_said_to_be_one() {
    lokt_testkit::need!(root);
    let house = House::of_alice();
    let root = house.root.path();
    let script = "mount --bind \"$LOKT_ROOT\" \"$LOKT_ROOT\" && mount -o remount,ro,bind \"$LOKT_ROOT\" && exec \"$0\" doctor --json --fix";
    let call = Call::new("unshare").args(["--mount", "sh", "-c", script]).args([&house.lokt]).env("LOKT_ROOT", &root);
    let exam = Exam::of(call.cwd(house.root.outside()).run());
    exam.says("writable", &["Read-only file system"]);
    exam.says("file_system", &["could not be tried", "Read-only"]);
}

#[test]
fn a_root_of_somebody_else_and_files_of_others_in_it_are_named_and_left_alone() {
    lokt_testkit::need!(root);
    let house = House::of_alice();
    let record = house.root.record_path("hers");
    chown(&record, Some(BOB), Some(BOB)).expect("root may");
    chmod(&house.root.path().join("locks"), 0o755);
    let exam = house.exam(ALICE, "--fix");
    exam.says(
        "permissions",
        &["locks/hers.json belong to user 20002", "this root is user 20001's alone", "chown -R 20001"],
    );
    exam.says("permissions", &["locks (mode 0755)", "chmod -R go="]);
    assert_eq!(mode(&house.root.path().join("locks")), 0o755, "where others have files, nobody is shut out");
    // What can't be read is held.
    exam.says("records", &["locks/hers.json", "Permission denied", "counts as held"]);

    chown(&record, Some(0), Some(0)).expect("root may");
    house.exam(ALICE, "").says("permissions", &["hers.json belong to root"]);

    chmod(&house.root.path(), 0o755);
    let bobs = house.exam(BOB, "");
    bobs.says("permissions", &["this root belongs to user 20001", "LOKT_ROOT"]);
    assert_eq!(bobs.status("writable"), "fail");
}

#[test]
fn a_root_that_is_shared_with_a_group_is_in_order() {
    let root = Root::new();
    fs::create_dir(root.path()).expect("temp");
    chmod(&root.path(), 0o770);
    root.run("a", "lock x --ttl 1h").exits(0, "it is free");
    root.run("a", "guard y -- true").exits(0, "it is free");
    let exam = Exam::new(&root, "--fix");
    assert_eq!(exam.overall(), "ok", "{}", exam.said);
    assert_eq!(mode(&root.record_path("x")), 0o660, "and stays shared");
}
