//! `lokt lease run`: become the one writer, renew, run, give back; and stop in time.

use std::fs;
use std::path::Path;

use lokt_testkit::session::PATIENCE;
use lokt_testkit::swarm::wait_until;
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::common::grove::{Grove, LONG};
use crate::common::programs::program;
use crate::common::{LOKT, Running, eventually, names_in, pid_of, put, time};

/// Starts `lokt lease run WORDS -- sh -c SCRIPT`.
fn start(grove: &Grove, owner: &str, words: &str, script: &str) -> Running {
    grove.lokt(owner).args(["lease", "run"]).args(words.split_whitespace()).args(["--", "sh", "-c", script]).start()
}

/// Runs until there is a file `stop`.
const UNTIL_STOP: &str = "touch ran; while ! [ -e stop ]; do sleep 0.02; done";
/// Says its pid, and runs for as long as it may.
const FOR_EVER: &str = "echo $$ > pid.tmp; mv pid.tmp pid; while :; do sleep 0.02; done";

fn has_made(grove: &Grove, name: &str) {
    eventually("the command runs", || grove.top().join(name).exists());
}

/// The pid that a command wrote down.
fn written_pid(grove: &Grove, name: &str) -> u32 {
    has_made(grove, name);
    grove.text(name).trim().parse().expect("a pid")
}

fn signal(pid: u32, signal: Signal) {
    kill_process(pid_of(pid), signal).expect("it is ours");
}

/// A zombie has ended.
fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, fields)| !fields.starts_with(" Z"))
}

/// What is left of pulses.
fn pulses(grove: &Grove) -> usize {
    let names = names_in(&grove.inside("locks/main.lock.d"));
    names.iter().filter(|path| path.to_string_lossy().contains("/pulse.")).count()
}

/// `PATH` with our binary in it.
fn path() -> String {
    let dir = Path::new(LOKT).parent().expect("it is in a directory");
    format!("{}:/usr/bin:/bin", dir.display())
}

fn operations(grove: &Grove) -> Vec<String> {
    let name = |event: &Value| event["operation"].as_str().expect("an operation").to_owned();
    grove.events().iter().map(name).filter(|name| name.starts_with("lock_") || name.starts_with("lease_")).collect()
}

#[test]
fn the_command_runs_under_the_lease_and_its_code_is_the_answer() {
    let grove = Grove::new();
    for code in [0, 7] {
        let said = start(&grove, "alice", "", &format!("exit {code}")).wait().exits(code, "the command's own code");
        assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("", ""), "and nothing else");
    }
    start(&grove, "alice", "", "kill -TERM $$").wait().exits(143, "it died of a signal");
    let script = "echo $LOKT_LEASE_WORKTREE; echo $LOKT_LEASE_REPO; cd / && lokt lease fence check --json";
    let call = grove.lokt("alice").args(["lease", "run", "--json", "--", "sh", "-c", script]).env("PATH", path());
    let said = call.run().exits(0, "its token is current, and known");
    let top = fs::canonicalize(grove.top()).expect("it is there");
    assert!(said.stdout.starts_with(&format!("main\n{}\n", top.display())), "it is told where it is{said}");
    assert_eq!(grove.state("main"), "free", "each was given back");
    assert_eq!((pulses(&grove), grove.home().exists()), (0, false), "and nothing is left of it, nor of a session");
    let tokens: Vec<_> = grove.events_of("lock_acquire").iter().map(|event| event["fencing_token"].as_u64()).collect();
    assert!(tokens.is_sorted_by(|one, next| one < next) && tokens.len() == 4, "every token is greater: {tokens:?}");
    assert_eq!(grove.events_of("lock_release").len(), 4, "{:?}", grove.events());
}

#[test]
fn the_command_is_started_as_that_of_a_guard_is() {
    let grove = Grove::new();
    // Without the upper half of the signals: the C library ignores one of its own in what it starts, until a thread is made there.
    let script = "printf '<%s>' \"$0\" \"$@\"; pwd; grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status | \
        sed 's/\t[0-9a-f]\\{8\\}/ /'; echo \"$ODD\"; ls /proc/self/fd; ps -o comm= -p $PPID";
    let words = ["--", "sh", "-c", script, "zero", "", "a b", "--", "*", "é"];
    let call = |first: &[&str]| grove.lokt("b").args(first).args(words).env("ODD", "a=b\nc").run().exits(0, "it runs");
    let (guarded, leased) = (call(&["guard", "x"]), call(&["lease", "run"]));
    let stdout = "words, directory, signals, environment, descriptors and parent";
    assert_eq!((leased.stdout, leased.stderr), (guarded.stdout, guarded.stderr), "{stdout}");
}

#[test]
fn a_command_that_cannot_be_run_gives_the_lease_back() {
    let grove = Grove::new();
    let said = grove.run("alice", "lease run -- no-such-command").exits(127, "there is none");
    said.notes("command not found: no-such-command", "it says so")
        .notes("the lease was given back", "and what follows");
    program(&grove.top().join("plain"), "not a program");
    for (words, code, name) in [
        ("./plain", 126, "E_NOT_EXECUTABLE"),
        ("./.jvs", 126, "E_NOT_EXECUTABLE"),
        ("./missing", 127, "E_NO_COMMAND"),
        ("./.jvs/format_version", 126, "E_NOT_EXECUTABLE"),
    ] {
        let said = grove.run("alice", &format!("lease run --json -- {words}")).exits(code, words);
        assert_eq!(said.failure(), name, "{words}");
    }
    assert_eq!((grove.state("main").as_str(), pulses(&grove)), ("free", 0), "given back");
    grove.run("alice", "lease run").exits(64, "which command?").notes("two dashes", "it says how");
}

#[test]
fn a_lease_of_another_is_not_run_under_and_can_be_waited_for() {
    let grove = Grove::new();
    let token = grove.acquire("alice", LONG);
    start(&grove, "bob", "", "touch ran").wait().exits(2, "it is alice's").notes("held by alice", "it says whose");
    let json = start(&grove, "bob", "--json", "touch ran").wait().exits(2, "it is alice's").json();
    assert_eq!((&json["status"], &json["code"]), (&json!("blocked"), &json!("E_LOCK_CONFLICT")), "{json}");
    start(&grove, "alice", "", "touch ran").wait().exits(2, "her session isn't this process's");
    start(&grove, "bob", "--timeout 100ms", "touch ran").wait().exits(2, "she keeps it");
    assert_eq!((grove.top().join("ran").exists(), pulses(&grove)), (false, 0), "nothing ran, nothing is left");
    let waiting = start(&grove, "bob", "--wait", "echo $LOKT_LEASE_TOKEN; touch ran");
    wait_until(PATIENCE, || waiting.sleeps());
    grove.run("alice", "lease release").exits(0, "it is hers");
    let said = waiting.wait().exits(0, "it is free");
    assert!(said.stdout.trim().parse::<u64>().is_ok_and(|next| next > token), "under a greater token{said}");
}

#[test]
fn nobody_else_can_use_the_lease_of_a_run() {
    let grove = Grove::new();
    let running = start(&grove, "alice", LONG, UNTIL_STOP);
    has_made(&grove, "ran");
    let json = grove.json("alice", "lease status", 0);
    assert_eq!((&json["state"], &json["mine"]), (&json!("held"), &json!(false)), "{json}");
    assert_eq!(json["lock"]["holder_binding"], "process", "{json}");
    grove.run("alice", "lease acquire").exits(2, "it is the process's");
    grove.run("alice", "lease release").exits(4, "it is the process's");
    start(&grove, "alice", "", "true").wait().exits(2, "it is the other process's");
    grove.put("stop", "");
    running.wait().exits(0, "nobody took it from under it");
}

#[test]
fn a_signal_is_passed_on_and_the_lease_given_back() {
    let grove = Grove::new();
    let script = "trap 'touch got; exit 9' TERM; touch ran; while :; do sleep 0.02; done";
    let running = start(&grove, "alice", "", script);
    has_made(&grove, "ran");
    signal(running.pid(), Signal::TERM);
    running.wait().exits(9, "the command's own code");
    assert!(grove.top().join("got").exists(), "it was passed on");
    assert_eq!((grove.state("main").as_str(), pulses(&grove)), ("free", 0), "given back");
}

#[test]
fn a_short_lease_is_renewed_for_as_long_as_the_command_runs() {
    // A machine that stands still for half a second may lose such a lease, and rightly; not every time.
    let kept = (0..5).any(|_| {
        let grove = Grove::new();
        let running = start(&grove, "alice", "--lease 1s --skew 0 --grace 0", UNTIL_STOP);
        eventually("the command runs, or can't", || grove.top().join("ran").exists() || running.has_ended());
        if running.has_ended() {
            return false;
        }
        let before = grove.record("main");
        lokt_testkit::swarm::pause(std::time::Duration::from_secs(6));
        let thief = grove.run("bob", "lease acquire").code;
        let after = grove.view_bytes("main").and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
        grove.put("stop", "");
        let said = running.wait();
        assert!([0, 79].contains(&said.code), "it was kept or lost, and says so{said}");
        let Some(after) = after.filter(|_| said.code == 0) else { return false };
        assert_eq!(thief, 2, "it is held for five times its first lease");
        assert_eq!(after["fencing_token"], before["fencing_token"], "all the time by the same one");
        let renewed = time(&after["last_renewed_at"]).duration_since(time(&before["last_renewed_at"]));
        assert!(renewed.as_millis() > 1_000, "renewed: {before} {after}");
        assert_eq!(said.stderr, "", "without a word");
        true
    });
    assert!(kept, "a lease of a second can be kept for six");
}

/// Runs a command, as a user without powers, on a disk of its own that breaks as `breaks` says when it has begun. The command writes down
/// the time all the time, when it is told to end too, but doesn't end. What `run` said, when the command was told, when it last wrote, and
/// when the lease ended.
fn on_a_disk_that_breaks(breaks: &str, mends: &str) -> (String, i64, i64, i64) {
    let grove = Grove::none();
    let outer = r#"
        mount -t tmpfs -o size=512k,nr_inodes=300,mode=755,uid=54321 none . || exit 99
        install -m 755 "$0" ../lokt && chown 54321 .. && chmod 755 .. && cd "$PWD" || exit 98
        exec setpriv --reuid 54321 --regid 54321 --clear-groups sh ../script
    "#;
    let inner = format!(
        r"
        ../lokt worktree init >/dev/null 2>&1 || exit 97
        ../lokt lease run --lease 3s -- sh ../command
        code=$?
        cat .jvs/locks/main.lock > ../view
        {mends}
        ../lokt lease acquire --owner bob --session ../session > ../next 2>&1 || {{ cat ../next; exit 96; }}
        exit $code
    "
    );
    let command = format!(
        r"
        trap 'date +%s%3N > ../told' TERM
        {breaks}
        while :; do date +%s%3N > ../now && mv ../now ../last; sleep 0.02; done
    "
    );
    put(&grove.outside().join("script"), inner);
    put(&grove.outside().join("command"), command);
    let said = grove.call("unshare").args(["--mount", "sh", "-c", outer, LOKT]).run();
    assert_ne!(said.code, 99, "this test needs root, for a mount{said}");
    let said = said.exits(79, "the lease is lost, and free for the next one at once");
    let at = |name: &str| fs::read_to_string(grove.outside().join(name)).ok()?.trim().parse::<i64>().ok();
    let last = at("last").unwrap_or_else(|| panic!("the command ran{said}"));
    // A machine that stands still too long leaves it no time to write that down.
    let told = at("told").unwrap_or(i64::MAX);
    let view = fs::read(grove.outside().join("view")).expect("the lock file is there");
    let view: Value = serde_json::from_slice(&view).expect("it is JSON");
    (said.stderr.clone(), told, last, time(&view["lease_expires_at"]).as_millisecond())
}

#[test]
fn a_disk_that_can_not_be_written_any_more_ends_the_command_before_the_lease() {
    lokt_testkit::need!(root);
    let full = "n=0; while touch \"f$n\" 2>/dev/null; do n=$((n + 1)); done; cat /dev/zero > f0 2>/dev/null";
    let directory = ".jvs/locks/main.lock.d";
    for (breaks, mends, why) in [
        (format!("chmod 555 {directory}"), format!("chmod 755 {directory}"), "Permission denied"),
        (full.to_owned(), "rm f*".to_owned(), "No space left on device"),
    ] {
        // It is killed when nine tenths of its lease are over. A machine that stands still for the last one is no help.
        let in_time = |(_, told, last, end): &(String, i64, i64, i64)| told < last && last < end;
        let mut runs = (0..5).map(|_| on_a_disk_that_breaks(&breaks, &mends));
        let found = runs.find(in_time);
        let (said, ..) = found.unwrap_or_else(|| panic!("{breaks}: it is told, goes on, and ends before the lease"));
        let failed = said.contains("the lease of worktree \"main\" could not be renewed: ") && said.contains(why);
        assert!(failed, "{breaks}: {why}\n{said}");
        let lost =
            "the lease of worktree \"main\" was lost: it could not be renewed in time; the command is being stopped";
        assert!(said.contains(lost), "{breaks}: and what follows\n{said}");
    }
}

#[test]
fn a_killed_run_takes_its_command_with_it_and_the_next_has_the_lease_at_once() {
    let grove = Grove::new();
    let running = start(&grove, "alice", LONG, FOR_EVER);
    let command = written_pid(&grove, "pid");
    let token = grove.record("main")["fencing_token"].as_u64().expect("a token");
    signal(running.pid(), Signal::KILL);
    eventually("the command dies with it", || !lives(command));
    running.wait().exits(137, "it was killed");
    assert!(grove.acquire("bob", LONG) > token, "nobody is left who could write");
    grove.run("bob", "lease release").exits(0, "it is his");
    assert_eq!(pulses(&grove), 1, "that of the dead");
    start(&grove, "carol", "", "true").wait().exits(0, "it is free");
    assert_eq!(pulses(&grove), 0, "whoever runs next tidies up");
    let stolen = grove.events_of("lock_steal");
    assert_eq!(stolen.last().map(|event| &event["details"]["evidence"]), Some(&json!("process_gone")), "{stolen:?}");
}

#[test]
fn what_the_command_of_a_killed_run_has_started_keeps_the_lease() {
    let grove = Grove::new();
    let script = "sleep 600 & echo $! > pid.tmp; mv pid.tmp pid; wait";
    let running = start(&grove, "alice", LONG, script);
    let left = written_pid(&grove, "pid");
    signal(running.pid(), Signal::KILL);
    eventually("it was killed", || running.has_ended());
    assert!(lives(left), "only the command itself dies with it");
    grove.run("bob", "lease acquire").exits(2, "somebody may still write");
    signal(left, Signal::KILL);
    eventually("nobody is left", || grove.run("bob", "lease acquire").code == 0);
    running.wait().exits(137, "it was killed");
}

#[test]
fn a_run_that_was_stopped_beyond_its_lease_stops_its_command_and_leaves_the_thief_alone() {
    let grove = Grove::new();
    let running = start(&grove, "alice", "--lease 3s --skew 0 --grace 0", FOR_EVER);
    let command = written_pid(&grove, "pid");
    signal(running.pid(), Signal::STOP);
    grove.run("bob", &format!("lease acquire {LONG} --timeout 20s")).exits(0, "nobody renews it");
    let thief = grove.view_bytes("main");
    assert!(lives(command), "nobody could stop it");
    signal(running.pid(), Signal::CONT);
    let said = running.wait().exits(79, "it had lost the lease");
    said.notes("was lost: ", "it says so").notes("; the command is being stopped", "and what follows");
    assert!(!lives(command), "it was stopped");
    assert_eq!(grove.view_bytes("main"), thief, "bob's lease is untouched");
    grove.run("bob", "lease renew").exits(0, "it is his");
    assert!(operations(&grove).contains(&"lease_lost".to_owned()), "{:?}", operations(&grove));
}

#[test]
fn a_lease_that_is_broken_under_the_command_is_lost() {
    let stops = "; the command is being stopped\n";
    for (words, taken, code, who, then) in [
        ("", false, 79, "was lost: somebody ended it", stops),
        ("--on-lost stop", true, 79, "was lost: bob", stops),
        ("--on-lost fail", true, 79, "was lost: bob", "; the command goes on, and its success will be exit code 79\n"),
        ("--on-lost warn", false, 0, "was lost: somebody ended it", "; the command goes on\n"),
    ] {
        let grove = Grove::new();
        let running = start(&grove, "alice", &format!("{LONG} {words}"), UNTIL_STOP);
        has_made(&grove, "ran");
        grove.run("carol", "lease break --force --reason enough").exits(0, "she may");
        if taken {
            grove.acquire("bob", LONG);
        }
        let before = grove.view_bytes("main");
        if !then.contains("stopped") {
            // It must have been noticed before it is over, or it would only be told at the end.
            lokt_testkit::swarm::pause(std::time::Duration::from_secs(6));
            put(&grove.top().join("stop"), "");
        }
        let said = running.wait().exits(code, words);
        said.notes(who, "it says who has it").notes(then, "and what follows");
        assert_eq!(grove.view_bytes("main"), before, "{words}: nobody else's lease is touched");
    }
}

#[test]
fn a_command_that_fails_under_a_lost_lease_keeps_its_code() {
    let grove = Grove::new();
    let running = start(&grove, "alice", &format!("{LONG} --on-lost fail"), &format!("{UNTIL_STOP}; exit 7"));
    has_made(&grove, "ran");
    grove.run("carol", "lease break --force --reason enough").exits(0, "she may");
    grove.put("stop", "");
    running
        .wait()
        .exits(7, "it failed for a reason of its own")
        .notes("was lost: ", "found out at the end at the latest");
}

#[test]
fn a_shared_worktree_has_no_lease_to_run_under() {
    let grove = Grove::new();
    grove.run("a", "worktree create notes --isolation shared").exits(0, "a worktree is made");
    let said = start(&grove, "a", "--worktree notes --json", "touch ran").wait().exits(64, "everybody may write");
    assert_eq!(said.failure(), "E_NOT_EXCLUSIVE");
    assert!(!grove.top().join("ran").exists(), "nothing ran");
}
