//! What can be where a record should be.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, makedev, mkfifoat, mknodat};
use serde_json::{Value, json};

use lokt_testkit::dose::is_due;

use super::calls::{self, Call, FORMATS, Found, Place};
use super::scene::Scene;
use crate::common::{Said, put};

/// Something at the path of a record.
struct Odd {
    what: &'static str,
    found: Found,
    make: Box<dyn Fn(&Path)>,
}

fn odd(what: &'static str, make: impl Fn(&Path) + 'static) -> Odd {
    Odd { what, found: Found::NoFile, make: Box::new(make) }
}

fn text(what: &'static str, found: Found, bytes: impl Into<Vec<u8>>) -> Odd {
    let bytes = bytes.into();
    Odd { what, found, make: Box::new(move |path| put(path, &bytes)) }
}

/// A record of `a`, taken on a machine that can't be asked, with some members replaced.
fn record(what: &'static str, found: Found, members: Value) -> Odd {
    let mut record = json!({
        "version": 1, "name": "x", "lock_id": "0123456789abcdef0123456789abcdef", "owner": "a", "host": "elsewhere.example",
        "pid": 1, "acquired_ts": "2026-01-01T00:00:00Z",
    });
    let Value::Object(members) = members else { panic!("members are an object") };
    for (member, value) in members {
        record[member] = value;
    }
    text(what, found, record.to_string())
}

/// A device, which only the superuser can make.
pub(super) fn make_device(path: &Path, major: u32, minor: u32) {
    let mode = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, path, FileType::CharacterDevice, mode, makedev(major, minor))
        .expect("these tests run as root, as CI does");
}

pub(super) fn make_link(to: impl AsRef<Path>, path: &Path) {
    symlink(to, path).expect("a temp directory is writable");
}

pub(super) fn make_fifo(path: &Path) {
    mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).expect("a temp directory is writable");
}

pub(super) fn make_socket(path: &Path) {
    drop(UnixListener::bind(path).expect("a temp directory is writable"));
}

fn no_files() -> Vec<Odd> {
    vec![
        odd("a link to a file outside", |path| make_link("../../precious", path)),
        odd("a link to a good name outside", |path| make_link("../../dir/x.json", path)),
        odd("a link to nothing", |path| make_link("../../nothing", path)),
        odd("a link to itself", |path| make_link("x.json", path)),
        odd("a link to a device that never ends", |path| make_link("/dev/zero", path)),
        odd("a FIFO", make_fifo),
        odd("a directory", |path| put(&path.join("precious"), "precious")),
        odd("a socket", make_socket),
        odd("a device", |path| make_device(path, 1, 3)),
        odd("a device that never ends", |path| make_device(path, 1, 5)),
        odd("10 MiB", |path| put(path, vec![b' '; 10 << 20])),
        odd("1 MiB and a byte", |path| put(path, vec![b'['; (1 << 20) + 1])),
    ]
}

fn no_records() -> Vec<Odd> {
    let is = |what, bytes: &[u8]| text(what, Found::NoRecord, bytes);
    let good = br#"{"version":1,"name":"x","owner":"a","host":"h","pid":1}"#;
    vec![
        is("invalid UTF-8", b"{\"version\": 1, \"owner\": \"\xff\"}"),
        is("an empty object", b"{}"),
        is("null", b"null"),
        is("an array", b"[1]"),
        is("a number", b"42"),
        is("a number beyond all others", b"1e999"),
        is("a string", b"\"lock\""),
        is("zero bytes", b"\0\0\0\0\0\0\0\0"),
        is("half a record", &good[..30]),
        is("a byte order mark", &[b"\xef\xbb\xbf", &good[..]].concat()),
        is("trailing garbage", &[&good[..], b"x"].concat()),
        is("two records", &[&good[..], good].concat()),
        is("NaN", br#"{"version":1,"owner":"a","pid":NaN}"#),
        is("a version with a fraction", br#"{"version":1.0,"owner":"a"}"#),
        is("a version that is text", br#"{"version":"1","owner":"a"}"#),
        is("a fraction of a second", br#"{"version":1,"owner":"a","ttl_sec":1.5}"#),
        is("a pid beyond all numbers", br#"{"version":1,"owner":"a","pid":99999999999999999999}"#),
        is("a time that is none", br#"{"version":1,"owner":"a","acquired_ts":"9999-99-99T99:99:99Z"}"#),
        is("a time after the last", br#"{"version":1,"owner":"a","expires_at":"10000-01-01T00:00:00Z"}"#),
        text("100,000 arrays", Found::NoRecord, "[".repeat(100_000)),
        text("100,000 objects", Found::NoRecord, "{\"a\":".repeat(100_000)),
        text(
            "an owner beside 100,000 arrays",
            Found::NoRecord,
            format!("{{\"owner\":\"a\",\"b\":{}", "[".repeat(100_000)),
        ),
    ]
}

fn records() -> Vec<Odd> {
    let newer = |what, bytes: &'static str| text(what, Found::Newer, bytes);
    let counts = |what, members| record(what, Found::Counts, members);
    let none = |what, members| record(what, Found::NoRecord, members);
    let over = |what, members| record(what, Found::Over, members);
    vec![
        newer("version 2", r#"{"version":2,"name":"x","owner":"a"}"#),
        newer("a version that changed everything", r#"{"version":3,"owner":{"id":7},"pid":"p","name":[]}"#),
        newer("the last version", r#"{"version":9223372036854775807,"owner":"a"}"#),
        counts("a plain record", json!({})),
        counts("version 0", json!({"version": 0})),
        counts(
            "negative numbers",
            json!({"version": -7, "pid": -7, "pid_start_ns": -7, "ttl_sec": -7, "fencing_token": -7}),
        ),
        counts(
            "the greatest numbers",
            json!({"pid": i64::MAX, "pid_start_ns": i64::MAX, "ttl_sec": i64::MAX, "fencing_token": i64::MAX}),
        ),
        counts("a token beyond all numbers", json!({"fencing_token": u64::MAX})),
        counts("the end of all times", json!({"expires_at": "9999-12-31T23:59:59.999999999Z", "ttl_sec": 60})),
        counts("the end of all times, further west", json!({"expires_at": "9999-12-30T23:59:59-12:00"})),
        counts("a beginning at the end", json!({"acquired_ts": "9999-12-30T00:00:00Z", "ttl_sec": i64::MAX})),
        counts("a beginning at the beginning", json!({"acquired_ts": "0001-01-01T00:00:00+14:00"})),
        counts("another name", json!({"name": "y"})),
        counts("a name outside", json!({"name": "../../precious"})),
        counts("an owner of 900 kB", json!({"owner": "o".repeat(900_000)})),
        none("a reason that is no text", json!({"reason": 7})),
        none("parts that are none", json!({"parts": {"for": 7, "process": [], "owner": "b"}})),
        none("a pulse outside", json!({"pulse": "../../../precious"})),
        counts(
            "text that would move a cursor",
            json!({
                "owner": FORGED, "host": FORGED, "agent_id": FORGED, "reason": FORGED, "lock_id": FORGED, "name": FORGED, "boot_id": FORGED,
            }),
        ),
        over("an end at the beginning", json!({"expires_at": "0001-01-01T00:00:00Z"})),
        over(
            "an end that is over, by its offset",
            json!({"acquired_ts": "2026-01-01T00:00:00-12:00", "expires_at": "2026-01-02T00:00:00+14:00"}),
        ),
        over("a lease of a second, long ago", json!({"ttl_sec": 1})),
    ]
}

/// Would be a line of its own, and more.
const FORGED: &str = "forged\nforged line\u{1b}[2J\u{9b}31m\r\u{7}\u{7f}\u{202e}\u{2028}";

/// The same thing as `before`: kind, bytes, what is in it.
fn is_there(path: &Path, before: &fs::Metadata, bytes: Option<&[u8]>) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| {
        meta.mode() & 0o170_000 == before.mode() & 0o170_000
            && (!meta.is_file() || meta.len() == before.len())
            && (!meta.is_dir() || path.join("precious").exists())
            && bytes.is_none_or(|bytes| fs::read(path).is_ok_and(|now| now == bytes))
    })
}

/// Every call with `odd` at `place`.
fn meet(odd: &Odd, place: Place, turn: usize) {
    let scene = || {
        let scene = Scene::new();
        (odd.make)(&scene.root.path().join(place.dir()).join("x.json"));
        scene
    };
    let quiet = scene();
    let before = quiet.inside();
    for (n, call) in calls::all().iter().filter(|call| call.looks).enumerate().filter(|(n, _)| is_due(turn + n)) {
        let acting = call.acts.then(scene);
        let scene = acting.as_ref().unwrap_or(&quiet);
        // In turn: the next thing meets this call in the other format.
        let said = meet_one(odd, place, scene, call, FORMATS[(turn + n) % 2]);
        if call.acts && (turn + n).is_multiple_of(3) {
            scene.works(&said);
        }
    }
    assert_eq!(quiet.inside(), before, "looking at {} changes nothing", odd.what);
}

fn meet_one(odd: &Odd, place: Place, scene: &Scene, call: &Call, json: bool) -> Said {
    let path = scene.root.path().join(place.dir()).join("x.json");
    let there = fs::symlink_metadata(&path).expect("it was just made");
    let bytes = (there.is_file() && there.len() < 1 << 20).then(|| fs::read(&path).expect("it was just made"));
    let said = scene.run(call, json);
    let what = format!("{} in {}", odd.what, place.dir());
    assert_eq!(said.code, call.code(place, odd.found), "the exit code, where there is {what}{said}");
    check_words(&said, &what);
    if said.code == 65 && odd.found == Found::NoFile {
        let named = format!("{}/x.json", place.dir());
        let is_named = format!("{}{}", said.stdout, said.stderr).contains(&named);
        assert!(is_named, "{named} is named, where there is {what}{said}");
    }
    let may_end = match odd.found {
        Found::NoFile | Found::NoRecord | Found::Newer => false,
        Found::Counts => call.words("x", false).contains(&"--force".to_owned()),
        Found::Over => true,
    };
    let mut places = scene.root.aside();
    places.push(path);
    let is_kept = places.iter().any(|path| is_there(path, &there, bytes.as_deref()));
    assert!(is_kept || may_end, "{what} is still there, or was moved aside{said}");
    scene.is_untouched(&said);
    said
}

/// Nothing that was read makes a line of its own.
#[track_caller]
fn check_words(said: &Said, what: &str) {
    for line in said.stdout.lines().chain(said.stderr.lines()) {
        assert!(!line.trim_start().starts_with("forged"), "nothing forges a line, where there is {what}{said}");
        assert!(!line.contains(['\u{202e}', '\u{2028}']), "nothing turns text around, where there is {what}{said}");
    }
}

fn meet_all(all: &[Odd], place: Place) {
    for (turn, odd) in all.iter().enumerate() {
        meet(odd, place, turn);
    }
}

#[test]
fn a_lock_that_is_no_file_is_held_named_and_kept() {
    lokt_testkit::need!(root);
    meet_all(&no_files(), Place::Locks);
}

#[test]
fn a_freeze_that_is_no_file_counts_and_is_kept() {
    lokt_testkit::need!(root);
    meet_all(&no_files(), Place::Freezes);
}

#[test]
fn a_lock_that_is_no_record_is_kept_or_moved_aside() {
    meet_all(&no_records(), Place::Locks);
}

#[test]
fn a_freeze_that_is_no_record_counts_and_is_kept() {
    meet_all(&no_records(), Place::Freezes);
}

#[test]
fn a_lock_with_odd_members_is_judged_by_the_rest() {
    meet_all(&records(), Place::Locks);
}

#[test]
fn a_freeze_with_odd_members_is_judged_by_the_rest() {
    meet_all(&records(), Place::Freezes);
}
