//! Reading the audit log while others write, rotate, cut off and delete it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lokt_core::audit::LINE_BYTES_MAX;
use lokt_named::{Follower, Found, Lokt};
use lokt_sys::disk::Disk as _;
use lokt_testkit::hook_disk::HookDisk;
use lokt_testkit::machine::{FakeMachine, somebody};
use lokt_testkit::mem_disk::MemDisk;

const LOG: &str = "audit.log";

/// The n-th event.
fn line(n: usize) -> String {
    format!("{{\"ts\":\"2026-01-01T00:00:00Z\",\"event\":\"acquire\",\"name\":\"n{n}\",\"owner\":\"a\"}}\n")
}

fn lokt(disk: Arc<dyn lokt_sys::disk::Disk>) -> Lokt {
    Lokt::with("/root-of-the-test".as_ref(), disk, Arc::new(FakeMachine::new()), somebody("a", 1))
}

/// What was found: numbers of events, and what else there was.
#[derive(Default)]
struct Seen {
    events: Vec<usize>,
    no_events: usize,
    too_long: Vec<(String, u64)>,
}

impl Seen {
    fn take(&mut self, found: &Found<'_>) -> ControlFlow<()> {
        match found {
            Found::Event(line) => self.events.push(line.name()[1..].parse().expect("a number")),
            Found::NoEvent => self.no_events += 1,
            Found::TooLong { path, offset } => self.too_long.push((path.display().to_string(), *offset)),
        }
        ControlFlow::Continue(())
    }
}

fn history(lokt: &Lokt) -> Seen {
    let mut seen = Seen::default();
    lokt.inspect().history(&mut |found| seen.take(&found)).expect("the disk works");
    seen
}

/// A disk with a log, whose events are counted.
#[derive(Clone)]
struct Log {
    disk: MemDisk,
    written: Arc<AtomicUsize>,
}

impl Log {
    fn new() -> Self {
        Self { disk: MemDisk::new(), written: Arc::default() }
    }

    fn lokt(&self) -> Lokt {
        lokt(Arc::new(self.disk.clone()))
    }

    fn write(&self) {
        let n = self.written.fetch_add(1, Ordering::SeqCst);
        self.disk.append(LOG, line(n).as_bytes()).expect("there is room");
    }

    /// As lokt does it, inside the mutex.
    fn rotate(&self) {
        for n in (1..9).rev() {
            let _ = self.disk.rename(&format!("{LOG}.{n}"), &format!("{LOG}.{}", n + 1));
        }
        let _ = self.disk.rename(LOG, &format!("{LOG}.1"));
    }

    fn all(&self) -> Vec<usize> {
        (0..self.written.load(Ordering::SeqCst)).collect()
    }
}

/// One who follows, and what it was told.
#[derive(Default)]
struct Following {
    follower: Follower,
    seen: Seen,
}

impl Following {
    fn new() -> Self {
        Self { follower: Follower::new(), seen: Seen::default() }
    }

    fn look(&mut self, lokt: Option<&Lokt>) {
        let Self { follower, seen } = self;
        let _ = follower.look(lokt, &mut |found| seen.take(&found)).expect("the disk works");
    }
}

#[test]
fn all_files_are_read_oldest_first() {
    let log = Log::new();
    for _ in 0..9 {
        log.write();
        log.write();
        log.rotate();
    }
    log.write();
    assert_eq!(history(&log.lokt()).events, log.all());
    log.disk.remove("audit.log.4").expect("it is there");
    assert_eq!(history(&log.lokt()).events.len(), log.all().len() - 2, "a gap hides nothing behind it");
}

#[test]
fn rotations_between_any_two_opens_neither_hide_nor_repeat_anything() {
    for rotations in 1..4 {
        for at in 0..10 {
            let log = Log::new();
            for _ in 0..4 {
                log.write();
                log.write();
                log.rotate();
            }
            log.write();
            let before = log.all();
            let (there, opens) = (log.clone(), AtomicUsize::new(0));
            let hook = move |call: &str, _: &str| {
                if call == "open" && opens.fetch_add(1, Ordering::SeqCst) == at {
                    for _ in 0..rotations {
                        there.rotate();
                        there.write();
                    }
                }
                Ok(())
            };
            let seen = history(&lokt(Arc::new(HookDisk::new(Arc::new(log.disk.clone()), Arc::new(hook)))));
            let context = format!("{rotations} rotations before open {at}: {:?}", seen.events);
            assert!(seen.events.is_sorted_by(|one, next| one < next), "in order, each once: {context}");
            assert!(before.iter().all(|n| seen.events.contains(n)), "nothing that was there is missing: {context}");
        }
    }
}

#[test]
fn a_last_line_without_a_newline_is_told_if_it_is_all_there() {
    let log = Log::new();
    log.write();
    let whole = line(1);
    log.disk.append(LOG, whole.trim_end().as_bytes()).expect("there is room");
    assert_eq!(history(&log.lokt()).events, [0, 1]);
    log.disk.append(LOG, &line(2).as_bytes()[..20]).expect("there is room");
    let seen = history(&log.lokt());
    assert_eq!((seen.events, seen.no_events), (vec![0, 1], 1), "a torn one is none");
}

#[test]
fn lines_of_a_mebibyte_are_told_and_longer_ones_are_skipped_and_named() {
    let padded = |n: usize, length: usize| {
        let line = line(n);
        let line = line.trim_end();
        format!("{}{}}}\n", &line[..line.len() - 1], " ".repeat(length - line.len()))
    };
    let log = Log::new();
    log.disk.append(LOG, line(0).as_bytes()).expect("there is room");
    for (n, length) in [(1, LINE_BYTES_MAX), (2, LINE_BYTES_MAX + 1), (3, 70_000), (4, 3 * LINE_BYTES_MAX)] {
        log.disk.append(LOG, padded(n, length).as_bytes()).expect("there is room");
    }
    log.disk.append(LOG, line(5).as_bytes()).expect("there is room");
    let seen = history(&log.lokt());
    assert_eq!(seen.events, [0, 1, 3, 5]);
    let path = format!("/root-of-the-test/{LOG}");
    let second = line(0).len() + LINE_BYTES_MAX + 1;
    let fourth = second + LINE_BYTES_MAX + 2 + 70_001;
    assert_eq!(seen.too_long, [(path.clone(), second as u64), (path, fourth as u64)]);
}

#[test]
fn a_follower_begins_at_the_end_and_tells_everything_after_it() {
    let log = Log::new();
    log.write();
    log.rotate();
    log.write();
    let mut following = Following::new();
    following.look(Some(&log.lokt()));
    assert_eq!(following.seen.events, [0; 0], "what was there is old");
    log.write();
    following.look(Some(&log.lokt()));
    following.look(Some(&log.lokt()));
    assert_eq!(following.seen.events, [2]);
}

#[test]
fn a_follower_waits_for_the_log_and_for_the_root() {
    let log = Log::new();
    let mut following = Following::new();
    following.look(None);
    following.look(Some(&log.lokt()));
    log.write();
    following.look(Some(&log.lokt()));
    following.look(None);
    log.write();
    following.look(Some(&log.lokt()));
    assert_eq!(following.seen.events, [0, 1]);
}

#[test]
fn a_line_that_comes_in_parts_is_told_once_and_whole() {
    let log = Log::new();
    let text = line(0);
    let (one, two) = text.split_at(30);
    let raw = |text: &str| {
        let bytes = [log.disk.peek(LOG).unwrap_or_default(), text.as_bytes().to_vec()].concat();
        log.disk.overwrite(LOG, &bytes).expect("there is room");
    };
    for begun_before in [true, false] {
        log.disk.delete(LOG);
        let mut following = Following::new();
        if begun_before {
            raw(one);
            following.look(Some(&log.lokt()));
        } else {
            following.look(Some(&log.lokt()));
            raw(one);
        }
        following.look(Some(&log.lokt()));
        assert_eq!(following.seen.events, [0; 0], "it isn't all there");
        raw(two);
        following.look(Some(&log.lokt()));
        following.look(Some(&log.lokt()));
        assert_eq!((&*following.seen.events, following.seen.no_events), (&[0][..], 0), "begun before: {begun_before}");
    }
}

#[test]
fn rotations_between_and_during_looks_neither_hide_nor_repeat_anything() {
    for rotations in 1..4 {
        for at in 0..16 {
            let log = Log::new();
            log.write();
            log.rotate();
            log.write();
            let mut following = Following::new();
            following.look(Some(&log.lokt()));
            log.write();
            log.rotate();
            log.write();
            let (there, calls) = (log.clone(), AtomicUsize::new(0));
            let hook = move |_: &str, _: &str| {
                if calls.fetch_add(1, Ordering::SeqCst) == at {
                    for _ in 0..rotations {
                        there.write();
                        there.rotate();
                        there.write();
                    }
                }
                Ok(())
            };
            let busy = lokt(Arc::new(HookDisk::new(Arc::new(log.disk.clone()), Arc::new(hook))));
            following.look(Some(&busy));
            log.write();
            following.look(Some(&log.lokt()));
            assert_eq!(following.seen.events, log.all()[2..], "{rotations} rotations at call {at}");
        }
    }
}

#[test]
fn a_log_that_anybody_moves_away_or_deletes_or_cuts_off_is_followed() {
    let log = Log::new();
    log.write();
    let mut following = Following::new();
    following.look(Some(&log.lokt()));
    log.write();
    log.disk.rename(LOG, "elsewhere").expect("it is there");
    // Not smaller than the old one, which says nothing.
    for _ in 0..5 {
        log.write();
    }
    following.look(Some(&log.lokt()));
    assert_eq!(following.seen.events, log.all()[1..], "moved away");

    following.seen.events.clear();
    log.write();
    following.look(Some(&log.lokt()));
    log.disk.delete(LOG);
    following.look(Some(&log.lokt()));
    log.write();
    following.look(Some(&log.lokt()));
    assert_eq!(following.seen.events, [7, 8], "deleted");

    following.seen.events.clear();
    log.write();
    following.look(Some(&log.lokt()));
    log.disk.truncate(LOG);
    log.write();
    following.look(Some(&log.lokt()));
    assert_eq!(following.seen.events, [9, 10], "cut off");
}

#[test]
fn who_writes_late_to_a_rotated_log_is_heard() {
    let log = Log::new();
    log.write();
    let mut following = Following::new();
    following.look(Some(&log.lokt()));
    log.rotate();
    log.write();
    following.look(Some(&log.lokt()));
    log.disk.append("audit.log.1", line(7).as_bytes()).expect("there is room");
    following.look(Some(&log.lokt()));
    assert_eq!(following.seen.events, [1, 7]);
}

#[test]
fn a_rotated_log_does_not_wait_for_a_newline() {
    let log = Log::new();
    log.write();
    let mut following = Following::new();
    following.look(Some(&log.lokt()));
    log.disk.append(LOG, line(1).trim_end().as_bytes()).expect("there is room");
    following.look(Some(&log.lokt()));
    assert_eq!(following.seen.events, [0; 0], "somebody may be writing");
    log.rotate();
    log.disk.append(LOG, line(2).as_bytes()).expect("there is room");
    following.look(Some(&log.lokt()));
    following.look(Some(&log.lokt()));
    assert_eq!(following.seen.events, [1, 2]);
}
