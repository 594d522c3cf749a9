//! Wrapper scripts: shell scripts of a project that run something under `lokt guard`.
//!
//! Nothing that lies in a project makes this hang or read much: symbolic links are not followed, only regular files are read, and
//! there are limits to their size and number.

use std::collections::BTreeSet;
use std::path::Path;

use lokt_core::name::LockName;
use lokt_sys::files::{entries, is_link};
use lokt_sys::plain_file::PlainFile;
use serde::Serialize;

use super::escape::{shell_word, short};

/// Where scripts are looked for, in this order.
const DIRECTORIES: [&str; 4] = ["scripts", "bin", ".github/scripts", "."];
/// Nobody writes more by hand.
const SCRIPT_BYTES_MAX: u64 = 1 << 20;
/// Scripts that are read, per directory: the first by name.
const SCRIPTS_MAX: usize = 200;
/// Longer file names are not for typing.
const NAME_BYTES_MAX: usize = 100;
/// Entries of a directory that are looked at.
const ENTRIES_MAX: usize = 10_000;
/// An agent reads no more.
const OPERATIONS_MAX: usize = 40;
/// Flags of `guard` whose value is the next word.
const VALUED: [&str; 6] = ["--ttl", "--timeout", "--on-lost", "--reason", "-E", "--conflict-exit-code"];

/// Something that is done under a lock.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Operation {
    /// The lock's name.
    pub(super) name: String,
    /// What to type in the project's directory.
    pub(super) script: String,
    /// What the script runs under the lock, shortened.
    pub(super) command: String,
}

/// The operations of the project in `dir`. The first script of a lock's name counts.
pub(super) fn find(dir: &Path) -> Vec<Operation> {
    let mut operations: Vec<Operation> = Vec::new();
    for place in DIRECTORIES {
        let folder = dir.join(place);
        for name in scripts_in(&folder) {
            let Some((text, executable)) = read(&folder, &name) else { continue };
            let path = if place == "." { format!("./{name}") } else { format!("./{place}/{name}") };
            let path = shell_word(path.strip_prefix("./").filter(|path| path.starts_with(".github/")).unwrap_or(&path));
            let script = if executable { path } else { format!("{} {path}", interpreter(&text)) };
            for (name, command) in guards(&text) {
                let known = operations.iter().any(|operation| operation.name == name.as_str());
                if !known && operations.len() < OPERATIONS_MAX {
                    operations.push(Operation { name: name.to_string(), script: script.clone(), command });
                }
            }
        }
    }
    operations
}

/// The names of the shell scripts in a directory, in order. What can't be shown and typed as it is, is none.
fn scripts_in(folder: &Path) -> Vec<String> {
    if is_link(folder) {
        return Vec::new();
    }
    let is_script = |name: &str| Path::new(name).extension().is_some_and(|extension| extension == "sh");
    let typable = |name: &str| is_script(name) && name.len() <= NAME_BYTES_MAX && crate::show::clean(name) == name;
    let names = entries(folder).take(ENTRIES_MAX).filter_map(|entry| entry.name.into_string().ok());
    let names: BTreeSet<String> = names.filter(|name| typable(name)).collect();
    names.into_iter().take(SCRIPTS_MAX).collect()
}

/// The text of a script, and whether it can be run as it is.
fn read(folder: &Path, name: &str) -> Option<(String, bool)> {
    let file = PlainFile::open(&folder.join(name)).ok()?;
    let executable = file.mode & 0o111 != 0;
    let bytes = file.read_within(SCRIPT_BYTES_MAX).ok().flatten()?;
    Some((String::from_utf8_lossy(&bytes).into_owned(), executable && bytes.starts_with(b"#!")))
}

/// What runs a script that can't be run by its name.
fn interpreter(text: &str) -> &'static str {
    let first = text.lines().next().filter(|line| line.starts_with("#!")).unwrap_or_default();
    if first.contains("bash") {
        "bash"
    } else if first.contains("zsh") {
        "zsh"
    } else {
        "sh"
    }
}

/// The guards in a script, comments included: which lock, and what runs under it.
fn guards(text: &str) -> Vec<(LockName, String)> {
    let text = text.replace("\\\r\n", " ").replace("\\\n", " ");
    text.lines().filter_map(guard).collect()
}

fn guard(line: &str) -> Option<(LockName, String)> {
    let mut rest = line;
    loop {
        let at = rest.find("lokt")?;
        let starts = !rest[..at].ends_with(|c: char| c.is_alphanumeric() || "_-.".contains(c));
        rest = &rest[at + "lokt".len()..];
        let words = rest.trim_start_matches([' ', '\t']);
        let called = words.strip_prefix("guard").or_else(|| words.strip_prefix("run"));
        let Some(args) = called.filter(|args| starts && words.len() < rest.len() && args.starts_with([' ', '\t']))
        else {
            continue;
        };
        let Some((args, command)) = args.split_once(" -- ") else { continue };
        if let Some(name) = lock_name(args) {
            return Some((name, short(command.trim())));
        }
    }
}

/// The first word that is a name.
fn lock_name(args: &str) -> Option<LockName> {
    let mut words = args.split_whitespace();
    while let Some(word) = words.next() {
        if VALUED.contains(&word) {
            words.next();
        } else if !word.starts_with('-')
            && let Ok(name) = LockName::new(word)
        {
            return Some(name);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::guards;

    #[test]
    fn the_name_is_the_first_word_that_is_one() {
        for (line, name, command) in [
            ("lokt guard build -- make", "build", "make"),
            ("exec lokt run build -- make -j8 \"$@\"", "build", "make -j8 \"$@\""),
            ("  lokt guard --ttl 5m --timeout 10m build --wait -- make", "build", "make"),
            ("lokt guard -E 7 --reason why build -- make", "build", "make"),
            ("lokt guard \"$X\" <n> build -- make", "build", "make"),
            ("# lokt guard build -- make", "build", "make"),
            ("/usr/bin/lokt guard build -- make", "build", "make"),
            ("if lokt status; then lokt guard build -- make; fi", "build", "make; fi"),
            ("lokt guard build \\\n  --ttl 5m -- \\\n  make", "build", "make"),
        ] {
            let found = guards(line);
            let (found_name, found_command) = found.first().unwrap_or_else(|| panic!("{line} has a guard"));
            assert_eq!((found_name.as_str(), found_command.as_str()), (name, command), "{line}");
        }
    }

    #[test]
    fn what_is_no_guard_is_none() {
        for line in [
            "lokt guard build make",
            "lokt guards build -- x",
            "xlokt guard b -- x",
            "lokt status -- x",
            "lokt guard $N -- x",
        ] {
            assert_eq!(guards(line), [], "{line}");
        }
    }
}
