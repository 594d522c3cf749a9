//! Only the owners of the system talk to it.

use std::fs;
use std::path::Path;

use crate::sources::{code, imports, read, sources};
use crate::workspace;

/// Crates and folders that may talk to the system, with what they are for.
const OWNERS: [(&str, &str); 6] = [
    ("sys/src", "the system, for everything above"),
    ("tree/src", "trees of files, which are read and written through descriptors"),
    ("guard/src/shell", "the process that a guard runs, and its signals"),
    ("torture/src", "damages what others protect"),
    ("testkit/src", "makes the places that tests work in"),
    ("threads/src", "named locks once more, under a scheduler"),
];

/// Where each crate says which machine it asks if a caller brings none. Everything else asks what it is given.
const MACHINES: [&str; 4] =
    ["named/src/file/open.rs", "ledger/src/file/mod.rs", "worktree/src/repo/mod.rs", "cli/src/machine.rs"];

/// Paths that belong to the owners, with what the other crates call instead.
const PATHS: [(&str, &str); 7] = [
    ("std::fs", "lokt_sys::{disk, files, plain_file, staged}"),
    ("std::os::unix::fs", "lokt_sys::look"),
    ("std::os::unix::net", "nothing: lokt has no daemon"),
    ("std::net", "nothing: a remote store is an engine of its own"),
    ("rustix", "a function of lokt_sys"),
    ("nix", "a function of lokt_sys"),
    ("libc", "a function of lokt_sys"),
];

/// Methods of `Path` that ask the file system.
const METHODS: [&str; 10] = [
    ".exists()",
    ".try_exists()",
    ".is_dir()",
    ".is_file()",
    ".is_symlink()",
    ".metadata()",
    ".symlink_metadata()",
    ".canonicalize()",
    ".read_dir()",
    ".read_link()",
];

/// What is allowed nevertheless: file, what it uses, why.
const ALLOWED: [(&str, &str, &str); 0] = [];

/// The lines of a source that talk to the system: number, what they use, what to call instead.
fn system_calls(text: &str, names_machine: bool) -> Vec<(usize, &'static str, &'static str)> {
    let lines = code(text);
    let mut found = Vec::new();
    for (path, instead) in PATHS {
        let inside = format!("{path}::");
        let imported = imports(&lines).into_iter().filter(|(_, import)| {
            import == path
                || import.starts_with(&inside)
                || import.strip_prefix(path).is_some_and(|rest| rest.starts_with(' '))
        });
        found.extend(imported.map(|(number, _)| (number, path, instead)));
        let called = lines.iter().filter(|(_, line)| !line.trim_start().starts_with("use ") && has_path(line, &inside));
        found.extend(called.map(|(number, _)| (*number, path, instead)));
    }
    for method in METHODS {
        let called = lines.iter().filter(|(_, line)| line.contains(method));
        found.extend(called.map(|(number, _)| (*number, method, "lokt_sys::{files, look}")));
    }
    if !names_machine {
        let named = lines.iter().filter(|(_, line)| words(line).any(|word| word == "Linux"));
        found.extend(named.map(|(number, _)| (*number, "Linux", "the machine that the caller brings")));
    }
    found.sort_unstable();
    found
}

/// Reports whether a line has this path, not as the end of a longer name.
fn has_path(line: &str, path: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    line.match_indices(path).any(|(at, _)| !line[..at].ends_with(is_name))
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_')
}

#[test]
fn only_the_owners_of_the_system_talk_to_it() {
    let crates = workspace().join("crates");
    let (mut wrong, mut unused) = (Vec::new(), ALLOWED.to_vec());
    for entry in fs::read_dir(&crates).expect("there are crates") {
        for file in sources(&entry.expect("it can be read").path().join("src")) {
            let name = file.strip_prefix(&crates).expect("it is one of them").to_str().expect("plain names").to_owned();
            if OWNERS.iter().any(|(owner, _)| Path::new(&name).starts_with(owner)) {
                continue;
            }
            let names_machine = MACHINES.contains(&name.as_str());
            for (number, what, instead) in system_calls(&read(&file), names_machine) {
                unused.retain(|(file, allowed, _)| (*file, *allowed) != (&*name, what));
                if !ALLOWED.iter().any(|(file, allowed, _)| (*file, *allowed) == (&*name, what)) {
                    wrong.push(format!("crates/{name}:{number} uses {what}; call {instead}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "only crates/sys and its like talk to the system:\n{}", wrong.join("\n"));
    assert!(unused.is_empty(), "nothing needs this permission any more: {unused:?}");
}

#[test]
fn every_owner_and_every_place_of_a_machine_is_there() {
    let crates = workspace().join("crates");
    for path in OWNERS.map(|(owner, _)| owner).into_iter().chain(MACHINES) {
        assert!(crates.join(path).exists(), "crates/{path} has moved");
    }
}

#[test]
fn the_scanner_finds_what_talks_to_the_system() {
    let found = |text: &str| -> Vec<(usize, &str)> {
        system_calls(text, false).into_iter().map(|(number, what, _)| (number, what)).collect()
    };
    assert_eq!(found("use std::fs;\n"), [(1, "std::fs")]);
    assert_eq!(found("use std::{\n    fs::File,\n    io,\n};\n"), [(1, "std::fs")]);
    assert_eq!(found("\nlet x = std::fs::read(path);\n"), [(2, "std::fs")]);
    assert_eq!(found("use std::os::unix::{ffi::OsStrExt, fs::symlink};\n"), [(1, "std::os::unix::fs")]);
    assert_eq!(found("let x = rustix::process::getpid();\n"), [(1, "rustix")]);
    assert_eq!(found("use rustix as r;\n"), [(1, "rustix")]);
    assert_eq!(found("if dir.join(x).exists() && dir.is_dir() {\n"), [(1, ".exists()"), (1, ".is_dir()")]);
    assert_eq!(found("let now = Linux.now();\n"), [(1, "Linux")]);
    assert_eq!(found("fn f() {}\n#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n"), []);
    assert_eq!(found("/// `std::fs`\nuse std::io;\nuse unix::x;\nlet x = lokt.exists(&name) || found.is_dir;\n"), []);
}
