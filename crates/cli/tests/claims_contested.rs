//! Claims under pressure: 64 processes want one node, 500 times; and a ledger of 50,000 events that somebody else appends to.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use lokt_testkit::chronicle::{Chronicle, note, number_of};
use lokt_testkit::swarm::{Over, Swarm, now_ms, pause, put};
use serde_json::Value;

const LOKT: &str = env!("CARGO_BIN_EXE_lokt");
const ROUNDS: usize = 500;
const RIVALS: usize = 64;

#[test]
fn of_64_processes_that_claim_one_node_one_wins_500_times() {
    let chronicle = Chronicle::new(LOKT, &[], 0);
    let place = &chronicle.place;
    let dir = place.dir().to_str().expect("a plain path");
    let mut last = 0;
    for round in 0..ROUNDS {
        let take =
            |rival: usize| (place.words(&["claim", "take", "n", "--json", "-d", dir]), place.env(&format!("r{rival}")));
        let ended = Swarm::at_gate((0..RIVALS).map(take)).and_then(Swarm::release).expect("they run");
        let won: Vec<usize> = (0..RIVALS).filter(|rival| ended[*rival].code == Some(0)).collect();
        let [winner] = won.as_slice() else { panic!("round {round}: one wins: {won:?}, {ended:?}") };
        for (rival, ended) in ended.iter().enumerate().filter(|(rival, _)| rival != winner) {
            assert_eq!(ended.code, Some(2), "round {round}: r{rival} is told that it is held: {ended:?}");
            let answer: Value = serde_json::from_str(&ended.stdout).expect("an answer is JSON");
            assert_eq!(answer["holder_owner"], format!("r{winner}"), "round {round}: and by whom: {answer}");
        }
        let token = number_of(&ended[*winner]);
        assert!(token > last, "round {round}: tokens grow: {token} after {last}");
        last = token;
        let token = token.to_string();
        let released = chronicle.run(&format!("r{winner}"), &["claim", "release", "n", "--token", &token]);
        assert_eq!(released.code, Some(0), "round {round}: the winner has it: {released:?}");
    }
    let events = chronicle.events("after all rounds").len();
    assert_eq!(events, 2 * ROUNDS, "one claim and one release for each round, and nothing else");
    chronicle.is_free("after all rounds");
    chronicle.is_sound("after all rounds");
}

const MANY: u64 = 50_000;
const TRIES: usize = 20;

#[test]
fn claims_on_a_long_ledger_succeed_20_of_20_times_beside_a_writer() {
    let chronicle = Chronicle::new(LOKT, &[], 0);
    for number in 1..=MANY {
        put(&chronicle.file(number), r#"{"type":"note","timestamp":"2026-01-01T00:00:00Z"}"#);
    }
    let (done, written) = (AtomicBool::new(false), AtomicUsize::new(0));
    let longest_ms = thread::scope(|scope| {
        let _over = Over(&done);
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                chronicle.append(&format!("beside-{}-", written.fetch_add(1, Ordering::Relaxed)));
                pause(Duration::from_millis(100));
            }
        });
        let mut longest_ms = 0;
        for attempt in 0..TRIES {
            let node = format!("n{attempt}");
            let began_ms = now_ms();
            let taken = chronicle.run("a", &["claim", "take", &node, "--json"]);
            assert_eq!(taken.code, Some(0), "{node} is taken, whatever others append: {taken:?}");
            longest_ms = longest_ms.max(now_ms() - began_ms);
            let token = number_of(&taken).to_string();
            let fenced = ["ledger", "append", "--token", &token, &note(&node)];
            assert_eq!(chronicle.run("a", &fenced).code, Some(0), "{node}: under its token something is appended");
            assert_eq!(chronicle.run("a", &["claim", "release", &node]).code, Some(0), "{node} is released");
        }
        longest_ms
    });
    let written = written.into_inner();
    let _ = writeln!(std::io::stdout(), "{written} events beside it, the longest claim took {longest_ms} ms");
    assert!(written >= 3, "somebody else appended meanwhile: {written}");
    let expected = usize::try_from(MANY).expect("small") + written + 3 * TRIES;
    assert_eq!(chronicle.events("at the end").len(), expected, "every event is there");
    chronicle.is_free("at the end");
}
