//! What decides about a ledger needs nothing of files: the same `Ledger` on a log in memory.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use lokt_core::ledger::chain::Leaf;
use lokt_core::ledger::draft::{Added, Draft};
use lokt_core::ledger::fold::{Folded, Mark};
use lokt_core::ledger::seq::{Seq, Style};
use lokt_core::ledger::stored::Stored;
use lokt_ledger::log::{Committed, Compose, Composed, EventLog, Keys, LedgerView, Op, Piece, Rehearsed, See};
use lokt_ledger::{
    AppendTerms, Appended, Appending, ClaimTerms, Claiming, How, Ledger, Releasing, Settings, Slot, Transacted, Unmet,
};
use lokt_sys::call::Call;
use lokt_sys::error::{Error, ErrorKind};
use lokt_sys::machine::{Linux, Machine as _, identity};
use lokt_sys::nap::Subscription;
use lokt_sys::wait_policy::{Timeout, WaitPolicy};
use lokt_sys::wakeup::{WakeHandle, Wakeup};
use lokt_sys::warnings::WithWarnings;

const STYLE: Style = Style::Documented;

/// A log that tries optimistically: a composer sees the events of one moment, and is asked again if
/// others were added meanwhile.
#[derive(Default)]
struct MemLog {
    events: Mutex<Vec<Vec<u8>>>,
    waiters: Mutex<Vec<WakeHandle>>,
    /// An event of another writer, which comes between the first answer and its commit.
    meanwhile: Mutex<Option<Vec<u8>>>,
}

/// The index of keys: the events themselves.
struct AllEvents<'e>(&'e [Vec<u8>]);

impl Keys for AllEvents<'_> {
    fn seq_of_key(&self, _folded: &mut Folded, key: &str) -> Result<Option<Seq>, Error> {
        let has_key = |bytes: &Vec<u8>| stored(bytes).id() == Some(key);
        Ok(self.0.iter().position(has_key).map(|nth| seq(nth as u64 + 1)))
    }
}

fn stored(bytes: &[u8]) -> Stored {
    Stored::parse(bytes).expect("only events are added")
}

fn seq(number: u64) -> Seq {
    Seq::new(number).expect("the number of an event")
}

/// Asks a composer about these events.
fn compose(composer: &mut dyn Compose, events: &[Vec<u8>]) -> Result<Composed, Error> {
    let mut folded = Folded::new(STYLE);
    for (bytes, number) in events.iter().zip(1..) {
        let (event, mark) = (stored(bytes), Mark { ino: number, modified_ns: 0, size: bytes.len() as u64 });
        folded.event(seq(number), &event, Leaf::event(&event, bytes), mark);
    }
    let head = events.len() as u64;
    let (next, folded, keys) = (seq(head + 1), Some(&mut folded), &AllEvents(events));
    composer.compose(&mut LedgerView { head, next, gap: None, folded, now: Linux.now(), keys })
}

impl MemLog {
    fn add(&self, events: &mut Vec<Vec<u8>>, pieces: &[Piece]) -> Result<(), Error> {
        for Piece { draft, id, token } in pieces {
            let added = Added { id: id.as_deref(), token: *token, ..Added::default() };
            let bytes = draft.render(STYLE, Linux.now().wall, added);
            events.push(bytes.map_err(|bad| Error::new(ErrorKind::BadEvent, bad.0))?);
        }
        for waiter in self.waiters.lock().expect("no panic").drain(..) {
            waiter.ring();
        }
        Ok(())
    }
}

impl EventLog for MemLog {
    fn head(&self, _call: &Call<'_>) -> Result<WithWarnings<u64>, Error> {
        let value = self.events.lock().expect("no panic").len() as u64;
        Ok(WithWarnings { value, warnings: Vec::new() })
    }

    fn read(&self, from: Seq, _call: &Call<'_>, see: &mut See<'_>) -> Result<(), Error> {
        let events = self.events.lock().expect("no panic").clone();
        for (bytes, number) in events.into_iter().zip(1..).skip_while(|(_, number)| *number < from.get()) {
            if see(seq(number), Slot::Event(bytes)) == ControlFlow::Break(()) {
                break;
            }
        }
        Ok(())
    }

    fn commit(
        &self,
        _op: &Op,
        composer: &mut dyn Compose,
        _call: &Call<'_>,
    ) -> Result<WithWarnings<Option<Committed>>, Error> {
        loop {
            let before = self.events.lock().expect("no panic").clone();
            let composed = compose(composer, &before)?;
            let mut events = self.events.lock().expect("no panic");
            events.extend(self.meanwhile.lock().expect("no panic").take());
            if *events != before {
                continue;
            }
            let value = match composed {
                Composed::Add(pieces) => {
                    self.add(&mut events, &pieces)?;
                    let (first, last) = (seq(before.len() as u64 + 1), seq(events.len() as u64));
                    Some(Committed { first, last, count: pieces.len() as u64, filler: None })
                }
                Composed::Nothing | Composed::Refused => None,
            };
            return Ok(WithWarnings { value, warnings: Vec::new() });
        }
    }

    fn rehearse(&self, composer: &mut dyn Compose, _call: &Call<'_>) -> Result<WithWarnings<Option<Rehearsed>>, Error> {
        let events = self.events.lock().expect("no panic").clone();
        let value = match compose(composer, &events)? {
            Composed::Add(pieces) => Some(Rehearsed { head: events.len() as u64, count: pieces.len() as u64 }),
            Composed::Nothing | Composed::Refused => None,
        };
        Ok(WithWarnings { value, warnings: Vec::new() })
    }

    fn arm(&self, _after: Option<Seq>, wakeup: &Wakeup) -> Result<Subscription, Error> {
        self.waiters.lock().expect("no panic").push(wakeup.rope());
        Ok(Subscription::ringing())
    }
}

fn ledger(log: &Arc<MemLog>, owner: &str) -> Ledger {
    let settings = Settings { style: STYLE, chain: false };
    Ledger::over(Arc::<MemLog>::clone(log), settings, Arc::new(Linux), identity(owner.into(), None))
}

fn draft(kind: &str) -> Draft {
    Draft::new(kind, Vec::new())
}

fn terms() -> ClaimTerms {
    ClaimTerms { ttl_sec: Some(600), ..ClaimTerms::default() }
}

fn take(ledger: &Ledger, timeout: Timeout) -> Claiming {
    let mut policy = WaitPolicy { timeout, ..WaitPolicy::none() };
    ledger.take(&["n1".to_owned()], &terms(), &mut policy).expect("decided").value
}

#[test]
fn appends_keep_their_conditions_on_a_log_in_memory() {
    let log = Arc::new(MemLog::default());
    let alice = ledger(&log, "alice");
    let keyed = AppendTerms { id: Some("k"), ..AppendTerms::default() };
    let first = alice.append(&draft("a"), &keyed).expect("appended").value;
    assert!(matches!(first, Appending::Appended(Appended { duplicate: false, .. })), "the key is new");
    let again = alice.append(&draft("a"), &keyed).expect("appended").value;
    let Appending::Appended(again) = again else { panic!("a key is no condition") };
    assert!(again.duplicate && again.first == seq(1), "the key was used for event 1");
    let denied = alice.append_if(&draft("b"), 7).expect("decided").value;
    assert!(matches!(denied, Appending::Denied(Unmet::Sequence { expected: 7, head: 1 })), "{denied:?}");
}

#[test]
fn a_decision_is_made_again_when_another_writer_was_faster() {
    let log = Arc::new(MemLog::default());
    let alice = ledger(&log, "alice");
    let other = draft("other").render(STYLE, Linux.now().wall, Added::default()).expect("an event");
    *log.meanwhile.lock().expect("no panic") = Some(other);
    let mut asked = Vec::new();
    let done = alice.transact(|events| {
        asked.push(events.through);
        Ok::<_, ()>(vec![draft("counted")])
    });
    let Transacted::Appended(done) = done.expect("decided").value else { panic!("it adds an event") };
    assert_eq!((asked, done.first), (vec![0, 1], seq(2)), "it decided about what was there");
}

#[test]
fn exactly_one_owner_has_a_claim_on_a_log_in_memory() {
    let log = Arc::new(MemLog::default());
    let (alice, bob) = (ledger(&log, "alice"), ledger(&log, "bob"));
    let Claiming::Claimed(claimed) = take(&alice, Timeout::Once) else { panic!("it was free") };
    assert_eq!((claimed.how, claimed.token), (How::New, seq(1)), "its token is its first event");
    assert!(matches!(take(&bob, Timeout::Once), Claiming::Denied { .. }), "it is alice's");
    let fenced = AppendTerms { token: Some(claimed.token), ..AppendTerms::default() };
    assert!(matches!(alice.append(&draft("a"), &fenced).expect("decided").value, Appending::Appended(_)));
    assert_eq!(alice.claims().expect("listed").value.len(), 1, "one node is claimed");
    let released = alice.release("n1", Some(claimed.token), &terms()).expect("decided").value;
    assert!(matches!(released, Releasing::Released { .. }), "it was hers: {released:?}");
    let stale = alice.append(&draft("a"), &fenced).expect("decided").value;
    assert!(matches!(stale, Appending::Denied(Unmet::Fence { .. })), "the token is stale: {stale:?}");
}

#[test]
fn a_waiter_is_woken_by_the_release_on_a_log_in_memory() {
    let log = Arc::new(MemLog::default());
    let alice = ledger(&log, "alice");
    assert!(matches!(take(&alice, Timeout::Once), Claiming::Claimed(_)), "it was free");
    let bob = ledger(&log, "bob");
    let waiter = thread::spawn(move || take(&bob, Timeout::After(Duration::from_secs(60))));
    while log.waiters.lock().expect("no panic").is_empty() {
        thread::yield_now();
    }
    alice.release("n1", None, &terms()).expect("decided");
    let Claiming::Claimed(claimed) = waiter.join().expect("no panic") else { panic!("it was released") };
    assert_eq!(claimed.owner, "bob", "the waiter has it");
}

#[test]
fn what_only_files_have_is_refused_in_plain_words() {
    let log = Arc::new(MemLog::default());
    let alice = ledger(&log, "alice");
    let error = alice.census().expect_err("there is no directory");
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Unusable, "this ledger isn't in plain files"));
    assert!(alice.doctor(false, &mut |_, _| {}).is_err(), "there is nothing to repair");
    assert_eq!(alice.read(seq(1)).expect("read"), Slot::Missing, "it is empty");
}
