//! A ledger on a full disk: a clear error, nothing lost, and everything works again when there is room.

use lokt_testkit::cmd::Place;
use lokt_testkit::swarm::Ended;

use crate::common::LOKT;

/// Runs a script on a small file system of its own that has a ledger with an event, and an expired claim; `fill` fills it up.
fn on_a_small_disk(text: &str) -> Ended {
    let place = Place::new(LOKT);
    let script = format!(
        r#"
        mount -t tmpfs -o size=512k,nr_inodes=200 none . || exit 99
        cd "$PWD" || exit 98
        cat > fill <<'END'
            n=0; while touch "f$n" 2>/dev/null; do n=$((n + 1)); done
            cat /dev/zero > f0 2>/dev/null; true
END
        "$0" ledger init >&2 || exit 98
        "$0" ledger append '{{"type":"note","text":"before"}}' >&2 || exit 98
        printf '{{"type":"lock_acquired","timestamp":"2026-01-01T00:00:00Z","node_id":"old","owner":"gone","expires_at":"2026-01-01T00:01:00Z"}}' \
            > ledger/event-000002.json
        seq 100 | sed 's/.*/{{"type":"note","text":"many-&"}}/' > many
        {text}
    "#
    );
    let ended = place.run_words("a", &["unshare", "--mount", "sh", "-c", &script, LOKT]);
    assert_ne!(ended.code, Some(99), "this test needs root, for a mount: {}", ended.stderr);
    ended
}

#[test]
fn whatever_finds_no_room_says_so_loses_nothing_and_works_when_there_is_room() {
    lokt_testkit::need!(root);
    for words in [
        r#"ledger append '{"type":"note","text":"x"}'"#,
        r#"ledger append --chain '{"type":"note","text":"x"}'"#,
        r#"ledger append --id k '{"type":"note","text":"x"}'"#,
        "ledger append --file many",
        "claim take new",
        "claim take old",
        "claim reap",
    ] {
        let ended = on_a_small_disk(&format!(
            r#"sh fill
            cat ledger/event-* > /dev/shm/before.$$; ls ledger > /dev/shm/names.$$
            "$0" {words} --json; code=$?
            cat ledger/event-* | cmp - /dev/shm/before.$$ && ls ledger | cmp - /dev/shm/names.$$; same=$?
            rm /dev/shm/before.$$ /dev/shm/names.$$
            test $same = 0 || exit 97
            "$0" {words} >&2 && exit 96
            rm f*
            "$0" {words} >&2 || exit 95
            "$0" ledger verify >&2 || exit 94
            test ! -e ledger/ledger.lock || exit 93
            test -z "$(ls -d ledger/.lokt/*-* 2>/dev/null)" || exit 92
            exit $code"#
        ));
        assert_eq!(ended.code, Some(1), "{words}: it is an error, and afterwards all is well: {ended:?}");
        let json: serde_json::Value = serde_json::from_str(&ended.stdout).expect("a failure is JSON too");
        let message = json["message"].as_str().unwrap_or_default();
        assert!(message.contains("No space left on device"), "{words}: it says why: {json}");
        assert!(message.contains("ledger"), "{words}: and where: {json}");
        assert!(ended.stderr.contains("error: ") && ended.stderr.contains("No space left"), "{words}: {ended:?}");
    }
}

/// Room for some of them: those that aren't acknowledged may be there or not, but whole.
#[test]
fn a_batch_for_which_there_is_only_some_room_leaves_no_torn_event_and_nothing_behind() {
    lokt_testkit::need!(root);
    let ended = on_a_small_disk(
        r#"sh fill; rm f1 f2 f3 f4 f5 f6 f7 f8 f9 f10 f11 f12 f13 f14 f15 f16 f17 f18 f19 f20
        "$0" ledger append --file many >&2 && exit 97
        rm f*
        "$0" ledger verify >&2 || exit 96
        test -z "$(ls -d ledger/.lokt/batch-* 2>/dev/null)" || exit 95
        "$0" ledger append --file many >&2 || exit 94
        "$0" ledger verify >&2 || exit 93"#,
    );
    assert_eq!(ended.code, Some(0), "it is whole: {ended:?}");
}
