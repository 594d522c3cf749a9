//! On a full disk a lock can still be given back. Needs the superuser, for a small file system of its own; it fails without.

use lokt_testkit::cmd::Place;

#[test]
fn a_hold_of_another_program_can_be_ended_where_there_is_no_room_for_a_directory() {
    lokt_testkit::need!(root);
    let place = Place::new(env!("CARGO_BIN_EXE_lokt"));
    let text = r#"
        mount -t tmpfs -o size=64k,nr_inodes=20 none . || exit 99
        cd "$PWD" && mkdir -p root/locks && export LOKT_ROOT="$PWD/root" || exit 98
        echo '{"version":1,"name":"x","owner":"a","host":"h","pid":1,"acquired_ts":"2026-01-01T00:00:00Z"}' > root/locks/x.json
        n=0; while touch "f$n" 2>/dev/null; do n=$((n + 1)); done
        "$0" unlock x || exit 97
        test ! -e root/locks/x.json
    "#;
    let words = ["unshare", "--mount", "sh", "-c", text, env!("CARGO_BIN_EXE_lokt")];
    let ended = place.run_words("a", &words);
    assert_ne!(ended.code, Some(99), "this test needs root, for a mount: {}", ended.stderr);
    assert_eq!(ended.code, Some(0), "nothing wedges a name: {} {}", ended.stdout, ended.stderr);
}

#[test]
fn an_answer_that_is_lost_is_said_and_a_reader_that_left_is_not() {
    let place = Place::new(env!("CARGO_BIN_EXE_lokt"));
    let words = |text| ["sh", "-c", text, env!("CARGO_BIN_EXE_lokt")];
    let ended = place.run_words("a", &words("\"$0\" version > /dev/full"));
    assert_eq!(ended.code, Some(1), "there is nothing but the answer: {}", ended.stderr);
    assert!(ended.stderr.starts_with("error: the answer could not be written to stdout: "), "{}", ended.stderr);
    let ended = place.run_words("a", &words("(sleep 0.2; \"$0\" help) | true"));
    assert_eq!(ended.stderr, "", "whoever closed it doesn't want it");
}

/// Runs a script as `a` on a small file system of its own, with `$0` for the command and `fill` to fill it up.
fn on_a_small_disk(text: &str) -> lokt_testkit::swarm::Ended {
    let place = Place::new(env!("CARGO_BIN_EXE_lokt"));
    let script = format!(
        r#"
        mount -t tmpfs -o size=256k,nr_inodes=60 none . || exit 99
        cd "$PWD" && export LOKT_ROOT="$PWD/root" || exit 98
        cat > fill <<'END'
            n=0; while touch "f$n" 2>/dev/null; do n=$((n + 1)); done
            cat /dev/zero > f0 2>/dev/null; true
END
        {text}
    "#
    );
    let ended = place.run_words("a", &["unshare", "--mount", "sh", "-c", &script, env!("CARGO_BIN_EXE_lokt")]);
    assert_ne!(ended.code, Some(99), "this test needs root, for a mount: {}", ended.stderr);
    ended
}

#[test]
fn a_guard_that_finds_no_room_says_so_and_runs_nothing() {
    lokt_testkit::need!(root);
    for used in ["true", "\"$0\" guard x -- true || exit 97"] {
        let ended = on_a_small_disk(&format!(
            r#"{used}; sh fill
            "$0" guard x --json -- echo ran
            code=$?; rm f0 f1 f2 f3 f4 f5 f6 f7 f8 f9
            "$0" guard x -- true || exit 96
            exit $code"#
        ));
        assert_eq!(ended.code, Some(1), "after {used:?}: it is an error, and afterwards all is well: {ended:?}");
        assert!(!ended.stdout.contains("ran"), "after {used:?}: without the lock nothing runs: {}", ended.stdout);
        let json: serde_json::Value = serde_json::from_str(&ended.stdout).expect("a failure is JSON too");
        let message = json["message"].as_str().unwrap_or_default();
        assert!(message.contains("No space left on device"), "after {used:?}: it says why: {json}");
        assert_eq!(json["status"], "error", "after {used:?}: and that it failed: {json}");
    }
}

#[test]
fn a_guard_gives_its_lock_back_on_a_full_disk() {
    lokt_testkit::need!(root);
    for flags in ["", "--ttl 1h"] {
        let ended = on_a_small_disk(&format!(
            r#""$0" guard x {flags} -- sh -c 'sh fill; exit 7'
            test $? = 7 || exit 97
            test ! -e root/locks/x.json || exit 96
            test -z "$(find root/state/held root/state/tmp -type f)" || exit 95
            rm f*; "$0" guard x -- true"#
        ));
        assert_eq!(ended.code, Some(0), "{flags:?}: a release needs no room: {ended:?}");
        assert!(!ended.stderr.contains("could not be released"), "{flags:?}: it was released: {}", ended.stderr);
    }
}

#[test]
fn a_renewal_that_finds_no_room_is_said_and_tried_again() {
    lokt_testkit::need!(root);
    let ended = on_a_small_disk(
        r#""$0" guard x --ttl 4s -- sh -c 'sh fill; sleep 3; rm f*; sleep 2; env -u LOKT_HOLDS "$0" guard x -- true; test $? = 2' "$0""#,
    );
    assert_eq!(ended.code, Some(0), "it is still held after more than its lease: {ended:?}");
    assert!(ended.stderr.contains("warning: lock renewal failed: "), "the user is told: {}", ended.stderr);
    assert!(ended.stderr.contains("No space left on device"), "and why: {}", ended.stderr);
}
