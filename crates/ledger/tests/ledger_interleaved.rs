//! Two writers: before each call that one of them makes to the disk, the other does all of its work, as far as it gets in. Whatever the order,
//! what is decided is decided about the ledger that it is added to.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lokt_core::ledger::draft::Draft;
use lokt_core::ledger::seq::Seq;
use lokt_core::time::Moment;
use lokt_ledger::{AppendTerms, Appending, ClaimTerms, Claiming, Ledger, LockPatience, Releasing, Transacted};
use lokt_sys::disk::Disk as _;
use lokt_sys::error::{Error, ErrorKind};
use lokt_sys::machine::{Machine, ProcessStat};
use lokt_sys::wait_policy::WaitPolicy;
use lokt_testkit::hook_disk::HookDisk;
use lokt_testkit::machine::{FakeMachine, somebody};
use lokt_testkit::mem_disk::MemDisk;
use serde_json::Value;

const NODE: &str = "n";
const KEY: &str = "k";
/// The claim that is there before.
const TOKEN: u64 = 2;
/// Whoever has it.
const HOLDER: &str = "holder";

/// So many milliseconds pass whenever somebody looks at the clock: never, so that nothing is ever old, or often enough that everything is.
const TICKS_MS: [u64; 2] = [0, 60];

struct Ticking {
    machine: FakeMachine,
    tick_ms: u64,
}

impl Machine for Ticking {
    fn now(&self) -> Moment {
        self.machine.advance_ms(self.tick_ms);
        self.machine.now()
    }

    fn random(&self) -> io::Result<u128> {
        self.machine.random()
    }

    fn process(&self, pid: i64) -> Option<ProcessStat> {
        self.machine.process(pid)
    }
}

/// What one of the two does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Plain,
    Keyed,
    /// Under the token of the claim that is there.
    Fenced,
    Decision,
    Take,
    /// The holder ends its claim.
    Release,
}

const ACTS: [Act; 6] = [Act::Plain, Act::Keyed, Act::Fenced, Act::Decision, Act::Take, Act::Release];

/// The number of the event that it was told of; none if it was refused.
type Answer = Result<Option<u64>, Error>;

impl Act {
    fn play(self, ledger: &Ledger, who: &str) -> Answer {
        let draft = Draft::parse(format!(r#"{{"type":"note","by":"{who}"}}"#).as_bytes()).expect("an event");
        let claim = ClaimTerms { ttl_sec: Some(3600), ..ClaimTerms::default() };
        let terms = match self {
            Self::Keyed => AppendTerms { id: Some(KEY), ..AppendTerms::default() },
            Self::Fenced => AppendTerms { token: Seq::new(TOKEN), ..AppendTerms::default() },
            _ => AppendTerms::default(),
        };
        Ok(match self {
            Self::Plain | Self::Keyed | Self::Fenced => match ledger.append(&draft, &terms)?.value {
                Appending::Appended(done) => Some(done.first.get()),
                Appending::Denied(_) => None,
            },
            // Each decision is another one: it tells how many were there before.
            Self::Decision => {
                let counted = |count: u64| vec![Draft::new("counted", vec![("so_far", count.into())])];
                match ledger.transact(|events| Ok::<_, ()>(counted(events.through)))?.value {
                    Transacted::Appended(done) => Some(done.first.get()),
                    Transacted::Nothing | Transacted::Denied(()) => None,
                }
            }
            Self::Take => match ledger.take(&[NODE.to_owned()], &claim, &mut WaitPolicy::none())?.value {
                Claiming::Claimed(claimed) => Some(claimed.seq.get()),
                Claiming::Denied { .. } | Claiming::Interrupted => None,
            },
            Self::Release => match ledger.release(NODE, None, &claim)?.value {
                Releasing::Released { seq, .. } => Some(seq.get()),
                Releasing::Denied(_) => None,
            },
        })
    }

    fn owner(self, who: &str) -> &str {
        if self == Self::Release { HOLDER } else { who }
    }
}

struct World {
    mem: MemDisk,
    machine: Arc<Ticking>,
}

impl World {
    /// A ledger with an event, and with a claim if anybody needs that.
    fn new(tick_ms: u64, acts: [Act; 2]) -> Self {
        let machine = Arc::new(Ticking { machine: FakeMachine::new(), tick_ms });
        let world = Self { mem: MemDisk::new(), machine };
        let ledger = world.ledger(HOLDER, Arc::new(world.mem.clone()));
        Act::Plain.play(&ledger, "before").expect("the disk works");
        if acts.iter().any(|act| matches!(act, Act::Fenced | Act::Release)) {
            assert_eq!(Act::Take.play(&ledger, "before").expect("the disk works"), Some(TOKEN));
        }
        world
    }

    fn ledger(&self, owner: &str, disk: Arc<dyn lokt_sys::disk::Disk>) -> Ledger {
        let (above, me) = (Arc::new(MemDisk::new()), somebody(owner, 1));
        let ledger = Ledger::on("/dir-of-the-test".as_ref(), disk, above, self.machine.clone(), me);
        // Nobody is waited for: whoever is inside can't go on before the other has given up.
        ledger.expect("it opens").patient(LockPatience { timeout: Duration::ZERO, poll: Duration::from_millis(1) })
    }

    fn events(&self, context: &str) -> Vec<Value> {
        let mut names = self.mem.list("").expect("memory doesn't fail");
        names.retain(|name| name.starts_with("event-"));
        let expected: Vec<String> = (1..=names.len()).map(|number| format!("event-{number:06}.json")).collect();
        assert_eq!(names, expected, "{context}: no gap");
        let event = |name: &String| self.mem.peek(name).and_then(|bytes| serde_json::from_slice(&bytes).ok());
        names.iter().map(|name| event(name).unwrap_or_else(|| panic!("{context}: {name} is torn"))).collect()
    }

    /// Plays both. Gives how many calls the first made, and both answers.
    fn play(&self, acts: [Act; 2], at: usize) -> (usize, [Option<Answer>; 2]) {
        let other = self.ledger(acts[1].owner("second"), Arc::new(self.mem.clone()));
        let (calls, second) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(None)));
        let (counted, told) = (calls.clone(), second.clone());
        let hook = move |_: &str, _: &str| {
            if counted.fetch_add(1, Ordering::SeqCst) == at {
                *told.lock().expect("nobody panics with it") = Some(acts[1].play(&other, "second"));
            }
            Ok(())
        };
        let disk = Arc::new(HookDisk::new(Arc::new(self.mem.clone()), Arc::new(hook)));
        let first = acts[0].play(&self.ledger(acts[0].owner("first"), disk), "first");
        let second = second.lock().expect("nobody panics with it").take();
        (calls.load(Ordering::SeqCst), [Some(first), second])
    }
}

#[test]
fn whatever_comes_between_two_calls_what_is_told_is_true() {
    let mut played = 0;
    for acts in ACTS.iter().flat_map(|one| ACTS.map(|other| [*one, other])) {
        for tick_ms in TICKS_MS {
            for at in 0.. {
                let context = format!("{acts:?}, the second before call {at} of the first, {tick_ms} ms a look");
                let world = World::new(tick_ms, acts);
                let (calls, answers) = world.play(acts, at);
                if at >= calls {
                    break;
                }
                judge(&world, acts, &answers, &context);
                played += 1;
            }
        }
    }
    assert!(played > 1000, "{played} interleavings are too few");
}

fn judge(world: &World, acts: [Act; 2], answers: &[Option<Answer>; 2], context: &str) {
    let events = world.events(context);
    let mut told = Vec::new();
    for (act, answer) in acts.iter().zip(answers) {
        match answer.as_ref().unwrap_or_else(|| panic!("{context}: it was played")) {
            Ok(Some(number)) => told.push((*act, *number)),
            Ok(None) => {}
            // The other one is inside, and stands still.
            Err(error) => assert_eq!(error.kind(), ErrorKind::Busy, "{context}: {error}"),
        }
    }
    assert!(!told.is_empty() || answers.iter().flatten().any(|answer| matches!(answer, Ok(None))), "{context}: nobody");
    let at = |number: u64| &events[usize::try_from(number - 1).expect("small")];
    for (act, number) in &told {
        let kind = match act {
            Act::Plain | Act::Keyed | Act::Fenced => "note",
            Act::Decision => "counted",
            Act::Take => "lock_acquired",
            Act::Release => "lock_released",
        };
        assert_eq!(at(*number)["type"], kind, "{context}: event {number}");
    }
    for (number, event) in (1..).zip(&events) {
        if event["type"] == "counted" {
            assert_eq!(event["so_far"], number - 1, "{context}: decided about another ledger: {events:?}");
        }
    }
    let keyed = events.iter().filter(|event| event["idempotency_key"] == KEY).count();
    assert!(keyed <= 1, "{context}: one key, one event: {events:?}");
    if acts == [Act::Take, Act::Take] {
        assert!(told.len() <= 1, "one-holder: {context}: {events:?}");
    }
    let released = events.iter().position(|event| event["type"] == "lock_released");
    let fenced = events.iter().rposition(|event| event["claim_token"] == TOKEN);
    if let (Some(released), Some(fenced)) = (released, fenced) {
        assert!(fenced < released, "{context}: under a claim that was over: {events:?}");
    }
    assert!(world.mem.peek("ledger.lock").is_none(), "{context}: the lock is left");
    let verified = world.ledger("x", Arc::new(world.mem.clone())).verify(None, &mut |_, _| {}).expect("readable").value;
    assert!(verified.problems.is_empty(), "{context}: {:?}", verified.problems);
}
