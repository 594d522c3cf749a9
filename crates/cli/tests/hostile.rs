//! Whatever lies in the way: the right exit code, an error that names the path, nothing lost, no hang, no panic, and nothing on the
//! terminal that could move its cursor. (That no command hangs, panics or prints control characters is checked for every call.)

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::json;

use crate::common::{Root, alive, elsewhere, go_record, host, make_old, names_in, put};

// --- what is no file that could be a record: held, as far as anyone can tell

/// Makes something that is no readable record at a path.
type Obstacle = (&'static str, fn(&Path));

const OBSTACLES: [Obstacle; 8] = [
    ("a symbolic link", |path| symlink("/etc/passwd", path).expect("a temp directory is writable")),
    ("a symbolic link", |path| symlink("/nonexistent", path).expect("a temp directory is writable")),
    ("a symbolic link", |path| symlink(path, path).expect("a temp directory is writable")),
    ("a FIFO", |path| mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).expect("a temp directory is writable")),
    ("a directory", |path| put(&path.join("precious"), "data")),
    ("a socket", |path| drop(UnixListener::bind(path).expect("a temp directory is writable"))),
    ("10485760 bytes", |path| put(path, vec![b' '; 10 << 20])),
    ("1048577 bytes", |path| put(path, vec![b' '; (1 << 20) + 1])),
];

#[test]
fn what_is_no_regular_file_is_held_and_named() {
    for (what, make) in OBSTACLES {
        let root = Root::used();
        make(&root.record_path("x"));
        let before = root.snapshot();
        for words in
            ["lock x", "lock x --ttl 5m", "unlock x", "unlock --break-stale x", "status x", "exists x", "why x"]
        {
            let said = root.run("a", words).exits(65, what);
            said.notes("/locks/x.json", "the error names the path").notes(what, "and says what is there");
        }
        for words in ["lock x --json", "unlock x --json", "status x --json", "exists x --json", "why x --json"] {
            let said = root.run("a", words).exits(65, what);
            assert_eq!(said.json()["code"], "E_NOT_A_RECORD", "{words} on {what}: the code is stable");
        }
        assert_eq!(root.snapshot(), before, "nothing about {what} has changed");
    }
}

#[test]
fn what_is_no_regular_file_is_listed_and_hides_nothing() {
    for (what, make) in OBSTACLES {
        let root = Root::used();
        root.put_record("good", &elsewhere(go_record("good", "a")));
        make(&root.record_path("x"));
        let said = root.run("a", "status").exits(0, "the list can be made");
        assert!(said.stdout.starts_with("good "), "what is good is listed beside {what}{said}");
        said.says("[UNREADABLE]", "what can't be read is marked").says(what, "with what it is");
        let json = root.run("a", "status --json").exits(0, "the list can be made").json();
        assert_eq!((&json[1]["state"], &json[1]["live"]), (&json!("unreadable"), &json!(true)), "it counts as held");
        let said = root.run("a", "unlock --all").exits(0, "what is a's ends");
        said.notes("warning: skipping unreadable lock \"x\"", "what can't be read is skipped with a warning");
        assert!(root.has_record("x") && !root.has_record("good"), "and left alone");
    }
}

#[test]
fn force_moves_what_is_no_regular_file_aside_whole() {
    for (what, make) in OBSTACLES {
        let root = Root::used();
        make(&root.record_path("x"));
        let before = fs::symlink_metadata(root.record_path("x")).expect("it is there");
        let kind = before.file_type();
        root.run("b", "unlock --force x")
            .exits(0, "force gets rid of everything")
            .notes("state/aside/x.json.", "and says where");
        assert!(!root.has_record("x"), "{what} is out of the way");
        let aside = root.aside();
        let moved = fs::symlink_metadata(&aside[0]).expect("it is there").file_type();
        assert_eq!(moved, kind, "{what} is still what it was");
        if kind.is_dir() {
            assert_eq!(fs::read(aside[0].join("precious")).expect("it is there"), b"data", "with what is in it");
        }
        if kind.is_file() {
            assert_eq!(fs::metadata(&aside[0]).expect("it is there").len(), before.len(), "with all its bytes");
        }
        let event = root.audit_of("x").pop().expect("there is one");
        assert_eq!(event["extra"]["aside"], json!(aside[0].strip_prefix(root.path()).expect("it is below")), "audited");
        root.run("b", "lock x").exits(0, "the name is free again");
    }
}

#[test]
fn nothing_is_written_through_a_symbolic_link() {
    let root = Root::used();
    let target = root.outside().join("target");
    symlink(&target, root.record_path("x")).expect("a temp directory is writable");
    root.run("a", "lock x").exits(65, "it is no record");
    root.run("a", "unlock --force x").exits(0, "force gets rid of it");
    assert!(!target.exists(), "what the link names was not made");
}

// --- what was read in full and is no record: moved aside, bytes and all

/// What is no record, and why.
const CORRUPT: [(&str, &[u8]); 17] = [
    ("invalid UTF-8", b"{\"version\": 1, \"owner\": \"\xff\xfe\"}"),
    ("an empty object", b"{}"),
    ("null", b"null"),
    ("an array", b"[\"not\", \"a\", \"lock\"]"),
    ("a string", b"\"lock\""),
    ("a number", b"42"),
    ("text", b"garbage\n"),
    ("half a record", b"{\"version\": 1, \"name\": \"x\", \"own"),
    ("two records", b"{\"version\": 1, \"owner\": \"a\"}{\"version\": 1, \"owner\": \"b\"}"),
    ("a null owner", b"{\"version\": 1, \"owner\": null}"),
    ("an owner that is no string", b"{\"version\": 1, \"owner\": 7}"),
    ("a bad time", b"{\"version\": 1, \"owner\": \"a\", \"acquired_ts\": \"yesterday\"}"),
    ("a time without a zone", b"{\"version\": 1, \"owner\": \"a\", \"expires_at\": \"2026-01-01T00:00:00\"}"),
    ("a fraction of a second", b"{\"version\": 1, \"owner\": \"a\", \"ttl_sec\": 1.5}"),
    ("a pid beyond all numbers", b"{\"version\": 1, \"owner\": \"a\", \"pid\": 99999999999999999999}"),
    ("zero bytes where text should be", b"\0\0\0\0\0\0\0\0"),
    ("a byte order mark", b"\xef\xbb\xbf{\"version\": 1, \"owner\": \"a\"}"),
];

#[test]
fn what_is_no_record_is_moved_aside_with_its_bytes() {
    for (what, bytes) in CORRUPT {
        let root = Root::used();
        root.put("locks/x.json", bytes);
        root.run("b", "exists x").exits(3, what);
        root.run("b", "unlock x").exits(65, what).notes("has corrupted data", "without force it is left alone");
        root.run("b", "status x").exits(65, what);
        assert_eq!(fs::read(root.record_path("x")).expect("it is there"), bytes, "looking at {what} changes nothing");
        let said = root.run("b", "lock x").exits(0, what).notes("state/aside/x.json.", "where it was moved");
        assert_eq!(root.record("x")["owner"], "b", "b has the lock in place of {what}{said}");
        assert_eq!(fs::read(&root.aside()[0]).expect("it is there"), bytes, "nothing of {what} is lost");
        assert_eq!(root.events_of("x"), ["corrupt-break", "acquire"], "{what}: what was broken is audited first");
    }
}

#[test]
fn force_and_break_stale_move_what_is_no_record_aside() {
    for (what, bytes) in CORRUPT {
        for flag in ["--force", "--break-stale"] {
            let root = Root::used();
            root.put("locks/x.json", bytes);
            let json = root.run("b", &format!("unlock {flag} x --json")).exits(0, what).json();
            assert_eq!(json["event"], "corrupt-break", "{flag} on {what}");
            assert!(!root.has_record("x"), "{flag}: {what} is out of the way");
            let aside = root.path().join(json["aside"].as_str().expect("it says where"));
            assert_eq!(fs::read(aside).expect("it is there"), bytes, "{flag}: nothing of {what} is lost");
        }
    }
}

#[test]
fn the_longest_record_there_is_has_a_mebibyte_and_not_a_byte_more() {
    let root = Root::used();
    root.put("locks/x.json", vec![b' '; 1 << 20]);
    root.run("b", "exists x").exits(3, "it was read in full, and is no record");
    for more in [1, 4095, 4096, 4097] {
        root.put("locks/x.json", vec![b' '; (1 << 20) + more]);
        root.run("b", "exists x").exits(65, "it is too long to be read").notes("/locks/x.json", "the path is named");
    }
}

#[test]
fn a_version_beyond_all_numbers_is_a_newer_one() {
    let root = Root::used();
    for version in ["99999999999999999999999", "18446744073709551615", "2.5", "1e3"] {
        root.put("locks/x.json", format!(r#"{{"version": {version}, "owner": "a"}}"#));
        root.run("b", "lock x").exits(65, "a newer version is not ours to judge");
        assert!(root.aside().is_empty(), "it is left where it is");
    }
    root.put("locks/x.json", r#"{"version": 1.5, "owner": "a"}"#);
    root.run("b", "lock x").exits(0, "this one is no version of anything");
}

#[test]
fn what_is_nested_too_deeply_is_no_record() {
    let root = Root::used();
    root.put("locks/x.json", "[".repeat(100_000));
    root.run("b", "status x").exits(65, "it is no record");
    root.put("locks/x.json", format!("{{\"owner\": \"a\", \"extra\": {}", "[".repeat(100_000)));
    root.run("b", "lock x").exits(0, "it is no record");
}

#[test]
fn a_condition_is_not_met_by_what_is_no_record() {
    let root = Root::used();
    root.put("locks/x.json", "garbage");
    for words in ["unlock --force x --token 1", "unlock --force x --lock-id 1", "unlock --break-stale x --token 1"] {
        root.run("b", words).exits(65, "what can't be read as a hold can't be the one that was meant");
    }
    assert!(root.has_record("x"), "it is still there");
}

// --- empty files

#[test]
fn a_young_empty_file_is_being_written() {
    let root = Root::used();
    // Before each of them: after a few commands it would be old.
    let write = || root.put("locks/x.json", "");
    for words in ["lock x", "unlock x", "unlock --break-stale x", "status x", "why x"] {
        write();
        root.run("b", words).exits(2, "somebody else is writing it");
    }
    assert!(root.has_record("x"), "it is left alone");
    write();
    root.run("b", "exists x").exits(0, "it counts as held");
    root.run("b", "unlock --force x").exits(0, "force gets rid of everything");
    root.run("b", "lock x").exits(0, "the name is free again");
}

#[test]
fn an_old_empty_file_wedges_nothing() {
    let root = Root::used();
    root.put("locks/x.json", "");
    make_old(&root.record_path("x"));
    root.run("b", "exists x").exits(3, "it keeps nobody out");
    root.run("b", "lock x").exits(0, "whoever was writing it is long gone");
    assert_eq!(root.record("x")["owner"], "b", "b has it");
}

#[test]
fn an_empty_file_from_the_future_does_not_stay_young_for_ever() {
    let root = Root::used();
    root.put("locks/x.json", "");
    let file = fs::File::options().write(true).open(root.record_path("x")).expect("it is there");
    let far = std::time::UNIX_EPOCH + std::time::Duration::from_secs(4_000_000_000);
    file.set_modified(far).expect("it is ours");
    root.run("b", "lock x").exits(0, "a clock that was set back doesn't make it young");
}

// --- versions

#[test]
fn a_newer_record_is_not_touched_without_force() {
    let root = Root::used();
    for text in [r#"{"version": 2, "name": "x", "owner": "a"}"#, r#"{"version": 99, "owner": {"id": 7}, "pid": "p"}"#] {
        root.put("locks/x.json", text);
        for words in [
            "lock x",
            "unlock x",
            "unlock --break-stale x",
            "unlock --force x --token 1",
            "status x",
            "exists x",
            "why x",
        ] {
            root.run("a", words).exits(65, "a newer version is not ours to judge");
        }
        root.run("a", "lock x").exits(65, "newer").notes("upgrade lokt", "it says what to do");
        let said = root.run("a", "lock x --json").exits(65, "newer");
        assert_eq!(said.json()["code"], "E_UNSUPPORTED_VERSION", "the code is stable");
        root.run("a", "status --prune-expired").exits(0, "the list can be made").says("[NEWER]", "it is marked");
        root.run("a", "unlock --all").exits(0, "what is a's ends");
        assert_eq!(root.record_text("x"), text, "nothing has touched it");
    }
    root.run("a", "unlock --force x").exits(0, "force gets rid of everything");
    root.run("a", "lock x").exits(0, "the name is free again");
}

#[test]
fn a_newer_record_that_is_forced_away_is_not_lost() {
    let root = Root::used();
    let text = r#"{"version": 2, "name": "x", "owner": "a"}"#;
    root.put("locks/x.json", text);
    let json = root.run("b", "unlock --force x --json").exits(0, "force gets rid of everything").json();
    assert_eq!(json["event"], "force-break", "it was somebody's, as far as anyone can tell");
    let aside = root.path().join(json["aside"].as_str().expect("it says where"));
    assert_eq!(fs::read_to_string(aside).expect("it is there"), text, "what isn't understood is kept");
    assert_eq!(root.audit_of("x")[0]["extra"]["aside"], json["aside"], "and the log says where");
}

#[test]
fn a_newer_record_is_skipped_with_a_warning() {
    let root = Root::used();
    root.put("locks/x.json", r#"{"version": 2, "name": "x", "owner": "a"}"#);
    let said = root.run("a", "unlock --all").exits(0, "nothing is a's");
    said.notes("warning: skipping unreadable lock \"x\": it has version 2", "it may be a's");
}

// --- text that would forge lines or move the cursor

#[test]
fn no_text_of_a_record_reaches_the_terminal_raw() {
    let root = Root::used();
    let mut record = alive(go_record("x", "mallory\nroot  admin@vm  0s\u{1b}[2J"));
    record["host"] = "h\t\u{7}\u{202e}".into();
    record["agent_id"] = "a\rb\u{9b}31m\u{7f}".into();
    record["lock_id"] = "\u{1b}[31m".into();
    record["reason"] = "because\u{1b}]0;title\u{7}\n".into();
    root.put_record("x", &record);
    for words in ["lock x", "unlock x", "unlock --break-stale x", "unlock x --lock-id 1", "status x", "status", "why x"]
    {
        let said = root.run("b", words);
        assert!(said.code != 0 || words.starts_with("status"), "{words} is refused{said}");
        let all = format!("{}{}", said.stdout, said.stderr);
        assert!(all.contains("mallory\\nroot") || all.contains("\\u{1b}[31m"), "{words} shows it escaped{said}");
        assert!(!all.contains('\u{202e}'), "{words}: nothing turns the text around{said}");
    }
    assert_eq!(root.run("b", "status").stdout.lines().count(), 1, "one lock is one row");
    let json = root.run("b", "status x --json").exits(0, "it is held").json();
    assert_eq!(json["owner"], record["owner"], "JSON has it as it is");
    assert_eq!(json["agent_id"], record["agent_id"], "C1 controls too, which JSON would leave raw");
    root.run("b", "unlock --force x")
        .exits(0, "force gets rid of everything")
        .notes("mallory\\nroot", "escaped here too");
}

#[test]
fn an_owner_with_a_newline_is_an_owner() {
    let root = Root::new();
    let odd = "two\nlines\u{1b}[1m";
    root.lokt(odd).args(["lock", "x", "--reason", "a\nb\u{1b}[0m"]).run().exits(0, "it is free");
    root.lokt(odd).args(["lock", "x"]).run().exits(0, "the same owner refreshes");
    let said = root.run("b", "lock x").exits(2, "it is held");
    said.notes("held by two\\nlines\\u{1b}[1m (agent", "shown escaped")
        .notes("  reason:  a\\nb\\u{1b}[0m", "the reason too");
    root.lokt(odd).args(["root"]).run().exits(0, "there always is an answer");
    assert_eq!(root.audit_of("x").len(), 3, "the audit log has one line per event");
    root.lokt(odd).args(["unlock", "x"]).run().exits(0, "its owner ends it");
}

#[test]
fn ordinary_letters_of_all_kinds_stay_as_they_are() {
    let root = Root::new();
    root.lokt("Zoë 王").args(["lock", "x", "--reason", "naïve ✓"]).run().exits(0, "it is free");
    root.run("b", "lock x").exits(2, "it is held").notes("Zoë 王", "shown as it is").notes("naïve ✓", "shown as it is");
}

// --- numbers and times

#[test]
fn negative_numbers_are_nobodys_process_and_no_lease() {
    let root = Root::used();
    let mut record = go_record("x", "a");
    for member in ["version", "pid", "pid_start_ns", "ttl_sec"] {
        record[member] = (-7).into();
    }
    root.put_record("x", &record);
    for words in ["status", "status x", "why x"] {
        root.run("b", words).exits(0, "it can be shown");
    }
    assert_eq!(root.run("b", "status x --json").json()["expired"], false, "a negative lease is none");
    root.run("b", "lock x").exits(0, "no process has a negative pid");
}

#[test]
fn pid_zero_is_nobodys_process() {
    let root = Root::used();
    let mut record = go_record("x", "a");
    record["pid"] = 0.into();
    root.put_record("x", &record);
    root.run("b", "lock x").exits(0, "no process has the pid 0");
}

#[test]
fn the_longest_lease_there_is_does_not_overflow() {
    let root = Root::used();
    let mut record = elsewhere(go_record("x", "a"));
    record["ttl_sec"] = i64::MAX.into();
    record["pid"] = i64::MAX.into();
    record["pid_start_ns"] = i64::MAX.into();
    root.put_record("x", &record);
    for (words, code) in
        [("lock x", 2), ("lock x --json", 2), ("status", 0), ("status x", 0), ("why x", 2), ("exists x", 0)]
    {
        root.run("b", words).exits(code, "it is held, practically for ever");
    }
    assert_eq!(root.run("b", "status x --json").json()["ttl_sec"], i64::MAX, "the number is shown as it is");
    root.run("a", "lock x --ttl 5m").exits(0, "its owner can refresh it");
}

#[test]
fn the_year_9999_means_never() {
    let root = Root::used();
    let mut record = elsewhere(go_record("x", "a"));
    record["expires_at"] = "9999-12-31T23:59:59.999999999Z".into();
    root.put_record("x", &record);
    for (words, code) in [("lock x", 2), ("lock x --json", 2), ("status", 0), ("status x", 0), ("why x", 2)] {
        root.run("b", words).exits(code, "it is held");
    }
    root.run("a", "lock x").exits(0, "its owner can refresh it");
    root.run("a", "unlock x").exits(0, "and end it");
}

#[test]
fn the_zero_time_of_old_programs_is_long_ago() {
    let root = Root::used();
    let mut record = elsewhere(go_record("x", "a"));
    record["acquired_ts"] = "0001-01-01T00:00:00Z".into();
    root.put_record("x", &record);
    root.run("b", "lock x").exits(2, "without a TTL it is held");
    record["ttl_sec"] = 60.into();
    root.put_record("x", &record);
    root.run("b", "lock x").exits(0, "with one it has expired");
}

#[test]
fn a_record_without_any_time_works() {
    let root = Root::used();
    root.put_record("x", &json!({"owner": "a", "host": "elsewhere.example", "pid": 1}));
    for (words, code) in [("lock x", 2), ("lock x --json", 2), ("status", 0), ("status x", 0), ("why x", 2)] {
        root.run("b", words).exits(code, "it is held");
    }
    root.put_record("x", &json!({"owner": "a", "host": "elsewhere.example", "pid": 1, "ttl_sec": 5}));
    root.run("b", "lock x").exits(0, "a lease without a beginning is over");
}

#[test]
fn an_owner_without_letters_is_an_owner() {
    let root = Root::used();
    root.put_record("x", &json!({"version": 1, "owner": "", "host": "elsewhere.example", "pid": 1}));
    let json = root.run("b", "lock x --json").exits(2, "it is held").json();
    assert_eq!(json["status"], "blocked", "it is held by somebody without a name");
    root.run("b", "unlock x").exits(4, "it isn't b's");
    root.run("b", "unlock --force x").exits(0, "force gets rid of everything");
}

// --- names and sizes

#[test]
fn files_that_are_not_records_are_not_taken_for_locks() {
    let root = Root::used();
    for file in ["x", "x.json.bak", ".json", "-x.json", "a b.json", "..json"] {
        root.put(&format!("locks/{file}"), "garbage");
    }
    assert_eq!(root.run("a", "status").exits(0, "it can be read").stdout, "no locks\n", "none of them is a record");
    root.run("a", "lock x").exits(0, "and none is in the way");
    let left = names_in(&root.path().join("locks"));
    assert_eq!(left.len(), 7, "all are left alone: {left:?}");
    assert!(
        left.iter().all(|path| !fs::symlink_metadata(path).expect("it is there").file_type().is_fifo()),
        "as they were"
    );
    assert_eq!(root.record("x")["host"], json!(host()), "beside the record");
}

#[test]
fn the_name_of_a_lock_is_that_of_its_file() {
    let root = Root::used();
    root.put_record("x", &elsewhere(go_record("other", "a")));
    let json = root.run("b", "status --json").exits(0, "the list can be made").json();
    assert_eq!(json[0]["name"], "x", "whoever unlocks what the list says unlocks this one");
    root.run("a", "lock x").exits(0, "it is a's");
    assert_eq!(root.record("x")["name"], "x", "a rewrite sets it right");
    root.put_record("y", &json!({"version": 1, "owner": "a", "host": "elsewhere.example", "pid": 1}));
    root.run("a", "lock y").exits(0, "it is a's").notes("`lokt unlock y`", "a record without a name has one too");
}

#[test]
fn a_record_that_would_be_too_long_is_not_written() {
    let root = Root::new();
    // Each of these becomes six bytes of JSON.
    let long = "\u{1}".repeat(100_000);
    let said = root.lokt(&long).args(["lock", "x", "--reason", &long]).run().exits(65, "no record is that long");
    said.notes("would be too long", "it says so").notes("hint: shorten LOKT_OWNER", "and what helps");
    assert!(!root.has_record("x"), "nothing was granted");
    root.lokt(&long).args(["lock", "x"]).run().exits(0, "half of it is long enough");
    assert_eq!(root.record("x")["owner"], json!(long), "and is kept whole");
    root.lokt(&long).args(["unlock", "x"]).run().exits(0, "its owner ends it");
}
