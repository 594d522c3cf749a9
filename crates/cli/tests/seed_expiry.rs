//! The document *expiry* (`expires_at` in every record), criterion by criterion and edge case by edge case.
//!
//! Not here: renewal by a guard and the `freeze` command, which come with their commands; clock jumps, which need a fake clock.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::common::{
    NO_PID, Root, alive, elsewhere, eventually, from_now, go_lease, go_record, members, now, seconds_between, time,
};

// --- acceptance criteria

#[test]
fn field_written_on_acquire() {
    let root = Root::new();
    root.run("a", "lock foo --ttl 5m").exits(0, "it is free");
    let record = root.record("foo");
    let lease = seconds_between(&record["acquired_ts"], &record["expires_at"]);
    assert!((lease - 300.0).abs() < 1e-6, "expires_at is acquired_ts and five minutes: {lease}");
    assert_eq!(record["ttl_sec"], 300, "ttl_sec stays what was meant");
    for member in ["acquired_ts", "expires_at"] {
        assert!(record[member].as_str().is_some_and(is_rfc_3339), "{member} is RFC 3339: {}", record[member]);
    }
}

#[test]
fn field_omitted_when_no_ttl() {
    let root = Root::new();
    root.run("a", "lock foo").exits(0, "it is free");
    let text = root.record_text("foo");
    assert!(!text.contains("expires_at\":"), "a lock without a TTL has no expires_at: {text}");
    assert!(!text.contains("ttl_sec"), "and no ttl_sec: {text}");
}

#[test]
fn the_field_is_honoured_in_a_freeze() {
    let root = Root::used();
    let mut freeze = go_lease("foo", "ops", 600, 600);
    freeze["acquired_ts"] = from_now(-86_400).to_string().into();
    root.put_freeze("foo", &freeze);
    root.run("a", "lock foo").exits(2, "expires_at wins: the freeze runs, whatever acquired_ts and ttl_sec say");
    freeze["acquired_ts"] = now().to_string().into();
    freeze["expires_at"] = from_now(-1).to_string().into();
    root.put_freeze("foo", &freeze);
    root.run("a", "lock foo").exits(0, "expires_at wins: the freeze is over, whatever acquired_ts and ttl_sec say");
}

#[test]
fn field_refreshed_on_reentrant_acquire() {
    let root = Root::used();
    root.put_record("foo", &alive(go_lease("foo", "a", 300, 5)));
    let before = root.record("foo");
    root.run("a", "lock foo --ttl 5m").exits(0, "it is a's");
    let after = root.record("foo");
    assert!(seconds_between(&before["expires_at"], &after["expires_at"]) > 200.0, "expires_at moved to the new end");
    let lease = seconds_between(&after["acquired_ts"], &after["expires_at"]);
    assert!((lease - 300.0).abs() < 1e-6, "it is the new acquired_ts and the new TTL: {lease}");
}

#[test]
fn a_lock_is_expired_when_expires_at_is_past() {
    let root = Root::used();
    let mut record = elsewhere(go_lease("foo", "a", 300, 300));
    record["expires_at"] = from_now(-1).to_string().into();
    root.put_record("foo", &record);
    let json = root.run("b", "status foo --json").exits(0, "its record is there").json();
    assert_eq!(json["expired"], true, "expires_at decides, not acquired_ts and ttl_sec");
    root.run("b", "lock foo").exits(0, "and lock agrees");
}

#[test]
fn a_lock_is_not_expired_while_expires_at_is_ahead() {
    let root = Root::used();
    let mut record = elsewhere(go_lease("foo", "a", 1, -3600));
    record["expires_at"] = from_now(60).to_string().into();
    root.put_record("foo", &record);
    let json = root.run("b", "status foo --json").exits(0, "its record is there").json();
    assert_eq!(json["expired"], false, "expires_at decides, not acquired_ts and ttl_sec");
    root.run("b", "lock foo").exits(2, "and lock agrees");
}

#[test]
fn an_old_record_without_the_field_expires_by_its_ttl() {
    let root = Root::used();
    for (left, expired) in [(30, false), (-30, true)] {
        let mut record = elsewhere(go_lease("foo", "a", 60, left));
        record.as_object_mut().expect("a record is an object").remove("expires_at");
        root.put_record("foo", &record);
        let json = root.run("b", "status foo --json").exits(0, "its record is there").json();
        assert_eq!(json["expired"], expired, "acquired_ts and ttl_sec decide with {left} s left");
        assert_eq!(json.get("expires_at"), None, "what isn't in the record isn't shown as if it were");
        root.run("b", "exists foo").exits(if expired { 3 } else { 0 }, "exists agrees");
    }
    root.run("b", "lock foo").exits(0, "the expired one is broken");
}

#[test]
fn a_record_of_version_0_without_the_field_works() {
    let root = Root::used();
    let mut record = elsewhere(go_lease("foo", "a", 60, 30));
    record.as_object_mut().expect("a record is an object").remove("expires_at");
    record.as_object_mut().expect("a record is an object").remove("version");
    root.put_record("foo", &record);
    root.run("b", "lock foo").exits(2, "a record without a version is version 0");
    root.run("a", "lock foo --ttl 1m").exits(0, "its owner refreshes it");
    assert_eq!(root.record("foo")["version"], 1, "a rewrite has the current version");
}

#[test]
fn status_json_includes_expires_at() {
    let root = Root::new();
    root.run("a", "lock foo --ttl 5m").exits(0, "it is free");
    let json = root.run("a", "status foo --json").exits(0, "it is held").json();
    assert!(seconds_between(&json["expires_at"], &root.record("foo")["expires_at"]) < 1.0, "it is the record's");
    root.run("a", "lock bar").exits(0, "it is free");
    let json = root.run("a", "status bar --json").exits(0, "it is held").json();
    assert_eq!(json.get("expires_at"), None, "without a TTL there is none");
}

#[test]
fn the_refusal_in_json_includes_expires_at() {
    let root = Root::new();
    root.run("a", "lock foo --ttl 5m").exits(0, "it is free");
    let json = root.run("b", "lock foo --json").exits(2, "it is held").json();
    let end = &root.record("foo")["expires_at"];
    assert!(seconds_between(&json["holder_expires_at"], end) < 1.0, "it is the record's: {json}");
}

#[test]
fn why_json_includes_expires_at() {
    let root = Root::new();
    root.run("a", "lock foo --ttl 5m").exits(0, "it is free");
    let end = &root.record("foo")["expires_at"];
    for (owner, code) in [("a", 0), ("b", 2)] {
        let json = root.run(owner, "why foo --json").exits(code, "a's is refused to b").json();
        assert!(seconds_between(&json["reasons"][0]["expires_at"], end) < 1.0, "it is the record's: {json}");
    }
}

#[test]
fn human_output_shows_the_expiry() {
    let root = Root::new();
    root.run("a", "lock foo --ttl 5m").exits(0, "it is free");
    let said = root.run("a", "status foo").exits(0, "it is held");
    let line = said.stdout.lines().find(|line| line.starts_with("expires:  ")).expect("there is a line for it");
    assert!(line.contains("(in 4m") || line.ends_with("(in 5m0s)"), "it counts down: {line}");
    let end = line.strip_prefix("expires:  ").and_then(|rest| rest.split(' ').next()).expect("a time follows");
    assert!(seconds_between(&end.into(), &root.record("foo")["expires_at"]) < 1.0, "the time is the record's: {line}");
    root.run("a", "status").exits(0, "it is held").says("expires in ", "the list counts down too");
    root.run("b", "why foo").exits(2, "it is held").says(" remaining)", "so does why");
    root.run("b", "lock foo").exits(2, "it is held").notes("  until:   ", "and the refusal says until when");
}

// --- edge cases

#[test]
fn an_old_program_wrote_it_and_we_refresh_it() {
    let root = Root::used();
    let mut old = alive(go_record("foo", "a"));
    old["ttl_sec"] = 300.into();
    old["x_team"] = json!({"on_call": ["c", "d"], "ticket": 42.5});
    root.put_record("foo", &old);
    assert_eq!(old.get("expires_at"), None, "the old program doesn't know the field");
    root.run("a", "lock foo --ttl 10m").exits(0, "it is a's");
    let after = root.record("foo");
    assert!((seconds_between(&after["acquired_ts"], &after["expires_at"]) - 600.0).abs() < 1e-6, "now it has one");
    assert_eq!(after["lock_id"], old["lock_id"], "it is the same hold");
    assert_eq!(after["x_team"], old["x_team"], "members that nobody knows survive");
}

/// A record as a strict reader of the old program's schema sees it: the types must fit, what it doesn't know is ignored.
#[derive(Deserialize)]
struct OldReader {
    version: i64,
    name: String,
    lock_id: String,
    owner: String,
    host: String,
    pid: i64,
    pid_start_ns: i64,
    agent_id: String,
    acquired_ts: String,
    #[serde(default)]
    ttl_sec: i64,
    #[serde(default)]
    expires_at: Option<String>,
}

impl OldReader {
    fn read(text: &str) -> Self {
        let record: Self = serde_json::from_str(text).unwrap_or_else(|error| panic!("it can be read: {error}: {text}"));
        assert!(is_rfc_3339(&record.acquired_ts), "acquired_ts is RFC 3339: {}", record.acquired_ts);
        assert!(record.expires_at.as_deref().is_none_or(is_rfc_3339), "expires_at is RFC 3339: {text}");
        assert!(record.version <= 1, "it is a version that it knows");
        record
    }

    /// The old program's rule, word for word.
    fn is_expired(&self) -> bool {
        match &self.expires_at {
            Some(end) => now() > time(&end.as_str().into()),
            None => {
                self.ttl_sec > 0
                    && now().duration_since(time(&self.acquired_ts.as_str().into())).as_secs() > self.ttl_sec
            }
        }
    }
}

/// `2026-11-15T17:49:44.123456789Z`: what the strictest readers of RFC 3339 take.
fn is_rfc_3339(text: &str) -> bool {
    let shape = |byte: u8| if byte.is_ascii_digit() { b'0' } else { byte };
    let (seconds, rest) = text.split_at_checked(19).unwrap_or_default();
    let fraction = rest.strip_suffix('Z').unwrap_or("?");
    seconds.bytes().map(shape).eq("0000-00-00T00:00:00".bytes())
        && (fraction.is_empty()
            || fraction.strip_prefix('.').is_some_and(|digits| {
                (1..=9).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit()) && !digits.ends_with('0')
            }))
        && text.parse::<jiff::Timestamp>().is_ok()
}

#[test]
fn we_wrote_it_and_an_old_program_reads_it() {
    let root = Root::new();
    root.lokt("a")
        .args(["lock", "foo", "--ttl", "5m", "--reason", "r"])
        .env("LOKT_AGENT_ID", "agent-7")
        .run()
        .exits(0, "free");
    let text = root.record_text("foo");
    let old = OldReader::read(&text);
    assert_eq!((old.version, old.name.as_str(), old.owner.as_str()), (1, "foo", "a"), "it finds its members");
    assert_eq!((old.agent_id.as_str(), old.ttl_sec), ("agent-7", 300), "it finds its members");
    assert!(old.lock_id.len() == 32 && old.pid > 0 && old.pid_start_ns > 0 && !old.host.is_empty(), "all of them");
    assert!(!old.is_expired(), "it sees that the lease runs");
    assert_eq!(
        members(&text)[..11],
        [
            "version",
            "name",
            "lock_id",
            "owner",
            "host",
            "pid",
            "pid_start_ns",
            "agent_id",
            "acquired_ts",
            "ttl_sec",
            "expires_at"
        ],
        "its members come first and in its order"
    );
    assert!(text.starts_with("{\n  \"version\": 1,\n") && text.ends_with("\n}\n"), "indented as it indents: {text}");
}

#[test]
fn we_refreshed_it_and_an_old_program_reads_it() {
    let root = Root::used();
    root.put_record("foo", &alive(go_lease("foo", "a", 60, -10)));
    assert!(OldReader::read(&root.record_text("foo")).is_expired(), "it had expired");
    root.run("a", "lock foo --ttl 5m").exits(0, "its owner takes it again");
    let old = OldReader::read(&root.record_text("foo"));
    assert!(!old.is_expired(), "an old program sees the new end");
    root.run("a", "lock foo").exits(0, "it is a's");
    let old = OldReader::read(&root.record_text("foo"));
    assert!(!old.is_expired() && old.ttl_sec == 0 && old.expires_at.is_none(), "and that there is none now");
}

#[test]
fn an_old_program_refreshed_ours_and_dropped_what_it_does_not_know() {
    let root = Root::new();
    root.run("a", "lock foo --ttl 5m").exits(0, "it is free");
    let ours = root.record("foo");
    let mut theirs = alive(go_lease("foo", "a", 20, 20));
    theirs["lock_id"] = ours["lock_id"].clone();
    root.put_record("foo", &theirs);
    let json = root.run("b", "lock foo --json").exits(2, "its process lives").json();
    assert!(json["holder_remaining_sec"].as_i64().is_some_and(|left| left <= 20), "its end counts: {json}");
    root.run("a", "lock foo").exits(0, "it is a's");
    let token = |record: &Value| record["fencing_token"].as_u64().expect("there is a token");
    assert!(token(&root.record("foo")) > token(&ours), "the token that was dropped is replaced by a greater one");
}

#[test]
fn from_a_ttl_to_none_makes_it_permanent() {
    let root = Root::new();
    root.run("a", "lock foo --ttl 5m").exits(0, "it is free");
    root.run("a", "lock foo").exits(0, "it is a's");
    let record = root.record("foo");
    assert_eq!((record.get("expires_at"), record.get("ttl_sec")), (None, None), "no end is left: {record}");
    let json = root.run("b", "lock foo --json").exits(2, "it is held").json();
    assert_eq!(json.get("holder_remaining_sec"), None, "and the refusal names none: {json}");
    root.run("b", "why foo").exits(2, "it is held").says("it has no TTL", "it says so");
}

#[test]
fn a_ttl_below_a_second_is_a_second() {
    let root = Root::new();
    for (ttl, secs) in [("1ms", 1), ("900ms", 1), ("1001ms", 2), ("1.5s", 2)] {
        root.run("a", &format!("lock foo --ttl {ttl}")).exits(0, "it is a's");
        let record = root.record("foo");
        assert_eq!(record["ttl_sec"], secs, "--ttl {ttl} rounds up, so that no lease is shorter than was asked");
        let lease = seconds_between(&record["acquired_ts"], &record["expires_at"]);
        assert!((lease - f64::from(secs)).abs() < 1e-9, "expires_at is a whole number of seconds later: {lease}");
    }
    root.run("a", "lock foo --ttl 4001ms").exits(0, "it is a's");
    root.run("b", "lock foo").exits(2, "a short lease is not born expired");
}

#[test]
fn a_short_lease_ends_by_itself() {
    let root = Root::new();
    root.run("a", "lock foo --ttl 3500ms").exits(0, "it is free");
    root.run("b", "lock foo").exits(2, "it runs for four seconds");
    eventually("a lease of four seconds ends", || root.run("b", "exists foo").code == 3);
    let json = root.run("b", "lock foo --json").exits(0, "it has ended").json();
    assert_eq!((&json["owner"], &json["refreshed"]), (&json!("b"), &json!(false)), "b has it now");
    assert_eq!(root.events_of("foo"), ["acquire", "deny", "auto-prune", "acquire"], "what was broken is audited first");
}

#[test]
fn what_remains_in_the_refusal_derives_from_expires_at() {
    let root = Root::used();
    let mut record = elsewhere(go_lease("foo", "a", 300, 300));
    record["expires_at"] = from_now(100).to_string().into();
    root.put_record("foo", &record);
    let json = root.run("b", "lock foo --json").exits(2, "it is held").json();
    let left = json["holder_remaining_sec"].as_i64().expect("it is a number");
    assert!((70..=100).contains(&left), "expires_at - now, not ttl_sec - age: {left}");
    let why = root.run("b", "why foo --json").exits(2, "it is held").json();
    let left = why["reasons"][0]["holder_remaining_sec"].as_i64().expect("it is a number");
    assert!((70..=100).contains(&left), "in why too: {left}");
    root.run("b", "why foo").exits(2, "it is held").says("TTL: 5m0s (1m", "and in text");
}

#[test]
fn times_with_an_offset_are_times() {
    let root = Root::used();
    let mut record = elsewhere(go_record("foo", "a"));
    record["ttl_sec"] = 60.into();
    record["acquired_ts"] = "2026-11-15T13:15:16.25-05:00".into();
    record["expires_at"] = "2099-01-01T03:00:00+03:00".into();
    root.put_record("foo", &record);
    let json = root.run("b", "status foo --json").exits(0, "it is held").json();
    assert_eq!(json["acquired_ts"], "2026-11-15T18:15:16Z", "shown in UTC");
    assert_eq!(json["expires_at"], "2099-01-01T00:00:00Z", "shown in UTC");
}

// --- an edited record counts as edited

/// The record's own end as text, and another one `secs` from now.
fn ends(root: &Root, secs: i64) -> (String, String) {
    let old = root.record("foo")["expires_at"].as_str().expect("it has an end").to_owned();
    (format!("\"expires_at\": \"{old}\""), format!("\"expires_at\": \"{}\"", from_now(secs)))
}

#[test]
fn an_end_that_was_edited_to_the_past_has_passed() {
    let root = Root::new();
    root.run("a", "lock foo --ttl 1h").exits(0, "it is free");
    let (from, to) = ends(&root, -5);
    root.edit("foo", &from, &to);
    root.run("b", "exists foo").exits(3, "it has ended");
    let said = root.run("b", "lock foo").exits(0, "it can be taken");
    said.notes("(expired)", "because it has expired");
}

#[test]
fn an_end_that_was_edited_to_the_future_is_ahead() {
    let root = Root::new();
    root.run("a", "lock foo --ttl 2s").exits(0, "it is free");
    let (from, to) = ends(&root, 900);
    root.edit("foo", &from, &to);
    let json = root.run("b", "lock foo --json").exits(2, "it is held").json();
    let left = json["holder_remaining_sec"].as_i64().expect("it is a number");
    assert!((895..=900).contains(&left), "the edited end counts, by the wall clock: {left}");
    let json = root.run("b", "status foo --json").exits(0, "it is held").json();
    assert_eq!(json["parts"], json!(["owner"]), "it is still the owner's, not a process's");
}

#[test]
fn an_edited_owner_lock_is_not_evicted_because_its_pid_is_dead() {
    let root = Root::new();
    root.run("a", "lock foo --ttl 1h").exits(0, "it is free");
    let (from, to) = ends(&root, 1800);
    root.edit("foo", &from, &to);
    let pid = root.record("foo")["pid"].as_i64().expect("it has a pid");
    root.edit("foo", &format!("\"pid\": {pid},"), &format!("\"pid\": {NO_PID},"));
    let json = root.run("b", "lock foo --json").exits(2, "the pid of `lock` proves nothing").json();
    assert_eq!(json["holder_pid_status"], "none", "no process is behind it");
    root.run("b", "unlock --break-stale foo").exits(1, "and --break-stale agrees");
}

#[test]
fn an_end_that_was_edited_away_leaves_the_ttl() {
    let root = Root::new();
    root.run("a", "lock foo --ttl 1h").exits(0, "it is free");
    let end = root.record("foo")["expires_at"].as_str().expect("it has an end").to_owned();
    root.edit("foo", &format!("  \"expires_at\": \"{end}\",\n"), "");
    let json = root.run("b", "lock foo --json").exits(2, "it is held").json();
    let left = json["holder_remaining_sec"].as_i64().expect("it is a number");
    assert!((3590..=3600).contains(&left), "acquired_ts and ttl_sec decide: {left}");
}

#[test]
fn a_refresh_makes_an_edited_record_whole_again() {
    let root = Root::new();
    root.run("a", "lock foo --ttl 1h").exits(0, "it is free");
    let (from, to) = ends(&root, 1800);
    root.edit("foo", &from, &to);
    root.run("a", "lock foo --ttl 10m").exits(0, "it is a's");
    let record = root.record("foo");
    let expected =
        format!("{} {}", record["acquired_ts"].as_str().expect("text"), record["expires_at"].as_str().expect("text"));
    assert_eq!(record["parts"]["for"], json!(expected), "the parts belong to the top level again");
    let json = root.run("b", "lock foo --json").exits(2, "it is held").json();
    assert!(json["holder_remaining_sec"].as_i64().is_some_and(|left| left <= 600), "the new end counts");
}

#[test]
fn an_edited_owner_name_is_another_owner() {
    let root = Root::new();
    root.run("a", "lock foo --ttl 1h").exits(0, "it is free");
    root.edit("foo", "\"owner\": \"a\"", "\"owner\": \"b\"");
    root.run("a", "lock foo").exits(2, "it is b's now");
    root.run("b", "unlock foo").exits(0, "and b may end it");
}
