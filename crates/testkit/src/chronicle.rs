//! A ledger that many real processes write to, and what must be true of it whatever happened to them.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, UNIX_EPOCH};

use lokt_sys::machine::{Linux, Machine as _};
use serde_json::Value;

use crate::cmd::Place;
use crate::strace::{Call, changes, killed_at, with_paths};
use crate::swarm::{Ended, in_parallel, put, wall_text};

/// The lock that all programs share.
const LOCK: &str = "ledger.lock";
/// A lock of this age was left behind.
const OLD_SECS: u64 = 120;

/// A directory with a ledger of the documented style. It goes away with the test.
pub struct Chronicle {
    /// The command runs here.
    pub place: Place,
}

/// An event that was acknowledged: its number, and something that only it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ack {
    /// The number.
    pub number: u64,
    /// Its words.
    pub text: String,
}

impl Chronicle {
    /// A ledger with `count` events; `flags` go to `ledger init`.
    pub fn new(binary: &str, flags: &[&str], count: u64) -> Self {
        let chronicle = Self { place: Place::new(binary) };
        let ended = chronicle.run("setup", &[&["ledger", "init"], flags].concat());
        assert_eq!(ended.code, Some(0), "a ledger can be made: {ended:?}");
        for number in 1..=count {
            chronicle.append(&format!("first-{number}"));
        }
        chronicle
    }

    /// The directory of events.
    pub fn path(&self) -> PathBuf {
        self.place.beside("ledger")
    }

    /// The file of an event.
    pub fn file(&self, number: u64) -> PathBuf {
        self.path().join(format!("event-{number:06}.json"))
    }

    /// Runs the command as `owner`.
    pub fn run(&self, owner: &str, args: &[&str]) -> Ended {
        self.place.run(owner, args)
    }

    /// Appends an event, which must work.
    #[track_caller]
    pub fn append(&self, text: &str) -> Ack {
        let ended = self.run("a", &["ledger", "append", &note(text), "--json"]);
        assert_eq!(ended.code, Some(0), "{text} is appended: {ended:?}");
        Ack { number: number_of(&ended), text: said(text) }
    }

    /// Another program puts an event there, whatever it replaces.
    pub fn put(&self, number: u64, bytes: &str) {
        let temp = self.path().join(".event-other.tmp");
        put(&temp, bytes);
        rustix::fs::rename(&temp, self.file(number)).expect("a test directory is writable");
    }

    /// A claim as another program writes it, which ended a minute ago.
    pub fn put_expired_claim(&self, number: u64, node: &str, owner: &str) {
        let (at, end) = (wall_text(-120), wall_text(-60));
        self.put(
            number,
            &format!(
                r#"{{"type":"lock_acquired","timestamp":"{at}","node_id":"{node}","owner":"{owner}","expires_at":"{end}"}}"#
            ),
        );
    }

    /// Every event's bytes, in order. A gap, a torn event or anything beside the events fails the test.
    #[track_caller]
    pub fn events(&self, context: &str) -> Vec<Vec<u8>> {
        let entries = fs::read_dir(self.path()).expect("there is a ledger");
        let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("it can be listed").file_name();
        let mut names: Vec<String> = entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect();
        names.retain(|name| name != ".lokt" && name != LOCK);
        names.sort();
        let expected: Vec<String> = (1..=names.len()).map(|number| format!("event-{number:06}.json")).collect();
        let first = names.iter().zip(&expected).find(|(name, expected)| name != expected);
        assert_eq!(first, None, "{context}: no gap, and nothing beside the events");
        let event = |name: &String| {
            let bytes = fs::read(self.path().join(name)).expect("it was listed");
            let value: Result<Value, _> = serde_json::from_slice(&bytes);
            let whole = value.as_ref().is_ok_and(|value| value["type"].is_string());
            assert!(whole, "{context}: {name} is torn: {}", String::from_utf8_lossy(&bytes));
            bytes
        };
        names.iter().map(event).collect()
    }

    /// What was acknowledged is there, once, under its number.
    #[track_caller]
    pub fn keeps(&self, acks: &[Ack], context: &str) {
        let events = self.events(context);
        let texts: Vec<_> = events.iter().map(|bytes| String::from_utf8_lossy(bytes)).collect();
        for Ack { number, text } in acks {
            let there = usize::try_from(*number).ok().and_then(|number| texts.get(number - 1));
            let there = there.unwrap_or_else(|| panic!("no-overwrite: {context}: acknowledged event {number} is lost"));
            assert!(there.contains(text), "no-overwrite: {context}: event {number} said {text}, and says {there}");
        }
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for text in texts.iter().filter_map(|text| words_in(text)) {
            *counts.entry(text).or_default() += 1;
        }
        for Ack { number, text } in acks {
            assert_eq!(counts.get(text.as_str()), Some(&1), "{context}: {text}, event {number}, is there once");
        }
    }

    /// `verify` finds nothing.
    #[track_caller]
    pub fn is_sound(&self, context: &str) {
        let ended = self.run("reader", &["ledger", "verify"]);
        assert_eq!(ended.code, Some(0), "{context}: something is wrong: {ended:?}");
    }

    /// Nobody has the lock.
    #[track_caller]
    pub fn is_free(&self, context: &str) {
        let there = fs::symlink_metadata(self.path().join(LOCK));
        assert!(there.is_err(), "{context}: the lock is free");
    }

    /// Another program stopped long ago while it had the lock, as the documented recipe makes it.
    pub fn leave_stale_lock(&self) {
        let lock = self.path().join(LOCK);
        fs::create_dir(&lock).expect("nobody has it");
        let then = u64::try_from(Linux.now().wall.as_second()).expect("the clock shows this century") - OLD_SECS;
        let then = UNIX_EPOCH + Duration::from_secs(then);
        File::open(&lock).and_then(|lock| lock.set_modified(then)).expect("it is ours");
    }

    /// That program comes back: it puts its event under the number that it had counted, and releases the lock.
    pub fn comes_back(&self, number: u64) {
        self.put(number, r#"{"type":"late","timestamp":"2026-01-01T00:00:00Z"}"#);
        let _ = rustix::fs::rmdir(self.path().join(LOCK));
    }
}

/// An event with these words.
pub fn note(text: &str) -> String {
    format!(r#"{{"type":"note","text":"{text}"}}"#)
}

/// How the event says them.
pub fn said(text: &str) -> String {
    format!(r#""text":"{text}""#)
}

/// The same, in an event.
fn words_in(event: &str) -> Option<&str> {
    let from = event.find(r#""text":""#)?;
    let length = event[from + 8..].find('"')?;
    Some(&event[from..=from + 8 + length])
}

/// The number in an answer of `ledger append --json` or `claim take --json`; of several events, the first one's.
#[track_caller]
pub fn number_of(ended: &Ended) -> u64 {
    let answer: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
    answer["seq"].as_u64().unwrap_or_else(|| panic!("it has a number: {answer}"))
}

/// Something that adds events, and the ledger it is done in.
pub struct Deed {
    /// What it is.
    pub title: &'static str,
    /// Makes it possible.
    pub prepare: fn(&Chronicle),
    /// What is run.
    pub args: &'static [&'static str],
    /// It finds a lock that another program left behind.
    pub takes_over: bool,
}

impl Deed {
    fn ready(&self, binary: &str) -> Chronicle {
        let chronicle = Chronicle::new(binary, &[], 2);
        (self.prepare)(&chronicle);
        chronicle
    }

    /// The system calls that it makes from the moment when it looks for the ledger.
    pub fn calls(&self, binary: &str) -> Vec<Call> {
        self.traced(binary).into_iter().map(|(call, _)| call).collect()
    }

    fn traced(&self, binary: &str) -> Vec<(Call, String)> {
        let (_, mut all) = with_paths(&self.ready(binary).place, "a", self.args);
        let from = all.iter().position(|(call, _)| call.name == "getcwd").unwrap_or(0);
        all.drain(..from);
        for name in ["flock", "linkat", "fsync"] {
            assert!(all.iter().any(|(call, _)| call.name == name), "{}: strace sees {name}", self.title);
        }
        all
    }

    /// Kills it at each of its system calls that matters, `at_once` at a time: nothing is lost or torn, and the next append works at once.
    pub fn is_killed_at_each_call(&self, binary: &str, at_once: usize) {
        let grew = Mutex::new(Vec::new());
        let calls = self.traced(binary).into_iter().filter(changes).map(|(call, _)| call);
        in_parallel(at_once, calls, |call| {
            let context = format!("{}, killed at {}#{}", self.title, call.name, call.nth);
            let chronicle = self.ready(binary);
            let before = chronicle.events(&context);
            let ended = killed_at(&chronicle.place, "a", self.args, &call);
            let left = chronicle.events(&context);
            assert_eq!(left[..before.len()], before, "no-overwrite: {context}: what was there is unchanged");
            if ended.code == Some(0) {
                assert!(left.len() > before.len(), "no-overwrite: {context}: it was acknowledged: {ended:?}");
            }
            let next = chronicle.append("next");
            let now = chronicle.events(&context);
            assert_eq!(now[..left.len()], left, "no-overwrite: {context}: the next one replaces nothing");
            chronicle.is_free(&context);
            chronicle.is_sound(&context);
            if self.takes_over {
                chronicle.comes_back(before.len() as u64 + 1);
                chronicle.keeps(std::slice::from_ref(&next), &format!("{context}, and the late one came back"));
                chronicle.is_sound(&context);
            }
            chronicle.keeps(&[next], &context);
            grew.lock().expect("no thread panicked with it").push(left.len() > before.len());
        });
        let grew = grew.into_inner().expect("no thread panicked with it");
        let after = grew.iter().filter(|grew| **grew).count();
        assert!(after > 0 && after < grew.len(), "{}: killed before and after: {after} of {}", self.title, grew.len());
    }
}
