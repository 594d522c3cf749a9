//! `lokt doctor` on each prepared damage: found, explained, repaired where that is safe, and left alone where it isn't.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::time::Duration;

use lokt_testkit::cmd::Place;
use lokt_testkit::moved_clock;
use lokt_testkit::swarm::pause;
use lokt_testkit::tenancy::as_words;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::json;

use crate::common::exam::{Exam, finds, fixes, leaves_alone, plant};
use crate::common::{NO_PID, Pulse, Root, chmod, elsewhere, from_now, go_lease, go_record, make_old, mode, remove};
use crate::no_clock_trust::dynamic_binary;

#[test]
fn a_record_that_is_no_record_is_moved_aside_as_a_lock_would() {
    let root = Root::used();
    plant(&root, "locks/bad.json", "{\"version\":1,");
    finds(&root, "records", "fail", &["locks/bad.json is no lock record", "lokt doctor --fix"]);
    fixes(&root, "records", "state/aside/bad.json.");
    assert!(!root.has_record("bad"), "it is out of the way");
    assert_eq!(fs::read(&root.aside()[0]).expect("it is kept"), b"{\"version\":1,", "nothing is lost");
    assert_eq!(root.events_of("bad"), ["corrupt-break"], "audited, once");
    let exam = Exam::new(&root, "");
    assert_eq!(exam.overall(), "ok");
    exam.says("records", &["1 file that was no lock record is kept", "rm -r"]);
}

#[test]
fn an_empty_record_is_damage_only_when_nobody_can_be_writing_it_any_more() {
    let root = Root::used();
    // Young are two seconds; a machine that is slower than that gets another try.
    let is_left_alone = || {
        plant(&root, "locks/young.json", "");
        Exam::new(&root, "--fix").findings("records").iter().all(|finding| finding["fixed"].is_null())
    };
    assert!((0..5).any(|_| is_left_alone()) && root.has_record("young"), "it is being written");
    remove(&root.record_path("young"));
    plant(&root, "locks/empty.json", "");
    make_old(&root.record_path("empty"));
    finds(&root, "records", "fail", &["locks/empty.json", "the file is empty"]);
    fixes(&root, "records", "state/aside/empty.json.");
    assert_eq!(root.events_of("empty"), ["corrupt-break"]);
    root.run("a", "lock empty").exits(0, "the name can be used again");
}

#[test]
fn what_can_not_be_read_as_a_record_counts_as_held_and_is_left_to_people() {
    type Put = fn(&std::path::Path);
    let cases: [(&str, Put); 4] = [
        ("a FIFO", |path| mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("temp")),
        ("a directory", |path| fs::create_dir(path).expect("temp")),
        ("a symbolic link", |path| symlink("/etc/passwd", path).expect("temp")),
        ("10485760 bytes", |path| {
            File::create(path).and_then(|file| file.set_len(10 << 20)).expect("temp");
            chmod(path, 0o600);
        }),
    ];
    for (what, put) in cases {
        let root = Root::used();
        put(&root.record_path("odd"));
        finds(&root, "records", "fail", &[what, "locks/odd.json", "lokt unlock --force odd"]);
        leaves_alone(&root, "records");
        root.run("a", "unlock --force odd").exits(0, "the hint works");
        assert_eq!(Exam::new(&root, "").overall(), "ok", "after {what}");
    }
}

#[test]
fn a_record_of_a_newer_version_is_reported_and_left_alone() {
    let root = Root::used();
    plant(&root, "locks/new.json", json!({"version": 2, "owner": "later"}).to_string());
    finds(&root, "records", "warn", &["version 2", "upgrade lokt"]);
    leaves_alone(&root, "records");
}

#[test]
fn temp_files_of_old_programs_are_removed_when_they_are_old_and_other_files_never() {
    let root = Root::used();
    plant(&root, "locks/.lock-1234.tmp", "half");
    let exam = Exam::new(&root, "--fix");
    assert_eq!(exam.overall(), "ok", "it may be renamed any moment{}", exam.said);
    make_old(&root.path().join("locks/.lock-1234.tmp"));
    finds(&root, "records", "warn", &[".lock-1234.tmp", "another program left"]);
    fixes(&root, "records", "removed it");
    plant(&root, "locks/README", "notes");
    make_old(&root.path().join("locks/README"));
    finds(&root, "records", "warn", &["locks/README is not a lock"]);
    leaves_alone(&root, "records");
}

#[test]
fn a_freeze_that_can_not_be_read_freezes_and_is_never_removed() {
    let root = Root::used();
    plant(&root, "freezes/deploy.json", "{");
    finds(&root, "freezes", "fail", &["freezes/deploy.json can't be read", "lokt unfreeze --force deploy"]);
    leaves_alone(&root, "freezes");
    root.run("a", "lock deploy").exits(2, "frozen-means-frozen");
}

#[test]
fn a_freeze_that_is_over_is_removed_and_one_that_runs_is_not() {
    let root = Root::used();
    plant(&root, "freezes/over.json", go_lease("over", "zoe", 60, -60).to_string());
    plant(&root, "freezes/runs.json", go_lease("runs", "zoe", 600, 540).to_string());
    finds(&root, "freezes", "warn", &["the freeze of \\\"over\\\" by zoe is over"]);
    fixes(&root, "freezes", "removed it");
    assert_eq!(root.events_of("over"), ["auto-prune"], "audited, once");
    root.run("a", "lock runs").exits(2, "frozen-means-frozen");
}

#[test]
fn old_freezes_among_the_locks_are_counted_and_removed_when_they_are_over() {
    let root = Root::used();
    plant(&root, "locks/freeze-one.json", go_lease("freeze-one", "zoe", 60, -60).to_string());
    finds(&root, "legacy_freezes", "warn", &["freeze-one.json is a freeze of an old lokt that is over"]);
    fixes(&root, "legacy_freezes", "removed it");
    for name in ["two", "three"] {
        let freeze = go_lease(&format!("freeze-{name}"), "zoe", 600, 540);
        plant(&root, &format!("locks/freeze-{name}.json"), elsewhere(freeze).to_string());
    }
    finds(&root, "legacy_freezes", "warn", &["2 freezes", "three, two", "lokt unfreeze"]);
    leaves_alone(&root, "legacy_freezes");
    root.run("a", "lock two").exits(2, "frozen-means-frozen");
    root.run("a", "lock freeze-mine").exits(0, "one of ours by that name is a lock");
    Exam::new(&root, "").says("legacy_freezes", &["2 freezes"]);
}

#[test]
fn what_killed_processes_left_behind_is_removed_when_it_is_certain() {
    let root = Root::used();
    let me = lokt_sys::machine::identity("me".into(), None);
    let pulse = |pid: i64| {
        let process = json!({"pid": pid, "start": 1});
        json!({"version": 1, "name": "x", "owner": "o", "process": process, "pid_ns": me.pid_ns, "since": "x"})
            .to_string()
    };
    plant(&root, "state/held/900", pulse(NO_PID));
    // Its process lives: it has given its hold back, and is about to clear this away.
    let living = pulse(me.pid).replace("\"start\":1", &format!("\"start\":{}", me.pid_start));
    plant(&root, "state/held/901", &living);
    plant(&root, "state/line/dead/7", pulse(NO_PID));
    fs::create_dir_all(root.path().join("state/line/nobody")).expect("temp");
    chmod(&root.path().join("state/line"), 0o700);
    let _waits = Pulse::waiting(&root, "busy", "waiter");
    plant(&root, "state/tmp/left", "half");
    fs::create_dir(root.path().join("state/tmp/.lokt-doctor-0")).expect("temp");
    plant(&root, "state/tmp/.lokt-doctor-0/file", "");
    let young = Exam::new(&root, "");
    assert_eq!(young.findings("pulses").len(), 2, "temp files may be somebody's while they are young{}", young.said);
    pause(Duration::from_millis(5_500));
    finds(&root, "pulses", "warn", &["1 pulse of a dead guard", "state/held"]);
    finds(&root, "pulses", "warn", &["2 lines", "state/line"]);
    finds(&root, "pulses", "warn", &["1 temp file", "state/tmp"]);
    finds(&root, "pulses", "warn", &["1 directory", "lokt doctor"]);
    fixes(&root, "pulses", "removed 2");
    let left = |path: &str| root.path().join(path).exists();
    assert!(!left("state/held/900") && !left("state/line/dead") && !left("state/line/nobody"));
    assert!(!left("state/tmp/left") && !left("state/tmp/.lokt-doctor-0"));
    assert!(left("state/held/901"), "what may be of this very moment stays");
    assert!(left("state/line/busy/1"), "who waits keeps the place");
}

#[test]
fn holds_that_nothing_will_end_are_named_and_never_ended() {
    let root = Root::used();
    root.run("zoe", "lock young").exits(0, "it is free");
    root.run("zoe", "lock leased --ttl 9h").exits(0, "it is free");
    assert_eq!(Exam::new(&root, "").overall(), "ok", "a lock without an end is legitimate");
    let since = root.record("young")["held_since"].clone();
    root.edit("young", &format!("\"held_since\": {since}"), &format!("\"held_since\": \"{}\"", from_now(-2 * 86_400)));
    finds(&root, "endless", "warn", &["lock \\\"young\\\" of zoe@", "48h0m", "lokt unlock --force young"]);
    leaves_alone(&root, "endless");
    root.run("zoe", "unlock young").exits(0, "it is hers");
    plant(&root, "locks/away.json", elsewhere(go_record("away", "yan")).to_string());
    finds(&root, "endless", "warn", &["lock \\\"away\\\" of yan@elsewhere.example", "lokt unlock --force away"]);
    leaves_alone(&root, "endless");
    plant(&root, "locks/away.json", elsewhere(go_lease("away", "yan", 600, 300)).to_string());
    assert_eq!(Exam::new(&root, "").overall(), "ok", "one with a lease ends");
}

#[test]
fn a_damaged_token_counter_is_explained_and_mends_itself() {
    let root = Root::used();
    plant(&root, "state/next", "junk");
    finds(&root, "tokens", "warn", &["state/next", "is damaged", "nothing to do"]);
    leaves_alone(&root, "tokens");
    root.run("a", "lock x --ttl 1h").exits(0, "it is free");
    assert_eq!(Exam::new(&root, "").status("tokens"), "ok", "the next lock has mended it");

    plant(&root, "state/ceiling", "junk");
    finds(&root, "tokens", "warn", &["state/ceiling", "is damaged", "within the next thousand locks"]);
    remove(&root.path().join("state/ceiling"));
    finds(&root, "tokens", "warn", &["state/ceiling", "is gone", "within the next thousand locks"]);
    leaves_alone(&root, "tokens");
    remove(&root.path().join("state/next"));
    finds(&root, "tokens", "warn", &["state/ceiling", "is gone", "the next lock goes on above all that were used"]);
    let before = root.record("x")["fencing_token"].as_u64().expect("it has one");
    root.run("a", "lock y --ttl 1h").exits(0, "it is free");
    assert_eq!(Exam::new(&root, "").status("tokens"), "ok", "the next lock has mended it");
    assert!(root.record("y")["fencing_token"].as_u64() > Some(before), "token-order");
}

#[test]
fn a_counter_that_is_behind_a_record_or_in_the_way_is_found() {
    let root = Root::used();
    root.run("a", "lock x --ttl 1h").exits(0, "it is free");
    let token = root.record("x")["fencing_token"].to_string();
    root.edit("x", &format!("\"fencing_token\": {token}"), "\"fencing_token\": 5000000");
    finds(&root, "tokens", "warn", &["lock \\\"x\\\" has token 5000000", "an old state directory was put back"]);
    leaves_alone(&root, "tokens");
    root.run("a", "unlock x").exits(0, "it is ours");
    root.run("a", "lock x").exits(0, "the hint works");
    assert_eq!(Exam::new(&root, "").status("tokens"), "ok");
    let blocked = Root::used();
    remove(&blocked.path().join("state/next"));
    fs::create_dir(blocked.path().join("state/next")).expect("temp");
    chmod(&blocked.path().join("state/next"), 0o700);
    finds(&blocked, "tokens", "fail", &["state/next is a directory", "no lock can be taken", "move it away"]);
    leaves_alone(&blocked, "tokens");
}

#[test]
fn a_torn_audit_log_gets_its_newline_and_an_odd_one_is_reported() {
    let root = Root::used();
    let log = root.path().join("audit.log");
    let whole = fs::read(&log).expect("it is there");
    plant(&root, "audit.log", [whole.as_slice(), b"{\"ts\":\"20"].concat());
    finds(&root, "audit", "warn", &["the last line of", "audit.log has no end"]);
    fixes(&root, "audit", "ended the line");
    assert_eq!(fs::read(&log).expect("it is there"), [whole.as_slice(), b"{\"ts\":\"20\n"].concat(), "one byte more");
    File::options().write(true).open(&log).and_then(|file| file.set_len(11 << 20)).expect("it is ours");
    finds(&root, "audit", "warn", &["audit.log has 11 MiB", "isn't rotated"]);
    remove(&log);
    fs::create_dir(&log).expect("temp");
    finds(&root, "audit", "fail", &["audit.log is a directory", "move it away"]);
    leaves_alone(&root, "audit");
}

#[test]
fn permissions_for_too_many_are_taken_away_and_nothing_is_ever_given() {
    let root = Root::used();
    root.run("a", "lock x --ttl 1h").exits(0, "it is free");
    chmod(&root.path().join("state"), 0o755);
    chmod(&root.record_path("x"), 0o644);
    finds(&root, "permissions", "warn", &["(mode 0755) and 1 more", "more than its owner"]);
    fixes(&root, "permissions", "took it away from 2 of them");
    assert_eq!((mode(&root.path().join("state")), mode(&root.record_path("x"))), (0o700, 0o600));
    chmod(&root.path().join("locks"), 0o703);
    finds(&root, "permissions", "fail", &["locks (mode 0703)"]);
    fixes(&root, "permissions", "took it away");
    assert_eq!(mode(&root.path().join("locks")), 0o700);
    chmod(&root.path(), 0o777);
    let exam = Exam::new(&root, "");
    assert_eq!(exam.status("permissions"), "fail", "anybody could take locks away{}", exam.said);
    exam.says("permissions", &["(mode 0777)", "by anybody", "chmod o-w"]);
    let exam = Exam::new(&root, "--fix");
    assert_eq!(mode(&root.path()), 0o777, "the root's own mode is its owner's business{}", exam.said);
    chmod(&root.path(), 0o770);
    let exam = Exam::new(&root, "--fix");
    exam.says("permissions", &["can't be used by the group", "chmod -R g+rwX"]);
    assert_eq!(mode(&root.record_path("x")), 0o600, "nothing is given to anybody");
}

#[test]
fn nothing_behind_a_link_is_touched() {
    let root = Root::used();
    let outside = root.outside().join("outside");
    crate::common::put(&outside.join("tmp/.lokt-doctor-9/file"), "");
    crate::common::put(&outside.join("ceiling"), "junk");
    crate::common::put(&outside.join("x.json"), "{");
    for dir in ["state", "freezes"] {
        let _ = fs::remove_dir_all(root.path().join(dir));
        symlink(&outside, root.path().join(dir)).expect("temp");
    }
    pause(Duration::from_millis(5_500));
    root.run("a", "doctor --fix").exits(1, "a link is no directory of ours");
    assert!(outside.join("tmp/.lokt-doctor-9/file").exists() && outside.join("x.json").exists());
    assert_eq!(mode(&outside.join("ceiling")), 0o644, "not even its permissions");
}

#[test]
fn a_clock_that_can_not_be_right_or_was_set_is_reported() {
    lokt_testkit::need!("faketime");
    let place = Place::new(dynamic_binary());
    place.take("zoe", &["x"]);
    let at = |offset: &str| {
        let moved = moved_clock::by_offset(offset);
        let mut words = as_words(&moved);
        words.extend(place.words(&["doctor", "--json"]));
        let ended = place.run_words("zoe", &words);
        assert_eq!(ended.code, Some(0), "a clock that is wrong is a warning: {ended:?}");
        let json: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
        let checks = json["checks"].as_array().expect("there are checks").clone();
        checks.into_iter().find(|check| check["name"] == "clock").expect("there is this one").to_string()
    };
    let ahead = at("+1h");
    assert!(
        ahead.contains("\"warn\"") && ahead.contains("the clock was set forward by") && ahead.contains("\\\"x\\\""),
        "{ahead}"
    );
    let behind = at("-1h");
    assert!(behind.contains("was set back by") && behind.contains("was taken in the future"), "{behind}");
    let long_ago = at("@1999-12-31 23:00:00");
    assert!(long_ago.contains("the clock shows the year 1999"), "{long_ago}");
    let usual = at("+0");
    assert!(usual.contains("\"ok\""), "{usual}");
}
