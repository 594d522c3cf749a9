//! Ledgers that aren't as they should be: nothing hangs, nothing is overwritten, the file is named, and the rest can be read.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use crate::common::peers::{SharedLedger, Style};
use crate::common::{Call, Said, put};

/// A ledger of each style with two events.
fn both() -> [SharedLedger; 2] {
    let documented = SharedLedger::documented();
    for payload in ["before-1", "before-2"] {
        documented.append(payload, "").exits(0, "an empty ledger can be appended to");
    }
    [documented, SharedLedger::native()]
}

/// A no-op that both styles have.
const NO_OP: &str = r#"{"type":"nodes_released","timestamp":"2026-11-15T12:00:00Z","node_ids":[]}"#;

/// What stands where an event should be.
enum Damage {
    Bytes(Vec<u8>),
    Directory,
    Fifo,
    Socket,
    DanglingLink,
    LinkToItself,
}

impl Damage {
    fn make(&self, path: &Path) {
        match self {
            Self::Bytes(bytes) => put(path, bytes),
            Self::Directory => fs::create_dir(path).expect("the name is free"),
            Self::Fifo | Self::Socket => {
                let kind = if matches!(self, Self::Fifo) { FileType::Fifo } else { FileType::Socket };
                mknodat(CWD, path, kind, Mode::from_raw_mode(0o600), 0).expect("the name is free");
            }
            Self::DanglingLink => symlink("nowhere", path).expect("the name is free"),
            Self::LinkToItself => symlink(path, path).expect("the name is free"),
        }
    }
}

fn damages() -> Vec<(&'static str, Damage)> {
    let bytes = |bytes: &[u8]| Damage::Bytes(bytes.to_vec());
    let long = format!(r#"{{"type":"nodes_released","node_ids":[],"x":"{}"}}"#, "y".repeat(1 << 20));
    let timed = |time: &str| format!(r#"{{"type":"nodes_released","timestamp":{time},"node_ids":[]}}"#).into_bytes();
    vec![
        ("empty", bytes(b"")),
        ("truncated", bytes(&NO_OP.as_bytes()[..40])),
        ("zero bytes", bytes(&[0; 100])),
        ("byte order mark", bytes(format!("\u{feff}{NO_OP}").as_bytes())),
        ("two documents", bytes(format!("{NO_OP}\n{NO_OP}").as_bytes())),
        ("an array", bytes(b"[]")),
        ("no type", bytes(b"{}")),
        ("too long", bytes(long.as_bytes())),
        ("time without a zone", bytes(&timed(r#""2026-11-15T12:00:00""#))),
        ("time with a blank", bytes(&timed(r#""2026-11-15 12:00:00Z""#))),
        ("time at second 60", bytes(&timed(r#""2026-11-15T12:00:60Z""#))),
        ("time is a number", bytes(&timed("1763208000"))),
        (
            "nested too deep",
            bytes(format!(r#"{{"type":"x","y":{}{}}}"#, "[".repeat(20_000), "]".repeat(20_000)).as_bytes()),
        ),
        ("directory", Damage::Directory),
        ("fifo", Damage::Fifo),
        ("socket", Damage::Socket),
        ("link to nothing", Damage::DanglingLink),
        ("link to itself", Damage::LinkToItself),
    ]
}

/// The numbers of the events that were shown.
fn shown(said: &Said) -> Vec<u64> {
    let lines = said.stdout.lines().map(|line| -> Value {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("a line is JSON: {error}: {line}{said}"))
    });
    lines
        .filter(|line| line["status"] != "damaged" && line["status"] != "missing")
        .filter_map(|line| line["seq"].as_u64())
        .collect()
}

/// Everything in the ledger but lokt's own state and the lock, with what it says.
fn contents(shared: &SharedLedger) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let paths = crate::common::names_in(&shared.ledger()).into_iter();
    let read = |path: PathBuf| {
        let bytes =
            fs::symlink_metadata(&path).expect("it is there").is_file().then(|| fs::read(&path).expect("it is there"));
        (path, bytes)
    };
    paths.filter(|path| !path.ends_with(".lokt")).map(read).collect()
}

/// Everything that was there is as it was.
#[track_caller]
fn are_kept(shared: &SharedLedger, before: &[(PathBuf, Option<Vec<u8>>)], name: &str) {
    let after = contents(shared);
    for entry in before {
        assert!(after.contains(entry), "no-overwrite: {name}: {} is as it was", entry.0.display());
    }
}

/// Row 28 of the conformance checks, and the directory and fifo of row 27.
#[test]
fn a_damaged_event_is_named_and_the_rest_is_shown() {
    for (name, damage) in damages() {
        for shared in both() {
            damage.make(&shared.event_path(3));
            shared.put_event(4, NO_OP);
            let before = contents(&shared);
            let file = shared.event_path(3).file_name().expect("it has one").to_string_lossy().into_owned();

            let said =
                shared.lokt("b", "ledger show -d DIR --json").exits(65, &format!("{name}: something is damaged"));
            assert_eq!(shown(&said), [1, 2, 4], "{name}: the rest is shown{said}");
            assert!(format!("{}{}", said.stdout, said.stderr).contains(&file), "{name}: the file is named{said}");
            let text = shared.lokt("b", "ledger show -d DIR").exits(65, &format!("{name}: in text too"));
            text.notes(&file, "the file is named");
            let export = shared.lokt("b", "ledger export -d DIR").exits(65, &format!("{name}: so does an export"));
            assert!(format!("{}{}", export.stdout, export.stderr).contains(&file), "{name}: the file is named{export}");
            let verify = shared.lokt("b", "ledger verify -d DIR --json").exits(65, &format!("{name}: so does verify"));
            assert!(verify.stdout.contains(&file), "{name}: the file is named{verify}");

            let said = shared.append("after", "").exits(0, &format!("{name}: an append goes on"));
            assert_eq!(said.json()["seq"], 5, "{name}: after the highest{said}");
            let claim = shared.lokt("a", "claim take 1 -d DIR --json");
            assert_eq!(claim.code, 65, "{name}: it may have been a claim{claim}");
            assert_eq!(claim.failure(), "E_CORRUPT", "{name}{claim}");
            let forced = shared.lokt("a", "claim take 1 -d DIR --json --force");
            forced.exits(0, &format!("{name}: with force the rest of the claims counts"));
            are_kept(&shared, &before, name);
        }
    }
}

#[test]
fn damage_at_the_end_is_not_overwritten() {
    for (name, damage) in damages() {
        for shared in both() {
            damage.make(&shared.event_path(3));
            let before = contents(&shared);
            for number in [4, 5] {
                let said = shared.append("after", "").exits(0, &format!("{name}: an append goes on"));
                assert_eq!(said.json()["seq"], number, "{name}: its number is taken{said}");
            }
            are_kept(&shared, &before, name);
        }
    }
}

/// Row 27.
#[test]
fn strays_are_reported_and_never_counted_or_overwritten() {
    for shared in both() {
        let other = if shared.style() == Style::Documented { "" } else { "event-" };
        let own = if shared.style() == Style::Documented { "event-" } else { "" };
        let strays = [
            format!("{own}3.json"),
            format!("{own}+3.json"),
            format!("{own}0000003.json"),
            format!("{own}000000.json"),
            format!("{own}9223372036854775807.json"),
            format!("{own}99999999999999999999999999.json"),
            format!("{other}000003.json"),
            format!("{other}000900.json"),
        ];
        for stray in &strays {
            put(&shared.ledger().join(stray), NO_OP);
        }
        let fifo = shared.ledger().join(format!("{own}00004.json"));
        mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("the name is free");
        let before = contents(&shared);
        for number in [3, 4] {
            let said = shared.append("ours", "").exits(0, "they are in nobody's way");
            assert_eq!(said.json()["seq"], number, "and don't count{said}");
        }
        let said = shared.lokt("b", "ledger show -d DIR --json").exits(0, "they are no events");
        assert_eq!(shown(&said), [1, 2, 3, 4], "so they aren't shown{said}");
        let doctor = shared.lokt("b", "ledger doctor -d DIR --json");
        for stray in strays.iter().chain([&format!("{own}00004.json")]) {
            assert!(doctor.stdout.contains(stray.as_str()), "doctor names {stray}{doctor}");
        }
        are_kept(&shared, &before, "strays");
    }
}

/// Row 31: the document's example counts files of its own style, and starts at 1 beside a native ledger.
#[test]
fn the_documents_example_beside_a_native_ledger_leaves_strays_and_nothing_else() {
    let shared = SharedLedger::native();
    let dir = shared.path().to_str().expect("a plain path");
    for number in 3..=7 {
        let shell = Call::new("bash").args([crate::common::peers::SEED, dir, "1", "stray-"]);
        shell.run().exits(0, "it notices nothing");
        let said = shared.append("ours", "").exits(0, "ours goes on");
        assert_eq!(said.json()["seq"], number, "in its own sequence{said}");
    }
    shared
        .lokt("b", "ledger doctor -d DIR --json")
        .says("event-000001.json", "the files of the other style are reported");
    shared.is_contiguous(7);
    shared.pleases_af();
}

/// Row 24.
#[test]
fn a_gap_is_reported_and_appends_go_on_after_the_highest() {
    for shared in both() {
        shared.put_event(4, NO_OP);
        let before = contents(&shared);
        let missing = shared.event_path(3).file_name().expect("it has one").to_string_lossy().into_owned();
        let said = shared.append("ours", "--expect-seq 3").exits(75, "the count isn't the head");
        assert_eq!((said.failure().as_str(), &said.json()["head"]), ("E_SEQUENCE_MISMATCH", &4.into()), "{said}");
        assert!(said.json()["message"].to_string().contains("expected sequence 3"), "and what was expected{said}");
        let said = shared.append("ours", "--expect-seq 4").exits(0, "the highest is");
        assert_eq!(said.json()["seq"], 5, "{said}");
        assert!(said.stderr.contains('3'), "and the gap is reported{said}");
        let show = shared.lokt("b", "ledger show -d DIR --json").exits(65, "something is missing");
        assert_eq!(shown(&show), [1, 2, 4, 5], "the rest is shown{show}");
        let verify = shared.lokt("b", "ledger verify -d DIR --json").exits(65, "verify says so too");
        assert!(verify.stdout.contains(&missing) || verify.stdout.contains("event 3"), "which one{verify}");
        let claim = shared.lokt("a", "claim take 1 -d DIR --json").exits(65, "what is missing may be a claim");
        assert_eq!(claim.failure(), "E_CORRUPT", "{claim}");
        shared.lokt("a", "claim take 1 -d DIR --force").exits(0, "unless one insists");
        are_kept(&shared, &before, "a gap");
    }
}

/// Row 26.
#[test]
fn numbers_grow_past_six_digits() {
    // Nobody has appended before: who has looks only a little further than where the ledger ended.
    for shared in [SharedLedger::documented(), SharedLedger::native()] {
        shared.put_event(999_999, NO_OP);
        for number in [1_000_000_u64, 1_000_001] {
            let said = shared.append("ours", "").exits(0, "numbers don't end");
            assert_eq!(said.json()["seq"], number, "{said}");
            assert!(shared.event_path(number).exists(), "under its own name");
        }
        let said =
            shared.lokt("b", "ledger show -d DIR --json --after 999998").exits(0, "from there on nothing is missing");
        assert_eq!(shown(&said), [999_999, 1_000_000, 1_000_001], "in the order of numbers, not of names{said}");
        let said = shared.lokt("b", "ledger show -d DIR --json --reverse --limit 2").exits(0, "from the end");
        assert_eq!(shown(&said), [1_000_001, 1_000_000], "the last first{said}");
    }
}

/// Row 32.
#[test]
fn an_event_of_more_than_a_mebibyte_is_refused_and_one_of_a_mebibyte_is_not() {
    for shared in both() {
        let before = shared.numbers();
        let input = shared.path().join("input");
        put(&input, json!({"type": "custom_event", "payload": "y".repeat(1 << 20)}).to_string());
        let said = shared.lokt("b", "ledger append -d DIR --json --file input").exits(64, "it is too long");
        assert_eq!(said.failure(), "E_BAD_EVENT", "{said}");
        assert_eq!(shared.numbers(), before, "and nothing is written");
        put(&input, json!({"type": "custom_event", "payload": "y".repeat((1 << 20) - 300)}).to_string());
        shared.lokt("b", "ledger append -d DIR --json --file input").exits(0, "this one fits");
        if shared.style() == Style::Native {
            shared.pleases_af();
        }
    }
}

#[test]
fn invalid_utf_8_is_shown_and_not_spread() {
    for shared in both() {
        shared.put_event(
            3,
            b"{\"type\":\"nodes_released\",\"node_ids\":[],\"x\":\"\xff\xc3\x1b[2J\"}"
                .map(|byte| if byte == 0x1b { b'.' } else { byte }),
        );
        let said = shared.lokt("b", "ledger show -d DIR --json");
        assert!(matches!(said.code, 0 | 65), "it is an event or damaged{said}");
        assert!(shown(&said).starts_with(&[1, 2]), "the rest is shown{said}");
        let input = shared.path().join("input");
        put(&input, b"{\"type\":\"x\",\"y\":\"\xff\"}");
        let said = shared.lokt("b", "ledger append -d DIR --json --file input").exits(64, "none of ours is written");
        assert_eq!(said.failure(), "E_BAD_EVENT", "{said}");
    }
}

/// Runs git in the directory.
fn git(shared: &SharedLedger, words: &str) -> Said {
    let who = ["-c", "user.name=n", "-c", "user.email=n@example.com", "-c", "init.defaultBranch=main"];
    let said = Call::new("git").args(who).args(words.split_whitespace()).cwd(shared.path()).run();
    said.exits(0, words)
}

#[test]
fn a_ledger_that_git_has_shortened_goes_on_from_where_it_is() {
    lokt_testkit::need!("git");
    for shared in both() {
        git(&shared, "init -q .");
        git(&shared, "add ledger");
        git(&shared, "commit -q -m short");
        shared.lokt("a", "claim take 1 -d DIR").exits(0, "the node is free");
        for number in 4..=9 {
            assert_eq!(shared.append("long", "").exits(0, "it grows").json()["seq"], number);
        }
        git(&shared, "add ledger");
        git(&shared, "commit -q -m long");
        git(&shared, "checkout -q HEAD~1");
        assert_eq!(shared.numbers(), [1, 2], "git has taken the rest away");
        let head = shared.lokt("b", "ledger head -d DIR --json").exits(0, "it can be read");
        assert_eq!(head.json()["head"], 2, "what is there counts, not what was there{head}");
        let list = shared.lokt("b", "claim list -d DIR --json").exits(0, "it can be read");
        assert!(!list.stdout.contains("\"a\""), "the claim is gone with its event{list}");
        let said = shared.append("other", "").exits(0, "it goes on");
        assert_eq!(said.json()["seq"], 3, "from there{said}");
        shared.lokt("c", "claim take 1 -d DIR --json").exits(0, "the node is free");
        shared.is_contiguous(4);
        let lists = git(&shared, "status --porcelain --untracked-files=all").stdout;
        assert!(!lists.contains(".lokt"), "what lokt keeps for itself is none of git's business: {lists}");
        git(&shared, "add ledger");
        git(&shared, "commit -q -m other");
        git(&shared, "checkout -q main");
        assert_eq!(shared.append("long", "").exits(0, "and the long one too").json()["seq"], 10, "has its own end");
        let list = shared.lokt("b", "claim list -d DIR --json").exits(0, "it can be read");
        assert!(list.stdout.contains("\"a\"") && !list.stdout.contains("\"c\""), "and its own claims{list}");
        shared.is_contiguous(10);
        if shared.style() == Style::Native {
            shared.pleases_af();
        }
    }
}
