//! `lokt guard`: its words, the command that it runs, and the code that it exits with.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::time::Duration;

use lokt_testkit::swarm::wait_until;
use serde_json::{Value, json};

use crate::common::guards::{Guard, leftovers};
use crate::common::programs::program;
use crate::common::{Call, LOKT, Root, Said, eventually, go_record, names_in, now, put};

/// `lokt guard WORDS -- sh -c SCRIPT`
fn shell(root: &Root, owner: &str, words: &str, script: &str) -> Said {
    let words = ["guard"].into_iter().chain(words.split_whitespace());
    root.lokt(owner).args(words.chain(["--", "sh", "-c", script])).run()
}

/// The values of variables, one line each, as a command under `words` sees them.
fn seen(root: &Root, words: &str, variables: &[&str]) -> Vec<String> {
    let script: Vec<String> = variables.iter().map(|name| format!("printf '%s\\n' \"${name}\"")).collect();
    let said = shell(root, "a", words, &script.join(";")).exits(0, "it is free");
    said.stdout.lines().map(ToOwned::to_owned).collect()
}

// --- words

#[test]
fn the_flags_of_guard_go_before_and_after_the_name_and_with_an_equals_sign() {
    let root = Root::new();
    for words in [
        "guard x --ttl 5m --wait --timeout 1s --on-lost warn -E 7 -o --reason why",
        "guard --ttl 5m --wait --timeout 1s --on-lost warn -E 7 --until-all --reason why x",
        "guard --ttl=5m --timeout=1s x --on-lost=warn --conflict-exit-code=7 --close --reason=why",
        "run -oE7 --wait x --ttl 300 --timeout 0 --on-lost stop --reason why",
        "guard --until-all -E7 --on-lost fail --ttl 5m --reason why -- x",
    ] {
        let (words, name) = words.strip_suffix(" -- x").map_or((words, None), |words| (words, Some("x")));
        let words = words.split_whitespace().chain(name).chain(["--", "cat", "root/locks/x.json"]);
        let said = root.lokt("a").args(words).run().exits(0, "every flag is one of guard's");
        let record: Value = said.json();
        assert_eq!((&record["ttl_sec"], &record["reason"]), (&json!(300), &json!("why")), "and is obeyed{said}");
        assert_eq!(said.stderr, "", "nothing is said by a guard that has nothing to say{said}");
        assert_eq!(leftovers(&root), Vec::<String>::new(), "and nothing is left of it{said}");
    }
}

#[test]
fn run_is_the_same_command_as_guard() {
    let root = Root::new();
    shell(&root, "a", "x", "exit 3").exits(3, "guard");
    root.run("a", "run x -- sh -c false").exits(1, "run is guard");
    root.run("a", "run x -- true").exits(0, "run is guard");
    assert_eq!(root.events_of("x"), ["acquire", "release", "acquire", "release", "acquire", "release"], "three holds");
    let of = |name: &str| root.run("a", &format!("{name} -h")).exits(0, "help is no error").stdout;
    assert_eq!(of("run"), of("guard").replace("lokt guard", "lokt run"), "even its help is the same");
}

#[test]
fn the_help_of_guard_names_every_flag() {
    let root = Root::new();
    for words in ["guard -h", "guard --help", "help guard", "guard x -h", "guard -h -- true"] {
        let said = root.run("a", words).exits(0, "help is no error");
        said.says("Usage: lokt guard [OPTIONS] <NAME>... -- <COMMAND>...", words);
    }
    let said = root.run("a", "guard -h").exits(0, "help is no error");
    let flags =
        ["--ttl <DURATION>", "--wait", "--timeout <DURATION>", "--on-lost <WHAT>", "fail, warn, stop", "--json"];
    let more =
        ["-E, --conflict-exit-code <CODE>", "-o, --close", "--until-all", "--reason <TEXT>", "LOKT_FENCING_TOKEN"];
    for flag in flags.into_iter().chain(more) {
        assert!(said.stdout.contains(flag), "{flag} is in the help{said}");
    }
    root.run("a", "help")
        .exits(0, "help is no error")
        .says("guard <NAME>... -- <COMMAND>...", "it is the first command");
    assert!(!root.path().exists(), "help touches nothing");
}

#[test]
fn what_is_typed_wrong_runs_nothing_and_never_looks_like_held() {
    let root = Root::new();
    for words in [
        "guard -- touch ran",
        "guard x --",
        "guard x --bogus -- touch ran",
        "guard --bogus x -- touch ran",
        "guard x -x -- touch ran",
        "guard x --ttl -- touch ran",
        "guard x --ttl bogus -- touch ran",
        "guard x --ttl -5m -- touch ran",
        "guard x --ttl=-5m -- touch ran",
        "guard x --ttl 5m --ttl 5m -- touch ran",
        "guard x --timeout -1s -- touch ran",
        "guard x --timeout=-1ms --wait -- touch ran",
        "guard x --timeout -- touch ran",
        "guard x --wait --wait -- touch ran",
        "guard x --wait=true -- touch ran",
        "guard x --on-lost -- touch ran",
        "guard x --on-lost panic -- touch ran",
        "guard x -E -- touch ran",
        "guard x -E 256 -- touch ran",
        "guard x -E -1 -- touch ran",
        "guard x --conflict-exit-code=no -- touch ran",
        "guard x -o -o -- touch ran",
        "guard x --reason -- touch ran",
        "guard x -ttl 5m -- touch ran",
        "run --until-all -- touch ran",
    ] {
        let said = root.run("a", words).exits(64, words);
        assert_eq!(said.stdout, "", "{words}: a usage error is no answer{said}");
        assert!(said.stderr.starts_with("error: "), "{words}: it says what is wrong{said}");
        let said = root.run("a", &words.replacen(' ', " --json ", 1)).exits(64, words);
        assert_eq!(said.failure(), "E_USAGE", "{words}: the code is stable{said}");
        assert_eq!(said.stderr, "", "{words}: JSON is all there is{said}");
    }
    assert!(!root.path().exists(), "what is typed wrong touches nothing");
    assert!(!root.outside().join("ran").exists(), "and runs nothing");
}

#[test]
fn a_command_without_two_dashes_before_it_is_explained() {
    let root = Root::new();
    for words in ["guard x", "guard x touch ran", "guard x --wait touch ran", "guard"] {
        root.run("a", words)
            .exits(64, words)
            .notes("hint: the command comes after two dashes, as in `lokt guard build -- make`", "it says how");
    }
    let json = root.run("a", "run x touch ran --json").exits(64, "in JSON too").json();
    assert_eq!(json["hint"], "the command comes after two dashes, as in `lokt run build -- make`", "by its own name");
    root.run("a", "guard x -ttl 5m -- touch ran")
        .exits(64, "one dash")
        .notes("hint: flags have two dashes: --ttl", "how");
    assert!(!root.path().exists(), "nothing was touched");
}

#[test]
fn a_bad_name_of_a_guard_is_refused_before_anything_is_touched() {
    let root = Root::new();
    let long = "n".repeat(201);
    for name in ["../x", "a/b", ".", "..", "", "a b", "é", &long] {
        let call = || root.lokt("a").args(["guard", "good", name]);
        call().args(["--", "touch", "ran"]).run().exits(64, name).notes("error: invalid lock name", name);
        let said = call().args(["--json", "--", "touch", "ran"]).run().exits(64, name);
        assert_eq!(said.failure(), "E_BAD_NAME", "the code is stable");
    }
    assert!(!root.path().exists(), "nothing was touched");
    assert!(!root.outside().join("ran").exists(), "and nothing was run");
}

#[test]
fn what_follows_the_two_dashes_is_the_commands_own() {
    let root = Root::new();
    let said = root.lokt("a").args(["guard", "x", "--", "printf", "%s\n", "--json", "--ttl", "--", "-h"]).run();
    let said = said.exits(0, "they are printf's");
    assert_eq!(said.stdout, "--json\n--ttl\n--\n-h\n", "flags of the command are left alone");
}

// --- what it runs

#[test]
fn the_command_is_executed_directly_never_by_a_shell() {
    let root = Root::new();
    let words = ["a b", "$HOME", "*", "`id`", "", "'\"", "x\ny;z", "~"];
    let said = root.lokt("a").args(["guard", "x", "--", "printf", "[%s]"]).args(words);
    let output = said.run().exits(0, "printf runs").stdout;
    assert_eq!(output, words.map(|word| format!("[{word}]")).concat(), "every argument arrives as it was given");
    let odd = OsString::from_vec(vec![b'r', b'o', b'o', b't', b'/', 0xff, b'!']);
    root.lokt("a")
        .args(["guard", "x", "--", "mkdir"].map(OsStr::new))
        .args([&odd])
        .run()
        .exits(0, "bytes that are no text");
    assert!(root.outside().join(&odd).is_dir(), "arrive too");
}

#[test]
fn standard_input_output_error_and_directory_are_ours() {
    let root = Root::new();
    fs::create_dir(root.outside().join("here")).expect("a temp directory is writable");
    let mut guard = Guard::ask(root.lokt("a").cwd(&root.outside().join("here")), "x");
    guard.runs();
    guard.tell("pwd; echo 'to stderr' >&2; read -r word; echo \"got $word\"");
    guard.tell("from stdin");
    let said = guard.exit(0).exits(0, "it was told to");
    assert!(said.stdout.contains("/here\n"), "it runs where we are{said}");
    assert!(said.stdout.contains("got from stdin\n"), "it reads what we read{said}");
    assert_eq!(said.stderr, "to stderr\n", "it writes where we write, and the guard adds nothing{said}");
}

#[test]
fn ten_megabytes_pass_through_a_guard() {
    let root = Root::new();
    let said = shell(&root, "a", "x --ttl 1s", "head -c 10000000 /dev/zero | tr '\\0' y; echo; echo end >&2");
    assert_eq!(said.code, 0, "the command succeeds: {}", said.stderr);
    assert_eq!(said.stdout.len(), 10_000_001, "every byte arrives");
    assert_eq!(said.stderr, "end\n", "beside what goes to stderr");
}

#[test]
fn a_guard_that_answers_in_json_adds_nothing_to_what_its_command_says() {
    let root = Root::new();
    let said = shell(&root, "a", "x --json --ttl 5m", "echo out; echo err >&2; exit 5").exits(5, "the command's code");
    assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("out\n", "err\n"), "the output is the command's");
}

// --- its environment

#[test]
fn the_command_knows_its_lock_by_name_id_and_token() {
    let root = Root::new();
    let variables = ["LOKT_NAME", "LOKT_LOCK_ID", "LOKT_FENCING_TOKEN", "LOKT_HOLDS"];
    let mut last = 0;
    for round in 0..3 {
        let seen = seen(&root, "build", &variables);
        let token: u64 = seen[2].parse().expect("a token is a number");
        assert_eq!(seen[0], "build", "LOKT_NAME");
        assert_eq!(seen[3], format!("build={}:{token}:{token}", seen[1]), "LOKT_HOLDS names the hold");
        let granted = &root.audit_of("build")[2 * round];
        assert_eq!(granted["lock_id"], seen[1].as_str(), "LOKT_LOCK_ID is the one that was granted");
        assert_eq!(granted["extra"]["fencing_token"], token, "LOKT_FENCING_TOKEN is the one that was granted");
        assert!(token > last, "tokens grow: {token} after {last}");
        last = token;
    }
}

#[test]
fn the_names_of_one_guard_are_listed_in_byte_order_and_those_of_a_nested_one_are_appended() {
    let root = Root::new();
    let inner = format!("{LOKT} guard c B -- sh -c 'echo $LOKT_NAME; echo $LOKT_LOCK_ID; echo $LOKT_HOLDS'");
    let script = format!("echo $LOKT_NAME; echo $LOKT_LOCK_ID; echo $LOKT_FENCING_TOKEN; echo $LOKT_HOLDS; {inner}");
    let said = shell(&root, "a", "b a B", &script).exits(0, "they are free");
    let lines: Vec<&str> = said.stdout.lines().collect();
    assert_eq!(lines[0], "B,a,b", "upper case comes first{said}");
    let ids: Vec<&str> = lines[1].split(',').collect();
    let tokens: Vec<u64> = lines[2].split(',').map(|token| token.parse().expect("a token is a number")).collect();
    assert!(tokens.is_sorted() && tokens.len() == 3, "one token each, in the order of the names{said}");
    let holds: Vec<String> = ["B", "a", "b"]
        .iter()
        .zip(&ids)
        .zip(&tokens)
        .map(|((name, id), token)| format!("{name}={id}:{token}:{token}"))
        .collect();
    assert_eq!(lines[3], holds.join(","), "LOKT_HOLDS has all three{said}");
    assert_eq!(lines[4], "B,c", "the nested one knows its own names{said}");
    let inner_ids: Vec<&str> = lines[5].split(',').collect();
    assert_eq!(inner_ids[0], ids[0], "B is the hold that it is inside of{said}");
    let appended = lines[6].strip_prefix(&format!("{},c={}:", lines[3], inner_ids[1]));
    let numbers = appended.and_then(|appended| appended.split_once(':'));
    assert!(
        numbers.is_some_and(|(token, pulse)| token == pulse && token.parse::<u64>().is_ok()),
        "only c is new{said}"
    );
}

#[test]
fn what_a_command_holds_already_stays_in_its_environment() {
    let root = Root::new();
    let call = root.lokt("a").env("LOKT_HOLDS", "other=abc:7").env("KEPT", "yes");
    let said = call.args(["guard", "x", "--", "sh", "-c", "echo $LOKT_HOLDS; echo $KEPT"]).run().exits(0, "it is free");
    assert!(said.stdout.starts_with("other=abc:7,x="), "appended to{said}");
    assert!(said.stdout.ends_with("\nyes\n"), "and everything else is passed on{said}");
}

// --- how it ends

#[test]
fn the_exit_code_of_a_guard_is_its_commands() {
    let root = Root::new();
    for code in [0, 1, 2, 3, 42, 64, 75, 79, 126, 127, 128, 255] {
        let said = shell(&root, "a", "x -E 9", &format!("exit {code}")).exits(code, "the command's, whatever it is");
        assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("", ""), "and nothing is said about it");
    }
    assert_eq!(leftovers(&root), Vec::<String>::new(), "every lock was given back");
}

#[test]
fn a_command_that_dies_of_a_signal_makes_128_and_its_number() {
    let root = Root::new();
    for (signal, number) in [("HUP", 1), ("INT", 2), ("KILL", 9), ("USR1", 10), ("SEGV", 11), ("TERM", 15)] {
        shell(&root, "a", "x", &format!("ulimit -c 0; kill -{signal} $$")).exits(128 + number, signal);
    }
    assert_eq!(leftovers(&root), Vec::<String>::new(), "every lock was given back");
}

#[test]
fn a_command_that_is_not_there_is_127_and_one_that_cannot_be_executed_126() {
    let root = Root::new();
    let plain = root.outside().join("plain.txt");
    put(&plain, "no program");
    let garbage = root.outside().join("garbage");
    program(&garbage, [0, 1, 2, 3]);
    let (plain, garbage) = (plain.to_string_lossy(), garbage.to_string_lossy());
    for (program, code, name) in [
        ("/no/such/program", 127, "E_NO_COMMAND"),
        ("no-such-program", 127, "E_NO_COMMAND"),
        (&plain, 126, "E_NOT_EXECUTABLE"),
        (&garbage, 126, "E_NOT_EXECUTABLE"),
        ("/", 126, "E_NOT_EXECUTABLE"),
    ] {
        let said = root.run("a", &format!("guard x -E 9 -- {program}")).exits(code, program);
        said.notes(program, "it is named").notes("hint: the lock was given back", "and what became of the lock");
        let said = root.run("a", &format!("guard x --json -- {program}")).exits(code, program);
        assert_eq!(said.failure(), name, "the code is stable{said}");
    }
    assert_eq!(leftovers(&root), Vec::<String>::new(), "it was given back");
}

#[test]
fn the_lock_is_held_while_the_command_runs_and_given_back_when_it_ends() {
    let root = Root::new();
    let guard = Guard::start(&root, "a", "x --reason because");
    let record = root.record("x");
    assert_eq!(record["pid"], guard.pid(), "the guard is the holder");
    assert_eq!(record.get("expires_at"), None, "without a TTL it has no end");
    let said = root.run("b", "lock x").exits(2, "it is held").notes("reason:  because", "for a reason");
    said.notes(&format!("until:   process {} ends", guard.pid()), "until then");
    root.run("b", "exists x").exits(0, "it is held");
    guard.exit(0).exits(0, "its command ended");
    root.run("b", "exists x").exits(3, "it is free");
    let events = root.audit_of("x");
    let release = events.last().expect("there is one");
    assert_eq!(
        (&release["event"], &release["extra"]["part"]),
        (&json!("release"), &json!("process")),
        "the guard's part"
    );
    assert_eq!(leftovers(&root), Vec::<String>::new(), "nothing is left");
}

#[test]
fn only_the_direct_child_counts_unless_all_are_waited_for() {
    let root = Root::new();
    let script = "sleep 60 >/dev/null 2>&1 & echo $!";
    let said = shell(&root, "a", "x", script).exits(0, "it ends with its direct child");
    let daemon = Daemon(said.stdout.trim().to_owned());
    root.run("b", "lock x").exits(0, "what the command left behind doesn't keep the lock");
    drop(daemon);
    let mut guard = Guard::start(&root, "a", "y --until-all");
    guard.does("(exec sleep 60 >/dev/null 2>&1) & echo \"left $!.\"");
    let daemon =
        Daemon(guard.stdout().split("left ").nth(1).and_then(|s| s.split('.').next()).expect("its pid").into());
    guard.tell("exit 4");
    eventually("the command ends", || !fs::exists(format!("/proc/{}/exe", guard.command())).unwrap_or(false));
    root.run("b", "lock y").exits(2, "with --until-all it does");
    drop(daemon);
    guard.wait().exits(4, "and the code is that of the command all the same");
    root.run("b", "lock y").exits(0, "then it is free");
}

/// A process that a command left behind.
struct Daemon(String);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = std::process::Command::new("kill").args(["-KILL", &self.0]).status();
    }
}

#[test]
fn the_command_inherits_the_pulse_out_of_the_way_of_scripts_unless_closed() {
    let root = Root::new();
    let script = "for fd in /proc/self/fd/*; do echo $fd $(readlink $fd); done";
    let pulse = |said: &Said| -> Vec<u32> {
        let lines = said.stdout.lines().filter(|line| line.contains("/state/"));
        lines.filter_map(|line| line.split(['/', ' ']).nth(4)?.parse().ok()).collect()
    };
    let said = shell(&root, "a", "x y", script).exits(0, "it is free");
    let inherited = pulse(&said);
    assert!(
        inherited.len() == 2 && inherited.iter().all(|fd| *fd >= 100),
        "one per name, from 100: {inherited:?}{said}"
    );
    for flag in ["-o", "--close"] {
        let said = shell(&root, "a", &format!("x y {flag}"), script).exits(0, "it is free");
        assert_eq!(pulse(&said), Vec::<u32>::new(), "{flag} keeps it from the command{said}");
    }
    // Nothing else of the guard's is the command's.
    let bare = Call::new("ls").args(["/proc/self/fd"]).run().exits(0, "ls runs");
    let guarded = root.lokt("a").args(["guard", "x", "-o", "--", "ls", "/proc/self/fd"]).run().exits(0, "ls runs");
    assert_eq!(guarded.stdout, bare.stdout, "the same descriptors as without a guard");
}

// --- refusals

#[test]
fn a_guard_that_is_refused_runs_nothing() {
    let root = Root::new();
    let holder = Guard::start(&root, "a", "x --reason because");
    let said = root.run("b", "guard x -- touch ran").exits(2, "it is held");
    assert!(said.stderr.starts_with("error: lock \"x\" held by a (agent: "), "it says by whom{said}");
    said.notes("hint: `--wait` waits in line for it, `lokt why x` shows", "and what to do");
    let said = root.run("b", "guard x --json -- touch ran").exits(2, "it is held");
    let json = said.json();
    assert_eq!(
        (&json["status"], &json["code"], &json["holder_pid"], &json["holder_owner"], &json["holder_reason"]),
        (&json!("blocked"), &json!("E_LOCK_CONFLICT"), &json!(holder.pid()), &json!("a"), &json!("because")),
        "the same in JSON{said}"
    );
    assert_eq!(said.stderr, "", "JSON is all there is{said}");
    assert!(!root.outside().join("ran").exists(), "nothing was run");
    assert_eq!(root.events_of("x"), ["acquire", "deny", "deny"], "each attempt is one deny");
}

#[test]
fn the_conflict_exit_code_replaces_2_and_nothing_else() {
    let root = Root::new();
    let _holder = Guard::start(&root, "a", "x");
    for words in
        ["guard x -E 9 -- true", "guard x -E9 --json -- true", "run --conflict-exit-code 9 x --timeout 10ms -- true"]
    {
        root.run("b", words).exits(9, "it is held");
    }
    root.run("b", "guard x -E 0 -- true").exits(0, "whatever it is");
    root.run("b", "guard y -E 9 -- sh -c false").exits(1, "the command's own code");
    root.run("b", "guard y -E 9 -- no-such-program").exits(127, "other errors of ours");
    root.put_record("old", &json!({"version": 2, "name": "old"}));
    root.run("b", "guard old -E 9 -- true").exits(65, "a record of the future is no conflict");
    root.put_freeze("z", &go_record("z", "admin"));
    root.run("b", "guard z -E 9 -- true").exits(9, "a freeze is a conflict");
    root.run("b", "guard z -- true").exits(2, "a freeze is a conflict");
}

#[test]
fn a_timeout_implies_waiting_and_ends_it() {
    let root = Root::new();
    let holder = Guard::start(&root, "a", "x");
    let began = now();
    let said = root.run("b", "guard x --timeout 300ms -- touch ran").exits(2, "it wasn't released");
    let waited = now().duration_since(began).as_secs_f64();
    assert!((0.3..10.0).contains(&waited), "it waited as long as it was told, not {waited} s");
    said.notes("waiting for lock \"x\": first in line; held by a@", "it says what it waits for")
        .notes("error: timeout waiting for lock \"x\" held by a", "and that it was in vain");
    let said = root.run("b", "guard x --json --timeout 300ms -- touch ran").exits(2, "it wasn't released");
    let json = said.json();
    assert_eq!(json["code"], "E_LOCK_CONFLICT", "the code is stable");
    assert!(json["waited_ms"].as_u64().is_some_and(|ms| ms >= 300), "it says how long it waited{said}");
    assert_eq!(json["waiters"], 0, "whoever gave up doesn't wait{said}");
    assert!(!root.outside().join("ran").exists(), "nothing was run");
    let denied = root.audit_of("x").pop().expect("there is one");
    assert_eq!(
        (&denied["event"], &denied["extra"]["reason"]),
        (&json!("deny"), &json!("timeout")),
        "and it is audited"
    );
    holder.exit(0).exits(0, "the holder ends");
    assert_eq!(leftovers(&root), Vec::<String>::new(), "nothing is left of either");
}

#[test]
fn whoever_waits_runs_when_the_lock_is_given_back() {
    let root = Root::new();
    for flags in ["--wait", "--timeout 1h", "--wait --timeout 1h"] {
        let holder = Guard::start(&root, "a", "x");
        let mut waiter = Guard::ask(root.lokt("b"), &format!("x {flags}"));
        waiter.warns("waiting for lock \"x\"", "it waits");
        assert!(!waiter.stdout().contains("runs"), "nothing runs while it waits");
        // A millisecond of it may be over when it says so.
        let left = if flags.contains("1h") { ["1h0m0s", "59m5"] } else { ["10m0s", "9m5"] };
        let told = left.iter().any(|left| waiter.stderr().contains(&format!("giving up in {left}")));
        assert!(told, "{flags}: for as long as it was told: {}", waiter.stderr());
        holder.exit(0).exits(0, "the holder ends");
        waiter.runs();
        waiter.warns("got lock \"x\" after ", "it says so");
        waiter.does("echo \"token $LOKT_FENCING_TOKEN\"");
        waiter.exit(6).exits(6, "it runs under the lock like any other");
    }
    assert_eq!(leftovers(&root), Vec::<String>::new(), "nothing is left of any of them");
}

#[test]
fn a_broken_stale_lock_is_taken_by_a_guard() {
    let root = Root::used();
    root.put_record("x", &go_record("x", "gone"));
    shell(&root, "a", "x", "true").exits(0, "its process is gone");
    assert_eq!(root.events_of("x"), ["auto-prune", "acquire", "release"], "what was broken is audited first");
    root.put("locks/y.json", "{\"version\": 1, ");
    crate::common::make_old(&root.record_path("y"));
    shell(&root, "a", "y", "true").exits(0, "what can't be read is moved aside");
    assert_eq!(root.events_of("y"), ["corrupt-break", "acquire", "release"], "and that is audited");
}

#[test]
fn a_guards_hold_is_not_unlocked_by_its_owner() {
    let root = Root::new();
    let guard = Guard::start(&root, "a", "x");
    let said = root.run("a", "unlock x").exits(4, "it ends with its command");
    let who = format!("another process of the same owner (a): a running guard (pid {})", guard.pid());
    said.notes(&who, "it says what holds it").notes("hint: it ends with its command\n", "and what ends it");
    let json = root.run("a", "unlock x --json").exits(4, "it ends with its command").json();
    assert_eq!(json["code"], "E_LOCK_NOT_HELD", "the code is stable");
    let swept = root.run("a", "unlock --all --json").exits(0, "nothing else is a's").json();
    assert_eq!(swept, json!({"released": [], "count": 0, "skipped": ["x"]}), "it is skipped by name");
    root.run("b", "unlock x").exits(4, "it is a's");
    guard.exit(0).exits(0, "nothing was lost");
}

// --- nothing is left behind

#[test]
fn a_thousand_runs_leave_no_file_behind_but_the_audit_log_and_the_fixed_files() {
    const RUNS: usize = 1_000;
    let root = Root::new();
    root.run("a", "guard x -- true").exits(0, "it is free");
    let before: Vec<_> = root.snapshot().into_iter().map(|(path, _)| path).collect();
    for run in 1..RUNS {
        let words = if run % 2 == 0 { "guard x -- true" } else { "guard x --ttl 5m y -- true" };
        let call = root.lokt("a").args(words.split_whitespace());
        assert_eq!(call.code(), Some(0), "run {run} succeeds");
    }
    let after: Vec<_> = root.snapshot().into_iter().map(|(path, _)| path).collect();
    assert_eq!(after, before, "the same files as after the first run");
    assert_eq!(leftovers(&root), Vec::<String>::new(), "which are the fixed ones");
    let events = root.audit_of("x");
    assert_eq!(events.len(), 2 * RUNS, "each is audited: acquired and released");
    let tokens: Vec<u64> =
        events.iter().filter_map(|event| event["extra"]["fencing_token"].as_u64()).step_by(2).collect();
    assert!(tokens.windows(2).all(|pair| pair[0] < pair[1]), "tokens grow");
}

#[test]
fn a_guard_killed_while_it_waits_or_holds_leaves_nothing_once_the_next_one_comes() {
    let root = Root::new();
    let holder = Guard::start(&root, "a", "x");
    let waiter = Guard::ask(root.lokt("b"), "x --wait");
    waiter.warns("waiting for lock", "it waits");
    drop(waiter);
    drop(holder);
    let free = wait_until(Duration::from_secs(10), || root.run("c", "guard x -- true").code == 0);
    assert!(free, "dead guards hold nothing");
    assert_eq!(leftovers(&root), Vec::<String>::new(), "and their pulses and tickets are gone");
    assert_eq!(names_in(&root.path().join("locks")).len(), 0, "with their records");
}

#[test]
fn a_script_whose_interpreter_is_missing_is_not_called_missing_itself() {
    let root = Root::new();
    let script = root.outside().join("script");
    program(&script, "#!/no/such/interpreter\n");
    let words = format!("guard x -- {}", script.display());
    let said = root.run("a", &words).exits(126, "it is there, but can't be run");
    said.notes("the interpreter in its first line was not found", "what is missing");
    assert!(names_in(&root.path().join("locks")).is_empty(), "the lock was given back");
}

#[test]
fn a_duration_after_wait_is_not_taken_for_the_name_of_a_lock() {
    let root = Root::new();
    let said = root.run("a", "guard m --wait 5s -- touch ran").exits(64, "it takes no value");
    said.notes("hint: `--timeout 5s` waits for at most that long", "what was meant");
    let said = root.run("a", "guard m --wait 5s --json -- touch ran").exits(64, "it takes no value");
    assert_eq!(said.json()["code"], "E_USAGE", "in JSON too{said}");
    assert!(!root.outside().join("ran").exists(), "nothing was run");
    root.run("a", "guard 5s --wait -- true").exits(0, "a lock may have that name");
}

#[test]
fn what_does_not_inherit_the_lock_cannot_keep_it() {
    let root = Root::new();
    let said = root.run("a", "guard x -o --until-all -- touch ran").exits(64, "they exclude each other");
    assert!(said.stderr.contains("cannot be used with"), "it says so{said}");
}

#[test]
fn a_guards_lease_is_not_said_to_end_by_itself() {
    let root = Root::new();
    let holder = Guard::start(&root, "a", "x --ttl 5m");
    let renews = format!("process {} ends; it renews its lease, now until ", holder.pid());
    root.run("b", "lock x").exits(2, "it is held").notes(&renews, "what ends it");
    let why = root.run("b", "why x").exits(2, "it is held");
    assert!(!why.stdout.contains("until it ends by itself"), "its guard renews it{why}");
}

#[test]
fn whoever_joins_or_breaks_a_running_guards_lock_is_told() {
    let root = Root::new();
    let holder = Guard::start(&root, "a", "x");
    let said = root.run("a", "lock x").exits(0, "it is a's");
    said.notes(
        &format!("note: joined the lock that another process of the same owner (a), a guard (pid {}),", holder.pid()),
        "what it joined",
    );
    let said = root.run("b", "unlock --force x").exits(0, "force");
    said.notes(&format!("warning: its guard, process {}, runs on without the lock", holder.pid()), "what that means");
}
