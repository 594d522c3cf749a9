//! Following a ledger while others write to it, shorten it and put another in its place.

use std::fs;
use std::ops::ControlFlow;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::ledgers::{append, file, mv, put, put_new, rm, with_events};
use lokt_ledger::{Ledger, Slot};
use lokt_sys::wait_policy::Interrupt;
use lokt_sys::wakeup::{WakeHandle, Wakeup};

/// Ten times as long as a follower that nobody wakes takes to look.
const PATIENCE: Duration = Duration::from_secs(10);

struct Stop(Wakeup);

impl Interrupt for Stop {
    fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn is_raised(&mut self) -> bool {
        self.0.heard()
    }
}

struct Following {
    shown: Receiver<(u64, Slot)>,
    stop: WakeHandle,
    thread: Option<JoinHandle<()>>,
    _bell: Wakeup,
}

impl Following {
    fn start(ledger: &Ledger, after: u64) -> Self {
        let bell = Wakeup::new().expect("a bell");
        let (tell, shown) = channel();
        let (ledger, mut stop) = (ledger.clone(), Stop(bell.clone()));
        let thread = thread::spawn(move || {
            let mut show = |seq: lokt_core::ledger::seq::Seq, slot| match tell.send((seq.get(), slot)) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            };
            ledger.follow(after, &mut stop, &mut show).expect("it goes on");
        });
        Self { shown, stop: bell.rope(), thread: Some(thread), _bell: bell }
    }

    fn next(&self) -> (u64, Slot) {
        self.shown.recv_timeout(PATIENCE).expect("something is shown")
    }

    fn next_event(&self) -> u64 {
        match self.next() {
            (number, Slot::Event(_)) => number,
            other => panic!("an event should be shown, not {other:?}"),
        }
    }

    /// Nothing more is on its way: what comes next is the event that is appended now.
    fn is_quiet_until(&self, ledger: &Ledger) {
        let number = append(ledger, r#"{"type":"end"}"#);
        assert_eq!(self.next_event(), number);
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.stop.ring();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || thread::panicking(), "the follower ends when it is told to");
        }
    }
}

#[test]
fn what_is_there_comes_first_and_then_what_comes() {
    let (_dir, ledger) = with_events(3, false);
    let following = Following::start(&ledger, 1);
    assert_eq!((following.next_event(), following.next_event()), (2, 3));
    for number in 4..=6 {
        append(&ledger, r#"{"type":"x"}"#);
        assert_eq!(following.next_event(), number);
    }
}

#[test]
fn another_programs_events_are_shown_and_damage_is_told_once() {
    let (_dir, ledger) = with_events(1, false);
    let following = Following::start(&ledger, 1);
    put(&file(&ledger, 2), br#"{"type":"custom_event"}"#);
    assert_eq!(following.next_event(), 2);
    put(&file(&ledger, 3), b"{");
    assert!(matches!(following.next(), (3, Slot::Damaged(_))));
    following.is_quiet_until(&ledger);
}

#[test]
fn a_gap_is_told_once_and_only_when_it_is_one() {
    let (_dir, ledger) = with_events(1, false);
    let following = Following::start(&ledger, 1);
    put(&file(&ledger, 4), br#"{"type":"far"}"#);
    assert_eq!(following.next(), (2, Slot::Missing));
    assert_eq!(following.next_event(), 4);
    following.is_quiet_until(&ledger);
}

#[test]
fn a_gap_that_was_there_before_is_told_however_long_it_is() {
    let (_dir, ledger) = with_events(1, false);
    put_new(&file(&ledger, 5_000), br#"{"type":"far"}"#);
    let following = Following::start(&ledger, 0);
    assert_eq!(following.next_event(), 1);
    assert_eq!(following.next(), (2, Slot::Missing));
    assert_eq!(following.next_event(), 5_000);
}

#[test]
fn a_ledger_that_is_shortened_is_told_and_goes_on_from_there() {
    let (_dir, ledger) = with_events(5, false);
    let following = Following::start(&ledger, 0);
    for number in 1..=5 {
        assert_eq!(following.next_event(), number);
    }
    for number in [5, 4] {
        rm(&file(&ledger, number));
    }
    let mut last = (0, Slot::Missing);
    while last != (4, Slot::Rewound { head: 3 }) {
        last = following.next();
        assert!(matches!(last.1, Slot::Rewound { .. }), "{last:?}");
    }
    assert_eq!(append(&reopened_at(&ledger), r#"{"type":"x"}"#), 4);
    assert_eq!(following.next_event(), 4);
}

#[test]
fn an_event_in_the_place_of_the_last_one_is_told_and_shown() {
    let (_dir, ledger) = with_events(3, false);
    let following = Following::start(&ledger, 0);
    for number in 1..=3 {
        assert_eq!(following.next_event(), number);
    }
    put(&file(&ledger, 3), br#"{"type":"other"}"#);
    assert_eq!(following.next(), (3, Slot::Rewound { head: 3 }));
    assert_eq!(following.next(), (3, Slot::Event(br#"{"type":"other"}"#.to_vec())));
    following.is_quiet_until(&ledger);
}

#[test]
fn a_directory_that_is_put_in_the_place_of_the_ledger_is_followed() {
    let (dir, ledger) = with_events(3, false);
    let following = Following::start(&ledger, 0);
    for number in 1..=3 {
        assert_eq!(following.next_event(), number);
    }
    let (path, new) = (ledger.path().to_owned(), dir.path().join("new"));
    fs::create_dir(&new).expect("made");
    put_new(&new.join("event-000001.json"), br#"{"type":"another"}"#);
    mv(&path, &dir.path().join("old"));
    mv(&new, &path);
    loop {
        match following.next() {
            // In between there was no ledger.
            (1, Slot::Rewound { .. }) => {}
            (1, Slot::Event(bytes)) => break assert_eq!(bytes, br#"{"type":"another"}"#),
            other => panic!("{other:?}"),
        }
    }
}

fn reopened_at(ledger: &Ledger) -> Ledger {
    let dir = ledger.path().parent().expect("it belongs to a directory");
    Ledger::existing(dir, lokt_sys::machine::identity("tester".into(), None)).expect("opened").expect("there")
}
