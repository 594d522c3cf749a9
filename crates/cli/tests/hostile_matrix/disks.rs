//! Disks and limits that say no. Needs the superuser, for mounts in a namespace of their own; it fails without.

use lokt_testkit::dose::is_due;

use super::calls::{self, Call, FORMATS};
use super::scene::Scene;
use super::state::check;
use crate::common::{LOKT, Said};

/// What is done to the root before the call, and undone after it. `$LOKT_ROOT` is the root, `dir` a directory beside it.
struct Trouble {
    what: &'static str,
    before: &'static str,
    after: &'static str,
    /// The system's own word for it.
    why: &'static str,
}

const SMALL: &str = r#"cp -a "$LOKT_ROOT" copy && mount -t tmpfs -o size=128k,nr_inodes=80 none "$LOKT_ROOT" && cp -a copy/. "$LOKT_ROOT" && rm -r copy"#;

const TROUBLES: [Trouble; 5] = [
    Trouble {
        what: "a root that can only be read",
        before: r#"mount --bind "$LOKT_ROOT" "$LOKT_ROOT" && mount -o remount,bind,ro "$LOKT_ROOT""#,
        after: r#"umount "$LOKT_ROOT""#,
        why: "Read-only file system",
    },
    Trouble {
        what: "a disk without room for a byte",
        before: r#"small && { cat /dev/zero > "$LOKT_ROOT/full" 2>/dev/null; true; }"#,
        after: r#"rm "$LOKT_ROOT/full""#,
        why: "No space left on device",
    },
    Trouble {
        what: "a disk without room for a file",
        before: r#"small && n=0 && while touch "$LOKT_ROOT/full$n" 2>/dev/null; do n=$((n + 1)); done"#,
        after: r#"rm "$LOKT_ROOT"/full*"#,
        why: "No space left on device",
    },
    Trouble {
        what: "an audit log that can only be read",
        before: r#"log="$LOKT_ROOT/audit.log" && mount --bind "$log" "$log" && mount -o remount,bind,ro "$log""#,
        after: r#"umount "$log""#,
        why: "Read-only file system",
    },
    Trouble {
        what: "no room for the audit log alone",
        before: r#"log="$LOKT_ROOT/audit.log" && mount -t tmpfs -o size=4k none dir && yes '{}' | head -c 4095 > dir/log && echo >> dir/log && mount --bind dir/log "$log""#,
        after: r#"umount "$log" && umount dir"#,
        why: "No space left on device",
    },
];

/// `b` holds `x` and has frozen `y`.
fn held() -> Scene {
    let scene = Scene::used();
    for words in ["lock x --ttl 1h", "freeze y"] {
        scene.root.run("b", words).exits(0, "it is free");
    }
    scene
}

fn in_trouble(scene: &Scene, call: &Call, json: bool, trouble: &Trouble) -> Said {
    let script = format!(
        r#"small() {{ {SMALL}; }}
        {} || exit 99
        "$0" "$@"; code=$?
        {} || exit 98
        "$0" guard another -- true >/dev/null 2>&1 || exit 97
        exit $code"#,
        trouble.before, trouble.after
    );
    let said =
        scene.root.call("unshare").args(["--mount", "sh", "-c", &script, LOKT]).args(call.words("x", json)).run();
    assert_ne!(said.code, 99, "this test needs root, for a mount{said}");
    assert!(![97, 98].contains(&said.code), "after {} the root works again{said}", trouble.what);
    said
}

#[test]
fn a_disk_that_says_no_is_an_error_that_says_where_and_why() {
    lokt_testkit::need!(root);
    let healthy = held();
    let all = calls::all();
    let answers: Vec<i32> = all.iter().map(|call| healthy.copy().run(call, false).code).collect();
    for (n, trouble) in TROUBLES.iter().enumerate() {
        let only_the_log = trouble.what.contains("audit log");
        let mut failed = 0_usize;
        for (m, (call, answer)) in all.iter().zip(&answers).filter(|(call, _)| call.looks).enumerate() {
            let json = FORMATS[(n + m) % 2];
            let scene = healthy.copy();
            let said = in_trouble(&scene, call, json, trouble);
            let all = format!("{}{}", said.stdout, said.stderr);
            if said.code == *answer || !call.acts || (only_the_log && !call.examines()) {
                assert_eq!(said.code, *answer, "{}: it is not in the way{said}", trouble.what);
            } else {
                failed += usize::from(!call.examines());
                assert_eq!(said.code, 1, "{}: the system said no{said}", trouble.what);
                let root = scene.root.path().display().to_string();
                assert!(
                    all.contains(&root) && all.contains(trouble.why),
                    "{}: it says where and why{said}",
                    trouble.what
                );
            }
            if json {
                call.check_json(&said);
            }
            scene.is_untouched(&said);
        }
        assert_eq!(failed > 0, !only_the_log, "{} is in the way of something", trouble.what);
    }
}

#[test]
fn a_lock_can_be_given_back_where_nothing_can_be_written() {
    lokt_testkit::need!(root);
    let healthy = held();
    let unlocks: Vec<Call> = calls::all().into_iter().filter(|call| call.words("x", false)[0] == "unlock").collect();
    for trouble in &TROUBLES[1..] {
        for call in unlocks.iter().filter(|call| !call.words("x", false).contains(&"--break-stale".to_owned())) {
            in_trouble(&healthy.copy(), call, false, trouble).exits(0, trouble.what);
        }
    }
}

#[test]
fn limits_of_a_process_are_errors_like_others() {
    let healthy = held();
    let limits = ["--fsize=0", "--fsize=100", "--nofile=3", "--nofile=4", "--nofile=5", "--nofile=6", "--nofile=8"];
    for (n, limit) in limits.into_iter().enumerate() {
        for (m, call) in calls::all().iter().filter(|call| call.looks).enumerate().filter(|(m, _)| is_due(n + m)) {
            let scene = healthy.copy();
            let json = FORMATS[(n + m) % 2];
            let said = scene.root.call("prlimit").args([limit, LOKT]).args(call.words("x", json)).run();
            // Without descriptors it may not get as far as to the root.
            let root = scene.root.path().display().to_string();
            let named = if limit.starts_with("--nofile") { "Too many open files" } else { &root };
            check(call, &said, named, limit);
            if json {
                call.check_json(&said);
            }
            scene.is_untouched(&said);
            scene.works(&said);
        }
    }
}
