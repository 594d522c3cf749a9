//! `--root`: which commands take it, and that it counts more than everything else.

use std::fs;
use std::path::PathBuf;

use crate::common::{Call, LOKT, eventually, put};

/// Every command that uses a lock root, with what it exits with where `--root` leads to and where nothing leads to.
const COMMANDS: [(&str, i32, i32); 16] = [
    ("lock held", 2, 0),
    ("guard held -- true", 2, 0),
    ("run held -- true", 2, 0),
    ("guard held --json -- true", 2, 0),
    ("unlock held", 4, 3),
    ("status held", 0, 3),
    ("why held", 2, 0),
    ("exists held", 0, 3),
    ("freeze frozen", 2, 0),
    ("unfreeze frozen", 4, 3),
    ("fence check held --token 1", 0, 6),
    ("publish held source target --token 1", 0, 6),
    ("queue held", 0, 0),
    ("audit --json", 0, 0),
    ("doctor --json", 0, 0),
    ("prime", 0, 0),
];

struct Site {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

impl Site {
    /// A root `named` where `held` is held and `frozen` is frozen, beside one that `LOKT_ROOT` leads to.
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("there is room for a temp directory");
        let path = dir.path().canonicalize().expect("it exists");
        put(&path.join("source"), "text");
        let site = Self { _dir: dir, path };
        site.call("holder", "lock held --root named").run().exits(0, "it is free");
        site.call("holder", "freeze frozen --root named").run().exits(0, "it is free");
        site
    }

    fn call(&self, owner: &str, words: &str) -> Call {
        Call::new(LOKT).cwd(&self.path).env("LOKT_OWNER", owner).args(words.split_whitespace())
    }
}

#[test]
fn it_counts_more_than_the_variable_for_every_command_that_uses_a_root() {
    for (words, there, elsewhere) in COMMANDS {
        let site = Site::new();
        let (first, rest) = words.split_once(' ').unwrap_or((words, ""));
        for flag in ["--root named", "--root=named", &format!("--root {}/named", site.path.display())] {
            let said = site.call("a", &format!("{first} {flag} {rest}")).env("LOKT_ROOT", "other").run();
            said.exits(there, &format!("{words}: --root counts, not LOKT_ROOT"));
            assert!(!site.path.join("other").exists(), "{words}: nothing is made where the variable leads to");
        }
        site.call("a", words).env("LOKT_ROOT", "other").run().exits(elsewhere, &format!("{words}: without it"));
    }
}

#[test]
fn what_has_no_exit_code_of_its_own_speaks_of_that_root() {
    let site = Site::new();
    for (words, text) in [
        ("status", "held"),
        ("queue held --json", "\"held\": true"),
        ("audit --json", "\"held\""),
        ("doctor", "(via --root)"),
        ("prime", "held"),
        ("root", "/named"),
        ("status --watch --interval 100ms", "held"),
        ("complete -- unlock --root named h", "held"),
        ("complete -- unlock --root=named h", "held"),
    ] {
        let is_watch = words.contains("--watch");
        let words = if words.starts_with("complete") { words.to_owned() } else { format!("{words} --root named") };
        let call = site.call("a", &words).env("LOKT_ROOT", "other");
        if is_watch {
            let shown = site.path.join("shown");
            let run = call.answers_to(fs::File::create(&shown).expect("a temp directory is writable").into());
            eventually("it is about that root", || fs::read_to_string(&shown).is_ok_and(|shown| shown.contains(text)));
            rustix::process::kill_process(crate::common::pid_of(run.pid()), rustix::process::Signal::INT)
                .expect("ours");
            run.wait().exits(0, "that is how it ends");
        } else {
            call.run().exits(0, "there is an answer").says(text, "it is about that root");
        }
    }
    let json = site.call("a", "root --root named --json").run().exits(0, "there is an answer").json();
    assert_eq!(json["root_method"], "flag", "it says how it was found");
    site.call("a", "root --root named").run().notes("found via: --root", "in text, too");
}

#[test]
fn it_needs_a_value_and_an_absolute_one_needs_no_current_directory() {
    let site = Site::new();
    for words in ["lock x --root", "lock x --root=", "guard x --root= -- true", "guard x --root -- true"] {
        site.call("a", words).run().exits(64, "it has no value");
    }
    site.call("a", "guard x --root a --root b -- true").run().exits(64, "it is one root");
    site.call("a", "doctor --strict --root named").run().exits(64, "that is about a lokt repository");
    let gone = site.path.join("gone");
    fs::create_dir(&gone).expect("a temp directory is writable");
    let script = format!("cd gone && rmdir ../gone && exec {LOKT} unlock held --root {}/named", site.path.display());
    let said = Call::new("sh").cwd(&site.path).env("LOKT_OWNER", "holder").args(["-c", &script]).run();
    said.exits(0, "where we are doesn't matter");
}

/// The command of a guard is told by `LOKT_ROOT` alone: it may have locks of its own project to take.
#[test]
fn it_is_not_handed_down() {
    let site = Site::new();
    let said = site.call("a", &format!("guard x --root named -- {LOKT} root")).run().exits(0, "it is free");
    said.says(&site.path.join(".lokt").display().to_string(), "the command goes by its own surroundings");
}
