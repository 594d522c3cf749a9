//! Whatever changes a lease is stopped at each step, while another takes the lease away: the other has it afterwards, whatever the late one
//! still does, and nothing is published any more once the other was told that it has the lease.

use std::sync::atomic::{AtomicUsize, Ordering};

use lokt_testkit::strace::{Call, stopped_after, with_paths};
use lokt_testkit::swarm::{in_parallel, put};
use lokt_testkit::tenancy::{LONG, Tenancy, answer, as_words, token_of};

use crate::{LOKT, say};

/// A command of `a`; `TOKEN` stands for that of the lease that it has, if it has one.
struct Late {
    words: &'static str,
    holds: bool,
}

const LATE: [Late; 4] = [
    Late { words: "lease acquire --lease 1h", holds: false },
    Late { words: "lease renew", holds: true },
    Late { words: "lease release", holds: true },
    Late { words: "lease fence publish --token TOKEN source target", holds: true },
];

/// What the other does first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum First {
    /// It breaks what is held.
    Breaks,
    /// It deletes everything about locks.
    Deletes,
}

impl Late {
    fn ready(&self) -> (Tenancy, u64, Vec<String>) {
        let tenancy = Tenancy::new(LOKT);
        put(&tenancy.place.beside("source"), "new");
        let mut token = tenancy.acquire("a", LONG);
        if !self.holds {
            tenancy.says("a", "lease release", 0);
            token = 0;
        }
        let args = tenancy.args("a", &self.words.replace("TOKEN", &token.to_string()));
        (tenancy, token, args)
    }

    /// The calls after which it is stopped: those that look at something or change it, from the first look at the locks.
    fn calls(&self) -> Vec<Call> {
        let (tenancy, _, args) = self.ready();
        let (ended, all) = with_paths(&tenancy.place, "a", &as_words(&args));
        assert_eq!(ended.code, Some(0), "{}: {ended:?}", self.words);
        let from = all.iter().position(|(_, line)| line.contains("\"locks\"")).expect("it looks at the locks");
        let passing = ["fcntl", "fstat", "close", "read", "getrandom", "rt_sigprocmask", "ioctl", "prctl"];
        let matters = |call: &Call| !passing.contains(&call.name.as_str());
        let calls: Vec<Call> = all[from..].iter().map(|(call, _)| call.clone()).filter(matters).collect();
        assert!(calls.iter().any(|call| call.name == "linkat"), "{}: strace sees its commit", self.words);
        calls
    }

    /// Stops it after a call. True if that was before its commit.
    fn is_stopped_after(&self, call: &Call, first: First) -> bool {
        let context = format!("{}, stopped after {}#{}, {first:?}", self.words, call.name, call.nth);
        let (tenancy, token, args) = self.ready();
        let stopped = stopped_after(&tenancy.place, "a", &as_words(&args), call);
        let stopped = stopped.unwrap_or_else(|| panic!("{context}: it is met there"));
        match first {
            First::Breaks => {
                let ended = tenancy.run("b", "lease break --force --reason test");
                assert!(matches!(ended.code, Some(0 | 3)), "{context}: {ended:?}");
            }
            First::Deletes => std::fs::remove_dir_all(tenancy.inside("locks")).expect("they are there"),
        }
        let thief = tenancy.acquire("b", LONG);
        assert!(thief > token, "token-order: {context}: {thief} after {token}");
        let target = tenancy.place.beside("target");
        let was_published = target.exists();
        let ended = stopped.goes_on();
        assert!(ended.code.is_some_and(|code| [0, 2, 4, 5, 6].contains(&code)), "{context}: it ends: {ended:?}");
        assert_eq!(
            target.exists(),
            was_published,
            "{context}: nothing is published after the lease was lost: {ended:?}"
        );
        if self.words.contains("publish") {
            assert_eq!(ended.code == Some(0), was_published, "{context}: it says what happened: {ended:?}");
        }
        if self.words.contains("acquire") && ended.code == Some(0) {
            assert!(token_of(&ended) < thief, "token-order: {context}: it was granted before: {ended:?}");
        }
        let shown = tenancy.shown();
        assert_eq!(shown, Some(thief), "no-lost-thief: {context}: everybody sees it: {ended:?}");
        let renewed = tenancy.run("b", "lease renew");
        assert_eq!(renewed.code, Some(0), "no-lost-thief: {context}: {renewed:?}");
        assert_eq!(token_of(&renewed), thief, "no-lost-thief: {context}");
        tenancy.says("b", "lease release", 0);
        let next = tenancy.acquire("c", LONG);
        assert!(next > thief, "token-order: {context}: {next} after {thief}");
        tenancy.log_is_whole(&context);
        ended.code != Some(0) && answer(&ended)["code"].is_string()
    }
}

#[test]
fn check_21_36_40_whoever_is_stopped_at_any_moment_takes_nothing_from_the_thief() {
    lokt_testkit::need!("strace");
    let mut cases = Vec::new();
    for late in &LATE {
        let calls = late.calls();
        say(&format!("{}: stopped after {} calls", late.words, calls.len()));
        for first in [First::Breaks, First::Deletes] {
            cases.extend(calls.iter().map(|call| (late, call.clone(), first)));
        }
    }
    let (count, refused) = (cases.len(), AtomicUsize::new(0));
    in_parallel(8, cases, |(late, call, first)| {
        refused.fetch_add(usize::from(late.is_stopped_after(&call, first)), Ordering::Relaxed);
    });
    let refused = refused.into_inner();
    say(&format!("{refused} of {count} were refused"));
    assert!(refused > 50 && refused < count, "stopped before and after the commit: {refused} of {count}");
}
