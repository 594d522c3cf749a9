//! `lokt status`: lists and details, in text and JSON, and `--prune-expired`.

use serde_json::{Value, json};

use crate::common::{
    Pulse, Root, Sleeper, alive, elsewhere, eventually, from_now, go_lease, go_record, host, members, put,
    seconds_between,
};

#[test]
fn where_nothing_was_ever_locked_there_are_no_locks() {
    let root = Root::new();
    assert_eq!(root.run("a", "status").exits(0, "no root is no error").stdout, "no locks\n", "it says so");
    assert_eq!(
        root.run("a", "status --json").exits(0, "no root is no error").stdout,
        "[]\n",
        "an empty list is a list"
    );
    assert!(!root.path().exists(), "looking makes no root");
}

#[test]
fn where_nothing_is_locked_any_more_there_are_no_locks() {
    let root = Root::used();
    put(&root.path().join("locks/.lock-123.tmp"), "left over by an old program");
    assert_eq!(root.run("a", "status").exits(0, "it can be read").stdout, "no locks\n", "temp files are no locks");
    assert_eq!(root.run("a", "status --json").exits(0, "it can be read").stdout, "[]\n", "temp files are no locks");
}

#[test]
fn the_list_has_a_row_for_each_lock_in_name_order() {
    let root = Root::used();
    root.put_record("zeta", &alive(go_record("zeta", "a")));
    root.put_record("alpha", &elsewhere(go_lease("alpha", "b", 600, 300)));
    let said = root.run("c", "status").exits(0, "it can be read");
    let rows: Vec<&str> = said.stdout.lines().collect();
    assert_eq!(rows.len(), 2, "one row each{said}");
    assert!(
        rows[0].starts_with("alpha                 b@elsewhere.example  5m"),
        "name, who, for how long: {}",
        rows[0]
    );
    assert!(rows[0].contains("expires in 4m") || rows[0].contains("expires in 5m0s"), "until when: {}", rows[0]);
    let row = format!("zeta                  a@{}  1m", host());
    assert!(rows[1].starts_with(&row) && rows[1].ends_with('s'), "name, who, for how long: {}", rows[1]);
}

#[test]
fn the_list_marks_what_no_longer_counts() {
    let root = Root::used();
    root.put_record("dead", &go_record("dead", "a"));
    root.put_record("expired", &alive(go_lease("expired", "a", 60, -5)));
    let said = root.run("c", "status").exits(0, "it can be read");
    let rows: Vec<&str> = said.stdout.lines().collect();
    assert!(rows[0].ends_with(" [DEAD]"), "a dead process is marked: {}", rows[0]);
    assert!(rows[1].ends_with(" [EXPIRED]"), "an expired lease is marked: {}", rows[1]);
}

#[test]
fn freezes_come_after_locks_and_are_marked() {
    let root = Root::used();
    root.put_record("zeta", &alive(go_record("zeta", "a")));
    root.put_freeze("alpha", &go_lease("alpha", "ops", 600, 600));
    root.put_freeze("beta", &go_lease("beta", "ops", 600, -5));
    let said = root.run("c", "status").exits(0, "it can be read");
    let rows: Vec<&str> = said.stdout.lines().collect();
    assert!(rows[0].starts_with("zeta "), "locks come first: {}", rows[0]);
    assert!(rows[1].starts_with("alpha ") && rows[1].contains(" [FROZEN]"), "a freeze is marked: {}", rows[1]);
    assert!(!rows[1].contains("[DEAD]"), "whoever froze it need not live: {}", rows[1]);
    assert!(rows[2].ends_with(" [FROZEN] [EXPIRED]"), "an expired freeze is marked: {}", rows[2]);
    let json = root.run("c", "status --json").exits(0, "it can be read").json();
    assert_eq!(json[0].get("freeze"), None, "a lock is no freeze");
    assert_eq!((&json[1]["freeze"], &json[1]["live"]), (&json!(true), &json!(true)), "a freeze says so");
    assert_eq!(json[2]["live"], false, "an expired freeze freezes nothing");
}

#[test]
fn a_freeze_of_an_old_program_is_listed_among_the_locks() {
    let root = Root::used();
    root.put_record("freeze-build", &go_lease("freeze-build", "ops", 600, 600));
    let said = root.run("c", "status").exits(0, "it can be read");
    assert!(said.stdout.starts_with("freeze-build "), "it is a record in locks{said}");
}

#[test]
fn one_lock_is_shown_in_detail() {
    let root = Root::used();
    root.put_record("build", &alive(go_lease("build", "a", 600, 300)));
    let said = root.run("c", "status build").exits(0, "it is held");
    let pid = std::process::id();
    for line in [
        "name:     build\n",
        "owner:    a\n",
        "agent:    agent-beef\n",
        &format!("host:     {}\n", host()),
        &format!("pid:      {pid} (alive)\n"),
        "age:      5m",
        "held:     5m",
        "s (since ",
        "ttl:      600s\n",
        "expires:  ",
        "lock id:  0123456789abcdef0123456789abcdef\n",
        "process:  alive\n",
    ] {
        assert!(said.stdout.contains(line), "{line:?} is a line{said}");
    }
    assert_eq!(said.stderr, "", "there is nothing more to say");
}

#[test]
fn a_lock_of_our_own_shows_token_part_and_reason() {
    let root = Root::new();
    root.run("a", "lock build --ttl 5m --reason testing").exits(0, "it is free");
    let token = &root.record("build")["fencing_token"];
    root.run("c", "status build")
        .exits(0, "it is held")
        .says(&format!("token:    {token}\n"), "the token is shown")
        .says("held by:  owner\n", "what holds it is shown")
        .says("reason:   testing\n", "the reason is shown");
}

#[test]
fn an_expired_lock_says_so_in_detail() {
    let root = Root::used();
    root.put_record("build", &go_lease("build", "a", 60, -5));
    root.run("c", "status build").exits(0, "its record is there").says("(EXPIRED)\n", "its end is over");
    let mut old = go_lease("build", "a", 60, -5);
    old.as_object_mut().expect("a record is an object").remove("expires_at");
    root.put_record("build", &old);
    root.run("c", "status build").exits(0, "its record is there").says("status:   EXPIRED\n", "old records too");
}

#[test]
fn a_dead_lock_says_so_in_detail() {
    let root = Root::used();
    root.put_record("build", &go_record("build", "a"));
    root.run("c", "status build")
        .exits(0, "its record is there")
        .says(" (dead)\n", "its pid is dead")
        .says("status:   DEAD", "and that decides")
        .says("process:  gone\n", "that is proven");
}

#[test]
fn one_lock_that_is_not_held_is_not_found() {
    let root = Root::new();
    for _ in 0..2 {
        let said = root.run("c", "status build").exits(3, "nothing is held");
        assert!(said.stderr.starts_with("lock \"build\" not found\n"), "the text scripts know, without a prefix{said}");
        assert_eq!(said.stdout, "", "there is no answer");
        let said = root.run("c", "status build --json").exits(3, "nothing is held");
        assert_eq!(said.failure(), "E_NOT_FOUND", "the code is stable");
        root.put_freeze("build", &go_lease("build", "ops", 60, 60));
    }
}

#[test]
fn the_json_of_an_old_record_has_the_known_members_first_and_in_order() {
    let root = Root::used();
    root.put_record("build", &alive(go_lease("build", "a", 600, 300)));
    let said = root.run("c", "status build --json").exits(0, "it is held");
    assert_eq!(
        said.members(),
        [
            "version",
            "name",
            "owner",
            "host",
            "pid",
            "pid_start_ns",
            "agent_id",
            "acquired_ts",
            "ttl_sec",
            "expires_at",
            "age_sec",
            "expired",
            "pid_status",
            "live",
            "held_sec",
            "held_since",
            "remaining_sec",
            "lock_id",
            "parts",
            "liveness",
            "waiters"
        ],
        "what the old program shows, then ours"
    );
    let json = said.json();
    assert!(json["age_sec"].as_i64().is_some_and(|age| (300..330).contains(&age)), "the age is in seconds: {json}");
    assert_eq!(json["expired"], false, "it runs");
    assert_eq!(json["pid_status"], "alive", "its pid lives");
    assert_eq!(json["liveness"], "alive", "its process lives");
    assert!(!json["expires_at"].as_str().is_some_and(|at| at.contains('.')), "times are in whole seconds");
    assert!(json["expires_at"].as_str().is_some_and(|at| at.ends_with('Z')), "times are UTC");
}

#[test]
fn the_json_of_our_own_record_has_token_reason_and_since() {
    let root = Root::new();
    root.run("a", "lock build --ttl 5m --reason testing").exits(0, "it is free");
    let (json, record) = (root.run("c", "status build --json").exits(0, "it is held").json(), root.record("build"));
    assert_eq!(json["lock_id"], record["lock_id"], "the id is the record's");
    assert_eq!(json["fencing_token"], record["fencing_token"], "the token is the record's");
    assert_eq!(json["reason"], "testing", "the reason is the record's");
    assert_eq!(json["parts"], json!(["owner"]), "an owner holds it");
    assert_eq!(json["liveness"], "unknown", "no process is behind it that could live or not");
    assert_eq!(json["waiters"], 0, "nobody waits");
    assert!(seconds_between(&json["held_since"], &record["held_since"]).abs() < 1.0, "since when is the record's");
}

#[test]
fn the_json_list_has_the_same_objects() {
    let root = Root::used();
    root.put_record("build", &alive(go_record("build", "a")));
    // Between the two it may have become a second older.
    eventually("the list has what the detail has", || {
        let one = root.run("c", "status build --json").exits(0, "it is held").json();
        root.run("c", "status --json").exits(0, "it can be read").json() == json!([one])
    });
}

#[test]
fn how_long_it_is_held_does_not_start_again_with_a_refresh() {
    let root = Root::used();
    root.put_record("build", &alive(go_record("build", "a")));
    root.run("a", "lock build").exits(0, "it is a's");
    let json = root.run("c", "status build --json").exits(0, "it is held").json();
    assert!(json["age_sec"].as_i64().is_some_and(|age| age < 30), "the age counts from the refresh");
    assert!(json["held_sec"].as_i64().is_some_and(|held| held >= 60), "held_sec counts from the beginning");
    root.run("b", "lock build").exits(2, "it is held").notes(" for 1m", "and so does the refusal");
}

#[test]
fn a_future_beginning_is_no_negative_age() {
    let root = Root::used();
    let mut record = alive(go_record("build", "a"));
    record["acquired_ts"] = from_now(86_400).to_string().into();
    root.put_record("build", &record);
    let json = root.run("c", "status build --json").exits(0, "it is held").json();
    assert_eq!((&json["age_sec"], &json["held_sec"]), (&json!(0), &json!(0)), "no age is negative");
    root.run("c", "status").exits(0, "it can be read").says("  0s", "in text neither");
}

#[test]
fn liveness_is_what_the_evidence_says() {
    let (root, mut sleeper) = (Root::used(), Sleeper::new());
    let liveness = |name: &str| {
        let json = root.run("c", &format!("status {name} --json")).exits(0, "it is there").json();
        (json["liveness"].as_str().expect("it is a text").to_owned(), json["live"] == true)
    };
    root.put_record("far", &elsewhere(go_record("far", "a")));
    assert_eq!(liveness("far"), ("unknown".into(), true), "another host's process can't be seen, so it counts");
    root.run("a", &format!("lock bound --bind {}", sleeper.pid())).exits(0, "it is free");
    assert_eq!(liveness("bound"), ("alive".into(), true), "a bound process that runs is alive");
    sleeper.end();
    assert_eq!(liveness("bound"), ("gone".into(), false), "a bound process that ended is gone");
}

#[test]
fn what_cannot_be_read_is_listed_and_hides_nothing() {
    let root = Root::used();
    root.put("locks/bad.json", "garbage");
    root.put("locks/newer.json", r#"{"version": 7, "owner": 1}"#);
    root.put_record("good", &alive(go_record("good", "a")));
    let said = root.run("c", "status").exits(0, "the list can be made");
    let rows: Vec<&str> = said.stdout.lines().collect();
    assert!(rows[0].starts_with("bad ") && rows[0].ends_with(" [CORRUPT]"), "what is no record says so: {}", rows[0]);
    assert!(rows[1].starts_with("good "), "what is good is there: {}", rows[1]);
    assert!(rows[2].starts_with("newer ") && rows[2].ends_with(" [NEWER]"), "what is newer says so: {}", rows[2]);
    let json = root.run("c", "status --json").exits(0, "the list can be made").json();
    assert_eq!((&json[0]["name"], &json[0]["state"]), (&json!("bad"), &json!("corrupt")), "JSON says it too");
    assert_eq!((&json[0]["code"], &json[0]["live"]), (&json!("E_CORRUPT"), &json!(false)), "it keeps nobody out");
    assert_eq!((&json[2]["state"], &json[2]["live"]), (&json!("newer"), &json!(true)), "what is newer counts");
}

#[test]
fn pruning_removes_what_has_expired_and_tells() {
    let root = Root::used();
    root.put_record("dead", &go_lease("dead", "a", 60, -5));
    root.put_record("far", &elsewhere(go_lease("far", "a", 60, -5)));
    root.put_record("good", &alive(go_lease("good", "a", 60, 50)));
    root.put_freeze("cold", &go_lease("cold", "ops", 60, -5));
    let said = root.run("c", "status --prune-expired").exits(0, "it can be pruned");
    assert!(
        said.stdout.starts_with(
            "pruned: dead (expired)\npruned: far (expired)\npruned: cold (expired freeze)\n\npruned 3 expired lock(s)\n"
        ),
        "the text scripts know{said}"
    );
    assert!(said.stdout.lines().last().is_some_and(|row| row.starts_with("good ")), "what is left is listed{said}");
    assert!(!root.has_record("dead") && !root.has_record("far") && root.has_record("good"), "the expired are gone");
    assert!(!root.path().join("freezes/cold.json").exists(), "expired freezes too");
}

#[test]
fn pruning_is_audited_with_the_victims_name() {
    let root = Root::used();
    root.put_record("dead", &go_lease("dead", "a", 60, -5));
    root.put_freeze("cold", &go_lease("cold", "ops", 60, -5));
    root.run("c", "status --prune-expired").exits(0, "it can be pruned");
    let lock = &root.audit_of("dead")[0];
    assert_eq!((&lock["event"], &lock["owner"]), (&json!("auto-prune"), &json!("c")), "who pruned is the actor");
    assert_eq!(lock["extra"]["pruned_owner"], "a", "whose it was is noted");
    let freeze = &root.audit_of("cold")[0];
    assert_eq!((&freeze["event"], &freeze["extra"]["freeze"]), (&json!("auto-prune"), &json!(true)), "it was a freeze");
    assert_eq!(freeze["extra"]["pruned_owner"], "ops", "whose it was is noted");
}

#[test]
fn pruning_with_json_leaves_stdout_to_the_list() {
    let root = Root::used();
    root.put_record("dead", &go_lease("dead", "a", 60, -5));
    let said = root.run("c", "status --prune-expired --json").exits(0, "it can be pruned");
    assert_eq!(said.json(), json!([]), "stdout is one JSON value");
    said.notes("pruned: dead (expired)", "what was done is told on stderr");
}

#[test]
fn pruning_keeps_an_expired_lock_whose_process_runs() {
    let root = Root::used();
    root.put_record("late", &alive(go_lease("late", "a", 60, -5)));
    root.run("c", "status --prune-expired")
        .exits(0, "it can be pruned")
        .says("kept: late (expired, but its process runs)\n", "whoever is merely late isn't cut off");
    assert!(root.has_record("late"), "it is still there");
    root.run("b", "lock late").exits(0, "but whoever asks for it gets it");
}

#[test]
fn pruning_nothing_says_nothing() {
    let root = Root::used();
    root.put_record("good", &alive(go_record("good", "a")));
    // Between the two it may have become a second older.
    eventually("nothing was done", || {
        let plain = root.run("c", "status").exits(0, "it can be read").stdout;
        root.run("c", "status --prune-expired").exits(0, "it can be pruned").stdout == plain
    });
}

#[test]
fn one_name_is_pruned_alone() {
    let root = Root::used();
    root.put_record("one", &go_lease("one", "a", 60, -5));
    root.put_record("two", &go_lease("two", "a", 60, -5));
    let said = root.run("c", "status one --prune-expired").exits(0, "it can be pruned");
    assert_eq!(said.stdout, "pruned expired lock \"one\"\n", "the text scripts know");
    assert!(!root.has_record("one") && root.has_record("two"), "only the name that was given");
    let json = root.run("c", "status --prune-expired two --json").exits(0, "it can be pruned").json();
    assert_eq!(json, json!({"pruned": ["two"], "pruned_freezes": [], "kept": []}), "the answer in JSON");
    root.run("c", "status one --prune-expired").exits(3, "now there is nothing");
}

#[test]
fn one_name_that_has_not_expired_is_shown() {
    let root = Root::used();
    root.put_record("build", &alive(go_lease("build", "a", 60, 50)));
    root.run("c", "status build --prune-expired").exits(0, "it is held").says("owner:    a\n", "it is shown as always");
    assert!(root.has_record("build"), "and left alone");
}

#[test]
fn looking_changes_nothing() {
    let root = Root::used();
    root.put_record("dead", &go_lease("dead", "a", 60, -5));
    root.put("locks/bad.json", "garbage");
    let before = root.snapshot();
    for words in ["status", "status --json", "status dead", "status dead --json", "status bad"] {
        root.run("c", words);
    }
    assert_eq!(root.snapshot(), before, "status without --prune-expired changes nothing");
}

#[test]
fn members_are_read_in_any_case() {
    let root = Root::used();
    let text =
        alive(go_record("build", "a")).to_string().replace("\"owner\"", "\"Owner\"").replace("\"pid\"", "\"PID\"");
    root.put("locks/build.json", text);
    let json = root.run("c", "status build --json").exits(0, "it is a record").json();
    assert_eq!(json["owner"], "a", "members are found in any case");
    assert_eq!(json["pid"], std::process::id(), "members are found in any case");
}

#[test]
fn the_helper_finds_only_outer_members() {
    let text = serde_json::to_string_pretty(&json!({"a": {"b": 1}, "c": [1]})).expect("it is JSON");
    assert_eq!(members(&text), ["a", "c"], "inner members are not counted");
    assert_eq!(members(&Value::Null.to_string()), [""; 0], "what is no object has none");
}

#[test]
fn an_end_that_is_not_in_the_record_is_shown_all_the_same() {
    let (root, mut sleeper) = (Root::used(), Sleeper::new());
    let mut old = alive(go_lease("old", "a", 600, 300));
    old.as_object_mut().expect("a record is an object").remove("expires_at");
    root.put_record("old", &old);
    root.run("c", "status old").exits(0, "it is held").says("expires:  ", "an old record ends too");
    root.run("a", &format!("lock both --bind {}", sleeper.pid())).exits(0, "it is free");
    root.run("a", "lock both --ttl 5m").exits(0, "an owner part is added");
    root.run("c", "status both").exits(0, "it is held").says("expires:  never (no TTL)\n", "the process has no end");
    sleeper.end();
    root.run("c", "status both").exits(0, "it is held").says("(in 4m", "now the owner's end counts");
}

#[test]
fn a_lock_without_an_end_says_so() {
    let root = Root::new();
    root.run("a", "lock build").exits(0, "it is free");
    root.run("c", "status build")
        .exits(0, "it is held")
        .says("expires:  never (no TTL)\n", "until when is always said");
}

#[test]
fn whoever_waits_is_counted() {
    let root = Root::new();
    root.run("a", "lock build").exits(0, "it is free");
    let pulse = Pulse::waiting(&root, "build", "b");
    root.run("c", "status").exits(0, "it can be read").says("  1 waiting\n", "in the list");
    root.run("c", "status build").exits(0, "it is held").says("waiting:  1\n", "in detail");
    assert_eq!(root.run("c", "status build --json").json()["waiters"], 1, "in JSON");
    assert_eq!(root.run("c", "status --json").json()[0]["waiters"], 1, "in the JSON list");
    drop(pulse);
    assert_eq!(root.run("c", "status build --json").json()["waiters"], 0, "a waiter that is gone doesn't count");
}

#[test]
fn a_frozen_name_that_is_not_held_is_told_where_the_freeze_is_shown() {
    let root = Root::used();
    let said = root.run("c", "status build").exits(3, "nothing is held");
    assert_eq!(said.stderr, "lock \"build\" not found\n", "there is no more to say");
    root.put_freeze("build", &go_lease("build", "ops", 60, 60));
    let said = root.run("c", "status build").exits(3, "nothing is held");
    said.notes("\nhint: it is frozen: `lokt why build` shows by whom\n", "the list shows it, so this must not deny it");
    let json = root.run("c", "status build --json").exits(3, "nothing is held").json();
    assert_eq!(json["hint"], "it is frozen: `lokt why build` shows by whom", "in JSON too");
}

#[test]
fn a_live_lock_of_an_owner_shows_nothing_dead() {
    let root = Root::new();
    root.run("a", "lock build").exits(0, "it is free");
    let said = root.run("c", "status build").exits(0, "it is held");
    // A lock id is hexadecimal and may spell it.
    let dead = said.stdout.contains("(dead)") || said.stdout.contains("DEAD");
    assert!(!dead, "the command that took it has ended, the lock has not{said}");
    assert!(!said.stdout.contains("pid:"), "its pid means nothing{said}");
}

#[test]
fn a_bound_lock_shows_what_ends_it() {
    let (root, mut sleeper) = (Root::new(), Sleeper::new());
    let pid = sleeper.pid();
    root.run("a", &format!("lock build --bind {pid}")).exits(0, "it is free");
    root.run("c", "status").exits(0, "it is held").says(&format!("  until process {pid} ends\n"), "in the list");
    let said = root.run("c", "status build").exits(0, "it is held");
    said.says(&format!("expires:  when process {pid} ends (no TTL)\n"), "in detail");
    root.run("a", "lock build").exits(0, "a joins it");
    let said = root.run("c", "status").exits(0, "it is held");
    assert!(!said.stdout.contains("until process"), "now an unlock is needed too{said}");
    sleeper.end();
    root.run("c", "status build").exits(0, "a holds it").says("expires:  never (no TTL)\n", "only an unlock ends it");
}
