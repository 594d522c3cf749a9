//! `lokt doctor` where `flock` is silently local: on bindfs, from Debian. It needs root and /dev/fuse.

use std::path::{Path, PathBuf};

use crate::common::LOKT;
use crate::common::exam::Exam;
use crate::common::seen_twice::SeenTwice;

fn lokt(root: &Path, words: &[&str]) -> crate::common::Said {
    crate::common::Call::new(LOKT).env("LOKT_ROOT", root).env("LOKT_OWNER", "a").cwd(Path::new("/")).args(words).run()
}

#[test]
fn on_bindfs_named_locks_can_not_be_trusted_and_it_says_so() {
    lokt_testkit::need!(root, "bindfs");
    let seen = SeenTwice::new();
    let root = seen.bound().join("root");
    for used in [false, true] {
        if used {
            lokt(&root, &["lock", "x"]).exits(0, "it looks as if it worked");
        }
        let exam = Exam::of(lokt(&root, &["doctor", "--json"]));
        assert_eq!(exam.status("file_system"), "fail", "used: {used}{}", exam.said);
        exam.says("file_system", &["named locks can't be trusted here", "fuse", "LOKT_ROOT", "local disk"]);
        let (bound, real) = (seen.bound().display().to_string(), seen.real().display().to_string());
        exam.says("file_system", &[&bound, &real, "that was tried"]);
        let text = lokt(&root, &["doctor"]).exits(1, "it fails");
        text.says("[FAIL]  File system", "text too").says("named locks can't be trusted here", "in plain words");
    }
    let left: Vec<_> = crate::common::names_in(&seen.real());
    assert_eq!(left, [seen.real().join("root")], "nothing else is left behind");
    assert_eq!(crate::common::names_in(&root.join("state/tmp")), Vec::<PathBuf>::new());
}

#[test]
fn where_the_other_side_can_not_be_seen_it_is_not_believed_either() {
    lokt_testkit::need!(root, "bindfs");
    let seen = SeenTwice::new();
    // Something else is mounted over the real directory, for this process alone.
    let script = "mount -t tmpfs none \"$1\" && exec \"$2\" doctor --json";
    let call = crate::common::Call::new("unshare").args(["--mount", "sh", "-c", script, "sh"]);
    let call = call.args([seen.real()]).args([LOKT]).env("LOKT_ROOT", seen.bound().join("root"));
    let exam = Exam::of(call.cwd(Path::new("/")).run());
    exam.says("file_system", &["named locks can't be trusted here", "can't be tried from here"]);
}

#[test]
fn the_directory_under_it_is_as_good_as_ever() {
    lokt_testkit::need!(root, "bindfs");
    let seen = SeenTwice::new();
    let exam = Exam::of(lokt(&seen.real().join("root"), &["doctor", "--json"]));
    assert_eq!(exam.status("file_system"), "ok", "{}", exam.said);
}

#[test]
fn the_other_side_is_found_beside_a_mount_whose_name_is_no_text() {
    lokt_testkit::need!(root, "bindfs");
    let seen = SeenTwice::new();
    let script =
        r#"odd="$1/$(printf 'odd\377')" && mkdir "$odd" && mount -t tmpfs none "$odd" && exec "$2" doctor --json"#;
    let call = crate::common::Call::new("unshare").args(["--mount", "sh", "-c", script, "sh"]);
    let call = call.args([seen.real()]).args([LOKT]).env("LOKT_ROOT", seen.bound().join("root"));
    let exam = Exam::of(call.cwd(Path::new("/")).run());
    exam.says("file_system", &["named locks can't be trusted here", "fuse", "that was tried"]);
}
