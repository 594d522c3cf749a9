//! One file per command. Each says what its arguments are, asks the library, and returns a report.
//!
//! [`SECTIONS`] is the table of all commands. Dispatch, help, completions and man pages are made from it, so a command that has its row
//! there is everywhere. The rows are functions: only the parser of the command that runs is built, because that takes longer than a lock.
//! Commands about one thing are a group: one word selects the group, the next one the command.

mod audit;
mod audit_table;
mod checkup;
mod claim;
mod complete;
mod completions;
mod deny;
mod doctor;
mod doctor_strict;
mod exists;
mod fence;
mod flock_habits;
mod freeze;
mod group;
mod guard;
mod help;
mod lease;
mod ledger;
mod lock;
mod man;
mod parse;
mod prime;
mod publish;
mod queue;
mod root;
mod runner;
mod snapshot;
mod status;
mod status_table;
mod torture;
mod torture_text;
mod unfreeze;
mod unlock;
mod version;
mod waiting;
mod watch;
mod watch_frame;
mod why;
mod worktree;

use std::ffi::OsString;

use crate::paint;
use crate::report::{Format, Report};

/// A command, or a group of commands.
pub(crate) struct Row {
    /// What is typed after `lokt`: of a command of a group, two words.
    name: &'static str,
    /// Other words for it.
    aliases: &'static [&'static str],
    /// The commands of a group.
    rows: &'static [Row],
    /// Its arguments, as they are read and explained.
    parser: fn() -> clap::Command,
    /// Runs it, given the word it was called by and those after it.
    run: fn(&'static str, &[OsString]) -> Report,
}

/// Commands that people look for together.
pub(crate) struct Section {
    title: &'static str,
    rows: &'static [Row],
}

impl Row {
    /// The word that selects it: of a command of a group, the second one.
    fn word(&self) -> &'static str {
        self.name.rsplit(' ').next().unwrap_or(self.name)
    }
}

/// The command of a module with `Args` and `run`; with a group, of a module in the group's.
macro_rules! row {
    ($group:ident $module:ident) => {
        row!(@ $group, $module, concat!(stringify!($group), " ", stringify!($module)))
    };
    // A word that can't be a module's name.
    ($group:ident $module:ident as $word:literal) => {
        row!(@ $group, $module, concat!(stringify!($group), " ", $word))
    };
    (@ $group:ident, $module:ident, $name:expr) => {
        Row {
            name: $name,
            aliases: &[],
            rows: &[],
            parser: || parse::parser::<$group::$module::Args>($name),
            run: |_, rest| parse::parsed($name, rest, $group::$module::run),
        }
    };
    ($module:ident $(, $alias:literal)*) => {
        Row {
            name: stringify!($module),
            aliases: &[$($alias),*],
            rows: &[],
            parser: || parse::parser::<$module::Args>(stringify!($module)),
            run: |_, rest| parse::parsed(stringify!($module), rest, $module::run),
        }
    };
}

/// A group of commands, each a module in the group's.
macro_rules! group {
    ($group:ident: $($module:ident $(as $word:literal)?),+) => {
        Row {
            name: stringify!($group),
            aliases: &[],
            rows: &[$(row!($group $module $(as $word)?)),+],
            parser: || group::parser(stringify!($group), $group::ABOUT),
            run: group::run,
        }
    };
}

/// Every command, in the order of the help.
const SECTIONS: &[Section] = &[
    Section {
        title: "Commands",
        rows: &[
            Row {
                name: "guard",
                aliases: &["run"],
                rows: &[],
                parser: || parse::parser::<guard::Args>("guard"),
                run: guard::dispatch,
            },
            row!(lock),
            row!(unlock),
        ],
    },
    Section {
        title: "Stopping everybody, and keeping the late from writing",
        rows: &[row!(freeze), row!(unfreeze), row!(fence), row!(publish)],
    },
    Section {
        title: "Who holds what, and why",
        rows: &[row!(status), row!(queue), row!(exists), row!(why), row!(audit), row!(doctor), row!(torture)],
    },
    Section {
        title: "A log of events that other programs share, and who works on what",
        rows: &[
            group!(ledger: init, append, show, head, follow, verify, checkpoint, doctor, export),
            group!(claim: take, release, extend, reap, list, run),
        ],
    },
    Section {
        title: "Worktrees side by side, each with one writer, and snapshots of them",
        rows: &[
            group!(worktree: init, create, list, rename, remove),
            group!(lease: acquire, renew, steal, release, status, breaking as "break", run, fence, audit),
            group!(snapshot: create, history, info, show, diff, restore, verify, pin, unpin, gc),
        ],
    },
    Section {
        title: "About lokt",
        rows: &[
            row!(prime),
            row!(completions),
            row!(man),
            row!(root),
            row!(version, "--version", "-V"),
            Row {
                name: "help",
                aliases: &["--help", "-h"],
                rows: &[],
                parser: help::parser,
                run: |_, topics| help::about(topics),
            },
        ],
    },
];

/// Commands that do nothing but answer: if the answer can't be written, they have failed. Those that change something as well, with a flag
/// or an action, say so in their report. Every other command keeps the exit code of what it did. `help` isn't parsed like the others.
pub(super) const READERS: &[&str] = &[
    "audit",
    "claim list",
    "completions",
    "doctor",
    "exists",
    "fence",
    "lease audit",
    "lease fence",
    "lease status",
    "ledger checkpoint",
    "ledger doctor",
    "ledger export",
    "ledger follow",
    "ledger head",
    "ledger show",
    "ledger verify",
    "man",
    "prime",
    "queue",
    "root",
    "snapshot diff",
    "snapshot gc",
    "snapshot history",
    "snapshot info",
    "snapshot show",
    "snapshot verify",
    "status",
    "version",
    "why",
    "worktree list",
];

/// Runs the command that the words ask for.
pub(crate) fn run(words: &[OsString]) -> Report {
    paint::choose(words);
    let Some((first, rest)) = words.split_first() else { return help::no_command() };
    match first.to_str().and_then(find) {
        Some((word, row)) => (row.run)(word, rest),
        // What the scripts of `completions` call; for nobody to type, so it isn't in the table.
        None if first == "complete" => complete::run(rest),
        None => help::unknown(first, Format::of(first == "--json" || parse::asks_for_json(rest))),
    }
}

/// The command or group of that name, and the name as it is in the table.
fn find(word: &str) -> Option<(&'static str, &'static Row)> {
    rows().find_map(|row| {
        let mut names = std::iter::once(&row.name).chain(row.aliases);
        names.find(|name| **name == word).map(|name| (*name, row))
    })
}

/// Every command and group.
fn rows() -> impl Iterator<Item = &'static Row> {
    SECTIONS.iter().flat_map(|section| section.rows)
}

/// Every command and group, each group with its commands after it.
fn all_rows() -> impl Iterator<Item = &'static Row> {
    rows().flat_map(|row| std::iter::once(row).chain(row.rows))
}

#[cfg(test)]
mod tests {
    use super::{READERS, all_rows, rows};

    #[test]
    fn every_command_either_only_answers_or_changes_something() {
        let changing = [
            "guard",
            "lock",
            "unlock",
            "freeze",
            "unfreeze",
            "publish",
            "torture",
            "ledger init",
            "ledger append",
            "claim take",
            "claim release",
            "claim extend",
            "claim reap",
            "claim run",
            "worktree init",
            "worktree create",
            "worktree rename",
            "worktree remove",
            "lease acquire",
            "lease renew",
            "lease steal",
            "lease release",
            "lease break",
            "lease run",
            "snapshot create",
            "snapshot restore",
            "snapshot pin",
            "snapshot unpin",
        ];
        let mut known: Vec<&str> = READERS.iter().chain(&changing).copied().collect();
        known.sort_unstable();
        let commands = all_rows().filter(|row| row.rows.is_empty() && row.name != "help");
        let mut names: Vec<&str> = commands.map(|row| row.name).collect();
        names.sort_unstable();
        assert_eq!(known, names, "a command is in READERS, or in the list of this test");
    }

    #[test]
    fn every_command_explains_itself_in_one_line_and_has_a_sound_parser() {
        for row in all_rows() {
            let parser = (row.parser)();
            let about = parser.get_about().unwrap_or_else(|| panic!("{} says what it does", row.name)).to_string();
            assert!(
                !about.contains('\n') && !about.ends_with('.'),
                "{}: one line, without a full stop: {about}",
                row.name
            );
            parser.debug_assert();
        }
    }

    #[test]
    fn no_two_commands_have_a_name_in_common() {
        let mut names: Vec<_> = all_rows().flat_map(|row| row.aliases.iter().chain([&row.name])).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "every word is one command's: {names:?}");
        assert!(rows().all(|row| !row.name.contains(' ')), "only commands of a group have two words");
    }
}
