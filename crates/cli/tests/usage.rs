//! What is typed wrong: exit 64, never 2 (which would read as "held"), and nothing is touched.

use serde_json::json;

use crate::common::{Root, put};

const COMMANDS: [&str; 24] = [
    "guard",
    "lock",
    "unlock",
    "freeze",
    "unfreeze",
    "fence",
    "publish",
    "status",
    "queue",
    "exists",
    "why",
    "audit",
    "doctor",
    "torture",
    "ledger",
    "claim",
    "worktree",
    "lease",
    "snapshot",
    "prime",
    "completions",
    "man",
    "root",
    "version",
];

#[test]
fn no_command_shows_the_help_as_a_usage_error() {
    let root = Root::new();
    let said = root.run("a", "").exits(64, "no command is a usage error");
    assert!(said.stdout.contains("Usage: lokt <command>"), "the help is shown{said}");
}

#[test]
fn help_lists_every_command_and_every_exit_code() {
    let root = Root::new();
    for words in ["help", "--help", "-h"] {
        let said = root.run("a", words).exits(0, "help is no error");
        for command in COMMANDS {
            assert!(said.stdout.contains(&format!("\n  {command} ")), "{command} is in the help{said}");
        }
        for code in [
            "0 ", "1 ", "2 ", "3 ", "4 ", "5 ", "6 ", "7 ", "8 ", "9 ", "10", "11", "64", "65", "69", "75", "79",
            "126", "127",
        ] {
            assert!(said.stdout.contains(&format!("\n  {code} ")), "exit code {code} is in the help{said}");
        }
        assert_eq!(said.stderr, "", "help is an answer");
    }
}

#[test]
fn each_command_has_its_own_help() {
    let root = Root::new();
    for command in COMMANDS {
        let by_flag = root.run("a", &format!("{command} --help")).exits(0, "help is no error");
        assert!(by_flag.stdout.contains(&format!("Usage: lokt {command}")), "its usage is shown{by_flag}");
        assert!(by_flag.stdout.contains("--json"), "every command takes --json{by_flag}");
        let by_word = root.run("a", &format!("help {command}")).exits(0, "help is no error");
        assert_eq!(by_word.stdout, by_flag.stdout, "help {command} is {command} --help");
        assert_eq!(by_flag.stderr, "", "help is an answer");
    }
}

#[test]
fn the_help_of_lock_names_every_flag() {
    let root = Root::new();
    let said = root.run("a", "help lock").exits(0, "help is no error");
    for flag in ["--ttl <DURATION>", "--bind <PID>", "--reason <TEXT>", "--json"] {
        assert!(said.stdout.contains(flag), "{flag} is in the help{said}");
    }
}

#[test]
fn help_about_help_is_help() {
    let root = Root::new();
    let help = root.run("a", "help").exits(0, "help is no error").stdout;
    for words in ["help help", "help --help", "--help --help", "-h -h", "--help help"] {
        assert_eq!(root.run("a", words).exits(0, "help is no error").stdout, help, "{words} is help");
    }
    root.run("a", "--help lock")
        .exits(0, "help is no error")
        .says("Usage: lokt lock", "a topic may follow the flag too");
}

#[test]
fn help_takes_one_topic() {
    let root = Root::new();
    root.run("a", "help lock unlock").exits(64, "one topic is enough").notes("'unlock'", "the extra word is named");
    let said = root.run("a", "help lock unlock --json").exits(64, "one topic is enough");
    assert_eq!(said.failure(), "E_USAGE", "the code is stable");
}

#[test]
fn an_unknown_command_is_named_and_the_nearest_one_suggested() {
    let root = Root::new();
    for (typed, meant) in [
        ("lokc", "lock"),
        ("unlok", "unlock"),
        ("statsu", "status"),
        ("gaurd", "guard"),
        ("runn", "run"),
        ("ls", "status"),
        ("release", "unlock"),
    ] {
        let said = root.run("a", &format!("{typed} build")).exits(64, "there is no such command");
        let hint = format!("hint: did you mean `lokt {meant}`? `lokt help` lists the commands\n");
        assert_eq!(
            said.stderr,
            format!("unknown command: {typed}\n{hint}"),
            "the text scripts know, and what was meant"
        );
        assert_eq!(said.stdout, "", "help is no answer to what was asked{said}");
    }
    let said = root.run("a", "xyzzy").exits(64, "there is no such command");
    assert_eq!(said.stderr, "unknown command: xyzzy\nhint: `lokt help` lists the commands\n", "nothing is like it");
    let said = root.run("a", "lokc build --json").exits(64, "there is no such command");
    assert_eq!(said.failure(), "E_USAGE", "the code is stable");
    assert_eq!(said.json()["hint"], "did you mean `lokt lock`? `lokt help` lists the commands", "in JSON too");
    root.run("a", "help lokc").exits(64, "there is no help for it either").notes("`lokt lock`", "the hint is the same");
}

#[test]
fn flags_of_flock_are_told_their_names_here() {
    let root = Root::new();
    for (words, hint) in [
        (&["-n", "build", "--", "make"][..], "not waiting is the default, leave out -n"),
        (&["--nonblock", "build", "--", "make"], "not waiting is the default, leave out -n"),
        (&["-w", "5", "build", "--", "make"], "`--timeout 5` waits in line for at most that long"),
        (&["-w5", "build", "--", "make"], "`--timeout 5` waits in line for at most that long"),
        (&["build", "-c", "a && b"], "a shell runs it after two dashes: `-- sh -c 'a && b'`"),
        (&["build", "--command=a"], "a shell runs it after two dashes: `-- sh -c 'a'`"),
        (&["build", "-c", "echo 'x'"], r"`-- sh -c 'echo '\''x'\'''`"),
        (&["-s", "build", "--", "make"], "every lock is exclusive, there are no shared ones"),
        (&["-x", "build", "--", "make"], "every lock is exclusive, leave out -x"),
        (&["-n", "build", "-c", "x"], "leave out -n; a shell runs it"),
    ] {
        for name in ["guard", "run"] {
            let said = root.lokt("a").args([name]).args(words).run().exits(64, "flock's flags are not ours");
            assert!(said.stderr.lines().last().is_some_and(|line| line.starts_with("hint: ")), "a hint is last{said}");
            said.notes(hint, "it says what to type");
            let said = root.lokt("a").args([name, "--json"]).args(words).run().exits(64, "in JSON too");
            assert!(said.json()["hint"].as_str().is_some_and(|text| text.contains(hint)), "the same hint{said}");
        }
    }
    let said = root.run("a", "guard build --bogus -- flock -n f true").exits(64, "there is no such flag");
    assert!(!said.stderr.contains("leave out"), "the words of the command are its own{said}");
    let said = root.run("a", "lock build -n").exits(64, "there is no such flag");
    assert!(!said.stderr.contains("leave out"), "only guard does what flock does{said}");
    assert!(!root.path().exists(), "nothing was touched");
}

#[test]
fn what_is_typed_wrong_never_looks_like_held() {
    let root = Root::new();
    for words in [
        "lock",
        "lock --bogus build",
        "lock build --bogus",
        "lock --ttl 5x build",
        "lock build --ttl",
        "lock build --ttl 5m --ttl 6m",
        "lock build --ttl=-5m",
        "lock build --ttl 200000d",
        "lock build other",
        "lock build -ttl 5m",
        "unlock --bogus",
        "status --bogus",
        "status a b",
        "exists",
        "why --bogus x",
        "root --bogus",
        "version --bogus",
    ] {
        let said = root.run("a", words).exits(64, words);
        assert_eq!(said.stdout, "", "{words}: a usage error is no answer{said}");
        assert!(said.stderr.starts_with("error: "), "{words}: it says what is wrong{said}");
        let said = root.run("a", &format!("{words} --json")).exits(64, words);
        assert_eq!(said.failure(), "E_USAGE", "{words}: the code is stable{said}");
        assert_eq!(said.stderr, "", "{words}: JSON is all there is{said}");
    }
    assert!(!root.path().exists(), "what is typed wrong touches nothing");
}

#[test]
fn a_bad_name_is_refused_for_its_reason_before_anything_is_touched() {
    let root = Root::new();
    put(&root.outside().join("x/package.json"), "[\"not a lock\"]");
    let long = "n".repeat(201);
    for (name, reason) in [
        ("", "name cannot be empty"),
        ("/etc/passwd", "absolute paths not allowed"),
        ("../x/package", "path traversal not allowed"),
        ("a..b", "path traversal not allowed"),
        (".", "path traversal not allowed"),
        ("a/b", "must contain only alphanumeric characters, dots, hyphens, and underscores"),
        ("a b", "must contain only alphanumeric characters, dots, hyphens, and underscores"),
        ("a\nb", "must contain only alphanumeric characters, dots, hyphens, and underscores"),
        ("é", "must contain only alphanumeric characters, dots, hyphens, and underscores"),
        (&long, "must be at most 200 bytes long"),
    ] {
        for command in ["lock", "unlock", "status", "queue", "exists", "why"] {
            let said = root.lokt("a").args([command, name]).run().exits(64, "a bad name is a usage error");
            let text = format!("error: invalid lock name: {reason}\n");
            assert!(said.stderr.starts_with(&text), "{command} {name:?}: the text scripts know{said}");
            let said = root.lokt("a").args([command, name, "--json"]).run().exits(64, "a bad name is a usage error");
            assert_eq!(said.failure(), "E_BAD_NAME", "{command} {name:?}: the code is stable");
        }
    }
    let said = root.lokt("a").args(["lock", "--", "-x"]).run().exits(64, "a name doesn't start with a hyphen");
    said.notes("must not start with a hyphen", "it says so");
    assert!(!root.path().exists(), "no root was made");
    let text = std::fs::read_to_string(root.outside().join("x/package.json")).expect("it is still there");
    assert_eq!(text, "[\"not a lock\"]", "what is outside the root is not touched");
}

#[test]
fn names_with_dots_and_hyphens_are_names() {
    let root = Root::new();
    for name in ["a", "A.b_c-9", ".hidden", "x.json", "0"] {
        root.run("a", &format!("lock {name}")).exits(0, "it is a good name");
        root.run("b", &format!("lock {name}")).exits(2, "it excludes");
    }
    let names: Vec<String> = root
        .run("b", "status --json")
        .json()
        .as_array()
        .expect("it is a list")
        .iter()
        .map(|row| row["name"].as_str().expect("it has a name").to_owned())
        .collect();
    assert_eq!(names, [".hidden", "0", "A.b_c-9", "a", "x.json"], "all are listed, in order");
}

#[test]
fn words_after_two_dashes_are_no_flags() {
    let root = Root::new();
    root.run("a", "lock -- build").exits(0, "a name may follow two dashes");
    let said = root.run("a", "lock -- build --json").exits(64, "what follows two dashes is a word");
    assert_eq!(said.stdout, "", "and doesn't ask for JSON");
}

#[test]
fn a_json_failure_has_exactly_four_members() {
    let root = Root::new();
    let said = root.run("a", "lock build --bogus --json").exits(64, "there is no such flag");
    assert_eq!(said.members(), ["status", "code", "message", "hint"], "the failure object");
    let json = said.json();
    assert_eq!(json["message"], "unexpected argument '--bogus' found", "it says what is wrong");
    assert_eq!(json["hint"], json!("`lokt lock --help` shows the usage"), "it says what to type");
}

#[test]
fn a_negative_ttl_is_told_so_however_it_is_typed() {
    let root = Root::new();
    for words in ["lock build --ttl -5m", "lock build --ttl=-5m", "lock --ttl -5m build", "lock build --ttl -1"] {
        let said = root.run("a", words).exits(64, "no lease is negative");
        said.notes("TTL must be positive (e.g., 5m, 1h)", "the text scripts know");
    }
    let said = root.run("a", "lock build --ttl --json").exits(64, "a flag is no duration");
    said.says("not a duration", "it says what is wrong");
}

#[test]
fn what_is_missing_is_named_in_json_too() {
    let root = Root::new();
    for command in ["lock", "exists", "why"] {
        let json = root.run("a", &format!("{command} --json")).exits(64, "a name is needed").json();
        let expected = "the following required arguments were not provided: <NAME>";
        assert_eq!(json["message"], expected, "{command} says what is missing");
    }
}

#[test]
fn a_flag_with_one_dash_is_told_about_the_other() {
    let root = Root::new();
    for words in ["lock build -ttl 5m", "lock -ttl=5m build", "unlock -force build", "status -json"] {
        let flag = ["ttl", "force", "json"].into_iter().find(|flag| words.contains(flag)).expect("it is one of them");
        let said = root.run("a", words).exits(64, "flags have two dashes");
        said.notes(&format!("hint: flags have two dashes: --{flag}"), "it says what was meant");
    }
    let json = root.run("a", "lock build -ttl 5m --json").exits(64, "flags have two dashes").json();
    assert_eq!(json["hint"], "flags have two dashes: --ttl", "in JSON too");
}

#[test]
fn nobody_is_advised_to_lock_a_flag() {
    let root = Root::new();
    let said = root.run("a", "lock build --forse").exits(64, "there is no such flag");
    assert!(!said.stderr.contains("as a value"), "a flag can't be a name{said}");
    let said = root.run("a", "unlock build --forse").exits(64, "there is no such flag");
    said.notes("'--force'", "but a flag that is nearly right is suggested");
}

#[test]
fn what_is_typed_is_shown_without_its_control_characters() {
    let root = Root::new();
    root.lokt("a").args(["lock", "--x\u{1b}[31m"]).run().exits(64, "no such flag").notes("--x\\u{1b}[31m", "escaped");
    root.lokt("a").args(["\u{1b}[31m"]).run().exits(64, "no such command").notes("\\u{1b}[31m", "escaped");
    root.lokt("a")
        .args(["lock", "x", "--ttl", "\u{9b}5m"])
        .run()
        .exits(64, "no duration")
        .notes("\\u{9b}5m", "escaped");
}

#[test]
fn words_that_are_no_text_are_usage_errors() {
    use std::os::unix::ffi::OsStrExt as _;
    let root = Root::new();
    let word = std::ffi::OsStr::from_bytes(b"bui\xffld");
    for command in ["lock", "unlock", "status", "queue", "exists", "why"] {
        root.lokt("a").args([std::ffi::OsStr::new(command), word]).run().exits(64, "a name is text");
    }
    root.lokt("a").args([word]).run().exits(64, "a command is text");
    assert!(!root.path().exists(), "nothing was touched");
}

#[test]
fn a_flag_before_the_command_is_told_its_place() {
    let root = Root::new();
    for words in ["--json", "--json lock build", "help --json", "--ttl 5m lock build --json"] {
        let said = root.run("a", words).exits(64, "flags come after a command");
        assert_eq!(said.failure(), "E_USAGE", "{words}: JSON was asked for{said}");
        assert!(said.json()["hint"].as_str().is_some_and(|hint| hint.contains("after a command")), "{words}{said}");
    }
    let said = root.run("a", "--ttl 5m lock build").exits(64, "flags come after a command");
    said.notes("hint: flags come after a command, as in `lokt status --json`\n", "in text too");
}

#[test]
fn a_number_that_is_none_is_told_what_it_stands_for() {
    let root = Root::new();
    for pid in ["abc", "0", "-1", "", "99999999999999999999"] {
        let said = root.lokt("a").args(["lock", "build", "--bind", pid]).run().exits(64, "no process id");
        said.notes("not a process id", pid);
    }
    let said = root.run("a", "unlock build --token x").exits(64, "no token");
    said.notes("not a fencing token", "it says what is wanted").notes("--token <N>", "and where");
}
