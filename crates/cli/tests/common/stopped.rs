//! Writers of other kinds that were stopped inside the lock, lost it, and come back.

use serde_json::Value;

use super::peers::{Peer, SharedLedger, Style};

/// Who was stopped, and where.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stopped {
    /// The document's shell example.
    Shell(&'static str),
    /// The document's sample in another language: it lets go of whatever is there.
    Sample(&'static str),
    /// The native program.
    Native(&'static str),
    /// The same, letting go of whatever is there.
    NativeBlind(&'static str),
}

impl Stopped {
    fn ledger(self) -> SharedLedger {
        match self {
            Self::Shell(_) | Self::Sample(_) => {
                let shared = SharedLedger::documented();
                for payload in ["before-1", "before-2"] {
                    shared.append(payload, "").exits(0, "an empty ledger can be appended to");
                }
                shared
            }
            Self::Native(_) | Self::NativeBlind(_) => SharedLedger::native(),
        }
    }

    fn start(self, shared: &SharedLedger) -> Peer {
        let af = |flags: &str, step| {
            shared.start_af(&format!("append DIR 1 {flags} --payload late- --timeout 0 --pause-after {step}"))
        };
        match self {
            Self::Shell(step) => shared.start_seed(1, "late-", step),
            Self::Sample(step) => af("--documented", step),
            Self::Native(step) => af("", step),
            Self::NativeBlind(step) => af("--unlink-blindly", step),
        }
    }

    /// Had it published its event before?
    fn has_published(self) -> bool {
        let (Self::Shell(step) | Self::Sample(step) | Self::Native(step) | Self::NativeBlind(step)) = self;
        matches!(step, "mv" | "renamed" | "compared")
    }
}

/// Appends beside an old lock, which is taken over, and says which numbers that used: of the filler and of the event.
#[track_caller]
fn takes_over(shared: &SharedLedger, payload: &str) -> (u64, u64) {
    let said = shared.append(payload, "--timeout 20s").exits(0, "an old lock is taken over");
    let answer = said.json();
    let filler =
        answer["filler"].as_u64().unwrap_or_else(|| panic!("the number of the stopped writer is filled{said}"));
    (filler, answer["seq"].as_u64().expect("an append has a number"))
}

fn is_filler(shared: &SharedLedger, event: &Value) -> bool {
    match shared.style() {
        Style::Documented => event["type"] == "lock_takeover",
        Style::Native => event["type"] == "nodes_released" && event["takeover"] == true,
    }
}

/// Every payload is there once, all numbers are used, and both programs read it.
fn is_whole(shared: &SharedLedger, who: Stopped) {
    let payloads = shared.payloads();
    assert!(payloads.values().all(|times| *times == 1), "{who:?}: no event is there twice: {payloads:?}");
    shared.is_contiguous(*shared.numbers().last().expect("there are events"));
    shared.lokt("b", "ledger verify -d DIR").exits(0, &format!("{who:?}: verify finds nothing wrong"));
    if shared.style() == Style::Native {
        shared.pleases_af();
    }
}

/// It is taken over, others go on, it comes back: no event of ours changes.
pub(crate) fn comes_back_harmlessly(who: Stopped) {
    let shared = who.ledger();
    let stopped = who.start(&shared).stops();
    shared.age_lock(60);
    let before = shared.numbers().len() as u64;
    let (filler, number) = takes_over(&shared, "ours-1");
    assert_eq!((filler, number), (before + 1, before + 2), "{who:?}: its number is filled and ours comes after it");
    assert!(is_filler(&shared, &shared.event(filler)), "{who:?}: {filler} is a filler");
    assert_eq!(shared.event(number)["filler"], filler, "{who:?}: the event after it says so");
    assert!(!shared.is_locked(), "{who:?}: the lock is free");
    assert_eq!(shared.temps().len(), 0, "{who:?}: what it had begun is swept");
    let second = shared.append("ours-2", "").exits(0, "the next append needs no take-over").json();
    assert_eq!((&second["seq"], second.get("filler")), (&(number + 1).into(), None), "{who:?}: and no filler");
    let ours: Vec<u64> = (1..=before).chain([number, number + 1]).collect();
    let bytes: Vec<_> = ours.iter().map(|number| shared.event_bytes(*number)).collect();

    let ending = stopped.finishes();
    for (number, bytes) in ours.iter().zip(&bytes) {
        assert_eq!(
            &shared.event_bytes(*number),
            bytes,
            "no-overwrite: {who:?}: event {number} is as it was: {ending:?}"
        );
    }
    shared.append("ours-3", "").exits(0, "everybody goes on");
    match shared.style() {
        Style::Documented => shared.af("append DIR 1 --documented --payload others-"),
        Style::Native => shared.af("append DIR 1 --payload others-"),
    }
    .exits(0, "others too");
    let payloads = shared.payloads();
    for payload in ["ours-1", "ours-2", "ours-3", "others-1"] {
        assert_eq!(payloads.get(payload), Some(&1), "no-overwrite: {who:?}: {payload} is there once: {payloads:?}");
    }
    assert!(!who.has_published() || payloads.contains_key("late-1"), "{who:?}: its own event stays");
    is_whole(&shared, who);
}

/// It comes back while one of ours is inside: that one stays alone there.
pub(crate) fn comes_back_beside_ours(who: Stopped) {
    let shared = who.ledger();
    let stopped = who.start(&shared).stops();
    shared.age_lock(60);
    takes_over(&shared, "first-");
    let inside = shared.lokt_inside("second-");
    let numbers = shared.numbers();
    let ours: Vec<u64> = numbers.into_iter().filter(|number| !is_filler(&shared, &shared.event(*number))).collect();
    let bytes: Vec<_> = ours.iter().map(|number| shared.event_bytes(*number)).collect();

    let ending = stopped.finishes();
    assert!(shared.is_locked(), "{who:?}: the lock of the one inside is still there: {ending:?}");
    assert_eq!(shared.lock_note()["pid"], inside.pid(), "{who:?}: and it is that one's: {ending:?}");
    let style = if shared.style() == Style::Documented { "--documented" } else { "" };
    let intruder = shared.af(&format!("append DIR 1 {style} --timeout 0.1 --payload intruder-"));
    intruder.exits(1, "nobody else gets in").notes("timeout waiting for lock", "but waits");
    let ending = inside.finishes();
    assert_eq!(ending.code, Some(0), "{who:?}: the one inside goes on: {ending:?}");
    for (number, bytes) in ours.iter().zip(&bytes) {
        assert_eq!(&shared.event_bytes(*number), bytes, "no-overwrite: {who:?}: event {number} is as it was");
    }
    is_whole(&shared, who);
}
