//! `lokt why`: the evidence, the next command, and the same verdict as `guard` and `lock`.

use serde_json::{Value, json};

use crate::common::guards::Guard;
use crate::common::{LOKT, Pulse, Root, Sleeper, alive, elsewhere, eventually, go_lease, go_record, host, make_old};

#[test]
fn a_free_name_is_free() {
    let root = Root::new();
    let said = root.run("b", "why build").exits(0, "lock would succeed");
    assert_eq!(said.stdout, "Lock \"build\" is FREE — acquisition would succeed.\n", "the text scripts know");
    assert!(!root.path().exists(), "explaining makes no root");
    let said = root.run("b", "why build --json").exits(0, "lock would succeed");
    let free = json!({
        "name": "build", "status": "free", "would": "acquire", "waiters": 0, "reasons": [], "suggestions": [],
        "guard": {"would": "acquire", "exit_code": 0}, "lock": {"would": "acquire", "exit_code": 0},
    });
    assert_eq!(said.json(), free, "free in JSON");
    root.run("a", "lock other").exits(0, "it is free");
    assert_eq!(root.run("b", "why build --json").exits(0, "lock would succeed").json(), free, "in a used root too");
}

#[test]
fn flags_may_follow_the_name() {
    let root = Root::new();
    assert_eq!(root.run("b", "why build --json").exits(0, "it is free").json()["status"], "free", "JSON was asked for");
}

#[test]
fn a_held_name_is_blocked_and_the_evidence_is_shown() {
    let root = Root::new();
    root.lokt("a")
        .args(["lock", "build", "--ttl", "5m", "--reason", "release"])
        .env("LOKT_AGENT_ID", "agent-7")
        .run()
        .exits(0, "it is free");
    let said = root.run("b", "why build").exits(2, "lock would be refused");
    assert!(said.stdout.starts_with("Lock \"build\" is BLOCKED:\n"), "the text scripts know{said}");
    let token = &root.record("build")["fencing_token"];
    said.says(&format!("  HELD by a (agent: agent-7)@{}", host()), "who")
        .says("    Age: ", "since when")
        .says("    TTL: 5m0s (", "for how long")
        .says("    Until: ", "until when")
        .says(&format!("    Token: {token}\n"), "with which token")
        .says("    Reason: release\n", "why")
        .says("Suggestions:\n  - lokt lock build --wait  (waits in line for it; it ends by itself in ", "how to wait")
        .says("  - lokt guard build --wait -- COMMAND  (waits in line, and runs COMMAND under it)\n", "and then run");
}

#[test]
fn a_held_name_in_json() {
    let root = Root::used();
    root.put_record("build", &alive(go_lease("build", "a", 600, 300)));
    let said = root.run("b", "why build --json").exits(2, "lock would be refused");
    assert_eq!(
        said.members(),
        ["name", "status", "would", "code", "guard", "lock", "waiters", "reasons", "suggestions"],
        "the members"
    );
    let json = said.json();
    assert_eq!((&json["status"], &json["would"]), (&json!("blocked"), &json!("deny")), "the verdict");
    assert_eq!(json["code"], "E_LOCK_CONFLICT", "the code is stable");
    let reason = &json["reasons"][0];
    assert_eq!(reason["type"], "held", "the type scripts know");
    assert_eq!(reason["holder_owner"], "a", "who");
    assert_eq!(reason["holder_host"], json!(host()), "where");
    assert_eq!(reason["holder_pid"], std::process::id(), "which process");
    assert_eq!(reason["holder_pid_status"], "alive", "does it live");
    let age = reason["holder_age_sec"].as_i64().expect("it is a number");
    assert!((300..330).contains(&age), "since when: {age}");
    assert_eq!(reason["holder_ttl_sec"], 600, "for how long");
    assert!(
        reason["holder_remaining_sec"].as_i64().is_some_and(|left| (270..=300).contains(&left)),
        "how much is left"
    );
    assert_eq!(reason["lock_id"], "0123456789abcdef0123456789abcdef", "which hold");
    let message = format!("Held by a@{} (PID {}, alive) for 5m{}s", host(), std::process::id(), age - 300);
    assert_eq!(reason["message"], json!(message), "the message scripts know");
}

#[test]
fn ones_own_lock_is_yours() {
    let root = Root::new();
    root.run("a", "lock build --ttl 5m").exits(0, "it is free");
    let said = root.run("a", "why build").exits(0, "lock would succeed");
    assert!(
        said.stdout.starts_with("Lock \"build\" is HELD by the same owner — acquisition would refresh it:\n"),
        "it says so{said}"
    );
    said.says("  - lokt lock build --ttl 5m0s  (refreshes it)\n", "how to refresh")
        .says("  - lokt unlock build  (ends it)\n", "how to end");
    let json = root.run("a", "why build --json").exits(0, "lock would succeed").json();
    assert_eq!((&json["status"], &json["would"]), (&json!("yours"), &json!("refresh")), "the verdict in JSON");
    assert_eq!(json["reasons"][0]["type"], "self_held", "the type scripts know");
}

#[test]
fn an_expired_lock_would_be_broken() {
    let root = Root::used();
    root.put_record("build", &elsewhere(go_lease("build", "a", 60, -5)));
    let said = root.run("b", "why build").exits(0, "lock would succeed");
    let first = "Lock \"build\" is FREE — acquisition would succeed, breaking what is left:\n";
    assert!(said.stdout.starts_with(first), "it says what would happen{said}");
    said.says("EXPIRED", "the evidence")
        .says("    TTL: 1m0s (expired)\n", "how long it was")
        .says("  - lokt lock build  (breaks it and takes the lock)\n", "the exact next command")
        .says("  - lokt unlock --break-stale build  (only removes it)\n", "and the other one");
    let json = root.run("b", "why build --json").exits(0, "lock would succeed").json();
    assert_eq!((&json["status"], &json["would"]), (&json!("free"), &json!("acquire")), "the verdict in JSON");
    let reason = &json["reasons"][0];
    assert_eq!((&reason["type"], &reason["holder_stale_reason"]), (&json!("expired"), &json!("expired")), "why");
    assert_eq!(reason["holder_expired"], true, "it says so");
}

#[test]
fn a_dead_processes_lock_would_be_broken() {
    let root = Root::used();
    root.put_record("build", &go_record("build", "a"));
    let json = root.run("b", "why build --json").exits(0, "lock would succeed").json();
    let reason = &json["reasons"][0];
    assert_eq!((&reason["type"], &reason["holder_stale_reason"]), (&json!("dead_pid"), &json!("dead_pid")), "why");
    assert_eq!(reason["holder_pid_status"], "dead", "its pid");
    root.run("b", "why build").exits(0, "lock would succeed").says("STALE (dead PID)", "the evidence");
}

#[test]
fn a_process_on_another_host_cannot_be_verified() {
    let root = Root::used();
    root.put_record("build", &elsewhere(go_record("build", "a")));
    let said = root.run("b", "why build").exits(2, "lock would be refused");
    said.says("a (agent: agent-beef)@elsewhere.example", "who").says("can't be verified from here", "what isn't known");
    let json = root.run("b", "why build --json").exits(2, "lock would be refused").json();
    assert_eq!(json["reasons"][0]["holder_pid_status"], "unknown", "what isn't known");
}

#[test]
fn a_frozen_name_is_blocked_by_its_freeze_first() {
    let root = Root::used();
    root.put_freeze("build", &go_lease("build", "ops", 600, 300));
    let said = root.run("b", "why build").exits(2, "lock would be refused");
    said.says(&format!("  FROZEN by ops (agent: agent-beef)@{}\n", host()), "who froze it")
        .says("it ends by itself in 4m", "what to wait for");
    let json = root.run("b", "why build --json").exits(2, "lock would be refused").json();
    assert_eq!(json["code"], "E_FROZEN", "the code is stable");
    let reason = &json["reasons"][0];
    assert_eq!((&reason["type"], &reason["freeze_owner"]), (&json!("frozen"), &json!("ops")), "who froze it");
    assert!(reason["freeze_age_sec"].as_i64().is_some_and(|age| (300..330).contains(&age)), "since when: {reason}");
    assert!(reason["freeze_remaining_sec"].as_i64().is_some_and(|left| (270..=300).contains(&left)), "how long");
    root.put_record("build", &alive(go_record("build", "a")));
    let json = root.run("b", "why build --json").exits(2, "lock would be refused").json();
    let types: Vec<&Value> = json["reasons"].as_array().expect("it is a list").iter().map(|r| &r["type"]).collect();
    assert_eq!(types, [&json!("frozen"), &json!("held")], "the freeze comes first, then the lock");
}

#[test]
fn a_freeze_that_cannot_be_read_freezes() {
    let root = Root::used();
    root.put("freezes/build.json", "garbage");
    let json = root.run("b", "why build --json").exits(2, "an unreadable freeze counts as a freeze").json();
    assert_eq!((&json["code"], &json["reasons"][0]["type"]), (&json!("E_FROZEN"), &json!("frozen")), "it is a freeze");
    root.run("b", "lock build").exits(2, "and lock agrees");
}

#[test]
fn what_is_no_record_would_be_moved_aside() {
    let root = Root::used();
    root.put("locks/build.json", "garbage");
    root.run("b", "why build")
        .exits(0, "lock would succeed")
        .says("  CORRUPTED lock file\n", "the evidence")
        .says("  - lokt lock build  (moves it aside and takes the lock)\n", "the exact next command");
    let json = root.run("b", "why build --json").exits(0, "lock would succeed").json();
    assert_eq!(json["reasons"][0]["type"], "corrupted", "the type scripts know");
}

#[test]
fn a_newer_record_is_not_ours_to_judge() {
    let root = Root::used();
    root.put("locks/build.json", r#"{"version": 2}"#);
    root.run("b", "why build").exits(65, "lock would be refused").says("version 2", "the evidence");
    let json = root.run("b", "why build --json").exits(65, "lock would be refused").json();
    assert_eq!(json["code"], "E_UNSUPPORTED_VERSION", "the code is stable");
}

#[test]
fn usage_and_names_are_checked() {
    let root = Root::new();
    root.run("b", "why").exits(64, "a name is needed");
    root.run("b", "why a b").exits(64, "one name is enough");
    root.run("b", "why ../x").exits(64, "a bad name is a usage error");
    assert_eq!(root.run("b", "why ../x --json").exits(64, "a bad name").json()["code"], "E_BAD_NAME", "stable");
}

/// What it is called, and how it comes about.
type Situation = (&'static str, Box<dyn Fn(&Root)>);

/// Everything that can be under a name.
fn situations() -> Vec<Situation> {
    let record = |record: Value| Box::new(move |root: &Root| root.put_record("build", &record));
    let text = |text: &'static str| Box::new(move |root: &Root| root.put("locks/build.json", text));
    vec![
        ("nothing", Box::new(|_: &Root| {})),
        ("a live process", record(alive(go_record("build", "a")))),
        ("a dead process", record(go_record("build", "a"))),
        ("one's own dead process", record(go_record("build", "b"))),
        ("another host", record(elsewhere(go_record("build", "a")))),
        ("one's own on another host", record(elsewhere(go_record("build", "b")))),
        ("an expired live process", record(alive(go_lease("build", "a", 60, -5)))),
        ("an expired other host", record(elsewhere(go_lease("build", "a", 60, -5)))),
        ("one's own expired", record(go_lease("build", "b", 60, -5))),
        ("a lease that runs", record(elsewhere(go_lease("build", "a", 60, 50)))),
        ("garbage", text("garbage")),
        (
            "an old empty file",
            Box::new(|root: &Root| {
                root.put("locks/build.json", "");
                make_old(&root.record_path("build"));
            }),
        ),
        ("a young empty file", text("")),
        ("a newer record", text(r#"{"version": 2}"#)),
        (
            "a directory",
            Box::new(|root: &Root| std::fs::create_dir(root.record_path("build")).expect("a temp directory")),
        ),
        ("a lock of another owner", Box::new(|root: &Root| drop(root.run("a", "lock build")))),
        ("a lock of one's own", Box::new(|root: &Root| drop(root.run("b", "lock build")))),
        ("a freeze", Box::new(|root: &Root| root.put_freeze("build", &go_lease("build", "ops", 60, 50)))),
        ("an expired freeze", Box::new(|root: &Root| root.put_freeze("build", &go_lease("build", "ops", 60, -5)))),
        ("a freeze that can't be read", Box::new(|root: &Root| root.put("freezes/build.json", "garbage"))),
        (
            "a freeze over one's own lock",
            Box::new(|root: &Root| {
                root.run("b", "lock build");
                root.put_freeze("build", &go_lease("build", "ops", 60, 50));
            }),
        ),
    ]
}

#[test]
fn why_agrees_with_lock_about_everything() {
    for (what, make) in situations() {
        let root = Root::used();
        make(&root);
        let why = root.run("b", "why build --json --for lock");
        if what == "a young empty file" {
            // It may be old by now.
            make(&root);
        }
        let lock = root.run("b", "lock build --json");
        assert_eq!(why.code, lock.code, "why and lock agree about {what}{why}{lock}");
        let (why, lock) = (why.json(), lock.json());
        assert_eq!(why["lock"]["would"], why["would"], "what why says about lock: {what}");
        match why["would"].as_str() {
            Some("acquire") => assert_eq!(lock["refreshed"], false, "lock acquires where why says so: {what}"),
            Some("refresh") => assert_eq!(lock["refreshed"], true, "lock refreshes where why says so: {what}"),
            _ => assert_eq!(lock["code"], why["code"], "lock refuses for the reason that why gives: {what}"),
        }
    }
}

#[test]
fn why_agrees_with_guard_about_everything() {
    for (what, make) in situations() {
        let root = Root::used();
        make(&root);
        let why = root.run("b", "why build --json");
        assert_eq!(root.run("b", "why build --for guard").code, why.code, "guard is what is asked about: {what}");
        if what == "a young empty file" {
            // It may be old by now.
            make(&root);
        }
        let guard = root.run("b", "guard build -- true");
        assert_eq!(why.code, guard.code, "why and guard agree about {what}{why}{guard}");
        let json = why.json();
        if json["status"] == "error" {
            continue;
        }
        assert_eq!(json["guard"]["exit_code"], guard.code, "in JSON too: {what}{why}");
        assert_eq!(json["guard"]["would"] == "deny", guard.stderr.contains("lokt: not run"), "{what}{why}{guard}");
    }
}

#[test]
fn a_guard_of_the_same_owner_keeps_a_guard_out_and_why_says_so() {
    let root = Root::new();
    let mut guard = Guard::start(&root, "a", "build");
    let said = root.run("a", "why build").exits(2, "a hook that asks why must not let a second one in");
    assert!(said.stdout.starts_with("Lock \"build\" is BLOCKED:\n"), "as guard would be{said}");
    said.says("  guard: would be refused (exit code 2)\n  lock:  would refresh it\n", "both are said");
    root.run("a", "guard build -- true").exits(2, "and guard does");
    let said = root.run("a", "why build --for lock").exits(0, "lock would join it");
    said.says("  guard: would be refused (exit code 2)\n", "both are said");
    let json = root.run("a", "why build --json").exits(2, "guard would be refused").json();
    let deny = json!({"would": "deny", "code": "E_LOCK_CONFLICT", "exit_code": 2});
    assert_eq!((&json["guard"], &json["lock"]), (&deny, &json!({"would": "refresh", "exit_code": 0})), "{json}");
    let same = format!("{LOKT} why build > seen; echo $? > code; {LOKT} guard build -- true; echo $? >> code");
    guard.does(&same);
    let seen = |name: &str| std::fs::read_to_string(root.outside().join(name)).expect("the command wrote it");
    assert_eq!(seen("code"), "0\n0\n", "whoever runs under it may run under it again: {}", seen("seen"));
    assert!(seen("seen").contains("guard: would run at once, inside the guard that you run under"), "{}", seen("seen"));
    guard.exit(0).exits(0, "it ends as told");
    root.run("a", "lock build").exits(0, "it is free");
    let json = root.run("a", "why build --json").exits(0, "a's own lock keeps no guard of a's out").json();
    assert_eq!(json["guard"]["would"], "join", "{json}");
    root.run("a", "guard build -- true").exits(0, "as it does");
}

#[test]
fn why_changes_nothing_about_anything() {
    for (what, make) in situations() {
        let root = Root::used();
        make(&root);
        let before = root.snapshot();
        root.run("b", "why build");
        root.run("b", "why build --json");
        assert_eq!(root.snapshot(), before, "explaining {what} changes nothing");
    }
}

#[test]
fn the_suggested_commands_can_be_typed_as_they_are() {
    for (what, make) in situations() {
        let root = Root::used();
        make(&root);
        let json = root.run("b", "why build --json").json();
        let Some(suggestions) = json["suggestions"].as_array() else { continue };
        for suggestion in suggestions.iter().filter_map(Value::as_str) {
            let Some(words) = suggestion.strip_prefix("lokt ") else {
                let advice = suggestion.starts_with("Ask ");
                assert!(advice, "a suggestion is a command, or says what to do: {suggestion}");
                continue;
            };
            let root = Root::used();
            make(&root);
            let words = words.split("  (").next().expect("split gives at least one");
            if words.contains("--wait") {
                // Nothing ends here while it waits: it waits, and that is all.
                let said = root.run("b", &words.replace("--wait", "--timeout 50ms"));
                said.exits(2, "what is waited for is not free").notes("timeout", "it waited");
                continue;
            }
            let said = root.run("b", words);
            let waits = suggestion.contains("in two seconds");
            // What is wrong makes `doctor` fail.
            let fails = words == "doctor";
            assert!(said.code == 0 || waits || fails, "{suggestion:?} works on {what}{said}");
        }
    }
}

#[test]
fn a_bound_lock_shows_its_process() {
    let (root, sleeper) = (Root::new(), Sleeper::new());
    let pid = sleeper.pid();
    root.run("a", &format!("lock build --bind {pid}")).exits(0, "it is free");
    root.run("b", "why build")
        .exits(2, "lock would be refused")
        .says(&format!("(PID {pid}, alive)"), "the evidence")
        .says(&format!("    Until: process {pid} ends\n"), "what to wait for");
}

#[test]
fn ones_own_lock_is_not_said_to_hang_on_a_dead_process() {
    let root = Root::new();
    root.run("a", "lock build").exits(0, "it is free");
    let json = root.run("a", "why build --json").exits(0, "lock would refresh it").json();
    let message = json["reasons"][0]["message"].as_str().expect("it is a text");
    assert!(message.contains("no process is behind it") && !message.contains("dead"), "it hangs on none: {message}");
}

#[test]
fn ones_own_stale_lock_is_taken_again_not_broken() {
    let root = Root::used();
    root.put_record("build", &go_lease("build", "a", 60, -5));
    root.run("a", "why build")
        .exits(0, "lock would refresh it")
        .says("  - lokt lock build --ttl 1m0s  (takes it again, with a new token)\n", "what lock would do")
        .says("  - lokt unlock build  (removes it)\n", "and what unlock would");
}

#[test]
fn whoever_waits_is_named() {
    let root = Root::used();
    let _pulse = Pulse::waiting(&root, "build", "early");
    let said = root.run("b", "why build").exits(2, "lock would be refused");
    said.says("1 WAITING", "the evidence").says(&format!("early (pid {})", std::process::id()), "who");
    let json = root.run("b", "why build --json").exits(2, "lock would be refused").json();
    assert_eq!((&json["waiters"], &json["reasons"][0]["type"]), (&json!(1), &json!("queued")), "in JSON too");
    root.run("b", "lock build").exits(2, "and lock agrees");
}

#[test]
fn the_refresh_that_is_suggested_keeps_the_ttl() {
    let root = Root::new();
    for (ttl, seconds) in [("90", 90), ("1h30m", 5400), ("2d", 172_800)] {
        root.run("a", &format!("lock build --ttl {ttl}")).exits(0, "it is free, or a's");
        let json = root.run("a", "why build --json").exits(0, "it is a's").json();
        let typed = json["suggestions"][0].as_str().and_then(|line| line.strip_prefix("lokt "));
        let typed = typed.and_then(|line| line.split("  (").next()).expect("a command and a remark");
        root.run("a", typed).exits(0, "it can be typed as it stands");
        assert_eq!(root.record("build")["ttl_sec"], seconds, "the lock still ends: {typed}");
    }
}

#[test]
fn ones_own_lock_that_has_ended_is_not_said_to_be_refreshed() {
    let root = Root::new();
    root.run("a", "lock build --ttl 1s").exits(0, "it is free");
    eventually("the lease is over", || root.run("c", "exists build").code == 3);
    let said = root.run("a", "why build").exits(0, "lock would succeed");
    assert!(said.stdout.starts_with("Lock \"build\" was HELD by the same owner and has ended — "), "it says so{said}");
    let said = root.run("a", "lock build --ttl 5m").exits(0, "lock succeeds");
    said.notes("had ended; it is taken again, with token 2 (it was 1)\n", "whoever kept the token is told");
    let said = root.run("a", "lock build --ttl 5m").exits(0, "lock refreshes");
    said.notes("note: refreshed the lock that a@", "a live one is refreshed");
}

#[test]
fn what_unlock_would_leave_behind_is_said() {
    let (root, sleeper) = (Root::new(), Sleeper::new());
    let pid = sleeper.pid();
    root.run("a", &format!("lock build --bind {pid}")).exits(0, "it is free");
    let said = root.run("a", "why build --for lock").exits(0, "it is a's");
    said.says("  - lokt lock build  (joins it", "a plain lock changes what ends it")
        .says("  - lokt unlock build  (ends it)\n", "there is one part");
    root.run("a", "lock build").exits(0, "a joins it");
    let said = root.run("a", "why build --for lock").exits(0, "it is a's");
    said.says(&format!("(ends your part; process {pid} still holds it)\n"), "there are two parts");
    root.run("a", "unlock build").exits(0, "its part ends").notes("still holds it", "as was said");
}

#[test]
fn waiting_is_suggested_and_force_is_not() {
    let root = Root::new();
    root.run("a", "lock build --ttl 5m").exits(0, "it is free");
    let json = root.run("b", "why build --json").exits(2, "it is held").json();
    let suggestions: Vec<&str> =
        json["suggestions"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    let place = |text: &str| suggestions.iter().position(|line| line.contains(text)).expect("it is suggested");
    assert!(place("lock build --wait") < place("guard build --wait"), "who waits takes nothing: {suggestions:?}");
    assert!(!suggestions.iter().any(|line| line.contains("--force")), "nobody is invited to: {suggestions:?}");
}
