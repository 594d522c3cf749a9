//! Whatever changes a lease is killed at each step: the next one gets in without any repair, and nothing is missing in the log.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use lokt_testkit::strace::{Call, changes, killed_at, with_paths};
use lokt_testkit::swarm::{in_parallel, pause, put, wall_text};
use lokt_testkit::tenancy::{LONG, SHORT, Tenancy, as_words, token_in, token_of};
use serde_json::Value;

use crate::{LOKT, say};

/// Something that changes a lease.
struct Deed {
    title: &'static str,
    /// Who holds the lease of `main` before it, for how long.
    held: Option<&'static str>,
    /// `TOKEN` stands for the holder's.
    words: &'static str,
    owner: &'static str,
    /// What happens first.
    prepare: fn(&Tenancy),
}

/// Long enough for the command, short enough to wait for its end.
const A_SECOND: &str = "--lease 1s --renew 300ms --skew 0s --grace 0s";
const BRIEF_ACQUIRE: &str = "lease acquire --lease 100ms --renew 50ms --skew 0s --grace 0s";
const BRIEF_STEAL: &str = "lease steal --lease 100ms --renew 50ms --skew 0s --grace 0s";

const DEEDS: [Deed; 9] = [
    Deed { title: "acquire", held: None, words: BRIEF_ACQUIRE, owner: "a", prepare: |_| {} },
    Deed {
        title: "acquire where everything about locks was deleted",
        held: None,
        words: BRIEF_ACQUIRE,
        owner: "a",
        prepare: |tenancy| std::fs::remove_dir_all(tenancy.inside("locks")).expect("they are there"),
    },
    Deed {
        title: "steal",
        held: Some(SHORT),
        words: BRIEF_STEAL,
        owner: "b",
        prepare: |_| pause(Duration::from_millis(110)),
    },
    Deed { title: "renew", held: Some(A_SECOND), words: "lease renew", owner: "a", prepare: |_| {} },
    Deed { title: "release", held: Some(A_SECOND), words: "lease release", owner: "a", prepare: |_| {} },
    Deed {
        title: "publish",
        held: Some(A_SECOND),
        words: "lease fence publish --token TOKEN source target",
        owner: "a",
        prepare: |tenancy| {
            put(&tenancy.place.beside("source"), "new");
            put(&tenancy.place.beside("target"), "old");
        },
    },
    Deed {
        title: "break",
        held: Some(A_SECOND),
        words: "lease break --force --reason test",
        owner: "admin",
        prepare: |_| {},
    },
    Deed {
        title: "rename a worktree",
        held: None,
        words: "worktree rename w x",
        owner: "a",
        prepare: |tenancy| {
            tenancy.says("setup", "worktree create w", 0);
            tenancy.acquire("setup", &format!("--worktree w {LONG}"));
            tenancy.says("setup", "lease release --worktree w", 0);
        },
    },
    Deed {
        title: "acquire after a peer",
        held: None,
        words: BRIEF_ACQUIRE,
        owner: "a",
        prepare: |tenancy| {
            let at = wall_text(0);
            let times = format!(r#""created_at":"{at}","last_renewed_at":"{at}","lease_expires_at":"{at}""#);
            let ids = r#""lock_id":"1","holder_id":"h:u:1:1","holder_nonce":"n","session_id":"s","worktree_id":"main""#;
            let policy = r#""lease_duration_ms":100,"renew_interval_ms":50,"max_clock_skew_ms":0,"steal_grace_ms":0"#;
            let record = format!(r#"{{{ids},{times},{policy},"acquire_seq":1,"fencing_token":41}}"#);
            put(&tenancy.inside("locks/main.lock"), record);
            // Seen once; over after that time.
            let ended = tenancy.run("a", "lease acquire --lease 1s");
            assert!(matches!(ended.code, Some(2 | 7)), "it is honoured at first: {ended:?}");
            pause(Duration::from_millis(150));
        },
    },
];

impl Deed {
    /// A repository in which it can be done, the token of whoever holds, and the words.
    fn ready(&self) -> (Tenancy, u64, Vec<String>) {
        let tenancy = Tenancy::new(LOKT);
        let mut token = tenancy.acquire("first", LONG);
        tenancy.says("first", "lease release", 0);
        match self.held {
            Some(SHORT) => token = tenancy.acquire_briefly("a", ""),
            Some(flags) => token = tenancy.acquire("a", flags),
            None => {}
        }
        (self.prepare)(&tenancy);
        let args = tenancy.args(self.owner, &self.words.replace("TOKEN", &token.to_string()));
        (tenancy, token, args)
    }

    /// The calls at which it is killed.
    fn calls(&self) -> Vec<Call> {
        // However long strace takes.
        let held = if self.held == Some(A_SECOND) { Some(LONG) } else { self.held };
        let (tenancy, _, args) = Self { held, ..*self }.ready();
        let (ended, all) = with_paths(&tenancy.place, self.owner, &as_words(&args));
        assert!(matches!(ended.code, Some(0 | 5)), "{}: {ended:?}", self.title);
        let calls: Vec<Call> = all.into_iter().filter(changes).map(|(call, _)| call).collect();
        for name in ["flock", "linkat", "fsync", "write"] {
            assert!(calls.iter().any(|call| call.name == name), "{}: strace sees {name}", self.title);
        }
        calls
    }

    fn is_killed_at(&self, call: &Call) {
        let context = format!("{}, killed at {}#{}", self.title, call.name, call.nth);
        let (tenancy, token, args) = self.ready();
        let killed = killed_at(&tenancy.place, self.owner, &as_words(&args), call);
        // It may be that it was done and told before.
        assert!(killed.code.is_none_or(|code| [0, 2, 4, 5, 6, 137].contains(&code)), "{context}: {killed:?}");
        let target = std::fs::read_to_string(tenancy.place.beside("target")).unwrap_or_default();
        assert!(["", "old", "new"].contains(&target.as_str()), "{context}: a whole file: {target}");
        // Whoever comes next finishes a rename that has begun.
        let names: &[&str] = if self.words.starts_with("worktree") { &["w", "x"] } else { &["main"] };
        for name in names {
            drop(tenancy.view(name));
        }
        let took = |name: &&str| tenancy.run("next", &format!("lease acquire --worktree {name} {LONG} --timeout 60s"));
        let took = names.iter().map(|name| (*name, took(name))).find(|(_, ended)| ended.code != Some(3));
        let (worktree, ended) = took.unwrap_or_else(|| panic!("{context}: the worktree has one of its names"));
        assert_eq!(ended.code, Some(0), "{context}: nobody has to repair anything: {ended:?}");
        let next = token_of(&ended);
        assert!(next > token, "token-order: {context}: {next} after {token}");
        tenancy.log_is_whole(&context);
        let events: Vec<Value> = tenancy.events().into_iter().filter(|event| event["target"] == worktree).collect();
        tokens_grow(&events, &context);
        slots_are_logged(&tenancy, worktree, &context);
        let view = tenancy.view(worktree).unwrap_or_else(|| panic!("{context}: there is a view"));
        assert_eq!(token_in(&view), next, "{context}: everybody sees it");
        let staged = || names_in(&tenancy.inside(&format!("staging/{worktree}")));
        let ready = |name: &String| name.split_once('.').is_some_and(|(token, _)| token.parse::<u64>().is_ok());
        assert_eq!(staged().iter().find(|name| ready(name)), None, "{context}: nothing can be published any more");
        tenancy.says("next", &format!("lease release --worktree {worktree}"), 0);
        let fixed = tenancy.run("doctor", "doctor --strict --fix");
        assert_eq!(fixed.code, Some(0), "{context}: what is left over can be cleared away: {fixed:?}");
    }
}

fn names_in(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    entries.map(|entry| entry.expect("it can be listed").file_name().to_string_lossy().into_owned()).collect()
}

/// Every grant has a greater token than all before it, and whoever stole says from whom.
fn tokens_grow(events: &[Value], context: &str) {
    let mut last = 0;
    for event in
        events.iter().filter(|event| event["operation"] == "lock_acquire" || event["operation"] == "lock_steal")
    {
        let token = token_in(event);
        assert!(token > last, "token-order: {context}: {token} after {last}");
        last = token;
        if event["operation"] == "lock_steal" {
            let details = &event["details"];
            for key in ["old_holder", "new_holder"] {
                assert!(details[key].is_string(), "{context}: {key}: {event}");
            }
            assert_eq!(details["new_token"], token, "{context}: {event}");
            assert!(details["old_token"].as_u64().is_some_and(|old| old < token), "{context}: {event}");
        }
    }
}

/// What every link of the chain says is in the log, once.
fn slots_are_logged(tenancy: &Tenancy, worktree: &str, context: &str) {
    let mut logged: BTreeMap<String, usize> = BTreeMap::new();
    for event in tenancy.events() {
        *logged.entry(event["event_id"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
    }
    let dir = tenancy.inside(&format!("locks/{worktree}.lock.d"));
    let mut slots = 0;
    for entry in std::fs::read_dir(dir).expect("there is a chain") {
        let entry = entry.expect("it can be listed");
        if !entry.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let slot: Value = serde_json::from_slice(&std::fs::read(entry.path()).expect("it can be read"))
            .unwrap_or_else(|error| panic!("{context}: a link is whole: {error}"));
        let event = &slot["chain"]["event"];
        let id = event["event_id"].as_str().unwrap_or_else(|| panic!("{context}: {slot}"));
        if event["operation"] != "lock_renew" {
            assert_eq!(logged.get(id), Some(&1), "{context}: {} of {id} is in the log, once", event["operation"]);
        }
        slots += 1;
    }
    assert!(slots > 0, "{context}: there are links");
}

#[test]
fn check_25_38_whatever_changes_a_lease_may_be_killed_at_any_moment() {
    lokt_testkit::need!("strace");
    let mut cases = Vec::new();
    for deed in &DEEDS {
        let calls = deed.calls();
        say(&format!("{}: killed at {} calls", deed.title, calls.len()));
        cases.extend(calls.into_iter().map(|call| (deed, call)));
    }
    in_parallel(8, cases, |(deed, call)| deed.is_killed_at(&call));
}
