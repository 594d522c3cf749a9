//! The conformance suite on a network that loses, delays or doubles one request: every request of
//! every case in turn.
//!
//! Nothing may be granted to nobody, and nothing that a caller was told may be absent: each case must
//! be as right as on a network that loses nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lokt_core::engine::{Change, Key, Lasts, Made, Rev, SessionId, Sight, Span};
use lokt_named::store::{Call, Subscription};
use lokt_named::swap::{Card, Engine, Fault, MemEngine, Of, Trouble};
use lokt_sys::wakeup::Wakeup;
use lokt_testkit::conformance::CASES;
use lokt_testkit::conformance::worlds::{Callers, engine};

/// Late copies are delivered after this many other changes, so that they come in the middle of their
/// own settling, or in one of the next commands.
const DELAYS: [usize; 3] = [1, 2, 4];

/// What goes wrong, and what has been sent.
#[derive(Default)]
struct Plan {
    fault: Option<(Of, usize, Fault)>,
    delay: usize,
    makes: usize,
    opens: usize,
    /// Changes until what is under way is delivered.
    deliver_in: Option<usize>,
}

struct Lossy {
    engine: MemEngine,
    plan: Arc<Mutex<Plan>>,
}

impl Lossy {
    /// A request of this kind is sent.
    fn sends(&self, of: Of) {
        let mut plan = self.plan.lock().expect("no panic");
        if of == Of::Make && plan.deliver_in.take_if(|left| *left == 0).is_some() {
            self.engine.deliver();
        }
        if let (Of::Make, Some(left)) = (of, &mut plan.deliver_in) {
            *left -= 1;
        }
        let number = if of == Of::Make { plan.makes } else { plan.opens };
        if let Some((_, _, fault)) = plan.fault.filter(|(kind, at, _)| (*kind, *at) == (of, number)) {
            self.engine.fail(of, 0, fault);
            plan.deliver_in = Some(plan.delay);
        }
        match of {
            Of::Make => plan.makes += 1,
            _ => plan.opens += 1,
        }
    }
}

impl Engine for Lossy {
    fn card(&self, call: &Call<'_>) -> Result<Card, Trouble> {
        self.engine.card(call)
    }

    fn look(&self, spans: &[Span], call: &Call<'_>) -> Result<Sight, Trouble> {
        self.engine.look(spans, call)
    }

    fn page(&self, span: &Span, after: Option<&Key>, at: Option<Rev>, call: &Call<'_>) -> Result<Sight, Trouble> {
        self.engine.page(span, after, at, call)
    }

    fn make(&self, change: &Change, call: &Call<'_>) -> Result<Made, Trouble> {
        self.sends(Of::Make);
        self.engine.make(change, call)
    }

    fn open(&self, id: SessionId, ttl: Duration, call: &Call<'_>) -> Result<Lasts, Trouble> {
        self.sends(Of::Open);
        self.engine.open(id, ttl, call)
    }

    fn renew(&self, id: SessionId, call: &Call<'_>) -> Result<Option<Lasts>, Trouble> {
        self.engine.renew(id, call)
    }

    fn close(&self, id: SessionId, call: &Call<'_>) -> Result<(), Trouble> {
        self.engine.close(id, call)
    }

    fn watch(&self, spans: &[Span], after: Rev, wakeup: &Wakeup) -> Result<Subscription, Trouble> {
        self.engine.watch(spans, after, wakeup)
    }
}

/// A world in which this goes wrong. What was sent before it existed doesn't count.
fn world(fault: Option<(Of, usize, Fault)>, delay: usize) -> (Callers, Arc<Mutex<Plan>>) {
    let plan = Arc::new(Mutex::new(Plan::default()));
    let world = engine(|engine| Lossy { engine, plan: Arc::clone(&plan) }).unaware();
    *plan.lock().expect("no panic") = Plan { fault, delay, ..Plan::default() };
    (world, plan)
}

fn faults(of: Of, count: usize) -> Vec<((Of, usize, Fault), usize)> {
    let mut faults = Vec::new();
    for at in 0..count {
        faults.extend([Fault::Lost, Fault::AnswerLost, Fault::Echoed].map(|fault| ((of, at, fault), 0)));
        for fault in [Fault::Late, Fault::Doubled] {
            faults.extend(DELAYS.map(|delay| ((of, at, fault), delay)));
        }
    }
    faults
}

#[test]
fn every_case_is_right_although_a_request_is_lost_late_or_doubled() {
    let (mut runs, mut wrong) = (0, Vec::new());
    for (name, case) in CASES {
        let (makes, opens) = {
            let (world, plan) = world(None, 0);
            case(&world);
            let plan = plan.lock().expect("no panic");
            (plan.makes, plan.opens)
        };
        for (fault, delay) in faults(Of::Make, makes).into_iter().chain(faults(Of::Open, opens)) {
            let (world, _) = world(Some(fault), delay);
            runs += 1;
            let world = AssertUnwindSafe(world);
            if catch_unwind(|| case(&*world)).is_err() {
                wrong.push(format!("{name}: {fault:?}, delivered after {delay}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {runs} runs are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(runs > 2000, "only {runs} runs");
}
