//! The check whether a renewal counts.
//!
//! A server's answer alone isn't enough: servers have answered keep-alives of revoked sessions, and
//! a former leader answers until it learns that it no longer leads. A renewal counts for a hold if
//!
//! - (a) it was answered with a TTL,
//! - (b) a read that was sent after that answer shows the life key that the hold was granted with,
//! - (c) both answers have the same term: the server that renewed was still the leader at the read.
//!
//! The new deadline counts from when the renewal was *sent*. The server counts from when it
//! processed it, which is later.
//!
//! A waiter renews without such a read. That renewal counts if its grant, which needs the session,
//! is made in the same term; otherwise what was proven before counts ([`Known`]).

use alloc::vec::Vec;

use crate::engine::{Key, Lasts, Rev, Sight, Term};

/// The time that a session lasts, as far as its holder knows. `T` is the holder's form of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Known<T> {
    /// The time by its opening, which a quorum has stored, or by the last renewal that counts.
    proven: T,
    /// The time by its last renewal, which counts in this term only.
    renewed: T,
    term: Term,
}

impl<T: Copy> Known<T> {
    /// A session that was opened, or whose renewal counts.
    pub fn proven(lasts: T, term: Term) -> Self {
        Self { proven: lasts, renewed: lasts, term }
    }

    /// Records a renewal in this term that no read has followed.
    #[must_use]
    pub fn renewed(self, lasts: T, term: Term) -> Self {
        Self { renewed: lasts, term, ..self }
    }

    /// Records that a change of this term put something under the session. `None`: its term isn't
    /// known.
    #[must_use]
    pub fn used(self, term: Option<Term>) -> Self {
        if term == Some(self.term) { Self { proven: self.renewed, ..self } } else { self }
    }

    /// The proven time that it lasts.
    pub fn lasts(self) -> T {
        self.proven
    }

    /// The last renewal, which may not count.
    pub fn last_renewed(self) -> T {
        self.renewed
    }

    /// Reports whether its last renewal counts in a change of this term.
    pub fn counts_under(self, term: Term) -> bool {
        self.term == term
    }
}

/// A process part that the caller holds: its life key, and the revision that created it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Held {
    /// The life key.
    pub life: Key,
    /// The revision of the grant.
    pub born: Rev,
}

/// The result of a renewal for one hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kept {
    /// It lasts at least until this reading of `CLOCK_BOOTTIME`.
    Until(u64),
    /// It is lost: its life key is gone, or belongs to another hold.
    Lost,
    /// It exists, but the renewal proves nothing. The old deadline stands.
    Unproven,
}

/// Evaluates a renewal by the read that followed it.
pub fn kept(lasts: Option<Lasts>, sight: &Sight, holds: &[Held]) -> Vec<Kept> {
    let proven = lasts.filter(|lasts| lasts.ttl_ms > 0 && lasts.term == sight.term);
    let one = |held: &Held| {
        if sight.item(&held.life).is_none_or(|item| item.born != held.born) {
            return Kept::Lost;
        }
        proven.map_or(Kept::Unproven, |lasts| Kept::Until(lasts.sent_ms.saturating_add(lasts.ttl_ms)))
    };
    holds.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::engine::{Item, Term};

    fn sight(born: Option<u64>, term: u64) -> Sight {
        let item =
            |born| Item { key: Key("life".into()), value: vec![], born: Rev(born), since: Rev(9), session: None };
        let spans = vec![born.map(item).into_iter().collect()];
        Sight { at: Rev(9), term: Term(term), spans }
    }

    #[test]
    fn a_renewal_counts_by_ttl_by_life_key_and_by_reign() {
        let lasts = |ttl_ms| Some(Lasts { sent_ms: 100, ttl_ms, term: Term(4) });
        let held = [Held { life: Key("life".into()), born: Rev(5) }];
        for (why, lasts, sight, expected) in [
            ("all three", lasts(50), sight(Some(5), 4), Kept::Until(150)),
            ("no such session", None, sight(Some(5), 4), Kept::Unproven),
            ("a: no TTL", lasts(0), sight(Some(5), 4), Kept::Unproven),
            ("b: no life key", lasts(50), sight(None, 4), Kept::Lost),
            ("b: another's life key", lasts(50), sight(Some(6), 4), Kept::Lost),
            ("c: another reign", lasts(50), sight(Some(5), 5), Kept::Unproven),
        ] {
            assert_eq!(kept(lasts, &sight, &held), [expected], "{why}");
        }
    }

    #[test]
    fn a_renewal_without_a_look_counts_under_its_own_reign_only() {
        let opened = Known::proven(10, Term(1));
        let waiting = opened.renewed(20, Term(1));
        assert_eq!((waiting.lasts(), waiting.last_renewed()), (10, 20), "nothing was proven yet");
        for (term, lasts) in [(Some(Term(1)), 20), (Some(Term(2)), 10), (None, 10)] {
            assert_eq!(waiting.used(term).lasts(), lasts, "{term:?}");
        }
        let former = opened.renewed(20, Term(0));
        assert_eq!(former.used(Some(Term(1))).lasts(), 10, "a former server answered");
    }

    #[test]
    fn each_hold_of_a_session_is_judged_alone() {
        let lasts = Some(Lasts { sent_ms: 100, ttl_ms: 50, term: Term(4) });
        let held = |life: &str| Held { life: Key(life.into()), born: Rev(5) };
        let found = kept(lasts, &sight(Some(5), 4), &[held("life"), held("other")]);
        assert_eq!(found, [Kept::Until(150), Kept::Lost]);
    }
}
