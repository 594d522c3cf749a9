//! Leases on the file systems that people have: each made for the test, used by real processes, and taken down whatever happens.
//! They need the superuser, for the mounts, and fail without: a test that can't run has shown nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use lokt_testkit::mounted::Mounted;
use lokt_testkit::swarm::{Over, put};
use lokt_testkit::tenancy::{LONG, Tenancy, answer};

use crate::common::LOKT;

/// Everything that one does with a lease.
fn everything_works(tenancy: &Tenancy, on: &str) {
    let first = tenancy.acquire("a", LONG);
    assert_eq!(tenancy.shown(), Some(first), "{on}: everybody sees it");
    let refused = tenancy.says("b", &format!("lease acquire {LONG}"), 2);
    assert_eq!(refused["code"], "E_LOCK_CONFLICT", "one-holder: {on}: {refused}");
    assert_eq!(tenancy.says("a", "lease renew", 0)["fencing_token"], first, "{on}: the same lease");
    assert_eq!(tenancy.says("b", "lease renew", 4)["code"], "E_LOCK_NOT_HELD", "{on}: it isn't b's");
    put(&tenancy.place.beside("source"), "new");
    put(&tenancy.place.beside("target"), "old");
    tenancy.says("a", &format!("lease fence publish --token {first} source target"), 0);
    assert_eq!(std::fs::read_to_string(tenancy.place.beside("target")).expect("it is there"), "new", "{on}");
    tenancy.says("a", "lease release", 0);
    assert_eq!(tenancy.shown(), None, "{on}: it is free");

    let short = tenancy.acquire_briefly("a", "");
    let stolen = tenancy.says("b", &format!("lease acquire {LONG} --timeout 60s"), 0);
    assert_eq!((&stolen["status"], &stolen["evidence"]), (&"stolen".into(), &"boot_clock".into()), "{on}: {stolen}");
    let second = stolen["fencing_token"].as_u64().unwrap_or_default();
    assert!(second > short && short > first, "token-order: {on}: {first}, {short}, {second}");
    let late = tenancy.says("a", &format!("lease fence publish --token {short} source late"), 6);
    assert_eq!(late["code"], "E_FENCING_MISMATCH", "{on}: {late}");
    assert!(!tenancy.place.beside("late").exists(), "{on}: nothing is to be seen of it");
    assert_eq!(tenancy.says("a", "lease release", 4)["code"], "E_LOCK_NOT_HELD", "no-lost-thief: {on}");
    assert_eq!(tenancy.shown(), Some(second), "no-lost-thief: {on}");
    tenancy.says("b", "lease release", 0);

    let ran = tenancy.run("a", "lease run -- printenv LOKT_LEASE_TOKEN");
    assert_eq!(ran.code, Some(0), "{on}: a command runs: {ran:?}");
    let third: u64 = ran.stdout.trim().parse().unwrap_or_default();
    assert!(third > second, "token-order: {on}: {third} after {second}");
    assert_eq!(tenancy.shown(), None, "{on}: it is free again");

    let (winner, token) = tenancy.one_wins(8, &format!("lease acquire {LONG}"), &[], on);
    assert!(token > third, "token-order: {on}: {token} after {third}");
    tenancy.says(&winner, "lease release", 0);
}

/// Does everything on a file system, while somebody reads the public record all the time.
fn works_on(mounted: &Mounted, kind: &str) {
    assert_eq!(mounted.kind(), kind, "what is tried is what was meant");
    let tenancy = Tenancy::within(LOKT, &mounted.at());
    let (done, looked) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                looked.fetch_or(tenancy.shown().is_some(), Ordering::Relaxed);
            }
        });
        let _over = Over(&done);
        everything_works(&tenancy, kind);
    });
    assert!(looked.into_inner(), "{kind}: the reader saw records");
    tenancy.log_is_whole(kind);
    let ended = tenancy.run("doctor", "doctor --strict");
    assert_eq!(ended.code, Some(0), "{kind}: nothing is wrong: {ended:?}");
    let checkup = answer(&ended);
    let checks = checkup["checks"].as_array().unwrap_or_else(|| panic!("{kind}: there are checks: {checkup}"));
    let odd: Vec<_> = checks.iter().filter(|check| check["status"] != "ok").collect();
    assert!(odd.is_empty(), "{kind}: nothing is left over: {odd:?}");
}

#[test]
fn leases_work_on_ext4() {
    lokt_testkit::need!(root, "mkfs.ext4");
    works_on(&Mounted::image("ext4", 64), "ext4");
}

#[test]
fn leases_work_on_xfs() {
    lokt_testkit::need!(root, "mkfs.xfs");
    works_on(&Mounted::image("xfs", 320), "xfs");
}

#[test]
fn leases_work_on_btrfs() {
    lokt_testkit::need!(root, "mkfs.btrfs");
    works_on(&Mounted::image("btrfs", 128), "btrfs");
}

#[test]
fn leases_work_on_tmpfs() {
    lokt_testkit::need!(root);
    works_on(&Mounted::tmpfs(), "tmpfs");
}

#[test]
fn leases_work_on_overlayfs() {
    lokt_testkit::need!(root);
    works_on(&Mounted::overlay(), "overlay");
}

#[test]
fn leases_work_on_bindfs() {
    lokt_testkit::need!(root, "bindfs");
    works_on(&Mounted::new("bindfs", "mkdir real; bindfs real at"), "fuse");
}
