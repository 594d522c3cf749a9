//! lokt's own files and directories, replaced by something else: named or not in the way, and never followed out of the root.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use lokt_testkit::dose::is_due;

use super::calls::{self, Call, FORMATS};
use super::records::{make_device, make_fifo, make_link, make_socket};
use super::scene::Scene;
use crate::common::{Said, put};

const OWN: [&str; 11] = [
    "audit.log",
    "freezes",
    "locks",
    "state",
    "state/aside",
    "state/ceiling",
    "state/held",
    "state/line",
    "state/line/x",
    "state/next",
    "state/tmp",
];

/// Something else at a path; `../` is as often as it takes to the directory around the root.
type Odd = (&'static str, fn(&Path, up: &str));

const ODD: [Odd; 10] = [
    ("a file", |path, _| put(path, "garbage")),
    ("an empty file", |path, _| put(path, "")),
    ("a directory", |path, _| put(&path.join("precious"), "precious")),
    ("a link to a file outside", |path, up| make_link(format!("{up}precious"), path)),
    ("a link to a directory outside", |path, up| make_link(format!("{up}dir"), path)),
    ("a link to nothing", |path, up| make_link(format!("{up}nothing"), path)),
    ("a link to itself", |path, _| make_link(path, path)),
    ("a FIFO", |path, _| make_fifo(path)),
    ("a socket", |path, _| make_socket(path)),
    ("a device that never ends", |path, _| make_device(path, 1, 5)),
];

fn replace(path: &Path) {
    let Ok(meta) = fs::symlink_metadata(path) else { return };
    if meta.is_dir() {
        fs::remove_dir_all(path).expect("it is ours");
    } else {
        crate::common::remove(path);
    }
}

/// An error names what is in the way; every other answer is one that a healthy root gives, too.
#[track_caller]
pub(super) fn check(call: &Call, said: &Said, named: &str, what: &str) {
    match said.code {
        0 | 2 | 3 | 4 | 6 => {}
        1 | 65 | 69 => {
            let all = format!("{}{}", said.stdout, said.stderr);
            let is_refused = all.contains("is not stale");
            assert!(is_refused || all.contains(named), "{named}, which is {what}, is named{said}");
        }
        _ => panic!("{call:?} has no such exit code, where {named} is {what}{said}"),
    }
}

fn meet(own: &str, healthy: &Scene) {
    let up = "../".repeat(own.split('/').count());
    for (n, (what, make)) in ODD.into_iter().enumerate() {
        let scene = healthy.copy();
        let path = scene.root.path().join(own);
        replace(&path);
        fs::create_dir_all(path.parent().expect("it is below the root")).expect("a temp directory is writable");
        make(&path, &up);
        let kind = fs::symlink_metadata(&path).expect("it was just made").mode() & 0o170_000;
        let mut last = None;
        for (m, call) in calls::all().iter().filter(|call| call.looks).enumerate().filter(|(m, _)| is_due(n + m)) {
            let said = scene.run(call, FORMATS[(n + m) % 2]);
            check(call, &said, own, what);
            scene.is_untouched(&said);
            last = Some(said);
        }
        let now = fs::symlink_metadata(&path).map(|meta| meta.mode() & 0o170_000).ok();
        assert_eq!(now, Some(kind), "{what} at {own} is still there");
        // What killed commands left in `state/tmp` is tidied away.
        if what == "a directory" && own != "state/tmp" {
            assert!(path.join("precious").exists(), "{own}: nothing in {what} is lost");
        }
        replace(&path);
        scene.works(&last.expect("there are calls"));
    }
}

#[test]
fn nothing_of_lokts_own_is_followed_out_of_the_root() {
    let healthy = Scene::used();
    std::thread::scope(|scope| {
        for half in [&OWN[..6], &OWN[6..]] {
            let healthy = &healthy;
            scope.spawn(move || half.iter().for_each(|own| meet(own, healthy)));
        }
    });
}

#[test]
fn an_audit_log_that_cannot_be_written_changes_no_answer() {
    let healthy = Scene::used();
    let answers: Vec<i32> = calls::all().iter().map(|call| healthy.copy().run(call, false).code).collect();
    for (n, (what, make)) in ODD.into_iter().enumerate().filter(|(_, (what, _))| !what.ends_with("file")) {
        let acting = calls::all().into_iter().zip(&answers).filter(|(call, _)| call.acts && !call.examines());
        for (m, (call, answer)) in acting.enumerate().filter(|(m, _)| is_due(n + m)) {
            let scene = healthy.copy();
            let path = scene.root.path().join("audit.log");
            replace(&path);
            make(&path, "../");
            let said = scene.run(&call, FORMATS[(n + m) % 2]);
            assert_eq!(said.code, *answer, "the answer is the same, where the audit log is {what}{said}");
            if matches!(call.words("x", false)[0].as_str(), "lock" | "freeze") {
                assert!(said.stderr.contains("warning: audit: can't write "), "but it says so{said}");
            }
            scene.is_untouched(&said);
        }
    }
}
