//! A root that a group shares: whoever is killed at whichever system call shuts nobody else out. Needs the superuser, who can be
//! others; it fails without.

use lokt_testkit::cmd::Place;
use lokt_testkit::strace::{Call, calls, killed_at};
use lokt_testkit::swarm::Ended;

/// A root of group 12345, and the command where strangers can reach it.
fn shared() -> Place {
    let place = Place::new(env!("CARGO_BIN_EXE_lokt"));
    let text = "mkdir \"$LOKT_ROOT\" && chgrp 12345 \"$LOKT_ROOT\" && chmod 2770 \"$LOKT_ROOT\" \
        && chmod 755 . && cp \"$0\" lokt && chmod 755 lokt && setpriv --reuid 12345 --regid 12345 --clear-groups true";
    let made = place.run_words("a", &["sh", "-c", text, env!("CARGO_BIN_EXE_lokt")]);
    assert_eq!(made.code, Some(0), "this test needs root: {}", made.stderr);
    place
}

fn as_member(place: &Place, uid: &str, args: &[&str]) -> Ended {
    let member = ["setpriv", "--reuid", uid, "--regid", "12345", "--clear-groups", "./lokt"];
    place.run_words("b", &[&member, args].concat())
}

#[test]
fn a_member_killed_while_making_the_root_shuts_nobody_out() {
    lokt_testkit::need!(root, "strace");
    let place = shared();
    let mut all = calls(&place, "a", &["lock", "x"]);
    all.retain(|call| ["mkdirat", "openat", "fchmod", "fchown", "renameat", "renameat2"].contains(&call.name.as_str()));
    assert!(all.iter().any(|call: &Call| call.name == "fchmod"), "modes are set: {all:?}");
    for call in all {
        let place = shared();
        killed_at(&place, "a", &["lock", "x"], &call);
        let taken = as_member(&place, "12345", &["lock", "y"]);
        assert_eq!(taken.code, Some(0), "nothing wedges a name: killed at {call:?}: {}", taken.stderr);
        assert!(!taken.stderr.contains("warning"), "audited: killed at {call:?}: {}", taken.stderr);
        let other = as_member(&place, "12346", &["unlock", "--force", "y"]);
        assert_eq!(other.code, Some(0), "what one member makes, another can use: {}", other.stderr);
    }
}
