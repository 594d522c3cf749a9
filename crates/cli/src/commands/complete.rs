//! `lokt complete -- WORDS…`: what could stand where the last word is. The scripts of `lokt completions` ask it at every press of Tab,
//! so it must be quick, say nothing but candidates, and change nothing: it makes no root and takes no mutex.
//!
//! The answer is a candidate per line, with a space and a description if there is one. Or it is one line that begins with a colon, which
//! tells the shell to look by itself: `:command N` (the N-th word of the line, counted from `lokt` as 0, begins another command),
//! `:file`, `:dir`.
//!
//! Candidates come from the table of commands, from the root, from the ledger and from the repository. Shells are careless with what they are given, and an owner can be any
//! text: what isn't made of harmless characters is not offered.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Write as _;

use clap::{Arg, ValueHint};
use lokt_core::name::LockName;
use lokt_ledger::ClaimEntry;
use lokt_named::{EntryState, KnownNames, Lokt};
use lokt_worktree::repo::{Repository, WorktreeEntry};
use lokt_worktree::snapshot::LATEST;

use super::group::{Selected, select};
use super::{Row, find, rows};
use crate::args::RootArg;
use crate::context::{self, Context};
use crate::exit::Exit;
use crate::report::Report;
use crate::show::{clean, owner_at};

/// With more names than this their records are not read for a description.
const DESCRIBED_MAX: usize = 200;
/// A look at more owners than this is not worth the time.
const OWNERS_MAX: usize = 10_000;
/// Nobody chooses from more snapshots than this.
const SNAPSHOTS_MAX: usize = 200;
/// Durations as people type them.
const DURATIONS: [&str; 4] = ["30s", "5m", "30m", "1h"];

/// What the shell is told.
enum Answer {
    Candidates(Vec<Candidate>),
    /// Another command begins at this word.
    Command(usize),
    Files,
    Directories,
}

struct Candidate {
    word: String,
    about: String,
}

pub(super) fn run(words: &[OsString]) -> Report {
    let words: Vec<String> = words.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let (before, last) = words.split_last().map_or((&[][..], ""), |(last, before)| (before, last.as_str()));
    let text = match complete(before, last) {
        Answer::Command(word) => format!(":command {word}\n"),
        Answer::Files => ":file\n".to_owned(),
        Answer::Directories => ":dir\n".to_owned(),
        Answer::Candidates(candidates) => lines(candidates),
    };
    Report::new(Exit::Done).text(text)
}

fn lines(candidates: Vec<Candidate>) -> String {
    let mut text = String::new();
    for Candidate { word, about } in candidates {
        let about = clean(about.lines().next().unwrap_or_default());
        let _ = if about.is_empty() { writeln!(text, "{word}") } else { writeln!(text, "{word} {about}") };
    }
    text
}

fn complete(before: &[String], last: &str) -> Answer {
    let Some((first, rest)) = before.split_first() else { return Answer::Candidates(starting(commands(), last)) };
    let Some((_, row)) = find(first) else { return Answer::Candidates(Vec::new()) };
    let words: Vec<OsString> = rest.iter().map(Into::into).collect();
    let (row, rest, place) = match select(row, &words) {
        Selected::Command(command, at) => (command, [&rest[..at], &rest[at + 1..]].concat(), 3),
        Selected::Unknown(_) if !row.rows.is_empty() => return Answer::Candidates(Vec::new()),
        _ => (row, rest.to_vec(), 2),
    };
    let mut parser = (row.parser)();
    parser.build();
    Line::read(row.name, &parser, &rest, place).complete(last)
}

/// The words of a command up to the one that is completed.
struct Line<'a> {
    command: &'a str,
    parser: &'a clap::Command,
    /// The flag whose value comes next.
    open: Option<&'a Arg>,
    positionals: Vec<&'a str>,
    flags: Vec<&'a Arg>,
    /// Where the ledger is, if that was said.
    dir: Option<&'a str>,
    /// `--root`.
    root: RootArg,
    /// Two dashes have ended the flags, and the word after them has this place on the whole line.
    dashes: Option<usize>,
}

impl<'a> Line<'a> {
    fn read(command: &'a str, parser: &'a clap::Command, words: &'a [String], place: usize) -> Self {
        let (positionals, flags, root) = (Vec::new(), Vec::new(), RootArg::default());
        let mut line = Line { command, parser, open: None, positionals, flags, dir: None, root, dashes: None };
        for (index, word) in words.iter().enumerate() {
            if line.dashes.is_some() {
                line.positionals.push(word);
            } else if word == "=" && line.open.is_some() {
                // Bash gives `--ttl=5m` as three words.
            } else if let Some(flag) = line.open.take() {
                // The value of the flag before it.
                line.value(flag, word);
            } else if word == "--" {
                line.dashes = Some(place + index + 1);
            } else if word.starts_with('-') && word.len() > 1 {
                line.flag(word);
            } else {
                line.positionals.push(word);
            }
        }
        line
    }

    fn flag(&mut self, word: &'a str) {
        let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        let Some(flag) = self.parser.get_arguments().find(|flag| is_called(flag, name)) else { return };
        self.flags.push(flag);
        self.open = (flag.get_action().takes_values() && value.is_none()).then_some(flag);
        if let Some(value) = value {
            self.value(flag, value);
        }
    }

    fn value(&mut self, flag: &Arg, value: &'a str) {
        match flag.get_id().as_str() {
            "dir" => self.dir = Some(value),
            "root" => self.root.root = Some(value.into()),
            _ => {}
        }
    }

    fn complete(&self, last: &str) -> Answer {
        if let Some(flag) = self.open {
            return self.values(flag, if last == "=" { "" } else { last }, "");
        }
        if let Some(after) = self.dashes
            && self.parser.get_positionals().any(Arg::is_last_set)
        {
            return Answer::Command(after);
        }
        if last.starts_with('-') && self.dashes.is_none() {
            if let Some((name, value)) = last.split_once('=')
                && let Some(flag) = self.parser.get_arguments().find(|flag| is_called(flag, name))
            {
                return self.values(flag, value, &format!("{name}="));
            }
            return Answer::Candidates(starting(self.flag_candidates(), last));
        }
        if self.parser.has_subcommands() {
            let subcommands = self.parser.get_subcommands().filter(|sub| !sub.is_hide_set());
            let one = |sub: &clap::Command| Candidate::new(sub.get_name(), sub.get_about());
            return Answer::Candidates(starting(subcommands.map(one), last));
        }
        let words: Vec<&Arg> = self.parser.get_positionals().filter(|word| !word.is_last_set()).collect();
        let many = |word: &Arg| word.get_num_args().is_some_and(|number| number.max_values() > 1);
        let word = words.get(self.positionals.len()).or_else(|| words.last().filter(|word| many(word)));
        word.map_or(Answer::Candidates(Vec::new()), |word| self.values(word, last, ""))
    }

    fn flag_candidates(&self) -> impl Iterator<Item = Candidate> {
        let unused = |flag: &&Arg| !flag.is_hide_set() && !self.flags.iter().any(|used| used.get_id() == flag.get_id());
        self.parser.get_arguments().filter(unused).filter_map(|flag| {
            let name = flag.get_long().map(|long| format!("--{long}"));
            let name = name.or_else(|| flag.get_short().map(|short| format!("-{short}")))?;
            Some(Candidate::new(&name, flag.get_help()))
        })
    }

    /// What an argument could be; `prefix` is what stands before the value in the same word.
    fn values(&self, arg: &Arg, last: &str, prefix: &str) -> Answer {
        match arg.get_value_hint() {
            ValueHint::AnyPath | ValueHint::FilePath | ValueHint::ExecutablePath => return Answer::Files,
            ValueHint::DirPath => return Answer::Directories,
            _ => {}
        }
        let possible = arg.get_possible_values();
        let candidates: Vec<Candidate> = if possible.is_empty() {
            self.known_values(arg.get_id().as_str())
        } else {
            let shown = possible.iter().filter(|value| !value.is_hide_set());
            shown.map(|value| Candidate::new(value.get_name(), value.get_help())).collect()
        };
        let with_prefix = |candidate: Candidate| Candidate { word: format!("{prefix}{}", candidate.word), ..candidate };
        Answer::Candidates(starting(candidates, last).into_iter().map(with_prefix).collect())
    }

    /// What is known at this moment, or by heart.
    fn known_values(&self, arg: &str) -> Vec<Candidate> {
        match arg {
            "name" | "names" => self.names(),
            "nodes" => {
                self.claims(|entry| (!self.positionals.contains(&entry.node.as_str())).then(|| entry.node.clone()))
            }
            "owner" if self.command.starts_with("claim ") => self.claims(|entry| Some(entry.holder.hold.owner.clone())),
            "token" if self.command.starts_with("claim ") => self.claims(|entry| {
                let token = entry.holder.hold.token.filter(|_| self.positionals.contains(&entry.node.as_str()));
                token.map(|token| token.to_string())
            }),
            "worktree" | "old_worktree" => worktrees(),
            "owner" | "token" if ["lease ", "snapshot "].iter().any(|group| self.command.starts_with(group)) => {
                Vec::new()
            }
            "snapshot_id" | "other_snapshot_id" => self.snapshots(),
            "lease" | "renew" | "skew" | "grace" | "keep_within" => DURATIONS.map(Candidate::bare).into(),
            "owner" => self.root().map(|lokt| owners(&lokt)).unwrap_or_default(),
            "lock_id" => self.of_the_hold(|hold| Some(hold.lock_id.to_string())),
            "token" => self.of_the_hold(|hold| hold.token.map(|token| token.to_string())),
            "ttl" => DURATIONS.map(Candidate::bare).into(),
            "timeout" => DURATIONS.into_iter().chain(["0", "never"]).map(Candidate::bare).collect(),
            "command" => match self.positionals.first().and_then(|group| find(group)) {
                None => commands(),
                Some((_, group)) => {
                    group.rows.iter().map(|row| Candidate::new(row.word(), about(row).as_ref())).collect()
                }
            },
            _ => Vec::new(),
        }
    }

    /// The root, if there is one and it can be used.
    fn root(&self) -> Option<Lokt> {
        Context::read(&self.root).ok()?.open().ok().flatten()
    }

    /// Names that the command could be about, but for those that it has been given already.
    fn names(&self) -> Vec<Candidate> {
        let Some(lokt) = self.root() else { return Vec::new() };
        let KnownNames { locked, frozen, awaited } = lokt.inspect().known_names().unwrap_or_default();
        let names: BTreeSet<LockName> = match self.command {
            "unlock" => locked.into_iter().collect(),
            "unfreeze" => frozen.into_iter().collect(),
            _ => locked.into_iter().chain(frozen).chain(awaited).collect(),
        };
        let described = names.len() <= DESCRIBED_MAX;
        let new = names.into_iter().filter(|name| !self.positionals.contains(&name.as_str()));
        let one = |name: LockName| Candidate {
            about: if described { describe(&lokt, &name) } else { String::new() },
            word: name.to_string(),
        };
        new.map(one).collect()
    }

    /// Something about the claims in the ledger, each once.
    fn claims(&self, what: impl Fn(&ClaimEntry) -> Option<String>) -> Vec<Candidate> {
        let claims = super::ledger::place::claims_in(self.dir.unwrap_or(".").as_ref());
        let mut candidates: Vec<Candidate> = Vec::new();
        for entry in claims.iter().take(OWNERS_MAX) {
            let Some(word) = what(entry).filter(|word| is_harmless(word)) else { continue };
            let expired = if entry.holder.lives() { "" } else { ", expired" };
            let about = format!("claimed by {}{expired}", clean(&entry.holder.hold.owner));
            if candidates.iter().all(|candidate| candidate.word != word) {
                candidates.push(Candidate { word, about });
            }
        }
        candidates
    }

    /// The snapshots of the repository that we are in, the newest first, but for one that is given already.
    fn snapshots(&self) -> Vec<Candidate> {
        let catalog = repository().and_then(|repo| repo.snapshots().catalog().ok()).unwrap_or_default();
        let ids = catalog.snapshots.into_iter().map(|listed| listed.descriptor).map(|descriptor| {
            let note = descriptor.note.unwrap_or_default();
            Candidate {
                about: format!("{} {note}", descriptor.worktree).trim_end().to_owned(),
                word: descriptor.id.to_string(),
            }
        });
        let latest = Candidate { word: LATEST.to_owned(), about: "where the worktree is".to_owned() };
        let all = ids.take(SNAPSHOTS_MAX).chain([latest]);
        all.filter(|candidate| !self.positionals.contains(&candidate.word.as_str())).collect()
    }

    /// Something about the hold of the name that was given.
    fn of_the_hold(&self, what: fn(&lokt_core::hold::Hold) -> Option<String>) -> Vec<Candidate> {
        let name = self.positionals.first().and_then(|name| LockName::new(name).ok());
        let entry = name.and_then(|name| self.root()?.inspect().entry(&name).ok().flatten());
        let Some(EntryState::Held(holder)) = entry.map(|entry| entry.state) else { return Vec::new() };
        let value = what(&holder.hold).filter(|value| is_harmless(value));
        value.map(|word| Candidate { word, about: format!("held by {}", owner_at(&holder.hold)) }).into_iter().collect()
    }
}

impl Candidate {
    fn new(word: &str, about: Option<&clap::builder::StyledStr>) -> Self {
        Self { word: word.to_owned(), about: about.map(ToString::to_string).unwrap_or_default() }
    }

    fn bare(word: &str) -> Self {
        Self::new(word, None)
    }
}

fn commands() -> Vec<Candidate> {
    let names =
        rows().flat_map(|row| std::iter::once((row.name, row)).chain(row.aliases.iter().map(move |name| (*name, row))));
    names.map(|(name, row)| Candidate::new(name, about(row).as_ref())).collect()
}

fn about(row: &Row) -> Option<clap::builder::StyledStr> {
    (row.parser)().get_about().cloned()
}

/// Those that `typed` is the beginning of. Flags are in the way unless one begins with a dash.
fn starting(candidates: impl IntoIterator<Item = Candidate>, typed: &str) -> Vec<Candidate> {
    let fits = |word: &str| word.starts_with(typed) && (typed.starts_with('-') || !word.starts_with('-'));
    candidates.into_iter().filter(|candidate| fits(&candidate.word)).collect()
}

fn is_called(flag: &Arg, name: &str) -> bool {
    let long = name.strip_prefix("--").is_some_and(|long| flag.get_long() == Some(long));
    let mut short = name.strip_prefix('-').unwrap_or_default().chars();
    long || (flag.get_short().is_some() && short.next() == flag.get_short() && short.next().is_none())
}

fn describe(lokt: &Lokt, name: &LockName) -> String {
    match lokt.inspect().entry(name).ok().flatten().map(|entry| entry.state) {
        Some(EntryState::Held(holder)) if holder.lives() => format!("held by {}", owner_at(&holder.hold)),
        Some(EntryState::Held(_)) => "stale".to_owned(),
        Some(_) => "damaged".to_owned(),
        None => String::new(),
    }
}

fn owners(lokt: &Lokt) -> Vec<Candidate> {
    if lokt.inspect().known_names().is_ok_and(|names| names.locked.len() > OWNERS_MAX) {
        return Vec::new();
    }
    let owner = |entry: lokt_named::Entry| match entry.state {
        EntryState::Held(holder) => Some(holder.hold.owner),
        _ => None,
    };
    let owners: BTreeSet<String> =
        lokt.inspect().map_entries(owner).unwrap_or_default().into_iter().flatten().collect();
    owners.into_iter().filter(|owner| is_harmless(owner)).map(|owner| Candidate::bare(&owner)).collect()
}

/// The repository that we are in.
fn repository() -> Option<Repository> {
    context::caller(None).ok().and_then(|me| Repository::find(&context::current_dir().ok()?, me).ok()?)
}

/// The worktrees of the repository that we are in.
fn worktrees() -> Vec<Candidate> {
    let entries = repository().and_then(|repo| repo.worktrees().ok()).unwrap_or_default();
    let one = |entry: WorktreeEntry| Candidate {
        word: entry.name.to_string(),
        about: entry.problem.unwrap_or_else(|| entry.isolation.as_str().to_owned()),
    };
    entries.into_iter().map(one).collect()
}

/// Nothing in it means something to a shell.
fn is_harmless(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('-') && text.chars().all(|c| c.is_alphanumeric() || "._-@+".contains(c))
}
