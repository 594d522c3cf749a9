//! **in-order**, with many: more waiters than inotify has instances for, and they cost nothing while they wait.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lokt_testkit::cmd::Place;
use lokt_testkit::line::{Process, served, tickets};
use lokt_testkit::swarm::{now_ms, pause, wait_until};

const LOKT: &str = env!("CARGO_BIN_EXE_lokt");
const WAITERS: usize = 200;
/// For as long as that they are watched.
const WATCHED: Duration = Duration::from_secs(5);
/// What they may use together in that time: a fifth of one processor, without optimisation and on a busy machine.
const RUN_US_MAX: u64 = 1_000_000;

/// One crowd at a time: several would be in each other's way.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> (MutexGuard<'static, ()>, Place) {
    (TURN.lock().unwrap_or_else(PoisonError::into_inner), Place::new(LOKT))
}

/// All at once, as fast as they can be started.
fn crowd(place: &Place) -> Vec<Process> {
    let words = [LOKT, "guard", "x", "--wait", "--", "true"];
    let start = |n| Process::start(&place.root(), &format!("w{n:03}"), &words);
    let crowd: Vec<Process> = (0..WAITERS).map(start).collect();
    let all = wait_until(Duration::from_secs(60), || tickets(&place.root(), "x").len() == WAITERS);
    assert!(all, "all of them wait: {}", tickets(&place.root(), "x").len());
    crowd
}

fn run_us(crowd: &[Process]) -> u64 {
    crowd.iter().map(Process::run_us).sum()
}

/// What they use together while nothing happens.
fn used_while_waiting(crowd: &[Process]) -> u64 {
    // Whoever has just come is still finding its place.
    pause(Duration::from_secs(1));
    let before = run_us(crowd);
    pause(WATCHED);
    run_us(crowd) - before
}

/// Everybody is served in the order of the tickets.
fn all_are_served(place: &Place, crowd: Vec<Process>, in_line: &[String]) {
    for waiter in crowd {
        assert_eq!(waiter.end().code, Some(0), "every waiter runs its command");
    }
    assert_eq!(served(&place.root(), "x").split_off(1), in_line, "first come, first served");
}

fn owners_in_line(place: &Place) -> Vec<String> {
    let owner = |pulse: &serde_json::Value| pulse["owner"].as_str().expect("it says who").to_owned();
    tickets(&place.root(), "x").iter().map(|(_, pulse)| owner(pulse)).collect()
}

#[test]
fn two_hundred_waiters_use_nothing_while_they_wait_and_are_served_in_order() {
    let (_turn, place) = turn();
    place.take("holder", &["x"]);
    let crowd = crowd(&place);
    let in_line = owners_in_line(&place);
    let used = used_while_waiting(&crowd);
    assert!(used < RUN_US_MAX, "waiting takes no processor: {WAITERS} waiters used {used} µs in {WATCHED:?}");
    let most = crowd.iter().map(Process::threads).max().expect("there are some");
    assert!(most <= 3, "nor many threads: one has {most}");
    let began_ms = now_ms();
    assert_eq!(place.run("holder", &["unlock", "x"]).code, Some(0), "it is the holder's");
    all_are_served(&place, crowd, &in_line);
    let took_ms = now_ms() - began_ms;
    assert!(took_ms < 30_000, "nobody sleeps through its turn: {took_ms} ms for {WAITERS}");
}

#[test]
fn a_lease_that_is_renewed_all_the_time_wakes_nobody_but_the_head() {
    let (_turn, place) = turn();
    let holder = Process::start(&place.root(), "holder", &[LOKT, "guard", "x", "--ttl", "6s", "--", "sleep", "600"]);
    assert!(wait_until(Duration::from_secs(20), || place.stored("x").is_some()), "the guard holds it");
    let crowd = crowd(&place);
    let in_line = owners_in_line(&place);
    let used = used_while_waiting(&crowd);
    assert!(used < RUN_US_MAX, "renewals concern the head alone: {WAITERS} waiters used {used} µs in {WATCHED:?}");
    drop(holder);
    all_are_served(&place, crowd, &in_line);
}

#[test]
fn a_frozen_name_wakes_nobody() {
    let (_turn, place) = turn();
    place.take("holder", &["x"]);
    let crowd = crowd(&place);
    let in_line = owners_in_line(&place);
    let who = r#""version":1,"name":"x","lock_id":"00","owner":"ops","host":"elsewhere","pid":1"#;
    let when = lokt_testkit::swarm::wall_text(-5);
    let freeze = place.root().join("freezes/x.json");
    lokt_testkit::swarm::put(&freeze, format!("{{{who},\"acquired_ts\":\"{when}\"}}"));
    assert_eq!(place.run("holder", &["unlock", "x"]).code, Some(0), "a freeze keeps nobody from leaving");
    let used = used_while_waiting(&crowd);
    assert!(used < RUN_US_MAX, "a freeze takes no processor: {WAITERS} waiters used {used} µs in {WATCHED:?}");
    assert_eq!(tickets(&place.root(), "x").len(), WAITERS, "nobody left the line");
    #[expect(clippy::disallowed_methods, reason = "somebody thaws it by hand")]
    std::fs::remove_file(&freeze).expect("it is there");
    all_are_served(&place, crowd, &in_line);
}
