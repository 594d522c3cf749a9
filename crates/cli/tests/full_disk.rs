//! On a full disk a lock can still be given back. Needs the superuser, for a small file system of its own; it fails without.

use lokt_testkit::cmd::Place;

#[test]
fn a_hold_of_another_program_can_be_ended_where_there_is_no_room_for_a_directory() {
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
    assert_eq!(ended.code, Some(0), "the exit code is the command's: {}", ended.stderr);
    assert!(ended.stderr.starts_with("warning: the answer could not be written to stdout: "), "{}", ended.stderr);
    let ended = place.run_words("a", &words("(sleep 0.2; \"$0\" help) | true"));
    assert_eq!(ended.stderr, "", "whoever closed it doesn't want it");
}
