//! What is true, whatever the files say: who was promised what.
//!
//! A *claim* is what a caller may rely on. It begins when its record is published, counts once the caller was answered, and ends when
//! the caller gives it up, when somebody takes it by force or deletes the record by hand, when its lease is over, and for a process
//! part when the process ends. Nothing else ends it; above all no grant to somebody else. So two claims that count at once are two
//! holders at once.
//!
//! An owner may shorten a lease without ever hearing the answer; from then on it can rely on the shorter one only.

use super::disk::Entry;
use super::record::{FRESH, Part, Record};
use super::state::{Client, Op, Owner, Plan, Publish};

/// Who relies on a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Claimant {
    /// An owner, by an owner part.
    Owner(Owner),
    /// A client's process, by a process part.
    Process(Client),
}

/// What a caller may rely on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Claim {
    /// Who.
    pub claimant: Claimant,
    /// The tick in which it is over at the latest that the caller knows of.
    pub end: u8,
    /// The end that was published last, known to the caller once it is answered.
    pub published_end: u8,
    /// Was a caller answered?
    pub answered: bool,
    /// Which life of a hold.
    pub life: u8,
}

/// The promises that are broken by a step rather than by a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Offences {
    /// A new life of a hold was published with a token that isn't greater than all before.
    pub token_order: bool,
    /// A client removed or replaced what it had not judged, or another process's part.
    pub lost_thief: bool,
    /// A hold went on under a token after somebody was told a greater one.
    pub returned: bool,
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Truth {
    /// The greatest token that was ever published.
    pub top_token: u16,
    /// The greatest token that a caller was ever told.
    pub told_token: u16,
    /// What can be relied on, sorted.
    pub claims: Vec<Claim>,
    /// What went wrong.
    pub offences: Offences,
}

/// Is this hold alive, by the model's own arithmetic?
pub(super) fn lives(record: &Record, now: u8) -> bool {
    record.owned.is_some_and(|part| now < part.end())
        || (record.process.is_some_and(|part| now < part.end()) && record.pid.is_some())
}

/// Does a new life begin when `op` goes on with the hold that was judged? A guard's late renewal goes on with its own.
pub(super) fn begins_life(judged: &Entry, op: Op, client: Client, now: u8) -> bool {
    judged.record().is_none_or(|record| {
        let renews_own = op == Op::Renew && record.process.is_some() && record.pid == Some(client);
        !renews_own && !lives(record, now)
    })
}

impl Truth {
    /// The claims that count in this tick.
    pub fn live(&self, now: u8) -> impl Iterator<Item = &Claim> {
        self.claims.iter().filter(move |claim| claim.answered && now < claim.end)
    }

    /// At most one hold, and at most one process in it.
    pub fn has_one_holder(&self, now: u8) -> bool {
        let mut live = self.live(now);
        // Owners are sorted before processes.
        match (live.next(), live.next(), live.next()) {
            (Some(first), Some(second), None) => {
                let fits = match (first.claimant, second.claimant) {
                    (Claimant::Owner(owner), Claimant::Process(client)) => owner == client.owner(),
                    _ => false,
                };
                first.life == second.life && fits
            }
            (_, _, third) => third.is_none(),
        }
    }

    /// A record was published or removed where `before` lay. Answers the record as it was really written.
    pub(super) fn publish(&mut self, plan: &Plan, client: Client, before: &Entry, fresh: u8) -> Option<Record> {
        self.check_thief(plan, client, before);
        let mut next = plan.next;
        if let Some(next) = &mut next {
            self.check_token(plan, next);
            if plan.is_birth() {
                next.life = fresh;
            }
            if next.lock_id == FRESH {
                next.lock_id = fresh;
            }
        }
        self.change_claims(plan, client, before, next.as_ref());
        next
    }

    fn check_thief(&mut self, plan: &Plan, client: Client, before: &Entry) {
        let Some(there) = before.record() else { return };
        let same =
            plan.judged.record().is_some_and(|judged| (judged.lock_id, judged.token) == (there.lock_id, there.token));
        let guards = matches!(plan.op, Op::Renew | Op::Release);
        let own = !guards || there.process.is_none() || there.pid == Some(client);
        if plan.publish != Publish::Create && !(same && own) {
            self.offences.lost_thief = true;
        }
    }

    fn check_token(&mut self, plan: &Plan, next: &Record) {
        let is_new = plan.is_birth() || plan.judged.record().is_none_or(|judged| judged.token != next.token);
        if is_new && next.token <= self.top_token {
            self.offences.token_order = true;
        }
        if !is_new && next.token < self.told_token {
            self.offences.returned = true;
        }
        self.top_token = self.top_token.max(next.token);
    }

    fn change_claims(&mut self, plan: &Plan, client: Client, before: &Entry, next: Option<&Record>) {
        match (plan.op, next) {
            (Op::Lock | Op::LockLeased, Some(next)) => {
                let end = next.owned.map_or(0, Part::end);
                let claim = self.claim(next.life, Claimant::Owner(next.owner), end);
                claim.published_end = end;
                claim.end = claim.end.min(end);
            }
            (Op::Guard | Op::GuardLeased | Op::Renew, Some(next)) => {
                let end = next.process.map_or(0, Part::end);
                let claim = self.claim(next.life, Claimant::Process(client), end);
                // Nobody but the process itself relies on this end, and it is the one who writes it.
                claim.published_end = end;
                claim.end = end;
            }
            (Op::Release, _) => self.claims.retain(|claim| claim.claimant != Claimant::Process(client)),
            (Op::Unlock, _) => {
                let life = plan.judged.record().map(|judged| judged.life);
                let given_up = Claimant::Owner(client.owner());
                self.claims.retain(|claim| Some(claim.life) != life || claim.claimant != given_up);
            }
            (Op::Force, _) => self.taken(before),
            _ => {}
        }
        self.claims.sort_unstable();
    }

    fn claim(&mut self, life: u8, claimant: Claimant, end: u8) -> &mut Claim {
        let place = self.claims.iter().position(|claim| claim.life == life && claim.claimant == claimant);
        let place = place.unwrap_or_else(|| {
            self.claims.push(Claim { life, claimant, end, published_end: end, answered: false });
            self.claims.len() - 1
        });
        &mut self.claims[place]
    }

    /// The caller of `op` is answered.
    pub(super) fn answer(&mut self, op: Op, client: Client, wrote: Option<&Record>) {
        let Some(wrote) = wrote else { return };
        let claimant = match op {
            Op::Lock | Op::LockLeased => Claimant::Owner(client.owner()),
            Op::Guard | Op::GuardLeased | Op::Renew => Claimant::Process(client),
            _ => return,
        };
        if let Some(claim) = self.claims.iter_mut().find(|claim| claim.life == wrote.life && claim.claimant == claimant)
        {
            claim.answered = true;
            claim.end = claim.published_end;
        }
        self.claims.sort_unstable();
        self.told_token = self.told_token.max(wrote.token);
    }

    /// Somebody with the right to do so took away what lay there.
    pub(super) fn taken(&mut self, entry: &Entry) {
        if let Some(record) = entry.record() {
            self.claims.retain(|claim| claim.life != record.life);
        }
    }

    /// A client's process ended.
    pub(super) fn ended(&mut self, client: Client) {
        self.claims.retain(|claim| claim.claimant != Claimant::Process(client));
    }

    /// The machine went down: nobody who waits for an answer gets one.
    pub(super) fn cut(&mut self) {
        self.claims.retain(|claim| claim.answered);
        for claim in &mut self.claims {
            claim.published_end = claim.end;
        }
    }

    /// The same with other names for the clients.
    pub(super) fn rename(&mut self, renamed: impl Fn(Client) -> Client) {
        for claim in &mut self.claims {
            if let Claimant::Process(client) = &mut claim.claimant {
                *client = renamed(*client);
            }
        }
        self.claims.sort_unstable();
    }

    /// Drops the claims that are over, and will be even if their callers are answered.
    pub(super) fn drop_over(&mut self, now: u8) {
        self.claims.retain(|claim| now < claim.end.max(claim.published_end));
    }
}
