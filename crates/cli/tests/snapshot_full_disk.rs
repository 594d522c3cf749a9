//! A disk that is full in the middle of a snapshot or of a restore: a clear error, nothing visible, and the space is given back.

use lokt_testkit::cmd::Place;
use lokt_testkit::swarm::Ended;

use crate::common::LOKT;

/// Runs a script in a repository on a small file system of its own, whose worktree has one snapshot and 2 MB more than that; `room N` leaves
/// that many kilobytes.
fn on_a_small_disk(kind: &str, text: &str) -> Ended {
    let place = Place::new(LOKT);
    let script = format!(
        r#"
        case {kind} in
        tmpfs) mount -t tmpfs -o size=8m none . || exit 99 ;;
        ext4) truncate -s 24m ../disk.$$ && mkfs.ext4 -q -m 0 ../disk.$$ && mount -o loop ../disk.$$ . || exit 99
            rm ../disk.$$ ;;
        esac
        cd "$PWD" || exit 98
        free() {{ sync -f .; df -k --output=avail . | tail -1 | tr -d ' '; }}
        room() {{ dd if=/dev/zero of=fill bs=1k count=$(($(free) - $1)) 2>/dev/null; }}
        "$0" worktree init >&2 || exit 98
        echo small > main/small
        "$0" snapshot create --acquire >&2 || exit 98
        for n in 1 2 3 4 5 6 7 8; do head -c 262144 /dev/urandom > main/big-$n; done
        "$0" lease acquire --lease 1h >&2 || exit 98
        {text}
    "#
    );
    let ended = place.run_words("a", &["unshare", "--mount", "sh", "-c", &script, LOKT]);
    assert_ne!(ended.code, Some(99), "this test needs root, for a mount: {}", ended.stderr);
    ended
}

#[test]
fn a_snapshot_for_which_there_is_no_room_leaves_nothing() {
    lokt_testkit::need!(root);
    for kind in ["tmpfs", "ext4"] {
        // Less than it needs, and enough to begin with; and so little that nothing can be written.
        for room in [900, 8] {
            let ended = on_a_small_disk(
                kind,
                &format!(
                    r#"room {room}; before=$(free)
                    "$0" snapshot create --json; code=$?
                    after=$(free)
                    test $((before - after)) -lt 64 || {{ echo "$before $after" >&2; exit 97; }}
                    test "$("$0" snapshot history --json | grep -c '"snapshot_id"')" = 1 || exit 96
                    test "$(ls .jvs/snapshots | wc -l)" = 3 || exit 95
                    test -z "$(ls -A .jvs/intents)" || exit 94
                    test "$(ls -A .jvs/descriptors | wc -l)" = 1 || exit 93
                    rm fill
                    "$0" snapshot create >&2 || exit 92
                    "$0" snapshot verify --all >&2 || exit 91
                    "$0" doctor --strict >&2 || exit 90
                    exit $code"#
                ),
            );
            assert_eq!(ended.code, Some(1), "{kind}, {room}: it is an error, and afterwards all is well: {ended:?}");
            let json: serde_json::Value = serde_json::from_str(&ended.stdout).expect("a failure is JSON too");
            let message = json["message"].as_str().unwrap_or_default();
            let says_why = message.contains("No space left on device") || message.contains("are free");
            assert!(says_why && message.contains("/.jvs"), "{kind}, {room}: it says why and where: {json}");
        }
    }
}

#[test]
fn a_restore_for_which_there_is_no_room_changes_nothing() {
    lokt_testkit::need!(root);
    for how in ["--into copy", "--in-place"] {
        let ended = on_a_small_disk(
            "tmpfs",
            &format!(
                r#""$0" snapshot create >&2 || exit 98
                room 900; before=$(free)
                "$0" snapshot restore latest {how} --json; code=$?
                after=$(free)
                test $((before - after)) -lt 64 || {{ echo "$before $after" >&2; exit 97; }}
                test ! -e worktrees/copy || exit 96
                test "$(cat main/small)" = small || exit 95
                test -z "$(ls -A .jvs/restores .jvs/intents | grep -v :)" || exit 94
                rm fill
                "$0" snapshot diff latest >&2 || exit 93
                "$0" snapshot restore latest {how} >&2 || exit 92
                exit $code"#
            ),
        );
        assert_eq!(ended.code, Some(1), "{how}: it is an error, and afterwards all is well: {ended:?}");
        let json: serde_json::Value = serde_json::from_str(&ended.stdout).expect("a failure is JSON too");
        let message = json["message"].as_str().unwrap_or_default();
        let says_why = message.contains("No space left on device") || message.contains("are free");
        assert!(says_why && message.contains("/.jvs"), "{how}: it says why and where: {json}");
    }
}
