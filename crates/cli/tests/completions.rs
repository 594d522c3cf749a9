//! `completions`: shells complete commands, flags, values and the locks that are held at that moment. What asks for candidates changes
//! nothing and never fails.

use std::fs;
use std::path::Path;

use lokt_testkit::session::{Start, Terminal};
use serde_json::json;

use crate::common::{Call, LOKT, Root, go_lease, go_record, put};

/// The candidates for the last of `words`.
fn candidates(root: &Root, words: &[&str]) -> Vec<String> {
    let said = root.lokt("alice").args(["complete", "--"]).args(words).run().exits(0, "asking is no error");
    assert_eq!(said.stderr, "", "{words:?}: nothing is said beside the candidates");
    said.stdout.lines().map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect()
}

/// A root with locks of several kinds.
fn busy() -> Root {
    let root = Root::new();
    root.run("alice", "lock build").exits(0, "it is free");
    root.run("bob", "lock bench").exits(0, "it is free");
    root.put_record("old", &go_lease("old", "carol", 60, -30));
    root.put_freeze("deploy", &go_lease("deploy", "dora", 600, 300));
    root
}

#[test]
fn the_first_word_is_a_command_with_what_it_does() {
    let root = Root::new();
    let help = root.run("a", "help").stdout;
    let all = candidates(&root, &[""]);
    for line in help.lines().filter(|line| line.starts_with("  ") && line.as_bytes()[2].is_ascii_lowercase()) {
        let command = line.split_whitespace().next().expect("the line isn't empty").to_owned();
        assert!(all.contains(&command), "{command} is in the help and can be completed: {all:?}");
    }
    assert!(all.contains(&"run".to_owned()), "other names too: {all:?}");
    assert!(!all.contains(&"complete".to_owned()), "what only scripts call is not offered: {all:?}");
    assert_eq!(candidates(&root, &["unl"]), ["unlock"]);
    assert_eq!(candidates(&root, &["--v"]), ["--version"]);
    let said = root.lokt("a").args(["complete", "--", "unl"]).run();
    assert_eq!(said.stdout, "unlock End one's own lock\n", "a description follows");
    assert_eq!(candidates(&root, &["help", "unl"]), ["unlock"], "help is about commands");
    assert_eq!(candidates(&root, &["bogus", ""]), [""; 0], "nothing is known about what is no command");
}

#[test]
fn every_flag_of_every_command_is_completed_once() {
    let root = Root::new();
    for command in candidates(&root, &[""]).iter().filter(|command| *command != "help") {
        let help = root.run("a", &format!("{command} --help")).stdout;
        let offered = candidates(&root, &[command, "--"]);
        let flags = help.split_whitespace().filter(|word| word.starts_with("--") && word.len() > 2);
        for flag in flags.map(|word| word.trim_end_matches(|c: char| !c.is_ascii_lowercase())) {
            if help.contains(&format!(" {flag}\n")) || help.contains(&format!(" {flag} <")) {
                assert!(offered.contains(&flag.to_owned()), "{command} {flag} is completed: {offered:?}");
            }
        }
        assert!(offered.contains(&"--json".to_owned()), "{command} takes --json: {offered:?}");
    }
    assert_eq!(
        candidates(&root, &["guard", "x", "--wait", "--wa"]),
        [""; 0],
        "a flag that is there is not offered again"
    );
    assert_eq!(candidates(&root, &["guard", "x", "-o", "--clo"]), [""; 0], "by its short name neither");
}

#[test]
fn values_that_are_known_are_offered() {
    let root = busy();
    assert_eq!(candidates(&root, &["guard", "x", "--on-lost", ""]), ["fail", "warn", "stop"]);
    assert_eq!(candidates(&root, &["guard", "x", "--on-lost=w"]), ["--on-lost=warn"], "as one word");
    assert_eq!(candidates(&root, &["guard", "x", "--on-lost", "=", "w"]), ["warn"], "as bash splits it");
    assert_eq!(candidates(&root, &["guard", "x", "--on-lost", "="]), ["fail", "warn", "stop"], "as bash splits it");
    assert_eq!(candidates(&root, &["completions", ""]), ["bash", "zsh", "fish"]);
    assert_eq!(candidates(&root, &["lock", "x", "--ttl", "5"]), ["5m"]);
    assert_eq!(candidates(&root, &["unlock", "--owner", ""]), ["alice", "bob", "carol", "dora"]);
    let build = root.record("build");
    let token = build["fencing_token"].to_string();
    assert_eq!(candidates(&root, &["unlock", "build", "--token", ""]), [token.as_str()]);
    let id = build["lock_id"].as_str().expect("it has one");
    assert_eq!(candidates(&root, &["unlock", "build", "--lock-id", ""]), [id]);
    assert_eq!(candidates(&root, &["unlock", "--lock-id", ""]), [""; 0], "of which lock?");
    assert_eq!(candidates(&root, &["lock", "x", "--reason", ""]), [""; 0], "a reason is anything");
}

#[test]
fn live_names_are_offered_where_a_name_is_wanted() {
    let root = busy();
    for command in ["guard", "run", "lock", "status", "queue", "exists", "why"] {
        assert_eq!(candidates(&root, &[command, ""]), ["bench", "build", "deploy", "old"], "{command}");
        assert_eq!(candidates(&root, &[command, "b"]), ["bench", "build"], "{command}");
    }
    assert_eq!(candidates(&root, &["unlock", ""]), ["bench", "build", "old"], "a freeze is not unlocked");
    assert_eq!(candidates(&root, &["unlock", "--force", "bu"]), ["build"], "flags may come first");
    assert_eq!(candidates(&root, &["unlock", "--owner", "bob", "bu"]), ["build"], "a flag's value is no name");
    assert_eq!(candidates(&root, &["unlock", "--", "bu"]), ["build"], "two dashes end the flags");
    assert_eq!(candidates(&root, &["unlock", "build", ""]), [""; 0], "it takes one name");
    assert_eq!(candidates(&root, &["guard", "build", "b"]), ["bench"], "guard takes several, each once");
    assert_eq!(candidates(&root, &["root", ""]), [""; 0], "root takes none");
    let said = root.lokt("alice").args(["complete", "--", "unlock", ""]).run();
    said.says("build held by alice@", "the holder is named").says("old stale\n", "so is what has ended");
    root.run("alice", "unlock build").exits(0, "it is alice's");
    assert_eq!(candidates(&root, &["unlock", "bu"]), [""; 0], "what is gone is not offered");
}

#[test]
fn what_guard_runs_is_completed_by_the_shell() {
    let root = Root::new();
    assert_eq!(root.lokt("a").args(["complete", "--", "guard", "x", "--", "ma"]).run().stdout, ":command 4\n");
    let words = ["complete", "--", "run", "--ttl", "5m", "x", "--", "make", "--", "-"];
    assert_eq!(root.lokt("a").args(words).run().stdout, ":command 6\n", "the first two dashes are guard's");
}

#[test]
fn asking_changes_nothing_and_makes_no_root() {
    let root = Root::new();
    for words in [&["unlock", ""][..], &["guard", ""], &["unlock", "--owner", ""], &["unlock", "x", "--token", ""]] {
        assert_eq!(candidates(&root, words), [""; 0], "there is nothing yet");
    }
    assert!(!root.path().exists(), "no root was made");
    let root = busy();
    let before = root.snapshot();
    for words in [&["unlock", ""][..], &["guard", ""], &["unlock", "--owner", ""], &["unlock", "build", "--token", ""]]
    {
        assert_ne!(candidates(&root, words), [""; 0], "there is something");
    }
    assert_eq!(root.snapshot(), before, "nothing was written, removed or touched");
}

#[test]
fn a_root_that_cant_be_used_offers_nothing_and_says_nothing() {
    let root = Root::new();
    put(&root.path(), "a file");
    assert_eq!(candidates(&root, &["unlock", ""]), [""; 0]);
    assert_eq!(candidates(&root, &["unlock", "--owner", ""]), [""; 0]);
    assert_eq!(candidates(&root, &["unl"]), ["unlock"], "commands are known without a root");
    let said = root.lokt("a").args(["complete"]).run().exits(0, "no words at all");
    assert!(said.stdout.contains("unlock "), "nothing was typed yet{said}");
}

#[test]
fn what_means_something_to_a_shell_is_not_offered() {
    let root = Root::used();
    for (name, owner) in
        [("a", "$(touch pwned)"), ("b", "x;y"), ("c", "two words"), ("d", "-rf"), ("e", "line\nfeed"), ("f", "zoë")]
    {
        root.put_record(name, &go_record(name, owner));
    }
    assert_eq!(candidates(&root, &["unlock", "--owner", ""]), ["zoë"], "owners can be any text, these are harmless");
    let mut record = go_record("g", "eve");
    record["lock_id"] = json!("`id`");
    root.put_record("g", &record);
    assert_eq!(candidates(&root, &["unlock", "g", "--lock-id", ""]), [""; 0], "so can lock ids");
    put(&root.path().join("locks/$(id).json"), "{}");
    put(&root.path().join("state/line/x y/1"), "");
    assert_eq!(candidates(&root, &["lock", ""]), ["a", "b", "c", "d", "e", "f", "g"], "no file makes a name");
    let said = root.lokt("a").args(["complete", "--", "unlock", "e"]).run();
    assert!(said.stdout.contains("held by line\\nfeed@") || said.stdout.contains("e stale"), "one line each{said}");
}

#[test]
fn a_script_is_an_answer_in_json_too() {
    let root = Root::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = root.run("a", &format!("completions {shell}")).exits(0, "it is known").stdout;
        let json = root.run("a", &format!("completions {shell} --json")).exits(0, "it is known").json();
        assert_eq!(json, json!({"shell": shell, "script": script}), "the same script");
    }
    let said = root.run("a", "completions tcsh").exits(64, "it is not known");
    said.notes("bash, zsh, fish", "those that are known are named");
    assert_eq!(root.run("a", "completions --json").exits(64, "of which shell?").failure(), "E_USAGE");
    assert!(!root.path().exists(), "no root was made");
}

/// A `PATH` that has the lokt under test first.
fn path() -> String {
    let ours = Path::new(LOKT).parent().expect("it is in a directory").display();
    format!("{ours}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
}

/// An interactive shell on a terminal, ready.
fn shell(root: &Root, words: &[&str]) -> Terminal {
    let text = |path: &Path| path.to_str().expect("temp paths are text").to_owned();
    let env = vec![
        ("PATH", path()),
        ("LOKT_ROOT", text(&root.path())),
        ("LOKT_OWNER", "alice".to_owned()),
        ("HOME", text(root.outside())),
        ("ZDOTDIR", text(root.outside())),
        ("TERM", "dumb".to_owned()),
        ("INPUTRC", "/dev/null".to_owned()),
    ];
    let mut terminal = Start { words: words.to_vec(), env, dir: root.outside() }.terminal(200);
    terminal.shows_after(0, "ready> ");
    terminal
}

/// Types to a shell that completes, and looks at what became of it.
fn tab_completes(root: &Root, mut terminal: Terminal) {
    let mut place = terminal.screen().len();
    // Only one name begins like this: one press completes it, and the line does what it says.
    terminal.types("lokt unlock bui\t");
    place = terminal.shows_after(place, "build");
    terminal.types("\n");
    place = terminal.shows_after(place, "released lock \"build\"");
    place = terminal.shows_after(place, "ready> ");
    assert!(!root.has_record("build"), "the lock whose name was completed is unlocked");
    terminal.types("lokt guard x --on-lost st\t");
    place = terminal.shows_after(place, "stop");
    terminal.types("-- mkfif\t");
    terminal.shows_after(place, "mkfifo");
    terminal.types(" made-by-it; exit\n");
    assert_eq!(terminal.ends(), 0, "the completed line was right: {:?}", terminal.screen());
    assert!(root.outside().join("made-by-it").exists(), "the command after the two dashes was completed and ran");
}

#[test]
fn bash_completes_at_the_press_of_tab() {
    let root = busy();
    put(&root.outside().join("bashrc"), "PS1='ready> '\nsource <(lokt completions bash)\n");
    let terminal = shell(&root, &["bash", "--noprofile", "--rcfile", "bashrc", "-i"]);
    tab_completes(&root, terminal);
}

#[test]
fn zsh_completes_at_the_press_of_tab() {
    lokt_testkit::need!("zsh");
    let root = busy();
    let rc = "autoload -Uz compinit; compinit -u -D\nPS1='ready> '\nsource <(lokt completions zsh)\n";
    put(&root.outside().join(".zshrc"), rc);
    let terminal = shell(&root, &["zsh", "-d", "-i"]);
    tab_completes(&root, terminal);
}

#[test]
fn zsh_completes_from_a_file_of_its_function_path_too() {
    lokt_testkit::need!("zsh");
    let root = busy();
    let script = root.run("a", "completions zsh").stdout;
    put(&root.outside().join("functions/_lokt"), script);
    let rc = "fpath=($ZDOTDIR/functions $fpath)\nautoload -Uz compinit; compinit -u -D\nPS1='ready> '\n";
    put(&root.outside().join(".zshrc"), rc);
    let terminal = shell(&root, &["zsh", "-d", "-i"]);
    tab_completes(&root, terminal);
}

/// What bash would offer for the last of `words`, as it splits them.
fn bash_offers(root: &Root, words: &[&str]) -> Vec<String> {
    let script = r#"
        source <(lokt completions bash)
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        _lokt lokt "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let call = Call::new("bash").args(["--norc", "-c", script, "bash"]).args(words).env("PATH", path());
    let said = call.env("LOKT_ROOT", root.path()).cwd(root.outside()).run().exits(0, "the script runs");
    said.stdout.lines().filter(|line| !line.is_empty()).map(ToOwned::to_owned).collect()
}

#[test]
fn bash_offers_words_without_their_descriptions_and_files_after_two_dashes() {
    let root = busy();
    put(&root.outside().join("some file"), "");
    assert_eq!(bash_offers(&root, &["lokt", "unlock", "b"]), ["bench", "build"]);
    assert_eq!(bash_offers(&root, &["lokt", "guard", "x", "--on-lost", "=", "f"]), ["fail"]);
    assert_eq!(bash_offers(&root, &["lokt", "guard", "x", "--", "cat", "som"]), ["some file"]);
    assert!(bash_offers(&root, &["lokt", "guard", "x", "--", "ca"]).contains(&"cat".to_owned()), "commands");
    assert_eq!(bash_offers(&root, &["lokt", "guard", "x", "--reason", ""]), [""; 0]);
}

#[test]
fn fish_offers_live_names_with_their_holders() {
    lokt_testkit::need!("fish");
    let root = busy();
    put(&root.outside().join("some-file"), "");
    let offers = |line: &str| {
        let script = "lokt completions fish | source; complete -C \"$LINE\" | string replace \\t ' '; true";
        let call = Call::new("fish").args(["--no-config", "-c", script]).env("PATH", path()).env("LINE", line);
        let call = call.env("LOKT_ROOT", root.path()).env("HOME", root.outside()).env("TERM", "dumb");
        call.cwd(root.outside()).run().exits(0, "the script runs").stdout
    };
    let names = offers("lokt unlock b");
    let lines: Vec<&str> = names.lines().collect();
    assert!(
        matches!(lines[..], [bench, build] if bench.starts_with("bench held by bob@") && build.starts_with("build held by alice@")),
        "{names}"
    );
    assert!(offers("lokt guard x --on-lost ").contains("stop End it"), "values");
    assert!(offers("lokt guard x --on-lost=st").contains("--on-lost=stop"), "values in the same word");
    assert!(offers("lokt guard x -- cat some-f").contains("some-file"), "files of another command");
    assert!(offers("lokt guard x -- mkfif").contains("mkfifo"), "another command");
    assert!(!offers("lokt unlock ").contains("some-file"), "no files where a name is wanted");
}

#[test]
fn the_scripts_have_no_syntax_errors() {
    lokt_testkit::need!("zsh", "fish");
    let root = Root::new();
    for (shell, check) in [("bash", &["-n"][..]), ("zsh", &["-n"]), ("fish", &["--no-config", "--no-execute"])] {
        let script = root.outside().join(shell);
        put(&script, root.run("a", &format!("completions {shell}")).stdout);
        let said = Call::new(shell).args(check).args([&script]).env("HOME", root.outside()).run();
        assert_eq!(said.exits(0, "it parses").stderr, "", "{shell} has nothing to say");
        assert!(fs::read_to_string(&script).is_ok_and(|text| text.ends_with('\n')), "it ends with a newline");
    }
}
