//! The pages for users: every command on them is typed as it stands, and shows what the page shows. `common/page.rs` says how a page is
//! read.

use std::path::{Path, PathBuf};

use super::common::desk::Desk;
use super::common::page::{Deed, code_in_text, parts};
use super::common::{Call, LOKT, Root};

/// Every page that is read.
const PAGES: [&str; 10] = [
    "README.md",
    "docs/quickstart.md",
    "docs/agents.md",
    "docs/ledger.md",
    "docs/leases.md",
    "docs/snapshots.md",
    "docs/patterns.md",
    "docs/migrating-from-flock.md",
    "docs/troubleshooting.md",
    "docs/exit-codes.md",
];

/// What nobody can run here: the page, the reason.
const NOT_RUN: [(&str, &str); 11] = [
    ("README.md", "it builds lokt, which is here already"),
    ("README.md", "it builds lokt, which is here already"),
    ("README.md", "it installs lokt, which is here already"),
    ("README.md", "docs/troubleshooting.md has a holder and a waiter for it"),
    ("README.md", "the compiler reads it, in the tests of the crate's documentation"),
    ("README.md", "it runs the tests, of which this is one"),
    ("docs/quickstart.md", "it installs lokt, which is here already"),
    ("docs/agents.md", "needs the agents"),
    ("docs/patterns.md", "needs cron"),
    ("docs/patterns.md", "needs a server"),
    ("docs/patterns.md", "needs a database"),
];

fn page(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

fn work_through(name: &'static str) {
    assert!(PAGES.contains(&name), "{name} is one of the pages");
    let parts = parts(&page(name));
    assert!(
        parts.iter().flatten().any(|step| step.deed == Deed::Type { terminal: 1 } || step.deed == Deed::Run),
        "{name} has something to do"
    );
    for part in parts.iter().filter(|part| !part.is_empty()) {
        Desk::new(name).work_through(part);
    }
}

#[test]
fn the_readme_shows_what_its_commands_show() {
    work_through("README.md");
}

#[test]
fn the_quickstart_shows_what_its_commands_show() {
    work_through("docs/quickstart.md");
}

#[test]
fn the_page_about_agents_shows_what_its_commands_show() {
    work_through("docs/agents.md");
}

#[test]
fn the_page_about_the_ledger_shows_what_its_commands_show() {
    work_through("docs/ledger.md");
}

#[test]
fn the_page_about_leases_shows_what_its_commands_show() {
    work_through("docs/leases.md");
}

#[test]
fn the_page_about_snapshots_shows_what_its_commands_show() {
    work_through("docs/snapshots.md");
}

#[test]
fn the_patterns_show_what_their_commands_show() {
    work_through("docs/patterns.md");
}

#[test]
fn the_page_for_users_of_flock_shows_what_its_commands_show() {
    work_through("docs/migrating-from-flock.md");
}

#[test]
fn the_page_about_troubles_shows_what_its_commands_show() {
    work_through("docs/troubleshooting.md");
}

#[test]
fn the_page_about_exit_codes_has_a_script_that_runs() {
    work_through("docs/exit-codes.md");
}

#[test]
fn what_is_left_out_on_the_pages_is_listed_here() {
    let mut left_out = Vec::new();
    for name in PAGES {
        for step in parts(&page(name)).into_iter().flatten() {
            if let Deed::Skip { reason } = step.deed {
                left_out.push((name, reason));
            }
        }
    }
    let listed: Vec<(&str, String)> = NOT_RUN.map(|(name, reason)| (name, reason.to_owned())).into();
    assert_eq!(left_out, listed, "everything else on the pages is run");
}

/// Beside the blocks, commands stand in the text, with `NAME` or `CMD` in them. Whoever types them is understood.
#[test]
fn every_command_in_the_text_of_the_pages_is_understood() {
    let ours = Path::new(LOKT).parent().expect("it is in a directory").display();
    let mut typed = 0;
    for name in PAGES {
        for code in code_in_text(&page(name)) {
            let words = code.split_whitespace().count();
            // `lokt lock` is a name for something, `lokt …` for anything.
            if !code.starts_with("lokt ") || words < 3 || code.contains(['…', '[']) {
                continue;
            }
            let root = Root::new();
            // What would go on for ever has said by then whether it was understood.
            let call = Call::new("timeout").args(["1", "bash", "-c", &code]).cwd(root.outside());
            let path = format!("{ours}:/usr/bin:/bin");
            let said = call.env("LOKT_ROOT", root.path()).env("LOKT_OWNER", "alice").env("PATH", path).run();
            assert_ne!(said.code, 64, "{name}: `{code}` is understood{said}");
            typed += 1;
        }
    }
    assert!(typed > 25, "there is something to type: {typed}");
}
