//! Sixteen thieves want one lease that is over.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use lokt_testkit::swarm::{Over, in_parallel, pause, put};
use lokt_testkit::tenancy::{LONG, Tenancy, as_words};

use crate::LOKT;

const RIVALS: usize = 16;

/// What flock is to the thieves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flock {
    Works,
    /// It does nothing where leases are granted.
    NotForLeases,
    /// It does nothing at all. That is more than the log can bear, which has nothing else; tokens don't depend on it.
    Nowhere,
}

impl Flock {
    /// What starts a thief.
    fn wrap(self, tenancy: &Tenancy) -> Vec<String> {
        let mut words: Vec<String> = match self {
            Self::Works => return Vec::new(),
            _ => ["strace", "-o", "/dev/null", "-e", "trace=flock", "-e", "inject=flock:retval=0"],
        }
        .map(str::to_owned)
        .to_vec();
        if self == Self::NotForLeases {
            words.extend(["-P".to_owned(), tenancy.inside("locks/main.lock.d").display().to_string()]);
        }
        words
    }
}

/// A short lease ends, sixteen steal it, one wins; `rounds` times, in four repositories at once.
fn one_thief_wins(rounds: usize, flock: Flock, beside: impl Fn(&Tenancy, &AtomicBool) + Sync) {
    const AT_ONCE: usize = 4;
    in_parallel(AT_ONCE, 0..AT_ONCE, |nth| {
        let tenancy = Tenancy::new(LOKT);
        let wrap = flock.wrap(&tenancy);
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| beside(&tenancy, &done));
            let _over = Over(&done);
            let (mut tokens, mut stolen) = (Vec::new(), Vec::new());
            for round in 0..rounds / AT_ONCE {
                let context = format!("repository {nth}, round {round}");
                let old = tenancy.acquire_briefly("victim", "");
                pause(Duration::from_millis(110));
                let (winner, new) =
                    tenancy.one_wins(RIVALS, &format!("lease steal {LONG}"), &as_words(&wrap), &context);
                tenancy.says(&winner, "lease release", 0);
                tokens.extend([old, new]);
                stolen.push((old, new));
            }
            assert!(tokens.windows(2).all(|two| two[0] < two[1]), "token-order: none is given twice: {tokens:?}");
            if flock != Flock::Nowhere {
                is_logged(&tenancy, &stolen);
            }
        });
    });
}

/// Each theft is in the log, once, and says who took what from whom.
fn is_logged(tenancy: &Tenancy, stolen: &[(u64, u64)]) {
    tenancy.log_is_whole("after all rounds");
    let events = tenancy.events_of("lock_steal");
    let logged: Vec<(u64, u64)> = events
        .iter()
        .map(|event| {
            let details = &event["details"];
            let holder = |key: &str| details[key].as_str().unwrap_or_else(|| panic!("{key}: {event}")).to_owned();
            assert_ne!(holder("old_holder"), holder("new_holder"), "{event}");
            let token = |key: &str| details[key].as_u64().unwrap_or_else(|| panic!("{key}: {event}"));
            (token("old_token"), token("new_token"))
        })
        .collect();
    assert_eq!(logged, stolen, "each theft is in the log, once");
}

#[test]
fn check_23_of_sixteen_that_steal_at_once_one_wins_200_times() {
    one_thief_wins(200, Flock::Works, |_, _| {});
}

#[test]
fn check_24_the_same_beside_an_old_temp_file_and_a_busy_doctor() {
    let looked = AtomicUsize::new(0);
    one_thief_wins(60, Flock::Works, |tenancy, done| {
        while !done.load(Ordering::Relaxed) {
            put(&tenancy.inside("locks/main.lock.tmp"), r#"{"lock_id":"left by a crash"#);
            let ended = tenancy.run("doctor", "doctor --strict --fix");
            assert!(matches!(ended.code, Some(0 | 1)), "it looks, and repairs: {ended:?}");
            looked.fetch_add(1, Ordering::Relaxed);
        }
    });
    assert!(looked.into_inner() > 20, "the doctor was there");
}

#[test]
fn check_24_the_same_where_flock_does_nothing() {
    lokt_testkit::need!("strace");
    one_thief_wins(40, Flock::NotForLeases, |_, _| {});
    one_thief_wins(20, Flock::Nowhere, |_, _| {});
}
