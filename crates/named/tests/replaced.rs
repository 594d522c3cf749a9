//! **one-holder** for a program that stays open while directories are replaced under it.

use std::path::Path;

use lokt_core::decide::Terms;
use lokt_core::name::LockName;
use lokt_named::{Grant, Lokt};
use lokt_sys::machine::identity;

fn open(root: &Path, owner: &str) -> Lokt {
    Lokt::create(root, identity(owner.into(), None)).expect("a temp directory is writable")
}

fn takes(lokt: &Lokt) -> bool {
    let name = LockName::new("x").expect("a good name");
    let said = lokt.take(&name, Terms::default()).expect("the disk works");
    matches!(said.value, Grant::Granted(_))
}

#[test]
fn directories_that_were_moved_away_are_opened_anew() {
    let dir = tempfile::tempdir().expect("temp");
    let early = open(dir.path(), "early");
    assert!(takes(&early));
    for moved in ["locks", "state"] {
        let (from, to) = (dir.path().join(moved), dir.path().join(format!("{moved}.old")));
        let status = std::process::Command::new("mv").arg(from).arg(to).status().expect("mv runs");
        assert!(status.success());
    }
    assert!(takes(&open(dir.path(), "late")), "nothing is held in the new directory");
    assert!(!takes(&early), "one-holder: and the one who was there before sees that");
}
