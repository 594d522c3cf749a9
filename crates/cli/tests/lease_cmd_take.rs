//! `lokt lease acquire` and `steal`: who gets the lease of a worktree, who doesn't, and what they are told.

use std::fs;

use lokt_testkit::session::PATIENCE;
use lokt_testkit::swarm::wait_until;
use rustix::process::{Signal, kill_process};
use serde_json::json;

use crate::common::grove::{Grove, LONG, SHORT};
use crate::common::{chmod, host, mode, names_in, pid_of, put, time};

#[test]
fn acquire_answers_with_the_token_the_end_and_what_to_type_next() {
    let grove = Grove::new();
    let said = grove.run("alice", "lease acquire --lease 5m").exits(0, "it is free");
    assert!(said.stdout.starts_with("acquired the lease of worktree \"main\", token 1, until 20"), "{said}");
    assert!(said.stdout.ends_with("Z (in 5m0s)\n"), "whole seconds{said}");
    let session = grove.session_of("alice");
    said.notes(&session.display().to_string(), "whoever has it is the holder")
        .notes("`lokt lease renew` within 5m0s", "what to do next")
        .notes("`lokt lease release`", "and at the end")
        .notes("fence publish --token 1 SOURCE TARGET`", "and in between");
    let other = Grove::new();
    let json = other.json("alice", "lease acquire --purpose rebase", 0);
    assert_eq!(
        (&json["status"], &json["worktree"], &json["fencing_token"]),
        (&json!("acquired"), &json!("main"), &json!(1)),
        "{json}"
    );
    assert_eq!(json["session"], other.session_of("alice").display().to_string(), "{json}");
    assert_eq!((&json["lock"]["purpose"], &json["lock"]["fencing_token"]), (&json!("rebase"), &json!(1)), "{json}");
    assert!(json.get("evidence").is_none(), "nothing was stolen: {json}");
    let said = other.run("alice", "lease release").exits(0, "it is hers");
    drop(said);
    let said = other.run("alice", "lease acquire --lease 2s").exits(0, "it is free");
    let end = said.stdout.split("until ").nth(1).and_then(|rest| rest.split(' ').next()).expect("it has an end");
    assert!(end.contains('.') && end.len() <= "2026-11-16T08:00:00.123Z".len(), "to the millisecond{said}");
}

#[test]
fn somebody_elses_lease_is_refused_with_everything_that_helps() {
    let grove = Grove::new();
    grove.run("alice", &format!("lease acquire {LONG} --purpose rebase")).exits(0, "it is free");
    let before = grove.view_bytes("main");
    let said = grove.run("bob", "lease acquire").exits(2, "it is alice's");
    assert!(said.stderr.starts_with("error: the lease of worktree \"main\" is held by alice"), "who{said}");
    assert_eq!(said.stdout, "", "a refusal is no answer");
    let said = said
        .notes(&format!("@{} (pid ", host()), "where")
        .notes(", token 1\n", "under which token")
        .notes("  since:    20", "since when")
        .notes("  until:    20", "until when")
        .notes("  purpose:  rebase", "what for")
        .notes("the boot clock of this machine", "how that is known")
        .notes("/repo/.jvs/locks/main.lock", "where it is written")
        .notes("hint: unless it is renewed others may have it in ", "what helps")
        .notes("`--wait` waits for it", "what helps");
    assert!(!said.stderr.contains("--force"), "no script is invited to break it{said}");
    let json = grove.json("bob", "lease acquire", 2);
    assert_eq!((&json["status"], &json["code"]), (&json!("blocked"), &json!("E_LOCK_CONFLICT")), "{json}");
    assert_eq!(
        (&json["worktree"], &json["state"], &json["evidence"]),
        (&json!("main"), &json!("held"), &json!("boot_clock")),
        "{json}"
    );
    assert_eq!((&json["holder_owner"], &json["holder_host"]), (&json!("alice"), &json!(host())), "{json}");
    assert_eq!((&json["holder_fencing_token"], &json["holder_purpose"]), (&json!(1), &json!("rebase")), "{json}");
    assert!(json["holder_pid"].is_i64() && json["message"].is_string() && json["hint"].is_string(), "{json}");
    assert!(json["retry_after_ms"].as_u64().is_some_and(|ms| ms > 3_000_000 && ms <= 3_603_000), "{json}");
    time(&json["holder_since"]);
    time(&json["holder_expires_at"]);
    grove.run("bob", "lease steal").exits(2, "it isn't over").notes("held by alice", "who");
    assert_eq!(grove.json("bob", "lease steal", 2)["code"], "E_LOCK_CONFLICT");
    assert_eq!(grove.view_bytes("main"), before, "nothing changed");
}

#[test]
fn ones_own_lease_is_told_apart_from_others() {
    let grove = Grove::new();
    grove.run("alice", &format!("lease acquire {LONG}")).exits(0, "it is free");
    let said = grove.run("alice", "lease acquire").exits(2, "sixteen processes may have this session");
    said.notes("this very session already", "it says so").notes("`lokt lease renew`", "what helps");
    let file = grove.outside().join("second");
    let said = grove.lokt("alice").args(["lease", "acquire", "--session"]).args([&file]).run();
    said.exits(2, "another session of the same user").notes("held by alice", "it says so");
    assert_eq!(mode(&file), 0o600, "the session's file, for the next time");
}

#[test]
fn the_session_is_where_flag_variables_or_home_say() {
    let grove = Grove::new();
    let id = fs::read_to_string(grove.inside("repo_id")).expect("it is there");
    let runtime = grove.outside().join("runtime");
    let state = grove.outside().join("state");
    fs::create_dir(&runtime).expect("a temp directory is writable");
    let file = |name: &str| grove.outside().join(name);
    let free = || grove.run("x", "lease break --force --reason next").exits(0, "it is held");
    let acquire = || grove.lokt("a/b").args(["lease", "acquire", "--json"]);
    let path = |call: crate::common::Call| {
        let json = call.run().exits(0, "it is free").json();
        free();
        std::path::PathBuf::from(json["session"].as_str().expect("a path"))
    };
    let flag = acquire().args(["--session"]).args([file("flag")]).env("LOKT_SESSION", file("variable"));
    assert_eq!(path(flag), file("flag"));
    assert_eq!(path(acquire().args(["--session", "../relative"])), grove.outside().join("repo/../relative"));
    assert!(file("relative").exists(), "from where it was called");
    let all = || acquire().env("XDG_RUNTIME_DIR", &runtime).env("XDG_STATE_HOME", &state);
    assert_eq!(path(all().env("LOKT_SESSION", file("variable"))), file("variable"));
    let named = runtime.join("lokt").join(id.trim()).join("main.a%2Fb");
    assert_eq!(path(all()), named, "percent-encoded");
    assert_eq!((mode(&named), mode(&runtime.join("lokt"))), (0o600, 0o700), "nobody else's business");
    let state_file = state.join("lokt/sessions").join(id.trim()).join("main.a%2Fb");
    assert_eq!(path(all().env("XDG_RUNTIME_DIR", file("missing"))), state_file, "no such directory");
    assert_eq!(path(all().env("XDG_RUNTIME_DIR", "relative")), state_file, "a relative one is none");
    assert_eq!(path(acquire()), grove.home().join(".local/state/lokt/sessions").join(id.trim()).join("main.a%2Fb"));
    let owner = grove.lokt("x").args(["lease", "acquire", "--owner", "a/b", "--json"]);
    assert_eq!(path(owner), grove.home().join(".local/state/lokt/sessions").join(id.trim()).join("main.a%2Fb"));
    let said = grove.lokt("a").args(["lease", "acquire"]).env_remove("HOME").run().exits(64, "there is no place");
    said.notes("no place for the session file", "it says so").notes("`--session FILE`", "what to do");
    grove.lokt("a").args(["lease", "acquire", "--session", ""]).run().exits(64, "nowhere is no place");
    grove.lokt("a").args(["lease", "acquire", "--owner", ""]).run().exits(64, "nobody has no name");
}

#[test]
fn a_session_file_that_is_none_of_ours_is_refused_by_its_path() {
    let grove = Grove::new();
    let file = grove.outside().join("s");
    let refused = |what: &str| {
        for command in ["acquire", "renew", "release", "steal"] {
            let said = grove.lokt("a").args(["lease", command, "--session"]).args([&file]).run();
            said.exits(65, "it is no session").notes(what, command).notes("/s ", "its path");
            let said = grove.lokt("a").args(["lease", command, "--json", "--session"]).args([&file]).run();
            assert_eq!(said.exits(65, "it is no session").failure(), "E_NOT_A_RECORD");
        }
        let status = grove.lokt("a").args(["lease", "status", "--session"]).args([&file]).run();
        status.exits(0, "whoever only looks needs none").notes("warning: the session file", "but is told");
    };
    fs::create_dir(&file).expect("a temp directory is writable");
    refused("is no regular file");
    fs::remove_dir(&file).expect("it is ours");
    std::os::unix::fs::symlink("/etc/passwd", &file).expect("a temp directory is writable");
    refused("is a symbolic link");
    crate::common::remove(&file);
    put(&file, "{}");
    chmod(&file, 0o600);
    refused("is none");
    put(&file, json!({"version": 1, "session_id": "0".repeat(32), "secret": "0".repeat(64)}).to_string());
    chmod(&file, 0o644);
    refused("can be read or written by others");
    chmod(&file, 0o600);
    let said = grove.lokt("a").args(["lease", "acquire", "--session"]).args([&file]).run();
    said.exits(0, "a session is a session");
    let (dir, below) = (grove.outside().join("closed"), grove.outside().join("closed/deep/s"));
    put(&dir, "a file where a directory should be");
    let said = grove.lokt("a").args(["lease", "acquire", "--session"]).args([&below]).run();
    said.exits(1, "it can't be made").notes("closed/deep", "the path").notes("--session FILE", "what to do");
}

#[test]
fn the_numbers_of_a_lease_come_from_flags_the_repository_or_the_defaults() {
    let grove = Grove::new();
    let numbers = |flags: &str| {
        let json = grove.lease("alice", flags);
        grove.run("alice", "lease release").exits(0, "it is hers");
        let lock = &json["lock"];
        ["lease_duration_ms", "renew_interval_ms", "max_clock_skew_ms", "steal_grace_ms"]
            .map(|name| lock[name].as_u64().unwrap_or_else(|| panic!("{name}: {lock}")))
    };
    assert_eq!(numbers(""), [30_000, 10_000, 2_000, 1_000], "the defaults");
    assert_eq!(numbers("--lease 9s"), [9_000, 3_000, 2_000, 1_000], "a third of a short one");
    assert_eq!(numbers("--lease 1h --renew 90 --skew 0 --grace 1500ms"), [3_600_000, 90_000, 0, 1_500], "as asked");
    assert_eq!(numbers("--lease 100ms --skew 1h --grace 1h")[2..], [3_600_000, 3_600_000], "the limits");
    grove.put(".jvs/config.json", r#"{"lease_ms": 60000, "renew_ms": 20000, "skew_ms": 500, "grace_ms": 100}"#);
    assert_eq!(numbers(""), [60_000, 20_000, 500, 100], "what the repository says");
    assert_eq!(numbers("--lease 15s --grace 0"), [15_000, 5_000, 500, 0], "the flags are stronger");
    for flags in [
        "--lease 99ms",
        "--lease 0",
        "--lease 25h",
        "--lease 10s --renew 10s",
        "--lease 10s --renew 0",
        "--skew 61m",
        "--grace 2h",
        "--lease 500us",
        "--lease never",
        "--lease=-5s",
    ] {
        let said = grove.run("alice", &format!("lease acquire {flags}")).exits(64, flags);
        assert!(said.stderr.starts_with("error: "), "{flags}{said}");
        assert_eq!(grove.run("alice", &format!("lease acquire {flags} --json")).exits(64, flags).failure(), "E_USAGE");
    }
    assert_eq!(grove.state("main"), "free", "nothing was taken");
}

#[test]
fn the_worktree_is_the_one_that_is_named_or_that_one_is_in() {
    let grove = Grove::with(&["feature"]);
    fs::create_dir_all(grove.top().join("worktrees/feature/src/deep")).expect("a temp directory is writable");
    let from = |dir: &str, flags: &[&str]| {
        let said =
            grove.lokt("alice").args(["lease", "acquire", "--json"]).args(flags).cwd(&grove.top().join(dir)).run();
        let json = said.exits(0, "it is free").json();
        let name = json["worktree"].as_str().expect("a name").to_owned();
        grove.run("alice", &format!("lease release --worktree {name}")).exits(0, "it is hers");
        name
    };
    assert_eq!(from("", &[]), "main", "at the top");
    assert_eq!(from("main", &[]), "main");
    assert_eq!(from("worktrees/feature", &[]), "feature");
    assert_eq!(from("worktrees/feature/src/deep", &[]), "feature");
    assert_eq!(from("worktrees/feature", &["--worktree", "main"]), "main", "the flag is stronger");
    let said = grove.lokt("alice").args(["lease", "acquire"]).cwd(&grove.top().join("worktrees")).run();
    said.exits(64, "which one?").notes("is in no worktree", "it says so").notes("--worktree NAME", "what to do");
    grove
        .run("a", "lease acquire --worktree nothing")
        .exits(3, "there is none")
        .notes("worktree create nothing", "how");
    assert_eq!(grove.run("a", "lease status --worktree nothing --json").exits(3, "none").failure(), "E_NOT_FOUND");
    let said = grove.run("alice", "lease acquire --worktree feature").exits(0, "it is free");
    said.notes("`lokt lease renew --worktree feature`", "the commands to type name it, too");
}

#[test]
fn in_a_shared_worktree_there_is_nothing_to_hold() {
    let grove = Grove::new();
    grove.run("a", "worktree create notes --isolation shared").exits(0, "it is made");
    for command in ["acquire", "steal", "renew", "fence check --token 1", "fence publish --token 1 a b"] {
        let said = grove.run("a", &format!("lease {command} --worktree notes")).exits(64, command);
        said.notes("worktree \"notes\" is shared: everybody may write, nobody holds it", command);
        let said = grove.run("a", &format!("lease {command} --worktree notes --json")).exits(64, command);
        assert_eq!(said.failure(), "E_NOT_EXCLUSIVE", "{command}");
    }
    let json = grove.json("a", "lease status --worktree notes", 0);
    assert_eq!(
        (&json["state"], &json["isolation"], &json["lock"], &json["lives"]),
        (&json!("shared"), &json!("shared"), &json!(null), &json!(false)),
        "{json}"
    );
    grove.run("a", "lease status --worktree notes").exits(0, "it is one").says("everybody may write", "plainly");
    assert!(!grove.view("notes").exists(), "nothing was made");
}

#[test]
fn steal_takes_only_what_is_over() {
    let grove = Grove::new();
    grove
        .run("bob", "lease steal")
        .exits(3, "it is free")
        .notes("nothing to steal", "it says so")
        .notes("acquire", "but");
    assert_eq!(grove.run("bob", "lease steal --json").exits(3, "it is free").json()["code"], "E_NOT_FOUND");
    let first = grove.acquire("alice", SHORT);
    grove.is_over();
    let json = grove.json("bob", "lease steal", 0);
    assert_eq!((&json["status"], &json["evidence"]), (&json!("stolen"), &json!("boot_clock")), "{json}");
    assert!(json["fencing_token"].as_u64().is_some_and(|token| token > first), "{json}");
    assert_eq!(json["old_fencing_token"], first, "whose it was: {json}");
    assert!(json["old_holder_id"].as_str().is_some_and(|id| id.contains(":alice:")), "{json}");
    grove.run("bob", "lease release").exits(0, "it is his");
    grove.acquire("alice", SHORT);
    grove.is_over();
    let said = grove.run("bob", "lease acquire").exits(0, "acquire takes it too");
    assert!(said.stdout.starts_with("stole the lease of worktree \"main\", token "), "it says so{said}");
    said.notes("note: it was alice", "from whom").notes("and is over: the boot clock", "how that is known");
    let json = grove.json("carol", "lease status", 0);
    assert_eq!(json["lock"]["evidence"], "boot_clock", "whoever comes later can read it: {json}");
}

#[test]
fn ones_own_ended_lease_is_acquired_again_at_once_under_a_new_token() {
    let grove = Grove::new();
    let first = grove.acquire("alice", "--lease 200ms --skew 1h --grace 1h");
    wait_until(PATIENCE, || grove.state("main") == "expired_grace");
    let json = grove.json("bob", "lease acquire", 2);
    assert_eq!((&json["state"], &json["code"]), (&json!("expired_grace"), &json!("E_LOCK_CONFLICT")), "{json}");
    let said = grove.run("bob", "lease acquire").exits(2, "two hours more");
    said.notes("has ended, but its holder's clock may differ", "it says why");
    let second = grove.acquire("alice", LONG);
    assert!(second > first, "{second} > {first}");
}

#[test]
fn whoever_waits_gets_it_when_it_is_given_back() {
    let grove = Grove::new();
    grove.acquire("alice", LONG);
    let waiting = grove.lokt("bob").args(["lease", "acquire", "--wait", "--json"]).start();
    wait_until(PATIENCE, || waiting.sleeps());
    grove.run("alice", "lease release").exits(0, "it is hers");
    let said = waiting.wait().exits(0, "it is free");
    assert_eq!(said.json()["status"], "acquired", "{said}");
    said.notes("waiting for worktree \"main\": held by alice", "it said so").notes("giving up in", "and for how long");
    let said = grove.run("carol", "lease acquire --timeout 200ms").exits(2, "nobody gave it back");
    said.notes("error: timeout after ", "it says so").notes("is held by bob", "who has it");
    let json = grove.json("carol", "lease acquire --timeout 200ms", 2);
    assert_eq!(json["code"], "E_LOCK_CONFLICT", "{json}");
    assert!(json["waited_ms"].as_u64().is_some_and(|ms| ms >= 200), "{json}");
}

#[test]
fn a_wait_ends_by_itself_when_the_lease_is_over_or_by_a_signal() {
    let grove = Grove::new();
    grove.acquire("alice", SHORT);
    let json = grove.json("bob", &format!("lease acquire --timeout 20s {LONG}"), 0);
    assert_eq!(json["status"], "stolen", "nobody gave it back: {json}");
    for (signal, code, json) in [(Signal::INT, 130, false), (Signal::TERM, 143, true)] {
        let waiting = grove.lokt("carol").args(["lease", "acquire", "--wait"]).args(json.then_some("--json")).start();
        wait_until(PATIENCE, || waiting.sleeps());
        kill_process(pid_of(waiting.pid()), signal).expect("it is ours");
        let said = waiting.wait().exits(code, "that ends the wait");
        if json {
            assert_eq!(said.json()["code"], "E_INTERRUPTED", "{said}");
        } else {
            said.notes("interrupted while waiting for worktree \"main\"", "it says so");
        }
    }
    assert_eq!(
        grove.json("carol", "lease status", 0)["lock"]["holder_id"].as_str().map(|id| id.contains(":bob:")),
        Some(true)
    );
}

#[test]
fn whatever_a_user_says_is_shown_without_its_control_characters() {
    let grove = Grove::new();
    let evil = "rebase\n\u{1b}[2Jforged";
    let said = grove.lokt("al\nice").args(["lease", "acquire", "--lease", "1h", "--purpose", evil]).run();
    said.exits(0, "it is free");
    for words in ["lease acquire", "lease status", "lease status --all", "worktree list"] {
        for json in ["", " --json"] {
            let said = grove.run("bob", &format!("{words}{json}"));
            for line in said.stdout.lines().chain(said.stderr.lines()) {
                assert!(!line.trim_start().starts_with("forged"), "{words}{said}");
            }
        }
    }
    let json = grove.json("bob", "lease acquire", 2);
    assert_eq!((&json["holder_purpose"], &json["holder_owner"]), (&json!(evil), &json!("al\nice")), "{json}");
}

#[test]
fn worktree_names_are_completed() {
    let grove = Grove::with(&["feature", "fix"]);
    let offers = |words: &[&str]| {
        let said = grove.lokt("a").args(["complete", "--"]).args(words).run().exits(0, "asking is no error");
        said.stdout.lines().map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    for command in ["acquire", "renew", "steal", "release", "status", "break", "audit"] {
        assert_eq!(offers(&["lease", command, "--worktree", ""]), ["feature", "fix", "main"], "{command}");
    }
    assert_eq!(offers(&["lease", "fence", "check", "--worktree", "fi"]), ["fix"]);
    assert_eq!(offers(&["lease", "fence", ""]), ["check", "publish"]);
    assert_eq!(offers(&["worktree", "remove", "f"]), ["feature", "fix"]);
    assert_eq!(offers(&["worktree", "rename", "f"]), ["feature", "fix"]);
    assert_eq!(offers(&["worktree", "rename", "fix", ""]), [""; 0], "a new name is anything");
    assert_eq!(offers(&["worktree", "create", "x", "--isolation", "s"]), ["shared"]);
    assert_eq!(offers(&["lease", "acquire", "--lease", "5"]), ["5m"]);
    assert!(!grove.home().exists() || names_in(&grove.home()).is_empty(), "nothing was made");
    let nowhere = Grove::none();
    let said = nowhere.lokt("a").args(["complete", "--", "lease", "acquire", "--worktree", ""]).run();
    assert_eq!(said.exits(0, "asking is no error").stdout, "", "there is no repository");
}
