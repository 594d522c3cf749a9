//! What `LOKT_ROOT` can be.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use lokt_testkit::dose::is_due;

use super::calls::{self, FORMATS};
use super::records::make_link;
use super::scene::Scene;
use crate::common::programs::copy_of_lokt;
use crate::common::{Call, LOKT, Said, chmod, put};

/// What a root turns out to be.
enum Is {
    /// A place like any other.
    Usable,
    /// One of these is the answer of every command that needs it, and the path is named.
    Error(i32),
}

/// Made in a directory, it gives a value for `LOKT_ROOT`.
type Value = (&'static str, Is, fn(&Path) -> OsString);

const VALUES: [Value; 18] = [
    ("relative", Is::Usable, |_| "relative".into()),
    ("relative, with dots", Is::Usable, |_| "./a/../relative".into()),
    ("missing", Is::Usable, |dir| dir.join("a/b/c").into()),
    ("a link to a directory", Is::Usable, |dir| {
        fs::create_dir(dir.join("real")).expect("a temp directory is writable");
        make_link("real", &dir.join("link"));
        dir.join("link").into()
    }),
    ("with spaces", Is::Usable, |dir| dir.join(" a b ").into()),
    ("with newlines and escape codes", Is::Usable, |dir| dir.join("a\n\u{1b}[2J\u{202e}").into()),
    ("with quotes", Is::Usable, |dir| dir.join("a'\"`$(b)").into()),
    ("not UTF-8", Is::Usable, |dir| dir.join(OsStr::from_bytes(b"\xff\xfe")).into()),
    ("a file", Is::Error(69), |dir| {
        put(&dir.join("file"), "precious");
        dir.join("file").into()
    }),
    ("below a file", Is::Error(69), |dir| {
        put(&dir.join("file"), "precious");
        dir.join("file/root").into()
    }),
    ("a device", Is::Error(69), |_| "/dev/null".into()),
    ("a link to a file", Is::Error(69), |dir| {
        put(&dir.join("file"), "precious");
        make_link("file", &dir.join("link"));
        dir.join("link").into()
    }),
    ("a link to nothing", Is::Error(69), |dir| {
        make_link("nothing", &dir.join("link"));
        dir.join("link").into()
    }),
    ("a link to itself", Is::Error(69), |dir| {
        make_link("loop", &dir.join("loop"));
        dir.join("loop").into()
    }),
    ("below a link to itself", Is::Error(69), |dir| {
        make_link("loop", &dir.join("loop"));
        dir.join("loop/root").into()
    }),
    ("a name that is too long", Is::Error(1), |dir| dir.join("n".repeat(300)).into()),
    ("a path that is too long", Is::Error(1), |dir| dir.join("n/".repeat(3_000)).into()),
    ("a directory of the kernel's", Is::Error(1), |_| "/proc".into()),
];

#[test]
fn every_root_is_used_or_named() {
    let answers: Vec<i32> = calls::all().iter().map(|call| Scene::new().run(call, false).code).collect();
    for (n, (what, is, make)) in VALUES.into_iter().enumerate() {
        for (m, (call, answer)) in calls::all().iter().zip(&answers).enumerate().filter(|(m, _)| is_due(n + m)) {
            // `/proc/locks` is a file; these two look elsewhere.
            if what.ends_with("kernel's") && matches!(call.words("x", false)[0].as_str(), "queue" | "audit") {
                continue;
            }
            let json = FORMATS[(n + m) % 2];
            // Scripts get the path as it is.
            if what.ends_with("escape codes") && call.words("x", false)[0] == "root" && !json {
                continue;
            }
            let scene = Scene::new();
            let here = scene.root.path().join("here");
            fs::create_dir(&here).expect("a temp directory is writable");
            let root = make(&here);
            let said = scene.root.lokt("b").env("LOKT_ROOT", &root).cwd(&here).args(call.words("x", json)).run();
            if json {
                call.check_json(&said);
            }
            scene.is_untouched(&said);
            match is {
                Is::Error(code) if call.looks && !call.is_quiet() => {
                    let code = if call.examines() { 1 } else { code };
                    assert_eq!(said.code, code, "a root that is {what}{said}");
                    let path = root.to_string_lossy();
                    let path = path.trim_end_matches('/');
                    assert!(format!("{}{}", said.stdout, said.stderr).contains(path), "the path is named{said}");
                }
                _ => assert_eq!(said.code, *answer, "a root that is {what} is one like any other{said}"),
            }
            if here.join("file").exists() {
                assert_eq!(fs::read(here.join("file")).expect("it is there"), b"precious", "nothing is lost{said}");
            }
        }
    }
}

/// Runs a call as a user who may do nothing here.
fn as_stranger(scene: &Scene, root: &Path, words: &[String]) -> Said {
    chmod(scene.root.outside(), 0o755);
    let lokt = scene.root.path().join("lokt");
    chmod(&scene.root.path(), 0o755);
    if !lokt.exists() {
        copy_of_lokt(&scene.root.path());
    }
    let user = ["--reuid=20003", "--regid=20003", "--clear-groups", "--"];
    Call::new("setpriv")
        .args(user)
        .args([&lokt])
        .args(words)
        .env("LOKT_ROOT", root)
        .env("LOKT_OWNER", "b")
        .cwd(Path::new("/"))
        .run()
}

#[test]
fn a_root_without_permission_is_named_and_nothing_is_taken_for_free() {
    lokt_testkit::need!(root);
    let scene = Scene::new();
    let closed = scene.root.path().join("closed");
    fs::create_dir(&closed).expect("a temp directory is writable");
    chmod(&closed, 0o700);
    for (_, call) in calls::all().into_iter().enumerate().filter(|(n, _)| is_due(*n)) {
        for json in FORMATS {
            for root in [&closed, &closed.join("below"), Path::new("/")] {
                let said = as_stranger(&scene, root, &call.words("x", json));
                if json {
                    call.check_json(&said);
                }
                if call.looks && !call.is_quiet() && root != Path::new("/") {
                    assert_eq!(said.code, 1, "what can't be opened is an error{said}");
                    let path = closed.display().to_string();
                    assert!(format!("{}{}", said.stdout, said.stderr).contains(&path), "the path is named{said}");
                } else {
                    let is_fine = [0, 1, 3, 6].contains(&said.code) || (call.needs_directory() && said.code == 64);
                    assert!(is_fine, "{call:?} on {}{said}", root.display());
                }
            }
        }
    }
}

#[test]
fn a_directory_that_was_deleted_is_in_nobodys_way_but_a_relative_roots() {
    let answers: Vec<i32> = calls::all().iter().map(|call| Scene::new().run(call, false).code).collect();
    for (_, (call, answer)) in calls::all().iter().zip(answers).enumerate().filter(|(n, _)| is_due(*n)) {
        for json in FORMATS {
            let scene = Scene::new();
            let gone = r#"mkdir gone && cd gone && rmdir ../gone && exec "$0" "$@""#;
            let run = |root: &str| {
                let call_words = call.words("x", json);
                let said = scene.root.call("sh").args(["-c", gone, LOKT]).args(call_words).env("LOKT_ROOT", root).run();
                if json {
                    call.check_json(&said);
                }
                scene.is_untouched(&said);
                said
            };
            let said = run(&scene.root.path().display().to_string());
            if call.needs_directory() {
                assert_eq!(said.code, if answer == 64 { 64 } else { 1 }, "there is no repository nowhere{said}");
                continue;
            }
            assert_eq!(said.code, answer, "an absolute root doesn't need it{said}");
            let said = run("relative");
            let word = &call.words("x", false)[0];
            let needs_it = call.looks || word == "root";
            let code = if needs_it && !call.is_quiet() { 1 } else { answer };
            assert_eq!(said.code, code, "a relative root is nowhere{said}");
        }
    }
}
