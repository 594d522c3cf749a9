//! `lokt ledger`, `lokt claim`, `lokt worktree`, `lokt lease` and `lokt snapshot` are groups: the second word selects a command, wherever flags stand, and everything that lists commands
//! knows those of a group.

use crate::common::Root;

/// Every command of a group.
const COMMANDS: [(&str, &[&str]); 5] = [
    ("ledger", &["init", "append", "show", "head", "follow", "verify", "checkpoint", "doctor", "export"]),
    ("claim", &["take", "release", "extend", "reap", "list", "run"]),
    ("worktree", &["init", "create", "list", "rename", "remove"]),
    ("lease", &["acquire", "renew", "steal", "release", "status", "break", "run", "fence", "audit"]),
    ("snapshot", &["create", "history", "info", "show", "diff", "restore", "verify", "pin", "unpin", "gc"]),
];

/// Groups that are about a ledger, wherever it is.
const ELSEWHERE: [&str; 2] = ["ledger", "claim"];

/// The candidates for the last of `words`.
fn candidates(root: &Root, words: &[&str]) -> Vec<String> {
    let said = root.lokt("alice").args(["complete", "--"]).args(words).run().exits(0, "asking is no error");
    said.stdout.lines().map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn the_help_of_a_group_lists_its_commands() {
    let root = Root::new();
    let all = root.run("a", "help").stdout;
    for (group, commands) in COMMANDS {
        let help = root.run("a", &format!("{group} --help")).exits(0, "help is no error");
        for words in [format!("help {group}"), format!("{group} -h"), format!("{group} --json --help")] {
            assert_eq!(root.run("a", &words).exits(0, "help is no error").stdout, help.stdout, "{words}");
        }
        for command in commands {
            assert!(help.stdout.contains(&format!("\n  {command} ")), "{group} {command}{help}");
        }
        let line = all.split(&format!("\n  {group} <COMMAND>")).nth(1).expect("it is in the help");
        let line = line.lines().nth(1).expect("its commands follow");
        assert_eq!(line.trim().split(", ").collect::<Vec<_>>(), commands, "the help names them");
    }
}

#[test]
fn each_command_of_a_group_has_its_own_help() {
    let root = Root::new();
    for (group, commands) in COMMANDS {
        for command in commands {
            let by_flag = root.run("a", &format!("{group} {command} --help")).exits(0, "help is no error");
            assert!(by_flag.stdout.contains(&format!("Usage: lokt {group} {command}")), "its usage{by_flag}");
            assert!(by_flag.stdout.contains("--json"), "every one takes it{by_flag}");
            let dir = by_flag.stdout.contains("--dir <DIR>");
            assert_eq!(dir, ELSEWHERE.contains(&group), "a ledger may be elsewhere{by_flag}");
            let by_word = root.run("a", &format!("help {group} {command}")).exits(0, "help is no error");
            assert_eq!(by_word.stdout, by_flag.stdout, "help {group} {command} is {group} {command} --help");
        }
    }
    root.run("a", "help ledger append more")
        .exits(64, "two words are enough")
        .notes("'append'", "what is too much is named");
}

#[test]
fn a_group_without_a_command_is_a_usage_error() {
    let root = Root::new();
    for (group, commands) in COMMANDS {
        let help = root.run("a", &format!("help {group}")).stdout;
        let said = root.run("a", group).exits(64, "which one?");
        assert_eq!(said.stdout, help, "the help answers");
        let said = root.run("a", &format!("{group} --json")).exits(64, "which one?");
        assert_eq!(said.failure(), "E_USAGE");
        assert!(said.json()["message"].as_str().is_some_and(|text| text.contains(commands[0])), "they are named{said}");
    }
}

#[test]
fn a_mistyped_command_of_a_group_is_named_and_the_nearest_suggested() {
    let root = Root::new();
    for (typed, meant) in [
        ("ledger apend", "ledger append"),
        ("ledger sohw", "ledger show"),
        ("ledger tail", "ledger follow"),
        ("ledger log", "ledger show"),
        ("ledger fsck", "ledger doctor"),
        ("claim tkae", "claim take"),
        ("claim acquire", "claim take"),
        ("claim renew", "claim extend"),
        ("claim ls", "claim list"),
        ("claim unlock", "claim release"),
        ("worktree add", "worktree create"),
        ("worktree mv", "worktree rename"),
        ("worktree rmeove", "worktree remove"),
        ("lease take", "lease acquire"),
        ("lease extend", "lease renew"),
        ("lease brake", "lease break"),
        ("lease publish", "lease fence"),
        ("lease relaese", "lease release"),
    ] {
        let (group, _) = typed.split_once(' ').expect("two words");
        let hint = format!("did you mean `lokt {meant}`? `lokt help {group}` lists the commands");
        let said = root.run("a", &format!("{typed} x")).exits(64, "there is no such command");
        assert_eq!(said.stderr, format!("unknown command: {typed}\nhint: {hint}\n"), "{typed}");
        let said = root.run("a", &format!("{typed} x --json")).exits(64, "there is no such command");
        assert_eq!((said.failure().as_str(), &said.json()["hint"]), ("E_USAGE", &hint.into()), "{typed}");
        root.run("a", &format!("help {typed}"))
            .exits(64, "there is no help for it")
            .notes(meant, "but for what was meant");
        root.run("a", &format!("man {typed}"))
            .exits(64, "there is no page for it")
            .notes(meant, "but for what was meant");
    }
    let said = root.run("a", "ledger xyzzy").exits(64, "there is no such command");
    assert_eq!(said.stderr, "unknown command: ledger xyzzy\nhint: `lokt help ledger` lists the commands\n");
    root.run("a", "ledgr show").exits(64, "there is no such group").notes("`lokt ledger`", "it was meant");
    root.run("a", "append x").exits(64, "not alone").notes("did you mean `lokt ledger append`?", "it was meant");
}

#[test]
fn flags_may_stand_before_the_command_of_a_group() {
    let root = Root::new();
    for words in [
        "ledger --json head -d nowhere",
        "ledger -d nowhere head --json",
        "ledger --dir nowhere --json head",
        "ledger --dir=nowhere --json head",
        "ledger --color never --json head -d nowhere",
        "claim --owner bob take 1 --json -d nowhere",
        "claim --ttl 5m --json take 1 -d nowhere",
    ] {
        let said = root.run("a", words).exits(3, "there is no ledger");
        assert_eq!(said.failure(), "E_NOT_FOUND", "{words}");
        assert!(said.json()["message"].as_str().is_some_and(|text| text.ends_with("nowhere")), "{words}{said}");
    }
    root.run("a", "ledger --bogus head").exits(64, "there is no such flag").notes("--bogus", "it is named");
    root.run("a", "ledger -- head").exits(64, "two dashes end the flags, and there is no command before them");
    root.run("a", "ledger -json head").exits(64, "flags have two dashes").notes("--json", "it says so");
}

#[test]
fn what_is_typed_wrong_never_looks_like_held() {
    let root = Root::new();
    for words in [
        "ledger append {} --bogus",
        "ledger append {} {}",
        "ledger append {} --token",
        "ledger show --limit",
        "ledger head more",
        "ledger verify --checkpoint",
        "ledger export --format xml",
        "ledger init --style mine",
        "claim take",
        "claim take 1 --ttl 5x",
        "claim take 1 --ttl=-5m",
        "claim release",
        "claim release 1 2",
        "claim extend 1 --token 0",
        "claim reap 1",
        "claim list 1 2",
        "claim run 1",
        "claim run 1 --on-lost explode -- true",
        "worktree init more",
        "worktree create",
        "worktree create x --isolation mine",
        "worktree list more",
        "worktree rename x",
        "worktree remove",
        "lease acquire more",
        "lease acquire --lease",
        "lease acquire --lease 5x",
        "lease acquire --skew=-1s",
        "lease renew --token 1",
        "lease status --all --worktree main",
        "lease break --force",
        "lease break --reason why",
        "lease run",
        "lease run --on-lost explode -- true",
        "lease run --lease 99ms -- true",
        "lease fence",
        "lease fence explode --token 1",
        "lease fence check --token x",
        "lease audit --last x",
    ] {
        let said = root.run("a", words).exits(64, words);
        assert_eq!(said.stdout, "", "{words}: a usage error is no answer{said}");
        assert!(said.stderr.starts_with("error: "), "{words}: it says what is wrong{said}");
        let json = words.replacen(' ', " --json ", 1);
        let said = root.run("a", &json).exits(64, words);
        assert_eq!(said.failure(), "E_USAGE", "{words}: the code is stable{said}");
        assert_eq!(said.stderr, "", "{words}: JSON is all there is{said}");
    }
    assert_eq!(crate::common::names_in(root.outside()), [""; 0].map(std::path::PathBuf::from), "nothing was touched");
}

#[test]
fn commands_and_flags_of_a_group_are_completed() {
    let root = Root::new();
    for (group, commands) in COMMANDS {
        assert_eq!(candidates(&root, &[group, ""]), commands, "{group}");
        assert_eq!(candidates(&root, &["help", group, ""]), commands, "help {group}");
        assert_eq!(candidates(&root, &["man", group, ""]), commands, "man {group}");
        assert_eq!(candidates(&root, &[group, "--json", ""]), commands, "after a flag, too");
        for command in commands {
            let help = root.run("a", &format!("{group} {command} --help")).stdout;
            let offered = candidates(&root, &[group, command, "--"]);
            for flag in help.lines().filter_map(|line| line.trim_start().split("--").nth(1)) {
                let flag = format!("--{}", flag.split([' ', '.', ',']).next().unwrap_or_default());
                // Two dashes alone stand before a command to run.
                let is_one = help.contains(&format!("  {flag}")) || help.contains(&format!(", {flag}"));
                if flag.len() > 2 && is_one {
                    assert!(offered.contains(&flag), "{group} {command} {flag} is completed: {offered:?}");
                }
            }
            assert!(offered.contains(&"--json".to_owned()), "{group} {command}: {offered:?}");
        }
    }
    assert_eq!(candidates(&root, &["ledger", "app"]), ["append"]);
    assert_eq!(candidates(&root, &["ledger", "bogus", ""]), [""; 0], "nothing is known about what is no command");
    assert_eq!(candidates(&root, &["ledger", "init", "--style", ""]), ["documented", "native"]);
    assert_eq!(candidates(&root, &["ledger", "export", "--format="]), ["--format=jsonl", "--format=json"]);
    assert_eq!(candidates(&root, &["claim", "run", "1", "--on-lost", "s"]), ["stop"]);
    assert_eq!(candidates(&root, &["claim", "take", "1", "--ttl", "5"]), ["5m"]);
    for (words, answer) in [
        (&["ledger", "head", "-d", ""][..], ":dir\n"),
        (&["ledger", "append", "--file", ""], ":file\n"),
        (&["ledger", "export", "--output", ""], ":file\n"),
        (&["claim", "run", "1", "--", "ma"], ":command 5\n"),
        (&["claim", "--json", "run", "--ttl", "5m", "1", "--", "make", "-"], ":command 8\n"),
    ] {
        assert_eq!(root.lokt("a").args(["complete", "--"]).args(words).run().stdout, answer, "{words:?}");
    }
}

#[test]
fn nodes_owners_and_tokens_of_claims_are_completed() {
    let book = crate::common::ledgers::Book::new();
    book.run("alice", "claim take 1.1").exits(0, "it is free");
    book.run("bob", "claim take 1.2").exits(0, "it is free");
    book.put_claim(3, "2", "old", -60);
    book.put_claim(4, "$(id)", "two words", 60);
    let offers = |words: &[&str]| {
        let said = book.lokt("alice").args(["complete", "--"]).args(words).run().exits(0, "asking is no error");
        said.stdout.lines().map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    let first = |lines: Vec<String>| -> Vec<String> {
        lines.iter().map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect()
    };
    let before = book.events();
    for command in ["take", "release", "extend", "list", "run"] {
        assert_eq!(first(offers(&["claim", command, ""])), ["1.1", "1.2", "2"], "{command}");
        assert_eq!(first(offers(&["claim", command, "1.2"])), ["1.2"], "{command}");
    }
    let lines = offers(&["claim", "release", ""]);
    assert_eq!(lines[0], "1.1 claimed by alice", "whose it is");
    assert_eq!(lines[2], "2 claimed by old, expired", "and how it stands");
    assert_eq!(first(offers(&["claim", "take", "--any", "1.1", "1"])), ["1.2"], "each once");
    assert_eq!(first(offers(&["claim", "release", "1.1", ""])), [""; 0], "one node");
    assert_eq!(first(offers(&["claim", "take", "1", "--owner", ""])), ["alice", "bob", "old"]);
    assert_eq!(first(offers(&["claim", "release", "1.2", "--token", ""])), ["2"], "the node's");
    let dir = book.dir().to_str().expect("temp paths are text").to_owned();
    let elsewhere = Root::new();
    assert_eq!(candidates(&elsewhere, &["claim", "release", ""]), [""; 0], "there is no ledger");
    assert_eq!(candidates(&elsewhere, &["claim", "release", "-d", &dir, "1.1"]), ["1.1"], "the one that was named");
    assert_eq!(candidates(&elsewhere, &["claim", &format!("--dir={dir}"), "release", "1.1"]), ["1.1"], "in any way");
    assert_eq!(book.events(), before, "nothing was written");
}

#[test]
fn every_command_of_a_group_has_a_page_and_the_groups_page_lists_them() {
    let root = Root::new();
    for (group, commands) in COMMANDS {
        let page = root.run("a", &format!("man {group}")).exits(0, "it has one").stdout;
        for command in commands {
            assert!(page.contains(&format!("lokt\\-{group}\\-{command}(1)")), "{group} {command}: {page}");
            let json = root.run("a", &format!("man {group} {command} --json")).exits(0, "it has one").json();
            assert_eq!(json["page"], format!("lokt-{group}-{command}.1"), "its name");
            let text = json["text"].as_str().expect("its text");
            assert!(text.contains(&format!("lokt {group} {command} ")), "its usage: {text}");
            assert!(text.contains(&format!("\\fBlokt\\-{group}\\fR(1)")), "the group's page is named: {text}");
        }
    }
    root.run("a", "man lock unlock").exits(64, "one command").notes("'unlock'", "what is too much is named");
}
