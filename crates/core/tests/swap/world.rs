//! A space on an engine in memory, and clients that ask one question at a time.

use jiff::Timestamp;
use lokt_core::audit;
use lokt_core::decide::{Breaking, Condition, Decision, HoldKey, Intent, ProcessHolder, Terms, decide};
use lokt_core::engine::{Change, Key, Keyspace, Made, NoSession, Pin, Rev, SessionId, Span, Write};
use lokt_core::hold::{Fence, Hold, Identity, LockId, PulseRef};
use lokt_core::liveness::Liveness;
use lokt_core::name::LockName;
use lokt_core::pulse::ProcessRef;
use lokt_core::swap::record::{Meta, Waiter};
use lokt_core::swap::view::{self, NameView, Target, View};
use lokt_core::swap::{self, Op, Plan, Refusal, Request, Ruled, Seen, Space};
use lokt_core::time::Moment;

pub(crate) struct World {
    pub(crate) keys: Keyspace,
    pub(crate) space: Space,
    ops: u128,
}

/// A caller. Its session is that of its process part and its tickets, ten more that of its owner
/// part.
#[derive(Clone, Copy)]
pub(crate) struct Caller {
    pub(crate) owner: &'static str,
    pub(crate) session: u64,
}

pub(crate) const ALICE: Caller = Caller { owner: "alice", session: 1 };
pub(crate) const ALICE_TOO: Caller = Caller { owner: "alice", session: 2 };
pub(crate) const BOB: Caller = Caller { owner: "bob", session: 3 };

impl Caller {
    pub(crate) fn session(self) -> SessionId {
        SessionId(self.session)
    }

    pub(crate) fn lease(self) -> SessionId {
        SessionId(self.session + 10)
    }
}

pub(crate) fn name(text: &str) -> LockName {
    LockName::new(text).expect("a good name")
}

pub(crate) fn lock(ttl_sec: Option<u64>) -> Intent {
    Intent::Lock(Terms { ttl_sec, reason: None })
}

pub(crate) fn guard() -> Intent {
    let process = ProcessRef { pid: 7, start: 8 };
    let bearer = ProcessHolder { process, has_pulse: true, inside: None };
    Intent::Guard(Terms { ttl_sec: Some(15), reason: None }, bearer)
}

pub(crate) fn unlock(breaking: Breaking) -> Intent {
    Intent::Unlock(breaking, Condition::default())
}

pub(crate) fn freeze(ttl_sec: Option<u64>) -> Intent {
    Intent::Freeze(Terms { ttl_sec, reason: None })
}

fn target(intent: &Intent) -> Target {
    match intent {
        Intent::Freeze(_) | Intent::Unfreeze { .. } => Target::Freeze,
        _ => Target::Lock,
    }
}

impl World {
    pub(crate) fn new() -> Self {
        let space = Space::new(&name("acme"));
        let mut keys = Keyspace::default();
        let meta = Write::Put(space.meta(), Meta::new("9f2c04ab").encode(), None);
        keys.apply(&Change { writes: vec![meta], ..Change::default() }).expect("no session");
        for caller in [ALICE, ALICE_TOO, BOB] {
            keys.open(caller.session());
            keys.open(caller.lease());
        }
        Self { keys, space, ops: 0 }
    }

    pub(crate) fn look(&self, names: &[LockName]) -> View {
        let sight = self.keys.look(&view::spans(&self.space, names));
        View::read(&self.space, names, &sight)
    }

    pub(crate) fn see(&self, text: &str) -> NameView {
        self.look(&[name(text)]).names.remove(0)
    }

    pub(crate) fn hold(&self, text: &str) -> Option<Hold> {
        self.see(text).members.first().and_then(|member| member.hold()).cloned()
    }

    pub(crate) fn grip(&self, text: &str) -> Intent {
        let hold = self.hold(text).expect("it is held");
        Intent::Release(HoldKey { lock_id: hold.lock_id, token: hold.token, pulse: hold.pulse })
    }

    /// What becomes of `intent` for all names together, from a look of now.
    pub(crate) fn plan(&mut self, caller: Caller, intent: &Intent, names: &[&str]) -> Result<Plan, Refusal> {
        let names: Vec<_> = names.iter().map(|text| name(text)).collect();
        let view = self.look(&names);
        self.ops += 1;
        let ids: Vec<_> = (0..names.len() as u128).map(|n| LockId::from_bits(self.ops * 0x10 + n)).collect();
        let me = Identity { owner: caller.owner.into(), pid: 7, ..Identity::default() };
        let now = Moment { wall: Timestamp::UNIX_EPOCH, monotonic_ms: 0, boottime_ms: 0 };
        let session = Some(caller.session());
        let (target, liveness) = (target(intent), Liveness::Unknown);
        let judge = |(view, fresh_id): (&NameView, _)| {
            let seen = Seen { liveness, fresh_id, now, session };
            let decision = decide(intent, view.facts(target, &seen), &me, &swap::POLICY);
            let before = view.judged(target, liveness).and_then(|member| member.hold());
            let events = audit::events(&decision, before, None, view.name.as_str(), &me, now.wall);
            (decision, events)
        };
        let judged: Vec<_> = view.names.iter().zip(&ids).map(judge).collect();
        let mut ruled = Vec::new();
        for (view, (decision, events)) in view.names.iter().zip(&judged) {
            let Decision::Commit { next, token, cause, .. } = decision else {
                return Err(Refusal::Nothing);
            };
            let (next, token, cause) = (next.as_deref(), *token, *cause);
            ruled.push(Ruled { view, target, intent, liveness, next, token, cause, events });
        }
        let request = Request { op: Op(self.ops), session, lease: Some(caller.lease()) };
        swap::plan(&self.space, &view, &request, &ruled)
    }

    pub(crate) fn queue(&self, caller: Caller, place: Rev, names: &[&str]) -> Plan {
        let names: Vec<_> = names.iter().map(|text| name(text)).collect();
        let waiter = Waiter { owner: caller.owner.into(), ..Waiter::default() };
        let view = self.look(&names);
        let queued = swap::plan::queue(&self.space, &view, place, caller.session(), &waiter);
        queued.expect("it waits nowhere yet")
    }

    pub(crate) fn apply(&mut self, change: &Change) -> Result<Made, NoSession> {
        self.keys.apply(change)
    }

    /// Plans and makes a change, which must succeed.
    pub(crate) fn does(&mut self, caller: Caller, intent: &Intent, names: &[&str]) -> Plan {
        let plan = self.plan(caller, intent, names).expect("it is granted");
        self.makes(&plan);
        plan
    }

    pub(crate) fn makes(&mut self, plan: &Plan) {
        assert!(matches!(self.apply(&plan.change), Ok(Made::Done { .. })), "{:?}", plan.change);
    }

    /// A copy of a change that must fail now.
    pub(crate) fn is_refused(&mut self, change: &Change) -> bool {
        matches!(self.apply(change), Ok(Made::Else(_)) | Err(_))
    }

    pub(crate) fn token(&self, text: &str) -> Option<u64> {
        self.hold(text).and_then(|hold| hold.token).map(Fence::get)
    }

    pub(crate) fn pulse(&self, text: &str) -> Option<PulseRef> {
        self.hold(text).and_then(|hold| hold.pulse)
    }

    /// A key without the space, and without leading zeros.
    fn short(key: &Key) -> String {
        let rest = key.0.strip_prefix("/lokt/acme/").expect("a key of the space");
        let trimmed = |word: &str| match word.len() {
            16 | 32 => word.trim_start_matches('0').into(),
            _ => String::from(word),
        };
        rest.split('/').map(trimmed).collect::<Vec<_>>().join("/")
    }

    pub(crate) fn pins(plan: &Plan) -> Vec<String> {
        let show = |pin: &Pin| match pin {
            Pin::Since(key, rev) => format!("{}={}", Self::short(key), rev.0),
            Pin::Born(key, rev) => format!("{} born {}", Self::short(key), rev.0),
            Pin::Empty(Span::Below(key)) => format!("none below {}", Self::short(key)),
            Pin::Empty(Span::Between(_, to)) => format!("none before {}", Self::short(to)),
            Pin::Empty(other) => format!("{other:?}"),
        };
        plan.change.pins.iter().map(show).collect()
    }

    pub(crate) fn writes(plan: &Plan) -> Vec<String> {
        let show = |write: &Write| match write {
            Write::Put(key, _, None) => format!("put {}", Self::short(key)),
            Write::Put(key, _, Some(session)) => {
                format!("put {} with {}", Self::short(key), session.0)
            }
            Write::Drop(key) => format!("drop {}", Self::short(key)),
            Write::DropBelow(key) => format!("drop below {}", Self::short(key)),
        };
        plan.change.writes.iter().map(show).collect()
    }
}
