//! `lokt doctor` sets two processes against each other, and believes no file system that lets both win. What a file system would do wrong
//! is done by strace, which answers system calls in its place.

use lokt_testkit::cmd::Place;
use serde_json::Value;

use crate::common::LOKT;

/// The check `name`, with these system calls answered by strace.
fn with(injected: &[&str], name: &str) -> Value {
    let place = Place::new(LOKT);
    place.take("a", &["x", "--ttl", "1h"]);
    let mut words = vec!["strace", "-f", "-o", "/dev/null"];
    for inject in injected {
        words.extend(["-e", inject]);
    }
    words.extend(place.words(&["doctor", "--json"]));
    let ended = place.run_words("a", &words);
    let answer: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
    let left = std::fs::read_dir(place.root().join("state/tmp")).expect("it is there").count();
    assert_eq!(left, 0, "nothing is left behind: {answer:#}");
    let checks = answer["checks"].as_array().expect("there are checks");
    checks.iter().find(|check| check["name"] == name).expect("there is this one").clone()
}

#[track_caller]
fn fails(check: &Value, words: &[&str]) {
    assert_eq!(check["status"], "fail", "{check:#}");
    assert!(words.iter().all(|word| check.to_string().contains(word)), "{words:?}: {check:#}");
}

#[test]
fn a_flock_that_excludes_nobody_is_found() {
    lokt_testkit::need!("strace");
    let check = with(&["inject=flock:retval=0"], "file_system");
    fails(
        &check,
        &["named locks can't be trusted here", "two processes had a file locked with flock at the same time"],
    );
    fails(&check, &["two processes had a directory locked", "LOKT_ROOT"]);
}

#[test]
fn a_flock_that_does_not_work_is_found() {
    lokt_testkit::need!("strace");
    let check = with(&["inject=flock:error=ENOLCK"], "file_system");
    fails(&check, &["named locks can't be trusted here", "a file can't be locked with flock"]);
}

#[test]
fn a_name_that_two_can_take_is_found() {
    lokt_testkit::need!("strace");
    let check = with(&["inject=renameat2:retval=0"], "file_system");
    fails(&check, &["of two processes that rename to one name, 2 succeeded instead of one"]);
}

#[test]
fn one_way_to_take_a_name_is_enough_and_none_is_too_few() {
    lokt_testkit::need!("strace");
    let check = with(&["inject=renameat2:error=EINVAL"], "file_system");
    assert_eq!(check["status"], "ok", "link does it: {check:#}");
    let check = with(&["inject=linkat:error=EPERM"], "file_system");
    assert_eq!(check["status"], "ok", "rename does it: {check:#}");
    let check = with(&["inject=renameat2:error=EINVAL", "inject=linkat:error=EPERM"], "file_system");
    fails(&check, &["neither by rename nor by link"]);
}

#[test]
fn a_disk_that_can_not_sync_is_not_writable() {
    lokt_testkit::need!("strace");
    fails(&with(&["inject=fsync:error=EIO"], "writable"), &["can't write to", "Input/output error"]);
}

#[test]
fn where_no_second_process_can_be_started_that_is_said() {
    lokt_testkit::need!("strace");
    let check = with(&["inject=clone,clone3,vfork:error=EAGAIN"], "file_system");
    assert_eq!(check["status"], "warn", "{check:#}");
    assert!(check.to_string().contains("two processes couldn't be set against each other"), "{check:#}");
}
