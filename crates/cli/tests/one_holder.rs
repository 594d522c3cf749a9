//! **one-holder**, with real processes: 64 at once, 100 rounds for each state that a name can be in. Never two, and tokens only grow.

use lokt_testkit::cmd::{Place, granted};
use lokt_testkit::judge::{read_audit, verdict};
use lokt_testkit::swarm::{Ended, Swarm, put, wall_text};

const PROCESSES: usize = 64;
const ROUNDS: usize = 100;

fn place() -> Place {
    Place::new(env!("CARGO_BIN_EXE_lokt"))
}

/// `lock x --json` by as many owners at one instant.
fn stampede(place: &Place) -> Vec<Ended> {
    let words = || place.words(&["lock", "x", "--json", "--ttl", "1h"]);
    let commands = (0..PROCESSES).map(|n| (words(), place.env(&format!("owner{n}"))));
    Swarm::at_gate(commands).expect("processes can be started").release().expect("they end")
}

/// Exactly one won; gives its token. All others were told that it is held.
fn one_winner(round: usize, ended: &[Ended]) -> u64 {
    let winners: Vec<&Ended> = ended.iter().filter(|one| one.code == Some(0)).collect();
    assert_eq!(winners.len(), 1, "one-holder: round {round} has one winner");
    for loser in ended.iter().filter(|one| one.code != Some(0)) {
        assert_eq!(loser.code, Some(2), "round {round}: everyone else is refused: {} {}", loser.stdout, loser.stderr);
    }
    granted(winners[0]).1
}

fn rounds(prepare: impl Fn(&Place)) {
    let place = place();
    let mut last = 0;
    for round in 0..ROUNDS {
        prepare(&place);
        let token = one_winner(round, &stampede(&place));
        assert!(token > last, "token-order: round {round}: {token} after {last}");
        last = token;
    }
    // Records that the test itself put there are no part of the log; one grant per round is.
    let history = read_audit(&place.root()).expect("the audit log is whole");
    let acquired = history.iter().filter(|told| told.event == "acquire").count();
    assert_eq!(acquired, ROUNDS, "audited: one acquire per round");
}

#[test]
fn one_of_64_gets_a_free_name() {
    rounds(|place| {
        let _ = place.run("admin", &["unlock", "--force", "x"]);
    });
}

#[test]
fn one_of_64_gets_an_expired_name() {
    rounds(|place| {
        let (since, until) = (wall_text(-20), wall_text(-10));
        let who = r#""version":1,"name":"x","lock_id":"00","owner":"late","host":"elsewhere","pid":1"#;
        let when = format!(r#""acquired_ts":"{since}","ttl_sec":10,"expires_at":"{until}""#);
        put(&place.record("x"), format!("{{{who},{when}}}"));
    });
}

#[test]
fn one_of_64_gets_a_corrupt_name() {
    rounds(|place| put(&place.record("x"), "{\"version\": 1, \"name\": \"x\", "));
}

#[test]
fn a_name_that_is_force_broken_all_the_time_never_has_two_holders() {
    const BREAKERS: usize = 16;
    let place = place();
    for _ in 0..ROUNDS {
        let locker = |n| (place.words(&["lock", "x", "--json"]), place.env(&format!("owner{n}")));
        let breaker = |n| (place.words(&["unlock", "--force", "x"]), place.env(&format!("breaker{n}")));
        // Breakers between the lockers, not after them.
        let mixed = (0..PROCESSES).map(|n| if n % (PROCESSES / BREAKERS) == 1 { breaker(n) } else { locker(n) });
        for one in Swarm::at_gate(mixed).expect("processes can be started").release().expect("they end") {
            assert!(matches!(one.code, Some(0 | 2 | 3)), "granted, refused or nothing to break: {one:?}");
        }
    }
    let history = read_audit(&place.root()).expect("the audit log is whole");
    assert_eq!(verdict(&history), Vec::<String>::new(), "one-holder, token-order and no-lost-thief hold");
    let count = |event: &str| history.iter().filter(|told| told.event == event).count();
    assert!(count("force-break") >= ROUNDS / 2, "breaks really happened between grants: {}", count("force-break"));
    assert!(count("acquire") > ROUNDS, "a name changed hands within a round: {} grants", count("acquire"));
}
