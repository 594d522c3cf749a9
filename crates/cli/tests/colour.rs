//! Colours: where they are wanted and nowhere else, and what is said is the same without them.

use lokt_testkit::session::Start;

use super::common::{LOKT, Root, go_record};
use super::guard_signals::started;

const RED_ERROR: &str = "\x1b[1;31merror:\x1b[0m ";
const BOLD_HINT: &str = "\x1b[1mhint:\x1b[0m ";

/// On a terminal that can do colours, unless a test says otherwise.
fn start<'a>(root: &'a Root, words: &[&'a str], env: &[(&'a str, &str)]) -> Start<'a> {
    let mut start = started(root, "bob", words);
    start.env.extend([("TERM", "xterm".to_owned()), ("NO_COLOR", String::new())]);
    start.env.extend(env.iter().map(|(key, value)| (*key, (*value).to_owned())));
    start
}

/// What is shown on a terminal.
fn shown(root: &Root, words: &[&str], env: &[(&str, &str)], code: i32) -> String {
    let mut terminal = start(root, words, env).terminal(120);
    assert_eq!(terminal.ends(), code, "{words:?}: {:?}", terminal.screen());
    terminal.screen().replace('\r', "")
}

/// What is printed and said without a terminal.
fn printed(root: &Root, words: &[&str], env: &[(&str, &str)], code: i32) -> (String, String) {
    let mut session = start(root, words, env).session();
    assert_eq!(session.ends(), code, "{words:?}: {}{}", session.out(), session.err());
    (session.out(), session.err())
}

/// The text as a terminal without colours would show it.
fn without_styles(text: &str) -> String {
    let mut plain = String::new();
    for (at, part) in text.split("\x1b[").enumerate() {
        plain.push_str(if at == 0 { part } else { part.split_once('m').expect("a style ends with m").1 });
    }
    plain
}

fn held() -> Root {
    let root = Root::used();
    root.run("alice", "lock x").exits(0, "it is free");
    root
}

#[test]
fn colours_are_shown_where_they_are_wanted() {
    let root = held();
    let no_color = [("NO_COLOR", "1")];
    let (dumb, unknown) = ([("TERM", "dumb")], [("TERM", "")]);
    let cases: [(_, &[_], _, _); 10] = [
        ("", &[], true, false),
        ("--color auto", &[], true, false),
        ("--color always", &[], true, true),
        ("--color=always", &[], true, true),
        ("--color never", &[], false, false),
        ("", &no_color, false, false),
        ("--color always", &no_color, true, true),
        ("", &dumb, false, false),
        ("", &unknown, false, false),
        ("--color=always", &dumb, true, true),
    ];
    for (flags, env, on_terminal, elsewhere) in cases {
        let words: Vec<&str> = [LOKT, "lock", "x"].into_iter().chain(flags.split_whitespace()).collect();
        let screen = shown(&root, &words, env, 2);
        assert_eq!(screen.contains(RED_ERROR), on_terminal, "on a terminal, {words:?} {env:?}: {screen:?}");
        assert_eq!(screen.contains(BOLD_HINT), on_terminal, "on a terminal, {words:?} {env:?}: {screen:?}");
        assert_eq!(screen.contains('\x1b'), on_terminal, "all or nothing, {words:?} {env:?}: {screen:?}");
        let (out, err) = printed(&root, &words, env, 2);
        assert_eq!(err.contains(RED_ERROR), elsewhere, "off a terminal, {words:?} {env:?}: {err:?}");
        assert_eq!((out + &err).contains('\x1b'), elsewhere, "all or nothing, {words:?} {env:?}");
    }
}

#[test]
fn stdout_and_stderr_are_judged_each_by_itself() {
    let root = held();
    // A note on stderr, an answer with a state on stdout.
    let both = "\"$0\" why x; \"$0\" lock x";
    let on_terminal = |script: &str| shown(&root, &["sh", "-c", script, LOKT], &[], 2);
    let in_file = || std::fs::read_to_string(root.outside().join("said")).expect("it was made");
    let screen = on_terminal(&format!("{{ {both}; }} 2> said"));
    assert!(screen.contains("is \x1b[1;31mBLOCKED\x1b[0m"), "stdout is the terminal: {screen:?}");
    assert!(in_file().starts_with("error: lock \"x\" held by"), "stderr is a file: {:?}", in_file());
    let screen = on_terminal(&format!("{{ {both}; }} > said"));
    assert!(screen.contains(RED_ERROR), "stderr is the terminal: {screen:?}");
    assert!(in_file().starts_with("Lock \"x\" is BLOCKED:\n"), "stdout is a file: {:?}", in_file());
}

#[test]
fn without_its_colours_the_text_is_the_same() {
    let root = held();
    root.put_record("dead", &go_record("dead", "a"));
    root.put("locks/odd.json", "no record");
    root.put_freeze("f", &go_record("f", "ops"));
    for (words, code) in [
        ("status dead", 0),
        ("status", 0),
        ("why x", 2),
        ("why free", 0),
        ("why dead", 0),
        ("why f", 2),
        ("unlock x", 4),
        ("unlock nothing", 3),
        ("lock", 64),
        ("lock a/b", 64),
    ] {
        let plain: Vec<&str> = [LOKT].into_iter().chain(words.split(' ')).collect();
        let painted = [plain.as_slice(), &["--color", "always"]].concat();
        // An age may grow between two looks; not every time.
        let same = |text: &str| without_styles(text).replace(" --color always", "").replace(" --color <WHEN>", "");
        let differ = |_| {
            let ((out, err), painted) = (printed(&root, &plain, &[], code), printed(&root, &painted, &[], code));
            assert!(!(out.clone() + &err).contains('\x1b'), "no colours by default: {out:?} {err:?}");
            assert!((painted.0.clone() + &painted.1).contains('\x1b'), "colours if asked for: {words}");
            let same = (same(&painted.0), same(&painted.1)) == (out.clone(), err.clone());
            (!same).then_some(((out, err), painted))
        };
        let differences: Vec<_> = (0..5).map_while(differ).collect();
        assert!(differences.len() < 5, "the text of `{words}` is the same: {differences:?}");
    }
}

#[test]
fn json_never_has_colours() {
    let root = held();
    for (words, code) in [("status", 0), ("status x", 0), ("why x", 2), ("lock x", 2), ("lock", 64), ("queue x", 0)] {
        let words: Vec<&str> =
            [LOKT].into_iter().chain(words.split(' ')).chain(["--json", "--color", "always"]).collect();
        let screen = shown(&root, &words, &[], code);
        assert!(!screen.contains('\x1b'), "{words:?}: {screen:?}");
        serde_json::from_str::<serde_json::Value>(&screen).unwrap_or_else(|error| panic!("{error}: {screen}"));
    }
}

#[test]
fn every_command_takes_it_and_only_its_three_values() {
    let root = Root::used();
    for words in [
        "lock x",
        "status x",
        "status",
        "queue x",
        "why x",
        "exists x",
        "unlock x",
        "guard x -- true",
        "run x -- true",
        "root",
        "version",
    ] {
        let (ours, command) = words.split_once(" -- ").map_or((words, ""), |(ours, _)| (ours, " -- true"));
        for value in ["auto", "always", "never"] {
            let code = printed_code(&root, &format!("{ours} --color {value}{command}"));
            assert!([0, 2, 3].contains(&code), "`{words}` takes --color {value}: {code}");
        }
        assert_eq!(printed_code(&root, &format!("{ours} --color maybe{command}")), 64, "`{words}`: no such value");
    }
}

fn printed_code(root: &Root, words: &str) -> i32 {
    let words: Vec<&str> = [LOKT].into_iter().chain(words.split(' ')).collect();
    start(root, &words, &[]).session().ends()
}

#[test]
fn a_guarded_command_has_its_own_flags_and_colours() {
    let root = Root::used();
    let words = [LOKT, "guard", "y", "--", "echo", "error: mine", "--color", "always"];
    assert_eq!(shown(&root, &words, &[], 0), "error: mine --color always\n", "what it prints is not touched");
    let (_, err) = printed(&root, &[LOKT, "guard", "y", "--", "/nowhere", "--color=always"], &[], 127);
    assert!(!err.contains('\x1b'), "its flags aren't ours: {err:?}");
    let words = [LOKT, "guard", "y", "--color", "always", "--", "/nowhere"];
    assert!(printed(&root, &words, &[], 127).1.contains(RED_ERROR), "ours are");
}

#[test]
fn what_comes_from_a_file_brings_no_colours() {
    let root = Root::used();
    root.put_record("x", &go_record("x", "\x1b[31mred\x1b[0m"));
    let screen = shown(&root, &[LOKT, "status", "x"], &[], 0);
    assert!(screen.contains("owner:    \\u{1b}[31mred\\u{1b}[0m\n"), "an owner is shown as it is: {screen:?}");
}
