//! Requests to a store, judged in one place.

use lokt_core::audit::Event;
use lokt_core::decide::{Decision, Intent};
use lokt_core::hold::LockId;
use lokt_core::name::LockName;
use lokt_core::time::Moment;

use crate::judge::{Story, rule, told};
use crate::locks::Lokt;
use crate::store::{Answers, Ask, Call, Done, Op, Queued, Request, Target, Unity};
use lokt_sys::error::Error;

/// The story of an ask about which nothing more is logged.
const NO_STORY: &Story = &Story { waited: None, queued: None, program: None, held: None };

/// Requests of one caller to its store: asked once, or pursued until they are granted.
#[derive(Clone, Copy)]
pub(crate) struct Requests<'a> {
    pub(crate) lokt: &'a Lokt,
}

impl Lokt {
    pub(crate) fn requests(&self) -> Requests<'_> {
        Requests { lokt: self }
    }
}

impl Requests<'_> {
    /// Returns 128 random bits.
    pub(crate) fn random(self) -> Result<u128, Error> {
        self.lokt.machine().random().map_err(|source| Error::io("get random bits for", self.lokt.root(), source))
    }

    /// Returns an id for a new hold.
    pub(crate) fn fresh_id(self) -> Result<LockId, Error> {
        Ok(LockId::from_bits(self.random()?))
    }

    /// Asks one thing of one name, once.
    pub(crate) fn ask(self, name: &LockName, target: Target, intent: Intent) -> Result<Done, Error> {
        let bits = self.random()?;
        let ask = Ask { target, ..Ask::lock(name, intent, LockId::from_bits(bits)) };
        self.ask_of(&[ask], Op(bits), NO_STORY)
    }

    /// Carries out a request for one name that doesn't wait.
    pub(crate) fn ask_of(self, ask: &[Ask<'_>; 1], op: Op, story: &Story) -> Result<Done, Error> {
        let mut request = Request::of(self.lokt.me(), op, ask);
        self.carry_out_one(&mut request, std::slice::from_ref(story))
    }

    /// Returns the answer to a request for one name.
    pub(crate) fn carry_out_one(self, request: &mut Request<'_>, story: &[Story]) -> Result<Done, Error> {
        let answer = self.carry_out(request, story, &Call::UNLIMITED)?.pop();
        let (_, done) = answer.expect("one thing was asked, so there is one answer");
        if let Done::Failed(error) = done { Err(error) } else { Ok(done) }
    }

    /// Asks the same of many names, each on its own. The answers have the numbers of their names.
    pub(crate) fn ask_each(self, names: &[LockName], target: Target, intent: &Intent) -> Result<Answers, Error> {
        let ask = |name| Ok(Ask { target, ..Ask::lock(name, intent.clone(), self.fresh_id()?) });
        let asks: Vec<Ask<'_>> = names.iter().map(ask).collect::<Result<_, Error>>()?;
        if asks.is_empty() {
            return Ok(Vec::new());
        }
        let mut request = Request { unity: Unity::Each, ..Request::of(self.lokt.me(), Op(self.random()?), &asks) };
        self.carry_out(&mut request, &[], &Call::UNLIMITED)
    }

    /// Has a request judged and carried out. `stories` has one for each ask, or none.
    pub(crate) fn carry_out(
        self,
        request: &mut Request<'_>,
        stories: &[Story],
        call: &Call<'_>,
    ) -> Result<Answers, Error> {
        let Request { asks, me, waits, .. } = *request;
        let contract = self.lokt.store().contract();
        self.lokt.store().transact(
            request,
            &mut |number, view| {
                let story = stories.get(number).unwrap_or(NO_STORY);
                rule(&asks[number], waits, story, view, me, contract)
            },
            call,
        )
    }

    /// Leaves the queues without an answer, which is logged as a refusal.
    pub(crate) fn leave(self, request: &mut Request<'_>, stories: &[Story], queued: &[(usize, Box<Queued>)]) {
        let Request { asks, me, .. } = *request;
        let mut refused = |now: &Moment| -> Vec<Event> {
            let refusal = |(number, queued): &(usize, Box<Queued>)| {
                let denial = Decision::Deny(queued.why.clone());
                told(&denial, None, &asks[*number], stories.get(*number).unwrap_or(NO_STORY), me, now)
            };
            queued.iter().flat_map(refusal).collect()
        };
        self.lokt.store().leave(request, Some(&mut refused), &Call::UNLIMITED);
    }

    /// Gives up a request that failed.
    pub(crate) fn give_up(self, request: &mut Request<'_>) {
        self.lokt.store().leave(request, None, &Call::UNLIMITED);
    }
}
