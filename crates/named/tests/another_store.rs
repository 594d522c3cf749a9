//! The library on a store that isn't files: one that ends leases by itself, and grants several names
//! in one transaction.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lokt_core::decide::{Breaking, Terms};
use lokt_core::denial::Denial;
use lokt_core::engine::Rev;
use lokt_core::guard::Outcome;
use lokt_core::inherited_holds::InheritedHolds;
use lokt_core::name::LockName;
use lokt_named::store::{AuditLog as _, Call, Found, Scan, Store as _};
use lokt_named::swap::{MemEngine, SwapStore};
use lokt_named::{Acquired, Condition, End, Fenced, Grant, GuardOutlook, Lokt, OwnedHold};
use lokt_sys::machine::{Linux, identity};
use lokt_sys::wait_policy::{Timeout, WaitPolicy};

const LONG: Timeout = Timeout::After(Duration::from_secs(60));

fn name(text: &str) -> LockName {
    LockName::new(text).expect("a name")
}

/// A space of an engine in memory.
#[derive(Clone)]
struct MemoryStore(SwapStore<MemEngine>);

impl MemoryStore {
    fn new() -> Self {
        let machine = Arc::new(Linux);
        let (engine, me) = (MemEngine::new(machine.clone()), identity("root".into(), None));
        let store = SwapStore::new(engine, &name("acme"), PathBuf::from("memory:/acme"), machine, me);
        assert!(store.create_space("9f2c04ab", &Call::UNLIMITED).expect("the engine works"), "it is new");
        Self(store)
    }

    /// How many names are waited for.
    fn waiting(&self) -> usize {
        self.0.names(Scan::Awaited, &Call::UNLIMITED).expect("the engine works").len()
    }

    /// The revision of the last change.
    fn revision(&self) -> Rev {
        self.0.engine().revision()
    }

    fn end_sessions(&self) {
        let engine = self.0.engine();
        engine.sessions().into_iter().for_each(|id| engine.end_session(id));
    }

    fn told(&self) -> Vec<String> {
        let mut told = Vec::new();
        let read = self.0.read(
            &mut |found| {
                if let Found::Event(line) = found {
                    told.push(format!("{} {}", line.event(), line.name()));
                }
                ControlFlow::Continue(())
            },
            &Call::UNLIMITED,
        );
        read.expect("the engine works");
        told
    }
}

fn lokt(store: &MemoryStore, owner: &str) -> Lokt {
    Lokt::with_store(Arc::new(store.0.clone()), Arc::new(Linux), identity(owner.into(), None))
}

fn acquire(lokt: &Lokt, names: &[&str], timeout: Timeout) -> Acquired {
    let names: Vec<LockName> = names.iter().map(|text| name(text)).collect();
    let mut policy = WaitPolicy { timeout, ..WaitPolicy::none() };
    let acquired = lokt.owned(&names, &Terms::default(), &InheritedHolds::default(), &mut policy);
    acquired.expect("the store works").value
}

fn granted(lokt: &Lokt, names: &[&str], timeout: Timeout) -> Vec<OwnedHold> {
    match acquire(lokt, names, timeout) {
        Acquired::All { owned_holds, .. } => owned_holds,
        Acquired::Denied { name, refusal } => panic!("{name} is refused: {refusal:?}"),
        Acquired::Interrupted => panic!("nothing interrupts it"),
    }
}

fn held(store: &MemoryStore) -> Vec<LockName> {
    store.0.names(Scan::Held, &Call::UNLIMITED).expect("the store works")
}

#[test]
fn several_names_are_waited_for_together_and_granted_in_one_step() {
    let store = MemoryStore::new();
    let (alice, bob) = (lokt(&store, "alice"), lokt(&store, "bob"));
    let alices = granted(&alice, &["b"], Timeout::Once);
    std::thread::scope(|scope| {
        let bobs = scope.spawn(|| granted(&bob, &["c", "b", "a"], LONG));
        while store.waiting() == 0 {
            std::thread::yield_now();
        }
        assert_eq!(held(&store), [name("b")], "a waiter for several names holds none of them");
        for owned in alices {
            drop(owned.release());
        }
        let bobs = bobs.join().expect("it doesn't panic");
        assert_eq!(held(&store), ["a", "b", "c"].map(name), "all were granted");
        let tokens: Vec<_> = bobs.iter().map(|owned| owned.hold.token).collect();
        assert!(tokens.iter().all(|token| token.is_some() && *token == tokens[0]), "in one transaction: {tokens:?}");
    });
}

#[test]
fn one_refusal_refuses_all_names_of_a_request() {
    let store = MemoryStore::new();
    let (alice, bob) = (lokt(&store, "alice"), lokt(&store, "bob"));
    let _alices = granted(&alice, &["b"], Timeout::Once);
    let Acquired::Denied { name: in_the_way, refusal } = acquire(&bob, &["a", "b"], Timeout::Once) else {
        panic!("b is held")
    };
    assert_eq!(in_the_way, name("b"));
    assert!(matches!(refusal.denial, Denial::Held(_)), "{refusal:?}");
    assert_eq!(held(&store), [name("b")], "nothing was granted");
    let timed_out = acquire(&bob, &["a", "b"], Timeout::After(Duration::from_millis(5)));
    let Acquired::Denied { refusal, .. } = timed_out else { panic!("b is still held") };
    assert!(refusal.waited.is_some(), "it was waited for");
    assert_eq!(store.waiting(), 0, "the queue was left");
}

#[test]
fn a_renewal_keeps_the_session_and_writes_nothing() {
    let store = MemoryStore::new();
    let alice = lokt(&store, "alice");
    let holds = granted(&alice, &["a", "b"], Timeout::Once);
    let before = store.revision();
    for owned in &holds {
        assert_eq!(owned.proof().renew().value.outcome, Outcome::Kept { late_ms: None });
    }
    assert_eq!(store.revision(), before, "no record was rewritten");
    store.end_sessions();
    for owned in &holds {
        assert_eq!(owned.proof().renew().value.outcome, Outcome::Lost(None), "the store ended its lease");
    }
    let bob = lokt(&store, "bob");
    assert!(
        matches!(bob.inspect().outlook(&name("a")).expect("a look").guard, GuardOutlook::Acquires),
        "it is free for bob"
    );
    assert_eq!(granted(&bob, &["a"], Timeout::Once).len(), 1, "bob gets it");
}

#[test]
fn every_command_of_an_owner_works_on_any_store() {
    let store = MemoryStore::new();
    let (alice, bob) = (lokt(&store, "alice"), lokt(&store, "bob"));
    let x = name("x");
    let Grant::Granted(first) = alice.take(&x, Terms::default()).expect("a store").value else { panic!("it is free") };
    let token = first.hold.token.expect("a token").get();
    assert!(matches!(bob.take(&x, Terms::default()).expect("a store").value, Grant::Denied(_)), "alice has it");
    assert!(matches!(bob.check_token(&x, token).expect("a look"), Fenced::Current(_)), "the token is good");
    assert!(alice.inspect().exists(&x).expect("a look"));
    let unlocked = bob.unlock(&x, Breaking::No, Condition::default()).expect("a store").value;
    assert!(matches!(unlocked, End::Denied(_)), "it isn't bob's");
    let unlocked = alice.unlock_owner("alice").expect("a store").value;
    assert_eq!(unlocked.released, ["x"]);
    assert!(matches!(bob.check_token(&x, token).expect("a look"), Fenced::Denied(_)), "the token is old");
    assert_eq!(store.told(), ["acquire x", "release x"], "what was changed is told in order");
}
