//! `lokt status` on a terminal: a table that fits, whatever its width and whatever is in the records.

use lokt_testkit::session::{PATIENCE, Terminal};
use lokt_testkit::swarm::wait_until;
use serde_json::json;
use unicode_width::UnicodeWidthStr as _;

use super::common::{LOKT, Pulse, Root, Sleeper, alive, elsewhere, go_lease, go_record, host};
use super::guard_signals::started;

/// What a terminal of this width shows, line by line.
fn shown(root: &Root, columns: u16, words: &[&str]) -> Vec<String> {
    let words = [&[LOKT, "status", "--color", "never"], words].concat();
    // It starts only when the terminal has its width.
    let gated = [&["sh", "-c", "read _; exec \"$@\"", "sh"], words.as_slice()].concat();
    let mut terminal: Terminal = started(root, "c", &gated).terminal(columns);
    terminal.types("\n");
    assert_eq!(terminal.ends(), 0, "{:?}", terminal.screen());
    let mut screen = String::new();
    wait_until(PATIENCE, || {
        screen = terminal.screen();
        screen.matches("\r\n").count() >= 2
    });
    screen.lines().skip(1).map(|line| line.trim_end_matches('\r').to_owned()).collect()
}

/// A lock in every state, with names and owners of every length and width.
fn crowded() -> (Root, Sleeper) {
    let (root, sleeper) = (Root::used(), Sleeper::new());
    root.put_record("alpha", &elsewhere(go_lease("alpha", "bob", 7_200, 3_700)));
    root.put_record("dead", &go_record("dead", "a"));
    root.put_record("expired", &alive(go_lease("expired", "a", 60, -5)));
    root.put("locks/odd.json", "no record, and nothing that could be read as one, whatever one tries to make of it");
    let mut wide = alive(go_record("wide", "日本語の所有者の名前はとても長いので切らなければならない"));
    wide["reason"] =
        json!("eine Begründung, die länger ist als jedes Terminal, das jemand benutzt, der noch bei Trost ist");
    root.put_record("wide", &wide);
    root.put_record(
        "a-lock-with-a-name-that-is-as-long-as-a-name-of-a-lock-can-get-before-people-complain-about-it",
        &alive(go_record("x", "an-owner-with-a-name-that-is-just-as-long-as-that-of-the-lock-itself")),
    );
    root.run("a", &format!("lock bound --bind {}", sleeper.pid())).exits(0, "it is free");
    root.put_freeze("beta", &go_lease("beta", "ops", 600, 600));
    root.put_freeze("thawed", &go_lease("thawed", "ops", 600, -120));
    (root, sleeper)
}

#[test]
fn the_table_has_a_title_and_relative_times() {
    let (root, sleeper) = crowded();
    let lines = shown(&root, 200, &[]);
    let titles: Vec<&str> = lines[0].split_whitespace().collect();
    assert_eq!(titles, ["NAME", "STATE", "HOLDER", "SINCE", "UNTIL", "REASON"], "{lines:#?}");
    let row = |name: &str| {
        let line = lines.iter().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {lines:#?}"));
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>()
    };
    assert_eq!(row("alpha"), ["alpha", "HELD", "bob@elsewhere.example", "58m ago", "in 1h1m"]);
    assert_eq!(row("dead"), ["dead", "DEAD", &format!("a@{}", host()), "1m ago"]);
    assert_eq!(row("expired")[..2], ["expired", "EXPIRED"]);
    assert!(row("expired")[4].ends_with("s ago"), "since when it is over: {lines:#?}");
    assert_eq!(row("odd")[..2], ["odd", "CORRUPT"]);
    assert!(row("odd")[2].starts_with("lock \"odd\" has corrupted data"), "why: {lines:#?}");
    assert_eq!(row("bound")[4], format!("pid {} ends", sleeper.pid()), "what ends it: {lines:#?}");
    assert_eq!(row("beta")[..2], ["beta", "FROZEN"]);
    assert!(row("beta")[4].starts_with("in 9m"), "until when: {lines:#?}");
    assert_eq!(row("thawed")[1], "FROZEN EXPIRED");
    assert_eq!(row("thawed")[4], "2m ago");
    assert_eq!(lines.len(), 10, "a line each: {lines:#?}");
}

#[test]
fn no_line_is_wider_than_the_terminal_and_none_wraps() {
    let (root, _sleeper) = crowded();
    for columns in [10_u16, 20, 40, 80, 120, 200] {
        let lines = shown(&root, columns, &[]);
        assert_eq!(lines.len(), 10, "a line each, at {columns}: {lines:#?}");
        for line in &lines {
            assert!(line.width() <= usize::from(columns), "{} > {columns}: {line:?}", line.width());
        }
        let is_there = |name: &str| lines.iter().any(|line| line.starts_with(name));
        assert!(is_there("alpha") && is_there("expired"), "short names are whole at {columns}: {lines:#?}");
        assert!(is_there("a-") && lines.iter().any(|line| line.contains('…')), "long ones are cut: {lines:#?}");
        if columns >= 40 {
            assert!(lines.iter().any(|line| line.starts_with("expired") && line.contains("EXPIRED")), "{lines:#?}");
            assert!(lines.iter().any(|line| line.contains('日')), "the holder is shown at {columns}: {lines:#?}");
        }
    }
}

#[test]
fn a_terminal_that_does_not_say_how_wide_it_is_has_eighty_columns() {
    let (root, _sleeper) = crowded();
    let widest = |columns| shown(&root, columns, &[]).iter().map(|line| line.width()).max();
    assert_eq!(widest(0), Some(80), "the reason reaches the edge");
}

#[test]
fn wide_characters_keep_the_columns_straight() {
    let root = Root::used();
    root.put_record("a", &alive(go_record("a", "日本")));
    root.put_record("b", &alive(go_record("b", "someone")));
    let lines = shown(&root, 100, &[]);
    let column = |line: &str| line.find("1m ago").map(|at| line[..at].width()).expect("a time");
    assert_eq!(column(&lines[1]), column(&lines[2]), "{lines:#?}");
    assert_eq!(lines[0].find("SINCE"), Some(column(&lines[2])), "below its title: {lines:#?}");
}

#[test]
fn those_who_wait_are_counted() {
    let root = Root::used();
    root.run("a", "lock build").exits(0, "it is free");
    let _pulse = Pulse::waiting(&root, "build", "early");
    let lines = shown(&root, 100, &[]);
    assert!(lines[0].ends_with("WAITING"), "{lines:#?}");
    assert!(lines[1].ends_with("  1"), "{lines:#?}");
    assert!(lines[1].contains("  unlock  "), "what ends it: {lines:#?}");
}

#[test]
fn where_nothing_is_locked_there_is_no_table() {
    let root = Root::used();
    assert_eq!(shown(&root, 80, &[]), ["no locks"]);
}

#[test]
fn names_and_states_stand_out() {
    let root = Root::used();
    root.put_record("dead", &go_record("dead", "a"));
    let mut start = started(&root, "c", &[LOKT, "status"]);
    start.env.extend([("TERM", "xterm".to_owned()), ("NO_COLOR", String::new())]);
    let mut terminal = start.terminal(100);
    assert_eq!(terminal.ends(), 0);
    terminal.shows_after(0, "\x1b[1mdead\x1b[0m  \x1b[35mDEAD\x1b[0m   a@");
}

#[test]
fn off_a_terminal_there_are_the_rows_that_scripts_know() {
    let (root, _sleeper) = crowded();
    let said = root.run("c", "status").exits(0, "it can be read");
    assert!(!said.stdout.contains("NAME"), "no titles{said}");
    assert!(said.stdout.contains("alpha                 bob@elsewhere.example  58m"), "whole rows{said}");
    assert!(said.stdout.contains("  expires in 1h1m"), "{said}");
}
