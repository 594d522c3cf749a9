//! The doctor beside those who work: it may repair as often as it likes.

use std::collections::HashSet;
use std::fs::File;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use lokt_core::lease::policy::LeasePolicy;
use lokt_sys::wait_policy::WaitPolicy;
use lokt_worktree::lease::doctor::examine_one;
use lokt_worktree::lease::{LeaseTerms, Leasing, Releasing};
use lokt_worktree::repo::Repository;

use crate::place::{Place, me, name, session, terms};

const THIEVES: u128 = 16;
const ROUNDS: usize = 6;
/// Number of thieves that once don't give the lease back. Each makes the others wait for its end.
const CARELESS: u128 = 4;
/// Longer than a machine stalls: a lease that ends before it is reported is refused.
const LEASE_MS: u64 = 4_000;

#[test]
fn sixteen_thieves_and_a_doctor_in_a_loop_give_no_token_twice() {
    let (place, _repo) = Place::in_memory();
    let (tokens, is_over, exams) = (Mutex::new(Vec::new()), AtomicBool::new(false), AtomicUsize::new(0));
    let policy = LeasePolicy { lease_ms: LEASE_MS, renew_ms: LEASE_MS / 3, skew_ms: 0, grace_ms: 0 };
    thread::scope(|scope| {
        let thieves: Vec<_> = (1..=THIEVES)
            .map(|number| {
                let (tokens, top) = (&tokens, place.top());
                scope.spawn(move || {
                    let repo = Repository::open(&top, me()).expect("it opens").expect("it is one");
                    let main = repo.worktree(&name("main")).expect("it can be read").expect("it is there");
                    let own = LeaseTerms { policy, ..terms() };
                    for round in 0..ROUNDS {
                        let mut patience =
                            WaitPolicy { timeout: Duration::from_secs(60).into(), ..WaitPolicy::default() };
                        let said = main.acquire(&session(number), &own, &mut patience).expect("it can be asked");
                        let Leasing::Granted(lease) = said.value else { panic!("a minute is long enough") };
                        tokens.lock().expect("nobody panicked").push(lease.token.get());
                        if round > 0 || number > CARELESS {
                            let released = main.release(&session(number)).expect("it can be asked").value;
                            assert!(matches!(released, Releasing::Released(_) | Releasing::Denied(_)));
                        }
                    }
                })
            })
            .collect();
        let (is_over, exams, place) = (&is_over, &exams, &place);
        scope.spawn(move || {
            let repo = Repository::open(&place.top(), me()).expect("it opens").expect("it is one");
            while !is_over.load(Ordering::SeqCst) {
                plant_old_temp(place);
                let told = examine_one(&repo, true);
                let bad = told.checkup.checks.iter().flat_map(|check| &check.findings).find(|finding| {
                    matches!(finding.code, "E_CORRUPT" | "E_AUDIT_CHAIN_BROKEN" | "missing_payload" | "ghost_slot")
                });
                assert!(bad.is_none(), "nothing is broken by those who work: {bad:?}");
                exams.fetch_add(1, Ordering::SeqCst);
            }
        });
        for thief in thieves {
            thief.join().expect("nobody panicked");
        }
        is_over.store(true, Ordering::SeqCst);
    });
    let tokens = tokens.into_inner().expect("nobody panicked");
    assert_eq!(tokens.len(), usize::try_from(THIEVES).expect("few") * ROUNDS);
    assert_eq!(tokens.iter().collect::<HashSet<_>>().len(), tokens.len(), "no token is given twice");
    assert!(exams.load(Ordering::SeqCst) > 0, "the doctor was there");
    let repo = Repository::open(&place.top(), me()).expect("it opens").expect("it is one");
    assert_eq!(repo.audit_log().verify().expect("it can be read").value.broken, None);
    let granted =
        Place::operations(&repo).iter().filter(|(what, _)| what == "lock_acquire" || what == "lock_steal").count();
    assert_eq!(granted, tokens.len(), "each of them is in the log, once");
}

fn plant_old_temp(place: &Place) {
    let old = SystemTime::now() - Duration::from_secs(3600);
    let planted = File::create(place.at(".jvs/locks/main.lock.tmp")).and_then(|file| file.set_modified(old));
    planted.expect("a file");
}
