//! The books of the simulation: who holds what until when, kept from what was promised and never read back from a record.

use jiff::{SignedDuration, Timestamp};
use lokt_core::hold::{Hold, Part, PartKind};

use super::machines::{Seat, Stage, boot_id};

/// When a part of a hold ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Term {
    /// Never.
    Endless,
    /// After so many milliseconds on the clock of one boot; elsewhere by the wall.
    Clocked {
        /// Where that clock ticks.
        machine: usize,
        boot: u32,
        /// Its reading at the beginning: monotonic for a process part, boot time for an owner part.
        since_ms: u64,
        ttl_ms: u64,
        /// The end by the wall clock of who wrote it.
        wall_end: Timestamp,
    },
    /// At a time on whatever wall is looked at.
    Wall(Timestamp),
}

/// One part of the stored hold.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) kind: PartKind,
    pub(crate) term: Term,
    /// Whose process it is, for a process part.
    pub(crate) process: Option<usize>,
}

impl Claim {
    /// A part that `seat` begins now, in a record that says to be of `record_boot`.
    pub(crate) fn begun(
        kind: PartKind,
        ttl_sec: Option<u64>,
        process: Option<usize>,
        seat: Seat,
        stage: &Stage,
        record_boot: Option<&str>,
    ) -> Self {
        let machine = stage.machine(seat);
        let own_boot = record_boot == Some(&boot_id(seat.machine, machine.boot));
        let term = match ttl_sec {
            // A lease of zero seconds is none, as it has always been.
            None | Some(0) => Term::Endless,
            Some(ttl) => {
                let seconds = SignedDuration::from_secs(i64::try_from(ttl).expect("tests write short leases"));
                let wall_end = machine.wall.checked_add(seconds).expect("tests stay in their century");
                if own_boot && !seat.time_ns {
                    let since_ms = match kind {
                        PartKind::Process => machine.monotonic_ms,
                        PartKind::Owner => machine.boottime_ms,
                    };
                    Term::Clocked { machine: seat.machine, boot: machine.boot, since_ms, ttl_ms: ttl * 1000, wall_end }
                } else {
                    Term::Wall(wall_end)
                }
            }
        };
        Self { kind, term, process }
    }

    /// Has its lease ended, for who looks from `seat`?
    pub(crate) fn is_over(&self, seat: Seat, stage: &Stage) -> bool {
        let here = stage.machine(seat);
        match &self.term {
            Term::Endless => false,
            Term::Clocked { machine, boot, since_ms, ttl_ms, .. }
                if *machine == seat.machine && *boot == here.boot && !seat.time_ns =>
            {
                let reading = match self.kind {
                    PartKind::Process => here.monotonic_ms,
                    PartKind::Owner => here.boottime_ms,
                };
                reading - since_ms > *ttl_ms
            }
            Term::Clocked { wall_end: end, .. } | Term::Wall(end) => here.wall > *end,
        }
    }

    /// This part after a write that was about the other one. What was edited counts by the wall from now on, and to the end of a
    /// second; what is of another boot than the record says is judged by the wall too.
    pub(crate) fn carried(mut self, before: &Hold, next: &Hold) -> Self {
        let was_edited = before.parts.as_ref().is_some_and(|parts| parts.edited);
        let parts = next.parts.as_ref().expect("what we write has parts");
        let written = match self.kind {
            PartKind::Process => parts.process.as_ref(),
            PartKind::Owner => parts.owner.as_ref(),
        };
        let written = written.unwrap_or_else(|| panic!("no-lost-thief: a write dropped the other part, {self:?}"));
        self.term = match self.term {
            Term::Endless => Term::Endless,
            Term::Wall(end) if was_edited => Term::Wall(rounded(end, written)),
            Term::Clocked { wall_end, .. } if before.boot_id != next.boot_id => Term::Wall(wall_end),
            term => term,
        };
        self
    }
}

/// The end that was written for an edited part: whole seconds from the write on, at most one more than was edited in.
fn rounded(edited: Timestamp, written: &Part) -> Timestamp {
    let ttl_sec = written.ttl_sec.unwrap_or_else(|| panic!("an edited end was lost: {written:?}"));
    let seconds = SignedDuration::from_secs(i64::try_from(ttl_sec).expect("tests write short leases"));
    let end = written.since.checked_add(seconds).expect("tests stay in their century");
    let later = end.duration_since(edited);
    assert!(
        later >= SignedDuration::from_millis(-1) && later <= SignedDuration::from_millis(1001),
        "an edited end of {edited} was carried on as {end}"
    );
    end
}

/// Everything that is known to be held.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger {
    pub(crate) claims: Vec<Claim>,
}

impl Ledger {
    pub(crate) fn claim(&self, kind: PartKind) -> Option<&Claim> {
        self.claims.iter().find(|claim| claim.kind == kind)
    }

    /// Takes the part of this kind out of the books.
    pub(crate) fn take(&mut self, kind: PartKind) -> Option<Claim> {
        let place = self.claims.iter().position(|claim| claim.kind == kind)?;
        Some(self.claims.remove(place))
    }

    /// The top level was edited: it alone counts, for every part.
    pub(crate) fn edit(&mut self, end: Option<Timestamp>) {
        for claim in &mut self.claims {
            claim.term = end.map_or(Term::Endless, Term::Wall);
        }
    }
}
