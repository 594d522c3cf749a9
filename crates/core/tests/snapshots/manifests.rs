//! Trees as lines.

use lokt_core::ledger::chain::Digest;
use lokt_core::snapshot::entry::{Entry, Kind, SourceStamp, Time};
use lokt_core::snapshot::manifest::{Checker, Header, LINE_BYTES_MAX, Manifest, RootHasher, root_hash};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::any::{any_entry, any_manifest, any_tree};

fn dir(path: &str) -> Entry {
    Entry {
        path: path.into(),
        kind: Kind::Dir,
        mode: 0o755,
        uid: 1000,
        gid: 100,
        mtime: Time { secs: 1_700_000_000, nanos: 5 },
        xattrs: Vec::new(),
        source: None,
    }
}

fn file(path: &str) -> Entry {
    let kind = Kind::File { size: 5, hash: *blake3_of_hello() };
    Entry { mode: 0o4644, kind, ..dir(path) }
}

/// BLAKE3 of `hello`, as `b3sum` says.
fn blake3_of_hello() -> &'static [u8; 32] {
    &[
        0xea, 0x8f, 0x16, 0x3d, 0xb3, 0x86, 0x82, 0x92, 0x5e, 0x44, 0x91, 0xc5, 0xe5, 0x8d, 0x4b, 0xb3, 0x50, 0x6e,
        0xf8, 0xc1, 0x4e, 0xb7, 0x8a, 0x86, 0xe9, 0x08, 0xc5, 0x62, 0x4a, 0x67, 0x20, 0x0f,
    ]
}

fn link(path: &str, to: &str) -> Entry {
    Entry { kind: Kind::HardLink { to: to.into() }, ..file(path) }
}

fn symlink(path: &str, target: &[u8]) -> Entry {
    Entry { mode: 0o777, kind: Kind::Symlink { target: target.into() }, ..dir(path) }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("JSON is text")
}

const HASH: &str = "ea8f163db38682925e4491c5e58d4bb3506ef8c14eb78a86e908c5624a67200f";

#[test]
fn every_kind_has_one_line_to_the_byte() {
    let source = Some(SourceStamp { dev: 66, ino: 4321, ctime: Time { secs: -1, nanos: 999_999_999 } });
    let xattrs =
        vec![(b"system.posix_acl_access".to_vec(), vec![2, 0, 0xff]), (b"user.note".to_vec(), b"<x>".to_vec())];
    let stat = r#""mode":493,"uid":1000,"gid":100,"mtime":[1700000000,5]"#;
    for (entry, line) in [
        (dir(""), format!(r#"{{"path":"","type":"dir",{stat}}}"#)),
        (
            file("a/b"),
            format!(
                r#"{{"path":"a/b","type":"file","mode":2468,"uid":1000,"gid":100,"mtime":[1700000000,5],"size":5,"hash":"{HASH}"}}"#
            ),
        ),
        (Entry { mode: 0o755, ..link("c", "a/b") }, format!(r#"{{"path":"c","type":"link",{stat},"to":"a/b"}}"#)),
        (
            Entry { mode: 0o755, ..symlink("s", b"../\xff") },
            format!(r#"{{"path":"s","type":"symlink",{stat},"target":{{"hex":"2e2e2fff"}}}}"#),
        ),
        (
            Entry { path: b"d\xff\n".to_vec(), xattrs, source, ..dir("") },
            format!(
                r#"{{"path":{{"hex":"64ff0a"}},"type":"dir",{stat},"xattrs":[["system.posix_acl_access",{{"hex":"0200ff"}}],["user.note","<x>"]],"source":{{"dev":66,"ino":4321,"ctime":[-1,999999999]}}}}"#
            ),
        ),
    ] {
        let written = entry.line().expect("it is short");
        assert_eq!(text(written.clone()), format!("{line}\n"));
        assert_eq!(Entry::parse_line(&written), Ok(entry.clone()), "with its newline");
        assert_eq!(Entry::parse_line(line.as_bytes()), Ok(entry), "and without");
    }
}

#[test]
fn what_leads_out_of_the_tree_or_makes_no_sense_is_no_entry() {
    let with = |entry: &Entry, changes: Value| {
        let mut members: Value = serde_json::from_slice(&entry.line().expect("short")).expect("JSON");
        for (name, value) in changes.as_object().expect("tests write objects") {
            members[name] = value.clone();
        }
        members.to_string()
    };
    for path in ["/etc", "a/", "a//b", "..", "a/../b", ".", "./a", "a/.", "a\0b", "/"] {
        let why = Entry::parse_line(with(&file("a"), json!({"path": path})).as_bytes());
        assert!(why.is_err(), "{path:?} was taken for a path");
        let why = Entry::parse_line(with(&link("zz", "a"), json!({"to": path})).as_bytes());
        assert!(why.is_err(), "{path:?} was taken for a first name");
    }
    for (entry, changes) in [
        (file("a"), json!({"path": ""})),
        (file("a"), json!({"path": {"hex": "61"}})),
        (file("a"), json!({"path": 7})),
        (file("a"), json!({"type": "socket"})),
        (file("a"), json!({"type": "dir"})),
        (file("a"), json!({"size": null})),
        (file("a"), json!({"size": -1})),
        (file("a"), json!({"hash": "ab"})),
        (file("a"), json!({"hash": "EA".repeat(32)})),
        (file("a"), json!({"to": "b"})),
        (file("a"), json!({"mode": 0o10000})),
        (file("a"), json!({"uid": 1_u64 << 32})),
        (file("a"), json!({"mtime": [0, 1_000_000_000]})),
        (file("a"), json!({"mtime": 7})),
        (file("a"), json!({"more": 7})),
        (file("a"), json!({"xattrs": [["b", ""], ["a", ""]]})),
        (file("a"), json!({"xattrs": [["a", ""], ["a", ""]]})),
        (file("a"), json!({"xattrs": [["", ""]]})),
        (file("a"), json!({"xattrs": [["a\0", ""]]})),
        (file("a"), json!({"source": {"dev": 1, "ino": 2}})),
        (file("a"), json!({"source": {"dev": 1, "ino": 2, "ctime": [0, 1_000_000_000]}})),
        (link("b", "a"), json!({"to": ""})),
        (link("b", "a"), json!({"to": "b"})),
        (link("b", "a"), json!({"to": "c"})),
        (symlink("a", b"x"), json!({"target": ""})),
        (symlink("a", b"x"), json!({"target": "a\0"})),
    ] {
        let line = with(&entry, changes);
        assert!(Entry::parse_line(line.as_bytes()).is_err(), "{line}");
    }
    let twice = text(dir("a").line().expect("short")).replace("\"uid\":1000", "\"uid\":0,\"uid\":1000");
    assert!(Entry::parse_line(twice.as_bytes()).is_err(), "a member that is there twice has no meaning");
}

#[test]
fn a_line_that_could_not_be_read_is_not_written() {
    let big = |bytes: usize| Entry { xattrs: vec![(b"user.big".to_vec(), vec![b'x'; bytes])], ..file("a") };
    let beside = big(0).line().expect("short").len();
    let longest = big(LINE_BYTES_MAX - beside);
    let line = longest.line().expect("it is as long as a line may be");
    assert_eq!((line.len(), Entry::parse_line(&line)), (LINE_BYTES_MAX, Ok(longest)));
    let beyond = big(LINE_BYTES_MAX - beside + 1);
    assert!(beyond.line().is_err_and(|why| why.contains('a')), "it would be too long");
    let manifest = Manifest { header: header(), entries: vec![dir(""), beyond.clone()] };
    assert!(manifest.to_bytes().is_err() && manifest.root_hash().is_err(), "then there is no manifest either");
    assert!(RootHasher::default().add(&beyond).is_err());
}

fn header() -> Header {
    Header { scanned_at: Time { secs: 1_700_000_001, nanos: 7 }, trusted: true }
}

#[test]
fn a_header_says_what_follows() {
    let line = "{\"version\":1,\"algo\":\"blake3\",\"scanned_at\":[1700000001,7],\"trusted\":true}\n";
    assert_eq!(text(header().line()), line);
    assert_eq!(Header::parse_line(line.as_bytes()), Ok(header()));
    for (bad, why) in [
        (line.replace(":1,", ":2,"), "2"),
        (String::from("{\"version\":3}"), "3"),
        (line.replace("blake3", "sha256"), "sha256"),
        (line.replace("[1700000001,7]", "[1,1000000000]"), "time"),
        (line.replace("true", "1"), "begin"),
        (line.replace('}', ",\"x\":1}"), "begin"),
        (String::from("{}"), "begin"),
        (String::new(), "begin"),
    ] {
        assert!(Header::parse_line(bad.as_bytes()).is_err_and(|said| said.contains(why)), "{bad}");
    }
}

#[test]
fn lines_that_make_no_tree_are_no_manifest() {
    let manifest = |entries: &[Entry]| {
        let mut bytes = header().line();
        for entry in entries {
            bytes.extend(entry.line().expect("short"));
        }
        Manifest::parse(&bytes)
    };
    let good = [dir(""), dir("a"), file("a-b"), file("a/b"), symlink("a/c", b"x"), link("d", "a/b"), link("e", "a/c")];
    assert_eq!(manifest(&good).map(|read| read.entries), Ok(good.to_vec()));
    for (why, bad) in [
        ("it has a root", vec![]),
        ("it has a root", vec![dir("a")]),
        ("one root", vec![dir(""), dir("")]),
        ("it is sorted", vec![dir(""), file("b"), file("a")]),
        ("each path is there once", vec![dir(""), file("a"), dir("a")]),
        ("what something is in is there", vec![dir(""), file("a/b")]),
        ("what something is in is a directory", vec![dir(""), file("a"), file("a/b")]),
        ("what something is in is no link", vec![dir(""), symlink("a", b"/etc"), file("a/b")]),
        ("a first name is there", vec![dir(""), link("b", "a")]),
        ("a first name is a file", vec![dir(""), dir("a"), link("b", "a")]),
        ("a first name is the first", vec![dir(""), file("a"), link("b", "a"), link("c", "b")]),
    ] {
        assert!(manifest(&bad).is_err(), "{why}: {bad:?}");
    }
    let bytes = Manifest { header: header(), entries: good.to_vec() }.to_bytes().expect("short");
    assert!(Manifest::parse(&bytes[..bytes.len() - 1]).is_err(), "the last line may be half of one");
    let mut empty_line = bytes.clone();
    empty_line.push(b'\n');
    assert!(Manifest::parse(&empty_line).is_err_and(|why| why.contains("line 9")), "it says where");
    let read = Manifest::parse(&bytes).expect("a manifest");
    assert_eq!(read.get(b"a/b"), Some(&good[3]));
    assert_eq!((read.get(b""), read.get(b"b")), (Some(&good[0]), None));
}

#[test]
fn the_hash_of_a_tree_is_that_of_its_lines_without_what_is_known_of_the_source() {
    let source = Some(SourceStamp { dev: 1, ino: 2, ctime: Time { secs: 3, nanos: 4 } });
    let tree = [Entry { source, ..dir("") }, file("a"), link("b", "a"), symlink("c", b"\xff")];
    let hash = root_hash(&tree).expect("short");
    let elsewhere: Vec<Entry> = tree.iter().cloned().map(|entry| Entry { source: None, ..entry }).collect();
    assert_eq!(root_hash(&elsewhere), Ok(hash), "equal trees have equal hashes");
    assert_eq!(
        Digest(hash).to_string(),
        "3ff5bc1eac51dc8221386f4d8255180adf146a1aa447189b39c4f7ca6e2f8d09",
        "as another program computes it"
    );
    let changes: [fn(&mut Entry); 9] = [
        |entry| entry.path = b"a2".to_vec(),
        |entry| entry.mode = 0o644,
        |entry| entry.uid = 0,
        |entry| entry.gid = 0,
        |entry| entry.mtime.nanos += 1,
        |entry| entry.xattrs = vec![(b"user.a".to_vec(), Vec::new())],
        |entry| entry.kind = Kind::Dir,
        |entry| entry.kind = Kind::File { size: 6, hash: *blake3_of_hello() },
        |entry| entry.kind = Kind::File { size: 5, hash: [0; 32] },
    ];
    for (at, change) in changes.into_iter().enumerate() {
        let mut changed = tree.clone();
        change(&mut changed[1]);
        assert_ne!(root_hash(&changed), Ok(hash), "change {at} is seen");
    }
    let mut copied = tree.clone();
    copied[2].kind = tree[1].kind.clone();
    assert_ne!(root_hash(&copied), Ok(hash), "two files are not one with two names");
}

proptest! {
    #[test]
    fn every_entry_reads_back_to_the_byte(entry in any_entry()) {
        let line = entry.line().expect("short");
        prop_assert_eq!(line.iter().position(|byte| *byte == b'\n'), Some(line.len() - 1));
        prop_assert_eq!(Entry::parse_line(&line), Ok(entry));
    }

    #[test]
    fn every_manifest_reads_back_to_the_byte(manifest in any_manifest()) {
        let bytes = manifest.to_bytes().expect("short");
        let read = Manifest::parse(&bytes);
        prop_assert_eq!(read.as_ref(), Ok(&manifest));
        prop_assert_eq!(read.expect("it is one").to_bytes(), Ok(bytes.clone()));
        // Whoever writes and hashes at once gets the same.
        let mut hasher = RootHasher::default();
        let lines: Vec<Vec<u8>> = manifest.entries.iter().map(|entry| hasher.add_line(entry).expect("short")).collect();
        prop_assert_eq!([vec![manifest.header.line()], lines].concat().concat(), bytes);
        prop_assert_eq!(Ok(hasher.finish()), manifest.root_hash());
    }

    #[test]
    fn trees_that_differ_have_hashes_that_differ(one in any_tree(), other in any_tree()) {
        let bare = |tree: &[Entry]| -> Vec<Entry> { tree.iter().cloned().map(|entry| Entry { source: None, ..entry }).collect() };
        prop_assert_eq!(root_hash(&one) == root_hash(&other), bare(&one) == bare(&other));
        prop_assert_eq!(root_hash(&one), root_hash(&bare(&one)));
    }

    #[test]
    fn no_bytes_make_reading_panic(manifest in any_manifest(), cut in any::<prop::sample::Index>(), byte in any::<u8>(), raw in any::<Vec<u8>>()) {
        let mut bytes = manifest.to_bytes().expect("short");
        let at = cut.index(bytes.len());
        prop_assert!(at > 0 && bytes[at - 1] == b'\n' || Manifest::parse(&bytes[..at]).is_err(), "half a line");
        bytes[at] = byte;
        if let Ok(read) = Manifest::parse(&bytes) {
            let written = read.to_bytes().expect("what was read is short enough");
            prop_assert_eq!(Manifest::parse(&written), Ok(read));
        }
        let _ = (Manifest::parse(&raw), Entry::parse_line(&raw), Header::parse_line(&raw));
    }

    #[test]
    fn times_are_counted_in_nanoseconds(secs in any::<i64>(), nanos in 0..1_000_000_000_u32, any_nanos in any::<i128>()) {
        let time = Time { secs, nanos };
        prop_assert_eq!(Time::from_nanos(time.as_nanos()), Some(time));
        if let Some(time) = Time::from_nanos(any_nanos) {
            prop_assert_eq!(time.as_nanos(), any_nanos);
        }
        let later = Time { secs: secs.saturating_add(1), nanos };
        prop_assert_eq!(time.cmp(&later), time.as_nanos().cmp(&later.as_nanos()));
    }
}

#[test]
fn whoever_reads_line_by_line_checks_the_same() {
    let mut checker = Checker::default();
    assert!(checker.end().is_err(), "nothing is no tree");
    assert!(checker.next(&file("a")).is_err());
    assert_eq!(checker.next(&dir("")), Ok(()));
    assert_eq!((checker.next(&file("a")), checker.end()), (Ok(()), Ok(())));
}
