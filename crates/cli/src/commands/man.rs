//! `lokt man`: manual pages, made from the table of commands, so that they say what `--help` says; with exit codes, environment, files
//! and examples.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Arg, ValueHint};
use serde::Serialize;

use super::{Row, SECTIONS, all_rows, find, help};
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};
use crate::roff::Page;
use crate::show::clean;

/// Print the manual page of lokt or of a command
#[derive(clap::Parser)]
#[command(
    after_help = "Read one with `lokt man guard | man -l -`. Install all with `lokt man --dir ~/.local/share/man/man1`."
)]
pub(crate) struct Args {
    /// The command, of a group with the group's name before it; without it, lokt itself
    #[arg(value_name = "COMMAND", num_args = 0..=2)]
    command: Vec<String>,
    /// Write all pages into this directory, which is made if it is missing
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "command")]
    dir: Option<PathBuf>,
}

#[derive(Serialize)]
struct Printed {
    page: String,
    text: String,
}

#[derive(Serialize)]
struct Written {
    dir: String,
    pages: Vec<String>,
}

/// What is read from the environment, and what a guarded command finds there.
const ENVIRONMENT: [(&str, &str); 9] = [
    (
        "LOKT_ROOT",
        "The root directory. Otherwise it is `lokt` in the common directory of the git repository, else the nearest `.lokt` upwards, else \
         `.lokt` here. `lokt root` says which.",
    ),
    (
        "LOKT_OWNER",
        "Who takes locks, by default whoever is logged in. Equal owners share what `lokt lock` takes: give each agent its own.",
    ),
    ("LOKT_AGENT_ID", "Which agent of that owner; shown, and not compared."),
    (
        "LOKT_EXIT_CONFLICT",
        "The exit code of `lokt guard`, `lokt claim run` and `lokt lease run` when they are refused, instead of 2; `-E` wins.",
    ),
    (
        "LOKT_NAME, LOKT_LOCK_ID, LOKT_FENCING_TOKEN, LOKT_HOLDS",
        "Set for the command of a guard: the lock's name, the id of the hold, its fencing token, and all that the command runs under.",
    ),
    (
        "LOKT_CLAIM_NODE, LOKT_CLAIM_TOKEN, LOKT_LEDGER_DIR",
        "Set for the command of `lokt claim run`: the node, the token of the claim, and the directory that contains the ledger.",
    ),
    ("LOKT_SESSION", "The file that makes one the holder of a worktree's lease, if `--session` doesn't say."),
    (
        "XDG_RUNTIME_DIR, XDG_STATE_HOME, HOME",
        "Where session files are otherwise: in `lokt` in the first, if it is one's own, else in `lokt/sessions` in the second, else in \
         `.local/state/lokt/sessions` in the third.",
    ),
    (
        "LOKT_LEASE_WORKTREE, LOKT_LEASE_TOKEN, LOKT_LEASE_REPO, LOKT_LEASE_REPO_ID",
        "Set for the command of `lokt lease run`: the worktree, the token of its lease, and the top and the id of the repository.",
    ),
];

const FILES: [(&str, &str); 15] = [
    ("ROOT/locks/NAME.json", "A record: present means held."),
    ("ROOT/freezes/NAME.json", "A freeze: while it lasts nothing is granted under that name."),
    ("ROOT/audit.log", "What happened, one JSON object per line; `audit.log.1` and so on are older."),
    ("ROOT/state/", "The token counter, who waits, and what was set aside."),
    ("DIR/ledger/event-NNNNNN.json", "An event; in a native ledger `NNNNNN.json`."),
    ("DIR/ledger/.lokt/", "What lokt knows about the ledger: its settings, and what can be found out again."),
    ("REPOSITORY/main, REPOSITORY/worktrees/NAME", "The worktrees."),
    (
        "REPOSITORY/.jvs/locks/NAME.lock",
        "Who holds the lease of a worktree, for whoever looks; missing when it is free.",
    ),
    ("REPOSITORY/.jvs/locks/NAME.lock.d/", "What decides who holds it."),
    (
        "REPOSITORY/.jvs/audit/audit.jsonl",
        "What happened to leases and worktrees; each line vouches for those before it.",
    ),
    ("REPOSITORY/.jvs/snapshots/ID", "The files of a snapshot; `ID.manifest` and `ID.ready` beside it."),
    ("REPOSITORY/.jvs/descriptors/ID.json", "What a snapshot is."),
    ("REPOSITORY/.jvs/trash", "What was restored over or removed, for an hour at least."),
    ("WORKTREE/.lokt-ignore", "What snapshots leave out, in the syntax of .gitignore."),
    ("REPOSITORY/.jvs/config.json", "How long leases last here: `lease_ms`, `renew_ms`, `skew_ms`, `grace_ms`."),
];

/// What to type, by command; for lokt itself under its own name.
const EXAMPLES: [(&str, &[(&str, &str)]); 42] = [
    (
        "lokt",
        &[
            ("Only one of us builds; the others are told who does.", "lokt guard build -- make"),
            ("Wait in line for it instead.", "lokt guard build --wait -- make"),
            ("Who holds what?", "lokt status"),
        ],
    ),
    (
        "guard",
        &[
            (
                "Wait for at most two minutes, and hold a lease that is renewed while the command runs.",
                "lokt guard build --ttl 5m --timeout 2m -- make",
            ),
            ("Two commands under one lock need a shell.", "lokt guard build -- sh -c 'make && make install'"),
            (
                "Hand the fencing token to whatever is written to.",
                "lokt guard build -- sh -c 'echo \"$LOKT_FENCING_TOKEN\"'",
            ),
        ],
    ),
    (
        "lock",
        &[
            (
                "Take a lock that ends by itself after half an hour.",
                "lokt lock review --ttl 30m --reason 'reviewing the release'",
            ),
            ("Take a lock that ends with this shell.", "lokt lock workspace --bind $$"),
        ],
    ),
    ("unlock", &[("Give it back.", "lokt unlock review"), ("Give back everything of mine.", "lokt unlock --all")]),
    ("status", &[("Everything that is held or frozen, for a program.", "lokt status --json")]),
    ("queue", &[("Who waits for a lock?", "lokt queue build")]),
    ("why", &[("What would `lokt lock` say, and what can be done?", "lokt why build")]),
    (
        "freeze",
        &[
            (
                "Nothing new is deployed for an hour; wait until what runs has ended.",
                "lokt freeze deploy --ttl 1h --reason 'release 1.2' --drain",
            ),
            ("And go on.", "lokt unfreeze deploy"),
        ],
    ),
    ("unfreeze", &[("End one's own freeze, if there is one.", "lokt unfreeze deploy || true")]),
    (
        "fence",
        &[("Is the lock still ours? Inside a guard.", "lokt guard build -- sh -c 'lokt fence check && echo ours'")],
    ),
    (
        "publish",
        &[(
            "Replace a file only while the lock is ours. Inside a guard.",
            "lokt guard site -- sh -c 'echo new > page.tmp && lokt publish site page.tmp page.html'",
        )],
    ),
    (
        "audit",
        &[
            ("What happened to a lock in the last hour?", "lokt audit --since 1h --name build"),
            ("Who took a lock from whom?", "lokt audit --event force-break --event stale-break"),
        ],
    ),
    ("doctor", &[("What is wrong with the root?", "lokt doctor"), ("Repair what is safe.", "lokt doctor --fix")]),
    (
        "torture",
        &[
            (
                "Is this directory's file system safe for locks, and how fast are they there?",
                "lokt torture --seconds 2",
            ),
            ("What would it say if locks didn't work?", "lokt torture --without-locks --seconds 1 || echo 'not safe'"),
        ],
    ),
    ("exists", &[("Go on only if nobody holds it.", "lokt exists build || echo free")]),
    (
        "ledger",
        &[
            (
                "A ledger in this directory, and the first event in it.",
                "lokt ledger init && lokt ledger append '{\"type\":\"note\",\"text\":\"hello\"}'",
            ),
            ("What happened?", "lokt ledger show"),
        ],
    ),
    (
        "ledger append",
        &[
            (
                "Append only if nobody else has since you looked.",
                "lokt ledger append --expect-seq \"$(lokt ledger head)\" '{\"type\":\"decided\"}'",
            ),
            ("Try again safely after a timeout.", "lokt ledger append --id job-17 '{\"type\":\"job_done\"}'"),
            ("Many events at once.", "{ echo '{\"type\":\"a\"}'; echo '{\"type\":\"b\"}'; } | lokt ledger append"),
        ],
    ),
    ("ledger show", &[("The last three, for a program.", "lokt ledger show --reverse --limit 3 --json")]),
    (
        "ledger verify",
        &[(
            "Are the events of yesterday still there?",
            "point=$(lokt ledger checkpoint) && lokt ledger verify --checkpoint \"$point\"",
        )],
    ),
    ("ledger export", &[("Everything in one file.", "lokt ledger export --output events.jsonl")]),
    (
        "claim",
        &[
            ("Only one of us works on this node.", "lokt claim run 1.2 -- make"),
            ("Who works on what?", "lokt claim list"),
        ],
    ),
    (
        "claim take",
        &[
            ("The first that is free, for ten minutes.", "lokt claim take --any 1.1 1.2 1.3 --ttl 10m"),
            ("Wait for it.", "lokt claim take 2.1 --timeout 1m"),
        ],
    ),
    (
        "claim run",
        &[(
            "The command appends under the claim that it runs under.",
            "echo '{\"type\":\"done\"}' > done.jsonl && lokt claim run 1.4 -- sh -c 'lokt ledger append -d \"$LOKT_LEDGER_DIR\" --token \"$LOKT_CLAIM_TOKEN\" --file done.jsonl'",
        )],
    ),
    ("claim reap", &[("What would be ended?", "lokt claim reap --dry-run")]),
    (
        "worktree",
        &[
            (
                "A repository in this directory, and a worktree for somebody else.",
                "lokt worktree init && lokt worktree create feature",
            ),
            ("Which are there?", "lokt worktree list"),
        ],
    ),
    ("worktree create", &[("One without leases, for everybody.", "lokt worktree create notes --isolation shared")]),
    ("worktree rename", &[("Another name.", "lokt worktree rename feature release-1.2")]),
    ("worktree remove", &[("With everything in it.", "lokt worktree remove release-1.2 --force")]),
    (
        "lease",
        &[
            ("Only one of us writes here, until this ends.", "lokt lease run -- make"),
            ("The same over several commands.", "lokt lease acquire"),
            ("Who writes where?", "lokt lease status --all"),
            ("Give it back.", "lokt lease release"),
        ],
    ),
    (
        "lease run",
        &[(
            "Publish what was made, unless somebody else writes here by then.",
            "lokt lease run --timeout 1m -- sh -c 'echo new > page.tmp && lokt lease fence publish page.tmp page.html'",
        )],
    ),
    (
        "lease acquire",
        &[
            (
                "Wait for it for at most a minute, and say what for.",
                "lokt lease acquire --timeout 1m --lease 5m --purpose 'a long rebase'",
            ),
            ("Keep it.", "lokt lease renew"),
            ("Give it back.", "lokt lease release"),
        ],
    ),
    ("lease status", &[("All of them, for a program.", "lokt lease status --all --json")]),
    (
        "lease fence",
        &[(
            "Publish only while the lease is ours.",
            "lokt lease run -- sh -c 'echo new > page.tmp && lokt lease fence publish page.tmp page.html'",
        )],
    ),
    (
        "lease break",
        &[(
            "Its holder is gone for good.",
            "lokt lease acquire && lokt lease break --force --reason 'that machine was given away'",
        )],
    ),
    (
        "lease audit",
        &[("The last three events.", "lokt lease audit --last 3"), ("Is it whole?", "lokt lease audit --verify")],
    ),
    (
        "snapshot",
        &[
            (
                "Before a risky step, while nobody else writes here.",
                "lokt snapshot create --acquire --note 'before the upgrade'",
            ),
            ("Which are there?", "lokt snapshot history"),
            ("What was changed since?", "lokt snapshot diff latest"),
            ("Back to it.", "lokt snapshot restore latest --in-place --force --acquire"),
        ],
    ),
    (
        "snapshot create",
        &[
            ("Under the lease of a command.", "lokt lease run -- lokt snapshot create"),
            ("Whatever is being written.", "lokt snapshot create --acquire --consistency best_effort"),
        ],
    ),
    (
        "snapshot history",
        &[("The last three of all worktrees, for a program.", "lokt snapshot history -n 3 --all --json")],
    ),
    (
        "snapshot diff",
        &[("Go on only if nothing was changed.", "lokt snapshot diff latest --exit-code || echo changed")],
    ),
    (
        "snapshot restore",
        &[
            ("Beside what is there.", "lokt snapshot restore latest --into before"),
            ("What would change?", "lokt snapshot restore latest --in-place --dry-run"),
        ],
    ),
    ("snapshot verify", &[("Are all of them what they were?", "lokt snapshot verify --all")]),
    (
        "snapshot gc",
        &[
            ("What would go?", "lokt snapshot gc plan --keep-last 10 --keep-within 7d"),
            ("Let it go.", "lokt snapshot gc run --keep-last 10 --keep-within 7d"),
        ],
    ),
];

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    if let Some(dir) = &args.dir {
        return install(dir, format).map(Report::changes);
    }
    let words: Vec<&str> = args.command.iter().map(String::as_str).collect();
    let row = match (words.as_slice(), words.first().and_then(|word| find(word))) {
        ([] | ["lokt"], _) => None,
        ([_], Some((_, row))) => Some(row),
        ([word, ..], None) => return Ok(help::unknown(word.as_ref(), format)),
        ([_, word, ..], Some((_, group))) => match group.rows.iter().find(|row| row.word() == *word) {
            Some(row) => Some(row),
            None if group.rows.is_empty() => {
                return Err(Failure::usage(format!("unexpected argument '{}' found", clean(word)))
                    .hint(format!("`lokt man {}` prints its page", group.name)));
            }
            None => return Ok(help::unknown_in(Some(group), word.as_ref(), format)),
        },
    };
    let (page, text) = row.map_or_else(main_page, command_page);
    let report = Report::new(Exit::Done);
    Ok(match format {
        Format::Json => report.json(&Printed { page, text }),
        Format::Text => report.text(text),
    })
}

fn install(dir: &Path, format: Format) -> Result<Report, Failure> {
    let cant = |what: &str, path: &Path, error: &std::io::Error| {
        Failure::io(format!("{what} {}: {error}", path.display()), Some("choose a directory that you may write to"))
    };
    fs::create_dir_all(dir).map_err(|error| cant("make", dir, &error))?;
    let mut pages = Vec::new();
    for (name, text) in std::iter::once(main_page()).chain(all_rows().map(command_page)) {
        let path = dir.join(&name);
        #[expect(clippy::disallowed_methods, reason = "a page is no record: it is made anew when it is damaged")]
        fs::write(&path, text).map_err(|error| cant("write", &path, &error))?;
        pages.push(name);
    }
    let report = Report::new(Exit::Done);
    let dir = dir.to_string_lossy();
    Ok(match format {
        Format::Text => report.text(format!("{} pages in {}\n", pages.len(), clean(&dir))),
        Format::Json => report.json(&Written { dir: dir.into_owned(), pages }),
    })
}

/// The page of lokt: its file name and its text.
fn main_page() -> (String, String) {
    let mut page = Page::new("lokt");
    page.section("NAME");
    page.line("lokt - locks with leases and fencing tokens, in plain files");
    page.section("SYNOPSIS");
    page.line("`lokt` COMMAND [FLAGS] [ARGUMENTS]");
    page.section("DESCRIPTION");
    page.line(
        "lokt keeps agents, terminals, CI jobs and scripts from working on the same thing at the same time: named locks with leases, \
         fencing tokens and an audit log, in plain files, without a daemon.",
    );
    page.paragraph("Flags may stand anywhere before `--`. Every command but `help` takes `--json`.");
    page.paragraph(
        "A duration is written like `90`, `1500ms`, `90s`, `5m`, `1h30m` or `2d`; a number alone is seconds.",
    );
    page.section("COMMANDS");
    for section in SECTIONS {
        page.subsection(section.title);
        for row in section.rows {
            page.entry(&format!("{}(1)", page_name(row)), &about(row));
        }
    }
    common_sections(&mut page, "lokt");
    page.section("FILES");
    for (path, meaning) in FILES {
        page.entry(path, meaning);
    }
    ("lokt.1".to_owned(), page.finish())
}

/// The page of a command: its file name and its text.
fn command_page(row: &'static Row) -> (String, String) {
    let mut parser = (row.parser)();
    parser.build();
    let name = page_name(row);
    let mut page = Page::new(&name);
    page.section("NAME");
    page.line(&format!("{name} - {}", about(row).replace('`', "")));
    page.section("SYNOPSIS");
    synopsis(&mut page, &mut parser);
    page.section("DESCRIPTION");
    page.line(&format!(
        "{}.",
        parser.get_long_about().or(parser.get_about()).map(ToString::to_string).unwrap_or_default()
    ));
    for alias in row.aliases {
        page.paragraph(&format!("`lokt {alias}` is the same."));
    }
    arguments(&mut page, &parser);
    if !row.rows.is_empty() {
        page.section("COMMANDS");
    }
    for command in row.rows {
        page.entry(&format!("{}(1)", page_name(command)), &about(command));
    }
    if let Some(notes) = parser.get_after_help() {
        page.section("NOTES");
        for line in notes.to_string().lines() {
            page.paragraph(line);
        }
    }
    common_sections(&mut page, row.name);
    page.section("SEE ALSO");
    page.line(&see_also(row));
    (format!("{name}.1"), page.finish())
}

/// What a command's page is called, without its section.
fn page_name(row: &Row) -> String {
    format!("lokt-{}", row.name.replace(' ', "-"))
}

/// Pages beside this one.
fn see_also(row: &Row) -> String {
    let group = row.name.split_once(' ').map(|(group, _)| format!(", `lokt-{group}`(1)"));
    format!("`lokt`(1){}", group.unwrap_or_default())
}

/// The summary of a command.
fn about(row: &Row) -> String {
    (row.parser)().get_about().map(ToString::to_string).unwrap_or_default()
}

fn synopsis(page: &mut Page, parser: &mut clap::Command) {
    let usage = parser.render_usage().to_string();
    page.line(usage.trim_start_matches("Usage:"));
}

fn arguments(page: &mut Page, parser: &clap::Command) {
    let (words, flags): (Vec<&Arg>, Vec<&Arg>) =
        parser.get_arguments().filter(|arg| !arg.is_hide_set()).partition(|arg| arg.is_positional());
    for (title, arguments) in [("ARGUMENTS", words), ("OPTIONS", flags)] {
        if !arguments.is_empty() {
            page.section(title);
        }
        for argument in arguments {
            page.entry(&term(argument), &meaning(argument));
        }
    }
}

/// `-E, --conflict-exit-code <CODE>`
fn term(argument: &Arg) -> String {
    match (argument.get_short(), argument.get_long()) {
        (Some(short), Some(_)) => format!("-{short}, {argument}"),
        _ => argument.to_string(),
    }
}

/// What an argument is for, and which values it can have.
fn meaning(argument: &Arg) -> String {
    if argument.get_id() == "help" {
        // Its own text speaks of the other form of itself.
        return "Show this as a short text.".to_owned();
    }
    let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut text = format!("{help}.");
    let values: Vec<_> = argument.get_possible_values().into_iter().filter(|value| !value.is_hide_set()).collect();
    let named: Vec<String> = values
        .iter()
        .map(|value| match value.get_help() {
            Some(help) => format!("`{}` ({help})", value.get_name()),
            None => format!("`{}`", value.get_name()),
        })
        .collect();
    if argument.get_action().takes_values() && !named.is_empty() {
        text = format!("{text} One of {}.", named.join(", "));
    }
    let defaults: Vec<_> = argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if argument.get_action().takes_values() && !defaults.is_empty() {
        text = format!("{text} The default is `{}`.", defaults.join(" "));
    }
    text
}

fn common_sections(page: &mut Page, name: &str) {
    if let Some((_, examples)) = EXAMPLES.iter().find(|(of, _)| *of == name) {
        page.section("EXAMPLES");
        for (what, code) in *examples {
            page.paragraph(what);
            page.example(code);
        }
    }
    page.section("EXIT STATUS");
    for (exit, meaning) in Exit::ALL {
        page.entry(&exit.code().to_string(), &format!("{meaning}."));
    }
    page.section("ENVIRONMENT");
    for (variable, meaning) in ENVIRONMENT {
        page.entry(variable, meaning);
    }
}
