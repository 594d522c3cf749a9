//! One digest over all events up to a number: C(n) = H(C(n-1) || H(bytes of n)), H being SHA-256
//! and C(0) 32 zero bytes.
//!
//! Some slots don't count with their bytes.
//!
//! * A filler or a missing number counts as H(`lokt filler\n`): a writer whose lock was taken over
//!   may put its event there at any later time. A slot is a filler's if it says so itself, or if
//!   the event after it names it. So the digest up to n is settled when n + 1 has been seen.
//! * An event that `doctor --fix` replaced counts with the digest of the original, which it names,
//!   so that one repair doesn't break the rest of the chain. Verification reports it.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;
use sha2::{Digest as _, Sha256};

use super::seq::Seq;
use super::stored::Stored;

/// Maximum length of a gap that is counted number by number. A longer one counts as one missing
/// number.
const GAP_MAX: u64 = 1024;

/// A digest: 64 hex digits as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// C(0): the digest of no events.
    pub const EMPTY: Self = Self([0; 32]);

    /// Returns the digest of bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Returns the digest that a filler or a missing number counts as.
    pub fn of_filler() -> Self {
        Self::of(b"lokt filler\n")
    }

    /// Returns C(n), `self` being C(n-1) and `leaf` what n counts as.
    #[must_use]
    pub fn then(self, leaf: Self) -> Self {
        let mut both = Sha256::new();
        both.update(self.0);
        both.update(leaf.0);
        Self(both.finalize().into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Text that is not a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoDigest;

impl fmt::Display for NoDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a digest is 64 digits 0 to 9 and a to f")
    }
}

impl core::error::Error for NoDigest {}

impl FromStr for Digest {
    type Err = NoDigest;

    fn from_str(text: &str) -> Result<Self, NoDigest> {
        let lower = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 64 || !text.as_bytes().iter().all(lower) {
            return Err(NoDigest);
        }
        let mut bytes = [0; 32];
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = core::str::from_utf8(digits).map_err(|_| NoDigest)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| NoDigest)?;
        }
        Ok(Self(bytes))
    }
}

/// Contribution of a slot to the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaf {
    /// The digest that it counts as, unless the next event names it as a filler.
    pub digest: Digest,
    /// The number that it names as a filler.
    pub filler: Option<Seq>,
}

impl Leaf {
    /// Returns the leaf of a missing number.
    pub fn missing() -> Self {
        Self { digest: Digest::of_filler(), filler: None }
    }

    /// Returns the leaf of bytes that are not a valid event.
    pub fn damaged(bytes: &[u8]) -> Self {
        Self { digest: Digest::of(bytes), filler: None }
    }

    /// Returns the leaf of an event.
    pub fn event(event: &Stored, bytes: &[u8]) -> Self {
        let digest =
            if event.is_filler() { Digest::of_filler() } else { event.repaired().unwrap_or_else(|| Digest::of(bytes)) };
        Self { digest, filler: event.filler() }
    }
}

/// The chain up to the last event that was read or written. It settles one event late, because the
/// next event may name the last one as a filler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chain {
    through: u64,
    settled: Digest,
    last: Option<Digest>,
}

impl Default for Chain {
    fn default() -> Self {
        Self::new()
    }
}

impl Chain {
    /// Returns the chain of an empty ledger.
    pub const fn new() -> Self {
        Self { through: 0, settled: Digest::EMPTY, last: None }
    }

    /// Resumes after event `through`, with C(through-1) and what `through` counts as.
    pub const fn resume(through: Seq, before: Digest, last: Digest) -> Self {
        Self { through: through.get(), settled: before, last: Some(last) }
    }

    /// Resumes after event `through`, 0 being none, with C(through) settled.
    pub const fn settled(through: u64, digest: Digest) -> Self {
        Self { through, settled: digest, last: None }
    }

    /// Returns the number of the last event; 0 at the beginning.
    pub const fn through(&self) -> u64 {
        self.through
    }

    /// Returns C(through-1) and what the last event counts as so far, as [`resume`](Self::resume)
    /// takes them. `None` at the beginning.
    pub fn state(&self) -> Option<(Digest, Digest)> {
        Some((self.settled, self.last?))
    }

    /// Returns C(through), if the next event doesn't name the last one as a filler. This is the
    /// digest of a checkpoint.
    pub fn digest(&self) -> Digest {
        self.last.map_or(self.settled, |last| self.settled.then(last))
    }

    /// Returns C(through), as the next event has to carry it if it names `filler`.
    pub fn for_next(&self, filler: Option<Seq>) -> Digest {
        match self.last {
            Some(_) if filler.is_some_and(|filler| filler.get() == self.through) => {
                self.settled.then(Digest::of_filler())
            }
            _ => self.digest(),
        }
    }

    /// Adds the next slot. Returns C(n-1), which the event in it carries if it carries the chain.
    pub fn push(&mut self, leaf: Leaf) -> Digest {
        let before = self.for_next(leaf.filler);
        *self = Self { through: self.through + 1, settled: before, last: Some(leaf.digest) };
        before
    }

    /// Adds the numbers up to `last`, which are all missing. A gap that is too long ever to be
    /// filled counts as one number.
    pub fn push_gap(&mut self, last: Seq) {
        if last.get() - self.through.min(last.get()) > GAP_MAX {
            self.push(Leaf::missing());
            self.through = last.get();
        }
        while self.through < last.get() {
            self.push(Leaf::missing());
        }
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        alloc::format!("{digest}")
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    fn leaf(bytes: &[u8]) -> Leaf {
        Stored::parse(bytes).map_or_else(|_| Leaf::damaged(bytes), |event| Leaf::event(&event, bytes))
    }

    fn chain_of(events: &[&str]) -> Digest {
        let mut chain = Chain::new();
        for event in events {
            chain.push(leaf(event.as_bytes()));
        }
        chain.digest()
    }

    const A: &str = r#"{"type":"a"}"#;
    const B: &str = r#"{"type":"b"}"#;
    const FILLER: &str = r#"{"type":"lock_takeover","timestamp":"2026-11-16T05:00:00Z"}"#;
    const NAMES_2: &str = r#"{"type":"c","filler":2}"#;

    #[test]
    fn the_digest_is_one_that_any_tool_computes() {
        // printf abc | sha256sum
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Digest::of(b"abc").to_string(), abc);
        let one = Digest::EMPTY.then(Digest::of(A.as_bytes()));
        assert_eq!(chain_of(&[A]), one, "C(1) is H(zeros || H(bytes))");
        assert_eq!(chain_of(&[A, B]), one.then(Digest::of(B.as_bytes())));
        assert_eq!(Chain::new().digest(), Digest::EMPTY);
    }

    #[test]
    fn digests_are_shown_and_read_as_64_lower_case_digits() {
        let digest = Digest::of(b"x");
        assert_eq!(digest.to_string().parse(), Ok(digest));
        let long = alloc::format!("{digest}0");
        for text in ["", "00", &digest.to_string().to_uppercase(), &long, &"+f".repeat(32), &"é".repeat(32)] {
            assert_eq!(text.parse::<Digest>(), Err(NoDigest), "{text}");
        }
    }

    #[test]
    fn a_late_event_in_a_fillers_place_changes_nothing() {
        assert_eq!(chain_of(&[A, FILLER, NAMES_2]), chain_of(&[A, B, NAMES_2]), "2 is named as a filler");
        assert_ne!(chain_of(&[A, FILLER, B]), chain_of(&[A, B, B]), "2 isn't named");
        assert_ne!(chain_of(&[B, FILLER, NAMES_2]), chain_of(&[A, FILLER, NAMES_2]), "1 counts");
    }

    #[test]
    fn only_the_event_just_before_can_be_named() {
        let names_1 = r#"{"type":"c","filler":1}"#;
        assert_ne!(chain_of(&[A, B, names_1]), chain_of(&[B, B, names_1]));
    }

    #[test]
    fn a_gap_counts_as_the_filler_that_a_repair_puts_there() {
        let mut chain = Chain::new();
        chain.push(leaf(A.as_bytes()));
        chain.push(Leaf::missing());
        chain.push(leaf(B.as_bytes()));
        assert_eq!(chain.digest(), chain_of(&[A, FILLER, B]));
    }

    #[test]
    fn a_gap_that_nobody_can_fill_counts_once() {
        let through = |last: u64| {
            let mut chain = Chain::new();
            chain.push_gap(Seq::new(last).expect("not zero"));
            assert_eq!(chain.through(), last);
            chain.digest()
        };
        let once = Digest::EMPTY.then(Digest::of_filler());
        assert_eq!(through(1), once);
        assert_eq!(through(2), once.then(Digest::of_filler()));
        assert_eq!((through(1025), through(Seq::MAX.get())), (once, once));
    }

    #[test]
    fn a_repaired_event_counts_as_its_original() {
        let original = "{\"type\":";
        let repaired = alloc::format!(r#"{{"type":"lock_takeover","repaired":"{}"}}"#, Digest::of(original.as_bytes()));
        assert_eq!(chain_of(&[A, original, B]), chain_of(&[A, &repaired, B]));
    }

    #[test]
    fn what_a_writer_puts_in_is_what_a_verifier_expects() {
        let mut chain = Chain::new();
        chain.push(leaf(A.as_bytes()));
        chain.push(leaf(FILLER.as_bytes()));
        let filler = Seq::new(2);
        let written = chain.for_next(filler);
        let state = chain.state().expect("two events were added");
        assert_eq!(Chain::resume(Seq::new(2).expect("not zero"), state.0, state.1), chain, "a chain can be put away");
        assert_eq!(chain.push(leaf(NAMES_2.as_bytes())), written);
    }

    #[test]
    fn order_and_number_of_events_count() {
        let all = [chain_of(&[A, B]), chain_of(&[B, A]), chain_of(&[A]), chain_of(&[A, B, B]), chain_of(&[A, A])];
        for (at, one) in all.iter().enumerate() {
            assert!(!all[..at].contains(one), "{at}");
        }
    }
}
