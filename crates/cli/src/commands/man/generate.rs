//! Makes the manual pages with `clap_mangen`, and compares them with those in `crates/cli/man`.
//!
//! After a change of a command write them anew:
//! `LOKT_WRITE_MAN=1 cargo test -p lokt-cli --bin lokt man::`

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::super::{Row, SECTIONS, all_rows};
use super::texts::{ENVIRONMENT, EXAMPLES, FILES};
use super::{file_name, page_name};
use crate::exit::Exit;

const DESCRIPTION: &str = "lokt keeps agents, terminals, CI jobs and scripts from working on the same thing at the \
    same time: named locks with leases, fencing tokens and an audit log, in plain files, without a daemon.\n\n\
    Flags may stand anywhere before `--`. Every command but `help` takes `--json`.\n\n\
    A duration is written like `90`, `1500ms`, `90s`, `5m`, `1h30m` or `2d`; a number alone is seconds.";

/// Defines a string for apostrophes; `roff` writes it before each part of a page.
const PREAMBLE: &str = ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n";

#[test]
fn every_page_is_what_clap_mangen_makes_of_its_command() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("man");
    let made = std::iter::once((file_name(None), main_page()))
        .chain(all_rows().map(|row| (file_name(Some(row)), command_page(row))));
    #[expect(clippy::disallowed_methods, reason = "it is a switch of this test, not of lokt")]
    let writes = std::env::var_os("LOKT_WRITE_MAN").is_some();
    let mut names = Vec::new();
    for (name, text) in made {
        if writes {
            #[expect(clippy::disallowed_methods, reason = "a page is no record: it is made anew")]
            fs::write(dir.join(&name), &text).expect("the directory is there");
        }
        let stored = fs::read_to_string(dir.join(&name)).unwrap_or_default();
        assert!(stored == text, "{name} is outdated: LOKT_WRITE_MAN=1 writes it anew");
        names.push(name);
    }
    let mut stored: Vec<String> = fs::read_dir(dir)
        .expect("the directory is there")
        .map(|entry| entry.expect("it can be read").file_name().into_string().expect("names are text"))
        .collect();
    stored.sort_unstable();
    names.sort_unstable();
    assert_eq!(stored, names, "a page for each command, and no other");
}

#[test]
fn no_text_becomes_a_request_and_typed_characters_stay_themselves() {
    let mut rest = Roff::new();
    rest.text([roman(".so /etc/passwd")]).text([roman("'br")]).text([roman("`lokt -q` ~ ^ é \\fIx")]);
    let text = finish(rest.render().into_bytes());
    assert_eq!(text, "\\&.so /etc/passwd\n\\(aqbr\n\\fBlokt \\-q\\fR \\(ti \\(ha \\[u00E9] \\\\fIx\n");
}

/// The text of lokt's own page.
fn main_page() -> String {
    let command = clap::Command::new("lokt")
        .about("locks with leases and fencing tokens, in plain files")
        .long_about(DESCRIPTION)
        .override_usage("lokt COMMAND [FLAGS] [ARGUMENTS]")
        .disable_help_flag(true);
    let mut rest = Roff::new();
    rest.control("SH", ["COMMANDS"]);
    for section in SECTIONS {
        rest.control("SS", [section.title]);
        commands(&mut rest, section.rows);
    }
    common_sections(&mut rest, "lokt");
    rest.control("SH", ["FILES"]);
    entries(&mut rest, &FILES);
    page("lokt", command, &rest)
}

/// The text of a command's page.
fn command_page(row: &'static Row) -> String {
    let mut parser = (row.parser)();
    let usage = parser.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim().to_owned();
    let notes = parser.get_after_help().map(ToString::to_string).unwrap_or_default();
    let mut description = format!("{}.", about(row));
    for alias in row.aliases {
        let _ = write!(description, "\n\n`lokt {alias}` is the same.");
    }
    let mut rest = Roff::new();
    if !row.rows.is_empty() {
        rest.control("SH", ["COMMANDS"]);
        commands(&mut rest, row.rows);
    }
    if !notes.is_empty() {
        rest.control("SH", ["NOTES"]);
    }
    for line in notes.lines().filter(|line| !line.is_empty()) {
        rest.control("PP", []).text([roman(line)]);
    }
    common_sections(&mut rest, row.name);
    let group = row.name.split_once(' ').map(|(group, _)| format!(", `lokt-{group}`(1)"));
    rest.control("SH", ["SEE ALSO"]).text([roman(format!("`lokt`(1){}", group.unwrap_or_default()))]);
    let parser = parser.about(about(row).replace('`', "")).long_about(description).override_usage(usage);
    page(&page_name(row), parser, &rest)
}

/// A page: the parts that `clap_mangen` makes of the parser, and then `rest`.
fn page(name: &str, command: clap::Command, rest: &Roff) -> String {
    // The usage has no bold part: its first words are not the name of the page.
    let man = Man::new(command.display_name(name.to_owned()).bin_name(name.to_owned()))
        .title(name.to_uppercase())
        // An empty argument must be quoted, or the next one takes its place.
        .date("\"\"")
        .source(concat!("lokt ", env!("CARGO_PKG_VERSION")))
        .manual("lokt");
    let parts = [
        Man::render_title,
        Man::render_name_section,
        Man::render_synopsis_section,
        Man::render_description_section,
        Man::render_options_section,
    ];
    let mut text = Vec::new();
    for part in parts {
        part(&man, &mut text).expect("memory can be written to");
    }
    rest.to_writer(&mut text).expect("memory can be written to");
    finish(text)
}

/// Makes words between backticks bold, and lets typed characters be copied from the page as they are.
fn finish(text: Vec<u8>) -> String {
    let text = String::from_utf8(text).expect("it is made of text").replace(PREAMBLE, "").replace("\\*(Aq", "\\(aq");
    let mut shown = String::with_capacity(text.len());
    let mut is_bold = false;
    for c in text.chars() {
        match c {
            '`' => {
                is_bold = !is_bold;
                shown.push_str(if is_bold { "\\fB" } else { "\\fR" });
            }
            '^' => shown.push_str("\\(ha"),
            '~' => shown.push_str("\\(ti"),
            c if c.is_ascii() => shown.push(c),
            c => {
                let _ = write!(shown, "\\[u{:04X}]", u32::from(c));
            }
        }
    }
    assert!(!is_bold, "backticks come in pairs: {shown}");
    shown
}

/// The summary of a command.
fn about(row: &Row) -> String {
    (row.parser)().get_about().map(ToString::to_string).unwrap_or_default()
}

fn commands(roff: &mut Roff, rows: &[Row]) {
    for row in rows {
        entry(roff, &format!("{}(1)", page_name(row)), &about(row));
    }
}

fn entries(roff: &mut Roff, entries: &[(&str, &str)]) {
    for (term, meaning) in entries {
        entry(roff, term, meaning);
    }
}

fn entry(roff: &mut Roff, term: &str, meaning: &str) {
    roff.control("TP", []).text([bold(term)]).text([roman(meaning)]);
}

fn common_sections(roff: &mut Roff, name: &str) {
    if let Some((_, examples)) = EXAMPLES.iter().find(|(of, _)| *of == name) {
        roff.control("SH", ["EXAMPLES"]);
        for (what, code) in *examples {
            roff.control("PP", []).text([roman(*what)]);
            roff.control("PP", []).control("RS", ["4"]).control("nf", []).text([roman(*code)]);
            roff.control("fi", []).control("RE", []);
        }
    }
    roff.control("SH", ["EXIT STATUS"]);
    for (exit, meaning) in Exit::ALL {
        entry(roff, &exit.code().to_string(), &format!("{meaning}."));
    }
    roff.control("SH", ["ENVIRONMENT"]);
    entries(roff, &ENVIRONMENT);
}
