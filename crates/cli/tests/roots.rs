//! lokt's own files when something is wrong with them, and roots that can't be used: named, nothing lost, tokens never go back.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use rustix::fs::{CWD, Mode, mkfifoat};

use crate::common::{Call, LOKT, Root, names_in, put, remove};

// --- lokt's own files

#[test]
fn a_torn_audit_line_does_not_swallow_the_next_event() {
    let root = Root::used();
    let log = root.path().join("audit.log");
    let torn = format!("{}{{\"ts\":\"2026", fs::read_to_string(&log).expect("it is there"));
    put(&log, &torn);
    root.run("a", "lock x").exits(0, "it is free");
    let after = fs::read_to_string(&log).expect("it is there");
    let added = after.strip_prefix(&torn).expect("nothing that was there is changed");
    assert!(added.starts_with("\n{") && added.ends_with("}\n"), "the event stands on a line of its own: {added}");
}

#[test]
fn an_audit_log_that_cannot_be_written_warns_and_stops_nothing() {
    let root = Root::used();
    let log = root.path().join("audit.log");
    remove(&log);
    fs::create_dir(&log).expect("a temp directory is writable");
    root.run("a", "lock x").exits(0, "a lock doesn't need the log").notes("warning: audit: can't write", "but says so");
    root.run("b", "lock x").exits(2, "it excludes").notes("warning: audit: ", "a refusal says so too");
    root.run("a", "unlock x").exits(0, "an unlock doesn't need the log").notes("warning: audit: ", "but says so");
    assert!(!root.has_record("x"), "it was given back");
}

#[test]
fn an_audit_log_that_is_a_fifo_or_a_link_is_not_written_to() {
    let root = Root::used();
    let log = root.path().join("audit.log");
    remove(&log);
    mkfifoat(CWD, &log, Mode::RUSR | Mode::WUSR).expect("a temp directory is writable");
    root.run("a", "lock x").exits(0, "a lock doesn't need the log").notes("warning: audit: can't write", "but says so");
    remove(&log);
    symlink(root.outside().join("target"), &log).expect("a temp directory is writable");
    root.run("a", "unlock x")
        .exits(0, "an unlock doesn't need the log")
        .notes("warning: audit: can't write", "but says so");
    assert!(!root.outside().join("target").exists(), "nothing was written through the link");
}

#[test]
fn a_damaged_token_counter_never_goes_back() {
    let root = Root::new();
    let token =
        |words: &str| root.run("a", words).exits(0, "it is free").json()["fencing_token"].as_u64().expect("a number");
    let mut last = token("lock x0 --json");
    for (n, damage) in ["state/next", "state/ceiling"].into_iter().cycle().take(4).enumerate() {
        let bytes: &[u8] = if n < 2 { b"garbage" } else { b"" };
        root.put(damage, bytes);
        let next = token(&format!("lock x{} --json", n + 1));
        assert!(next > last, "after {damage} was damaged, {next} is greater than {last}");
        last = next;
    }
    fs::remove_dir_all(root.path().join("state")).expect("it is ours");
    let next = token("lock y --json");
    assert!(next > last, "after state/ was deleted, {next} is greater than {last}");
    assert_eq!(root.events_of("y"), ["token-rebase", "acquire"], "and the leap is audited");
}

#[test]
fn a_token_counter_that_is_no_file_is_named() {
    let root = Root::used();
    let next = root.path().join("state/next");
    remove(&next);
    fs::create_dir(&next).expect("a temp directory is writable");
    let said = root.run("a", "lock x").exits(65, "there is no counter");
    said.notes("state/next is a directory", "it is named").notes("hint: ", "with what to do");
    assert!(!root.has_record("x"), "nothing was granted");
    let said = root.run("a", "lock x --json").exits(65, "there is no counter");
    assert_eq!(said.failure(), "E_NOT_A_RECORD", "the code is stable");
}

#[test]
fn directories_that_are_none_are_named() {
    for dir in ["locks", "state"] {
        let root = Root::new();
        root.put(dir, "a file");
        root.run("a", "lock x").exits(1, "it can't be used").notes(&format!("/root/{dir}"), "the path is named");
        assert_eq!(fs::read(root.path().join(dir)).expect("it is there"), b"a file", "nothing is lost");
        let elsewhere = root.outside().join("elsewhere");
        fs::create_dir(&elsewhere).expect("a temp directory is writable");
        remove(&root.path().join(dir));
        symlink(&elsewhere, root.path().join(dir)).expect("a temp directory is writable");
        root.run("a", "lock x").exits(1, "it can't be used").notes(&format!("/root/{dir}"), "the path is named");
        assert_eq!(names_in(&elsewhere), [""; 0].map(Path::new), "nothing was written through the link");
    }
}

#[test]
fn what_a_killed_command_left_is_tidied_away() {
    let root = Root::used();
    root.put("state/tmp/0123456789abcdef", "half a rec");
    root.run("a", "lock x").exits(0, "it is free");
    assert_eq!(names_in(&root.path().join("state/tmp")), [""; 0].map(Path::new), "no temp file is left");
}

// --- roots

#[test]
fn a_root_that_is_a_file_cannot_be_used() {
    let root = Root::new();
    put(&root.path(), "precious");
    for words in ["lock x", "unlock x", "unlock --all", "status", "status x", "exists x", "why x"] {
        let said = root.run("a", words).exits(69, "a file is no root");
        said.notes(&root.path().display().to_string(), "the path is named")
            .notes("hint: set LOKT_ROOT", "with what to do");
        let said = root.run("a", &format!("{words} --json")).exits(69, "a file is no root");
        assert_eq!(said.failure(), "E_UNUSABLE", "the code is stable");
    }
    assert_eq!(fs::read(root.path()).expect("it is there"), b"precious", "nothing is lost");
    root.lokt("a")
        .env("LOKT_ROOT", root.path().join("sub"))
        .args(["lock", "x"])
        .run()
        .exits(69, "below a file neither");
}

#[test]
fn a_root_that_is_a_loop_of_links_cannot_be_used() {
    let root = Root::new();
    symlink(root.path(), root.path()).expect("a temp directory is writable");
    for words in ["lock x", "status", "exists x", "why x", "unlock x"] {
        root.run("a", words)
            .exits(69, "it leads nowhere")
            .notes(&root.path().display().to_string(), "the path is named");
    }
    root.lokt("a").env("LOKT_ROOT", root.path().join("sub")).args(["lock", "x"]).run().exits(69, "below it neither");
}

#[test]
fn a_root_may_be_a_link_to_a_directory() {
    let root = Root::new();
    let real = root.outside().join("real");
    fs::create_dir(&real).expect("a temp directory is writable");
    symlink(&real, root.path()).expect("a temp directory is writable");
    root.run("a", "lock x").exits(0, "it is free");
    root.lokt("b").env("LOKT_ROOT", &real).args(["lock", "x"]).run().exits(2, "by its other name it is the same root");
}

#[test]
fn a_root_whose_name_is_too_long_is_an_error() {
    let root = Root::new();
    let said = root.lokt("a").env("LOKT_ROOT", root.outside().join("n".repeat(300))).args(["lock", "x"]).run();
    said.exits(1, "no file system has such names").notes(&"n".repeat(300), "the path is named");
}

#[test]
fn a_root_in_a_place_where_nothing_can_be_made_is_an_error() {
    let said = Call::new(LOKT).env("LOKT_ROOT", "/proc/lokt").env("LOKT_OWNER", "a").args(["lock", "x"]).run();
    said.exits(1, "nothing can be made in /proc").notes("/proc/lokt", "the path is named");
}

#[test]
fn what_stands_where_a_directory_should_be_is_called_what_it_is() {
    let root = Root::new();
    root.put("locks", "a file");
    let said = root.run("a", "lock x").exits(1, "it can't be used");
    let said = said.notes("locks is a file, not a directory", "it says what is there");
    assert!(!said.stderr.contains("--force"), "there is nothing that force could move{said}");
    remove(&root.path().join("locks"));
    symlink("/tmp", root.path().join("locks")).expect("a temp directory is writable");
    root.run("a", "lock x")
        .exits(1, "it can't be used")
        .notes("locks is a symbolic link, not a directory", "it says so");
}

#[test]
fn a_log_that_is_none_is_called_what_it_is_where_it_is_needed() {
    let root = Root::new();
    root.put("locks/old.json", "garbage");
    mkfifoat(CWD, root.path().join("audit.log"), Mode::RUSR | Mode::WUSR).expect("a temp directory is writable");
    let said = root.run("a", "lock x").exits(1, "without a counter the log has the tokens");
    said.notes("audit.log: it is a FIFO", "it says what is there");
}

#[test]
fn a_root_that_is_a_link_to_nothing_is_not_an_empty_root() {
    let root = Root::new();
    symlink("not-mounted", root.path()).expect("a temp directory is writable");
    for words in ["lock x", "unlock x", "unlock --all", "status", "exists x", "why x"] {
        let said = root.run("a", words).exits(69, "what is behind the link can't be said");
        said.notes("it is a symbolic link to nothing", "it says why").notes("/root can't be used", "the path is named");
    }
    root.run("a", "root")
        .exits(0, "there always is an answer")
        .notes("it is a symbolic link to nothing", "it says why");
}

#[test]
fn whoever_creates_a_root_is_told_where_and_once() {
    for words in ["lock x", "lock x --json", "freeze x --ttl 5m", "guard x -- true", "guard x --json -- true"] {
        let root = Root::new();
        let said = root.run("a", words).exits(0, "it is free");
        assert_eq!(said.created.as_deref(), Some(&*root.path()), "in a new root nobody else is excluded{said}");
        if words.contains("lock x --json") {
            said.json();
        }
        assert_eq!(root.run("a", words).created, None, "once is enough");
    }
    let root = Root::new();
    for words in ["status", "why x", "exists x", "queue x", "unlock --all", "audit", "root", "doctor", "prime"] {
        assert_eq!(root.run("a", words).created, None, "{words} creates nothing");
    }
    assert!(!root.path().exists(), "looking creates nothing");
}

#[test]
fn a_directory_that_is_used_as_a_root_keeps_its_mode() {
    let root = Root::new();
    fs::create_dir(root.path()).expect("a temp directory is writable");
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
    root.run("a", "lock x").exits(0, "it is free");
    root.run("a", "doctor --fix").exits(0, "nothing is wrong");
    let mode = fs::metadata(root.path()).expect("it is there").permissions().mode() & 0o7777;
    assert_eq!(mode, 0o755, "its owner may keep other things in it");
}
