//! **no-overwrite**, at length: sixteen processes that append and claim, killed at random for a minute; and everything that adds events
//! killed at each of its system calls.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use lokt_testkit::chronicle::{Ack, Chronicle, Deed, note, number_of, said};
use lokt_testkit::dice::Dice;
use lokt_testkit::swarm::{Ended, now_ms, pause, put};
use lokt_testkit::tally::{self, Trial};

const LOKT: &str = env!("CARGO_BIN_EXE_lokt");

// --- sixteen, for a minute

const WRITERS: usize = 16;
const STORM_MS: u64 = 60_000;
/// So many events are in a batch: enough for a directory of their own.
const BATCH: u64 = 20;
/// Whoever isn't killed ends within this. Sixteen wait for each other, and a busy ledger is one after five seconds.
const LONGEST_MS: u64 = 30_000;

/// Runs the command; kills it after `kill_after`, if it still runs then.
fn run(chronicle: &Chronicle, owner: &str, args: &[&str], kill_after: Option<Duration>) -> Ended {
    let words = chronicle.place.words(args);
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).envs(chronicle.place.env(owner)).current_dir(chronicle.place.dir());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    if let Some(after) = kill_after {
        pause(after);
        tally::count(Trial::Kill);
        child.kill().expect("it is ours");
    }
    let output = child.wait_with_output().expect("it is our child");
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// One writer's minute. Gives what was acknowledged.
fn write_on(chronicle: &Chronicle, writer: usize, end_ms: u64, killed: &AtomicUsize) -> Vec<Ack> {
    let mut dice = Dice::new(writer as u64);
    let mut acks = Vec::new();
    let owner = format!("w{writer}");
    let batch = chronicle.place.beside(&format!("batch-{writer}"));
    let batch_text = batch.to_str().expect("a plain path").to_owned();
    for turn in 0.. {
        if now_ms() >= end_ms {
            break;
        }
        let text = format!("{owner}-{turn}-");
        let event = note(&text);
        let many = dice.below(8) == 0;
        let args = match dice.below(4) {
            _ if many => {
                let line = |nth: u64| note(&format!("{text}{nth}-")) + "\n";
                put(&batch, (0..BATCH).map(line).collect::<String>());
                vec!["ledger", "append", "--timeout", "25s", "--json", "--file", &batch_text]
            }
            0 => vec!["ledger", "append", "--timeout", "25s", "--json", "--chain", &event],
            1 => vec!["ledger", "append", "--timeout", "25s", "--json", "--id", &text, &event],
            _ => vec!["ledger", "append", "--timeout", "25s", "--json", &event],
        };
        let kill_after = (dice.below(3) > 0).then(|| Duration::from_micros(dice.below(60_000)));
        let began_ms = now_ms();
        let ended = run(chronicle, &owner, &args, kill_after);
        let took_ms = now_ms() - began_ms;
        match ended.code {
            Some(0) if many => {
                let first = number_of(&ended);
                acks.extend((0..BATCH).map(|nth| Ack { number: first + nth, text: said(&format!("{text}{nth}-")) }));
            }
            Some(0) => acks.push(Ack { number: number_of(&ended), text: said(&text) }),
            None if kill_after.is_some() => {
                killed.fetch_add(1, Ordering::Relaxed);
            }
            _ => panic!("{owner}, turn {turn}: whoever isn't killed appends: {ended:?}, after {took_ms} ms"),
        }
        assert!(took_ms < LONGEST_MS, "{owner}, turn {turn}: nobody waits for the dead: {took_ms} ms");
    }
    acks
}

#[test]
fn sixteen_writers_killed_at_random_for_a_minute_lose_nothing() {
    let chronicle = Chronicle::new(LOKT, &[], 0);
    let end_ms = now_ms() + STORM_MS;
    let (acks, killed) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (chronicle, acks, killed) = (&chronicle, &acks, &killed);
            scope.spawn(move || {
                let mine = write_on(chronicle, writer, end_ms, killed);
                acks.lock().expect("no thread panicked with it").extend(mine);
            });
        }
    });
    let mut acks = acks.into_inner().expect("no thread panicked with it");
    let killed = killed.into_inner();
    acks.push(chronicle.append("next"));
    let events = chronicle.events("after the storm").len();
    let _ = writeln!(std::io::stdout(), "{events} events, {} acknowledged, {killed} writers killed", acks.len());
    assert!(killed > 100 && acks.len() > 100, "there was a storm: {killed} killed, {} acknowledged", acks.len());
    assert!(events >= acks.len(), "no-overwrite: {events} events, {} acknowledged", acks.len());
    chronicle.is_free("after the storm");
    chronicle.keeps(&acks, "after the storm");
    chronicle.is_sound("after the storm");
}

// --- killed at every system call

/// How many are killed at a time.
const AT_ONCE: usize = 8;

const X: &str = r#"{"type":"note","text":"x"}"#;

/// A lock that was left behind, and has been seen: nobody needs a second look.
fn known_stale_lock(chronicle: &Chronicle) {
    chronicle.leave_stale_lock();
    let seen = chronicle.run("a", &["ledger", "append", X, "--timeout", "1ms"]);
    assert_eq!(seen.code, Some(75), "it is respected at first: {seen:?}");
    pause(Duration::from_millis(1_100));
}

const DEEDS: [Deed; 9] = [
    Deed {
        title: "append many",
        prepare: |chronicle| put(&chronicle.place.beside("many"), format!("{X}\n").repeat(20)),
        args: &["ledger", "append", "--file", "many"],
        takes_over: false,
    },
    Deed {
        title: "append with the chain",
        prepare: |_| {},
        args: &["ledger", "append", "--chain", X],
        takes_over: false,
    },
    Deed {
        title: "append with a key",
        prepare: |_| {},
        args: &["ledger", "append", "--id", "k", X],
        takes_over: false,
    },
    Deed { title: "claim", prepare: |_| {}, args: &["claim", "take", "n"], takes_over: false },
    Deed {
        title: "claim what has expired",
        prepare: |chronicle| chronicle.put_expired_claim(3, "n", "other"),
        args: &["claim", "take", "n"],
        takes_over: false,
    },
    Deed {
        title: "reap",
        prepare: |chronicle| chronicle.put_expired_claim(3, "n", "other"),
        args: &["claim", "reap"],
        takes_over: false,
    },
    Deed {
        title: "append over a lock that was left behind",
        prepare: known_stale_lock,
        args: &["ledger", "append", X],
        takes_over: true,
    },
    Deed {
        title: "append many over a lock that was left behind",
        prepare: |chronicle| {
            put(&chronicle.place.beside("many"), format!("{X}\n").repeat(20));
            known_stale_lock(chronicle);
        },
        args: &["ledger", "append", "--file", "many"],
        takes_over: true,
    },
    Deed {
        title: "doctor over a lock that was left behind",
        prepare: known_stale_lock,
        args: &["ledger", "doctor", "--fix"],
        takes_over: true,
    },
];

#[test]
fn whatever_adds_events_may_be_killed_at_any_system_call() {
    lokt_testkit::need!("strace");
    for deed in &DEEDS {
        deed.is_killed_at_each_call(LOKT, AT_ONCE);
    }
}
