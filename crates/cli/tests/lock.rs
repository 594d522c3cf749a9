//! `lokt lock`: every flag, every answer, in text and JSON.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::common::{
    Call, LOKT, Pulse, Root, alive, eventually, from_now, go_lease, go_record, host, mode, names_in, now, pid_of, put,
    seconds_between, time,
};

#[test]
fn a_free_name_is_granted() {
    let root = Root::new();
    let said = root.run("a", "lock build --ttl 5m").exits(0, "a free name is granted");
    assert_eq!(said.stdout, "acquired lock \"build\"\n", "stdout is the answer and nothing else");
    assert!(root.has_record("build"), "a lock that was granted has a record");
}

#[test]
fn the_record_says_who_where_and_since_when() {
    let root = Root::new();
    let before = now();
    root.lokt("a").args(["lock", "build"]).env("LOKT_AGENT_ID", "agent-7").run().exits(0, "it is free");
    let record = root.record("build");
    assert_eq!(record["version"], 1, "the record has its version");
    assert_eq!(record["name"], "build", "the record has its name");
    assert_eq!(record["owner"], "a", "the record has its owner");
    assert_eq!(record["host"], json!(host()), "the record has its host");
    assert_eq!(record["agent_id"], "agent-7", "LOKT_AGENT_ID is the agent");
    assert!(record["pid"].as_i64().is_some_and(|pid| pid > 0), "the record has a pid");
    assert!(record["pid_start_ns"].as_i64().is_some_and(|start| start > 0), "the record has the pid's start time");
    let at = time(&record["acquired_ts"]);
    assert!(before <= at && at <= now(), "acquired_ts is the moment of the grant");
    assert_eq!(record["held_since"], record["acquired_ts"], "a new hold began when it was granted");
    let id = record["lock_id"].as_str().expect("the record has a lock id");
    assert!(id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()), "a lock id has 32 hex digits: {id}");
}

#[test]
fn the_default_agent_is_made_from_pid_and_start_time() {
    let root = Root::new();
    root.run("a", "lock build").exits(0, "it is free");
    let agent = root.record("build")["agent_id"].as_str().expect("there is an agent").to_owned();
    let digits = agent.strip_prefix("agent-").expect("it starts with agent-");
    assert!(digits.len() == 4 && digits.bytes().all(|b| b.is_ascii_hexdigit()), "four hex digits follow: {agent}");
}

#[test]
fn a_lock_without_a_ttl_says_what_will_end_it() {
    let root = Root::new();
    root.run("a", "lock build")
        .exits(0, "it is free")
        .notes("note: it has no TTL: only `lokt unlock build` ends it", "a lock without an end says so");
}

#[test]
fn a_lock_with_a_ttl_says_when_it_ends() {
    let root = Root::new();
    root.run("a", "lock build --ttl 5m").exits(0, "it is free").notes("(in 5m0s)", "a lock with an end says when");
}

#[test]
fn json_has_all_that_a_script_needs() {
    let root = Root::new();
    let said = root.run("a", "lock build --ttl 5m --json").exits(0, "it is free");
    assert_eq!(
        said.members(),
        ["status", "name", "refreshed", "owner", "lock_id", "fencing_token", "expires_at", "ttl_sec"],
        "the answer's members, in order"
    );
    let (json, record) = (said.json(), root.record("build"));
    assert_eq!(json["status"], "acquired", "the status is the one scripts know");
    assert_eq!(json["name"], "build", "it has the name");
    assert_eq!(json["refreshed"], false, "a new hold is not a refreshed one");
    assert_eq!(json["owner"], "a", "it has the owner");
    assert_eq!(json["lock_id"], record["lock_id"], "the id is the record's");
    assert_eq!(json["fencing_token"], record["fencing_token"], "the token is the record's");
    assert_eq!(json["ttl_sec"], 300, "the lease is in seconds");
    assert!(seconds_between(&json["expires_at"], &record["expires_at"]).abs() < 1.0, "the end is the record's");
    assert_eq!(said.stderr, "", "with --json there is nothing to read on stderr");
}

#[test]
fn json_without_a_ttl_has_no_end() {
    let root = Root::new();
    let said = root.run("a", "lock build --json").exits(0, "it is free");
    assert_eq!(
        said.members(),
        ["status", "name", "refreshed", "owner", "lock_id", "fencing_token"],
        "what isn't there is left out"
    );
}

#[test]
fn every_documented_duration_is_a_lease() {
    let root = Root::new();
    for (ttl, secs) in [
        ("90", 90),
        ("1500ms", 2),
        ("90s", 90),
        ("5m", 300),
        ("1h30m", 5_400),
        ("1.5h", 5_400),
        ("2d", 172_800),
        ("1us", 1),
        ("36500d", 3_153_600_000_i64),
    ] {
        root.run("a", &format!("lock build --ttl {ttl}")).exits(0, "a documented duration is understood");
        let record = root.record("build");
        assert_eq!(record["ttl_sec"], secs, "--ttl {ttl} is {secs} seconds");
        let lease = seconds_between(&record["acquired_ts"], &record["expires_at"]);
        assert!(
            (lease - f64::from(u32::try_from(secs).expect("it fits"))).abs() < 1e-3,
            "--ttl {ttl} ends after {secs}"
        );
    }
}

#[test]
fn a_ttl_of_zero_is_none() {
    let root = Root::new();
    for zero in ["0", "0s", "0ms"] {
        root.run("a", &format!("lock build --ttl {zero}")).exits(0, "zero is no TTL, as it always was");
        assert_eq!(root.record("build").get("expires_at"), None, "a lock without a TTL has no end");
    }
}

#[test]
fn flags_may_stand_anywhere() {
    let root = Root::new();
    for words in ["lock --ttl 5m build", "lock build --ttl 5m", "lock --ttl=5m build", "lock build --ttl=5m"] {
        root.run("a", words).exits(0, "flags are allowed on both sides of the name");
        assert_eq!(root.record("build")["ttl_sec"], 300, "{words} has the lease");
    }
}

#[test]
fn a_reason_is_shown_to_whoever_is_refused() {
    let root = Root::new();
    root.lokt("a").args(["lock", "build", "--reason", "release 1.2 <now>"]).run().exits(0, "it is free");
    assert_eq!(root.record("build")["reason"], "release 1.2 <now>", "the record has the reason");
    root.run("b", "lock build").exits(2, "it is held").notes("  reason:  release 1.2 <now>", "the refused hear why");
    let said = root.run("b", "lock build --json").exits(2, "it is held");
    assert_eq!(said.json()["holder_reason"], "release 1.2 <now>", "the reason is in the JSON");
    assert!(said.stdout.contains("<now>"), "JSON is not escaped for HTML{said}");
}

#[test]
fn a_refresh_keeps_the_reason_unless_it_brings_one() {
    let root = Root::new();
    root.run("a", "lock build --reason first").exits(0, "it is free");
    root.run("a", "lock build").exits(0, "it is a's");
    assert_eq!(root.record("build")["reason"], "first", "a refresh without a reason keeps it");
    root.run("a", "lock build --reason second").exits(0, "it is a's");
    assert_eq!(root.record("build")["reason"], "second", "a refresh with a reason replaces it");
}

#[test]
fn who_is_refused_hears_who_holds_it_since_when_and_until_when() {
    let root = Root::new();
    root.lokt("a").args(["lock", "build", "--ttl", "5m"]).env("LOKT_AGENT_ID", "agent-7").run().exits(0, "it is free");
    let said = root.run("b", "lock build").exits(2, "a live hold of another owner refuses");
    assert_eq!(said.stdout, "", "a refusal is no answer");
    let first = format!("error: lock \"build\" held by a (agent: agent-7)@{} for ", host());
    assert!(said.stderr.starts_with(&first), "the first line is the one scripts know, without a pid: {first}{said}");
    let said = said.notes("  since:   ", "it says since when").notes("  until:   ", "it says until when");
    said.notes("hint: `--wait` waits in line for it, `lokt why build`", "it says what to type next");
}

#[test]
fn the_blocked_object_has_the_known_members_first_and_in_order() {
    let root = Root::used();
    root.put_record("build", &alive(go_lease("build", "a", 300, 200)));
    let said = root.run("b", "lock build --json").exits(2, "a live hold of another owner refuses");
    assert_eq!(
        said.members(),
        [
            "status",
            "name",
            "holder_owner",
            "holder_host",
            "holder_pid",
            "holder_agent_id",
            "holder_age_sec",
            "holder_ttl_sec",
            "holder_remaining_sec",
            "holder_pid_status",
            "holder_acquired_ts",
            "holder_expires_at",
            "holder_held_since",
            "holder_held_sec",
            "holder_lock_id",
            "holder_liveness",
            "code",
            "message",
            "hint",
            "waiters"
        ],
        "the blocked object"
    );
    let json = said.json();
    assert_eq!(json["status"], "blocked", "the status is the one scripts know");
    assert_eq!(json["code"], "E_LOCK_CONFLICT", "the code is stable");
    assert_eq!(json["holder_owner"], "a", "it names the holder");
    assert_eq!(json["holder_pid"], std::process::id(), "it names the holder's process");
    assert_eq!(json["holder_pid_status"], "alive", "that process lives");
    assert_eq!(json["holder_liveness"], "alive", "that process lives");
    assert_eq!(json["waiters"], 0, "nobody waits");
    assert_eq!(said.stderr, "", "with --json there is nothing to read on stderr");
}

#[test]
fn the_holders_age_is_left_out_during_the_first_second() {
    let root = Root::used();
    let mut young = go_record("build", "a");
    young["acquired_ts"] = from_now(3600).to_string().into();
    root.put_record("build", &alive(young));
    let json = root.run("b", "lock build --json").exits(2, "it is held").json();
    assert_eq!(json.get("holder_age_sec"), None, "an age of zero (and never a negative one) is left out");
    assert_eq!(json["holder_held_sec"], 0, "held_sec is always there");
}

#[test]
fn without_lokt_owner_the_owner_is_whoever_is_logged_in() {
    let root = Root::new();
    let call = || root.lokt("").env_remove("LOKT_OWNER").args(["lock", "build", "--json"]);
    let first = call().run().exits(0, "it is free").json();
    assert_eq!(first["owner"], login_name(), "the default owner is the login name");
    let second = call().run().exits(0, "the same login is the same owner").json();
    assert_eq!(second["refreshed"], true, "a script can tell that it joined");
    let empty = root.lokt("").args(["lock", "build", "--json"]).run().exits(0, "an empty LOKT_OWNER is none").json();
    assert_eq!(empty["owner"], first["owner"], "an empty LOKT_OWNER is none");
}

#[test]
fn joining_ones_login_names_lock_says_whose_it_is() {
    let root = Root::new();
    let call = || root.lokt("").env_remove("LOKT_OWNER").args(["lock", "build"]);
    call().run().exits(0, "it is free");
    call()
        .run()
        .exits(0, "the same login is the same owner")
        .notes("note: joined a lock that", "whoever probably wanted exclusion is told")
        .notes("set LOKT_OWNER", "and what to do about it");
    let named = root.lokt(&login_name()).args(["lock", "build"]).run().exits(0, "it is the same owner");
    assert!(!named.stderr.contains("joined"), "whoever named an owner knew it{named}");
}

/// The name of the user who runs this.
fn login_name() -> String {
    let uid = rustix::process::geteuid().as_raw().to_string();
    let passwd = fs::read_to_string("/etc/passwd").expect("there is a passwd file");
    let line = passwd.lines().find(|line| line.split(':').nth(2) == Some(&uid));
    line.and_then(|line| line.split(':').next()).map_or(uid, ToOwned::to_owned)
}

#[test]
fn every_new_hold_gets_a_greater_token() {
    let root = Root::new();
    let mut last = 0;
    for owner in ["a", "b", "a", "a"] {
        let json = root.run(owner, "lock build --json").exits(0, "it is free").json();
        let token = json["fencing_token"].as_u64().expect("a hold has a token");
        assert!(token > last, "{token} is greater than {last}");
        last = token;
        root.run(owner, "unlock build").exits(0, "it is theirs");
    }
}

#[test]
fn a_grant_and_a_refusal_leave_one_event_each() {
    let root = Root::new();
    root.run("a", "lock build --ttl 5m").exits(0, "it is free");
    root.run("b", "lock build --ttl 7s").exits(2, "it is held");
    let (events, record) = (root.audit_of("build"), root.record("build"));
    assert_eq!(root.events_of("build"), ["acquire", "deny"], "one event each, in order");
    assert_eq!(events[0]["owner"], "a", "the actor is named");
    assert_eq!(events[0]["lock_id"], record["lock_id"], "the hold is named");
    assert_eq!(events[0]["ttl_sec"], 300, "the lease is noted");
    assert_eq!(events[0]["extra"]["fencing_token"], record["fencing_token"], "the token is noted");
    assert_eq!(events[1]["owner"], "b", "the actor is whoever was refused");
    assert_eq!(events[1]["ttl_sec"], 7, "the lease that was asked for is noted");
    assert_eq!(
        events[1]["extra"],
        json!({"holder_owner": "a", "holder_host": host(), "holder_pid": record["pid"]}),
        "a refusal names the holder"
    );
}

#[test]
fn nothing_but_the_record_and_lokts_own_files_is_left() {
    let root = Root::new();
    root.run("a", "lock build").exits(0, "it is free");
    root.run("a", "lock build").exits(0, "it is a's");
    root.run("b", "lock build").exits(2, "it is a's");
    assert_eq!(names_in(&root.path().join("locks")), [root.record_path("build")], "locks has records only");
    assert_eq!(names_in(&root.path().join("state/tmp")), [""; 0].map(Path::new), "no temp file is left");
}

#[test]
fn files_are_for_their_owner_only() {
    let root = Root::new();
    root.run("a", "lock build").exits(0, "it is free");
    for dir in ["", "locks", "state"] {
        assert_eq!(mode(&root.path().join(dir)), 0o700, "the directory {dir:?} is private");
    }
    for file in ["locks/build.json", "audit.log", "state/ceiling", "state/next"] {
        assert_eq!(mode(&root.path().join(file)), 0o600, "{file} is private");
    }
}

#[test]
fn a_name_may_have_two_hundred_bytes() {
    let root = Root::new();
    let name = "n".repeat(200);
    root.run("a", &format!("lock {name}")).exits(0, "the longest name is a name");
    root.run("b", &format!("lock {name}")).exits(2, "the longest name excludes");
    root.run("a", &format!("unlock {name}")).exits(0, "the longest name can be unlocked");
}

#[test]
fn whoever_was_in_line_first_is_served_first() {
    let root = Root::used();
    let ticket = Pulse::waiting(&root, "build", "early");
    let said = root.run("late", "lock build").exits(2, "a free name goes to the first in line");
    said.notes("error: lock \"build\" is free, but 1 other is first in line", "it says why");
    // The first in line has two seconds: a new one, so that the next command needn't be quick.
    drop(ticket);
    let ticket = Pulse::waiting(&root, "build", "early");
    let json = root.run("late", "lock build --json").exits(2, "a free name goes to the first in line").json();
    assert_eq!((&json["status"], &json["waiters"]), (&json!("blocked"), &json!(1)), "the JSON counts the line");
    drop(ticket);
    root.run("late", "lock build").exits(0, "a waiter that is gone doesn't block the line");
}

#[test]
fn a_process_that_was_stopped_inside_the_mutex_is_named() {
    let root = Root::used();
    // util-linux's flock takes the very lock that lokt takes, and becomes a sleep that keeps it.
    let mut holder = Command::new("flock")
        .arg("--no-fork")
        .arg(root.path())
        .args(["sleep", "600"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("flock starts");
    let pid = holder.id();
    let locked = || fs::read_to_string("/proc/locks").is_ok_and(|locks| locks.contains(&format!(" {pid} ")));
    eventually("flock gets the lock", locked);
    kill_process(pid_of(pid), Signal::STOP).expect("it is our child");
    let text = root.lokt("a").args(["lock", "build"]).start();
    let json = root.lokt("a").args(["unlock", "build", "--json"]).start();
    let (text, json) = (text.wait(), json.wait());
    holder.kill().expect("it is our child");
    holder.wait().expect("it is our child");
    let text = text.exits(75, "who can't get the mutex is told to try again");
    text.notes(&format!("kill -CONT {pid}"), "it names the stopped process and what wakes it");
    let json = json.exits(75, "who can't get the mutex is told to try again");
    assert_eq!(json.failure(), "E_BUSY", "the code is stable");
    assert!(!root.has_record("build"), "nothing was granted");
}

#[test]
fn the_record_of_another_program_becomes_ours_without_losing_anything() {
    let root = Root::used();
    let mut record = alive(go_record("build", "a"));
    record["x_note"] = json!({"kept": [1, 2, 3]});
    root.put_record("build", &record);
    root.run("a", "lock build --ttl 5m").exits(0, "it is a's");
    let after = root.record("build");
    assert_eq!(after["x_note"], json!({"kept": [1, 2, 3]}), "members that lokt doesn't know survive a rewrite");
    assert_eq!(after["lock_id"], record["lock_id"], "a refresh keeps the lock id");
    assert!(after["fencing_token"].as_u64().is_some(), "a record without a token gets one");
    assert_ne!(after["parts"], Value::Null, "it has our parts now");
}

#[test]
fn an_empty_reason_is_none() {
    let root = Root::new();
    root.run("a", "lock build --reason first").exits(0, "it is free");
    root.lokt("a").args(["lock", "build", "--reason", ""]).run().exits(0, "it is a's");
    for words in ["lock build", "status build", "why build"] {
        let said = root.run("b", words);
        assert!(!format!("{}{}", said.stdout, said.stderr).to_lowercase().contains("reason"), "none is shown{said}");
    }
    let json = root.run("b", "lock build --json").exits(2, "it is held").json();
    assert_eq!(json.get("holder_reason"), None, "none is in the JSON");
}

#[test]
fn an_owner_that_is_no_text_is_refused() {
    use std::os::unix::ffi::OsStrExt as _;
    let root = Root::new();
    for bytes in [b"a\xff", b"a\xfe"] {
        let call = || root.lokt("").env("LOKT_OWNER", std::ffi::OsStr::from_bytes(bytes));
        let said = call().args(["lock", "build"]).run().exits(64, "made readable, two such owners would be one");
        said.notes("error: LOKT_OWNER is not UTF-8 text", "it says what is wrong");
        let said = call().args(["lock", "build", "--json"]).run().exits(64, "it is refused");
        assert_eq!(said.failure(), "E_USAGE", "the code is stable");
    }
    assert!(!root.path().exists(), "nothing was touched");
}

#[test]
fn a_directory_that_was_deleted_under_ones_feet_does_not_matter_to_an_absolute_root() {
    let root = Root::new();
    let script = |words: &str| {
        let script = format!("mkdir gone && cd gone && rmdir ../gone && exec {LOKT} {words}");
        Call::new("sh").args(["-c", &script]).env("LOKT_OWNER", "a").cwd(root.outside())
    };
    script("lock build").env("LOKT_ROOT", root.path()).run().exits(0, "the root is where it was");
    script("unlock build").env("LOKT_ROOT", root.path()).run().exits(0, "the root is where it was");
    let said = script("lock build").env("LOKT_ROOT", "relative").run().exits(1, "there is nothing to be relative to");
    said.notes("error: find the current directory", "it says so")
        .notes("hint: cd to a directory that exists", "and what helps");
}

#[test]
fn a_log_that_has_grown_is_rotated_and_keeps_everything() {
    let root = Root::used();
    let log = root.path().join("audit.log");
    let before = fs::read_to_string(&log).expect("it is there").repeat(20_000);
    assert!(before.len() > 8 << 20, "it has grown beyond 8 MiB");
    put(&log, &before);
    root.run("a", "lock build").exits(0, "it is free");
    let rotated = fs::read_to_string(root.path().join("audit.log.1")).expect("it was rotated");
    let added = rotated.strip_prefix(&before).expect("nothing is lost");
    assert!(added.contains("\"acquire\"") && added.lines().count() == 1, "with the event that made it rotate: {added}");
    root.run("a", "unlock build").exits(0, "it is a's");
    assert_eq!(root.events_of("build"), ["release"], "the next event begins a new log");
    assert_eq!(mode(&log), 0o600, "which is as private as the old one");
}

#[test]
fn an_answer_that_nobody_reads_changes_nothing() {
    let root = Root::new();
    for (words, code) in
        [("lock build", 0), ("lock build --json", 0), ("status", 0), ("unlock build", 0), ("unlock build", 3)]
    {
        for output in [">/dev/full 2>/dev/full", ">&- 2>&-"] {
            if words == "unlock build" && code == 0 {
                root.run("a", "lock build").exits(0, "it is a's or free");
            }
            let script = format!("exec {LOKT} {words} {output}");
            let call = Call::new("sh").args(["-c", &script]).env("LOKT_ROOT", root.path()).env("LOKT_OWNER", "a");
            // What only answers has failed without its answer.
            let code = if words == "status" && output.contains("full") { 1 } else { code };
            call.run().exits(code, "the exit code is true, whoever listens");
        }
    }
}
