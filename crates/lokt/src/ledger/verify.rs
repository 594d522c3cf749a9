//! Everything is read, and what is wrong is named.
//!
//! An event that carries the chain carries the digest of everything before it. If that isn't what the stored bytes give, something between
//! the event before it that carries the chain, that one included, and this one was changed, removed or added; from then on what it carries
//! is believed, so that each place is named once. A checkpoint is compared with the digest of the bytes alone, whatever events carry.
//! Nothing proves that the last events are missing, except a checkpoint.

mod claims;

use lokt_core::ledger::chain::{Chain, Digest, Leaf};
use lokt_core::ledger::checkpoint::Checkpoint;
use lokt_core::ledger::proof::{WrongHash, wrong_hash};
use lokt_core::ledger::seq::{Oddity, Seq, Style};
use lokt_core::ledger::stored::Stored;

use self::claims::Claims;
use super::Ledger;
use super::answers::{Fix, Problem, Progress, Verification};
use super::census::Names;
use super::look::{Kept, Look, Seen, What};
use crate::error::Error;
use crate::locks::Said;
use crate::parallel;

/// So many events are in memory at a time.
const BLOCK: usize = 4096;
/// What `doctor --fix` does about damage.
pub(super) const NO_OP: &str = "put an event that says nothing in its place, and keep it in .lokt/aside";
/// What explains the rest.
const DOCTOR: &str = "`lokt ledger doctor` says what can be done about it";

impl Ledger {
    /// Reads everything and says what is wrong.
    pub fn verify(
        &self,
        checkpoint: Option<Checkpoint>,
        progress: &mut Progress<'_>,
    ) -> Result<Said<Verification>, Error> {
        let look = Look::new(self);
        let names = self.names()?;
        let mut judge = Judge::new(self, &look, checkpoint);
        let total = names.numbers.len() as u64;
        let mut done = 0;
        for block in names.numbers.chunks(BLOCK) {
            for seen in parallel::map(block, |number| look.at(*number)) {
                judge.see(&seen);
            }
            done += block.len() as u64;
            progress(done, total);
        }
        judge.place_of_filler(None);
        judge.tail(&names);
        judge.strays(&names);
        let mut said = judge.verdict(total);
        said.warnings.extend(self.doubted());
        Ok(said)
    }

    /// The digest of all events.
    pub fn checkpoint(&self, progress: &mut Progress<'_>) -> Result<Said<Checkpoint>, Error> {
        let Said { value, mut warnings } = self.verify(None, progress)?;
        if let Some(first) = value.problems.first() {
            warnings.push(format!(
                "the digest is of a ledger with problems ({} of them, the first: {}); `lokt ledger verify` lists them",
                value.problems.len(),
                first.message
            ));
        }
        Ok(Said { value: value.checkpoint, warnings })
    }
}

/// Goes through the events in their order.
struct Judge<'a> {
    ledger: &'a Ledger,
    look: &'a Look<'a>,
    /// The digest of the bytes.
    pure: Chain,
    /// The same, corrected at each event that carries another.
    carried: Chain,
    /// The last event that carries the chain.
    last_chained: Option<Seq>,
    chained: u64,
    claims: Claims,
    /// The event just before, if the next one may say more about it.
    before: Option<Before>,
    /// The checkpoint, and whether it has been met, and how.
    checkpoint: Option<(Checkpoint, Option<bool>)>,
    problems: Vec<Problem>,
    warnings: Vec<String>,
}

/// An event that is no filler.
struct Before {
    seq: Seq,
    /// Lokt wrote a filler there.
    is_late: bool,
}

impl<'a> Judge<'a> {
    fn new(ledger: &'a Ledger, look: &'a Look<'a>, checkpoint: Option<Checkpoint>) -> Self {
        Self {
            ledger,
            look,
            pure: Chain::new(),
            carried: Chain::new(),
            last_chained: None,
            chained: 0,
            claims: Claims::new(ledger.settings.style),
            before: None,
            checkpoint: checkpoint.map(|checkpoint| (checkpoint, None)),
            problems: Vec::new(),
            warnings: look.warning.iter().cloned().collect(),
        }
    }

    fn see(&mut self, seen: &Seen) {
        let seq = seen.seq;
        let leaf = seen.leaf;
        self.place_of_filler(leaf.filler.filter(|filler| filler.get() + 1 == seq.get()));
        self.gap_before(seq);
        match &seen.what {
            What::Event(event) => self.event(seq, event, leaf),
            What::Damaged(damage) => {
                let message = format!("event {seq} is damaged: it {damage}");
                self.problem("damaged", seq, message, Fix::Possible(NO_OP.to_owned()));
            }
            What::Unreadable(why) => {
                self.problem("unreadable", seq, format!("event {seq} can't be read: {why}"), Fix::No);
            }
            What::Gone => {
                let message = format!("event {seq} was removed while the ledger was read");
                self.problem("gap", seq, message, Fix::No);
            }
        }
        self.push(seq, leaf);
        self.kept(seen);
        let is_strange = match &seen.what {
            What::Event(event) => !event.is_filler() && event.repaired().is_none(),
            What::Damaged(_) => true,
            What::Unreadable(_) | What::Gone => false,
        };
        self.before = is_strange.then_some(Before { seq, is_late: seen.kept == Kept::Late });
    }

    /// Is the event before the one that names `filler` in a filler's place? Nothing proves what was put there: not the chain, and not a
    /// checkpoint. Whoever can append can name any last event so, whatever second names tell.
    fn place_of_filler(&mut self, filler: Option<Seq>) {
        let Some(Before { seq, is_late }) = self.before.take() else { return };
        if filler == Some(seq) {
            self.warnings.push(format!("event {seq} came into a filler's place; the chain doesn't vouch for it"));
        } else if is_late {
            self.warnings.push(format!(
                "event {seq} came late: it was written in a place that was kept free for it, by a program whose lock had been taken over"
            ));
        }
    }

    /// The numbers before `seq` that are missing.
    fn gap_before(&mut self, seq: Seq) {
        let (first, last) = (self.pure.through() + 1, seq.get() - 1);
        let Some(last) = Seq::new(last).filter(|last| last.get() >= first) else { return };
        let message = if first == last.get() {
            format!("event {first} is missing")
        } else {
            format!("events {first} to {last} are missing")
        };
        let file = Seq::new(first).map(|first| self.ledger.at(&self.ledger.file(first)));
        self.problems.push(Problem {
            code: "gap",
            seq: Some(first),
            path: file,
            message,
            hint: None,
            fix: Fix::Possible("fill it with an event that says nothing, or bring back what was there".to_owned()),
        });
        if self.checkpoint.is_some_and(|(checkpoint, _)| (first..=last.get()).contains(&checkpoint.head)) {
            self.met(false);
        }
        self.pure.push_gap(last);
        self.carried.push_gap(last);
    }

    fn event(&mut self, seq: Seq, event: &Stored, leaf: Leaf) {
        if let Some(says) = event.chain() {
            self.chained += 1;
            if self.carried.for_next(leaf.filler) != says {
                self.broken(seq);
                // From here on as if everything before it had the digest that it carries.
                self.carried = Chain::settled(seq.get() - 1, says);
            }
            self.last_chained = Some(seq);
        }
        if let Some(original) = event.repaired() {
            self.repaired(seq, original);
        }
        if let Some(wrong) = wrong_hash(event).filter(|_| self.ledger.settings.style == Style::Native) {
            self.problems.push(hash_problem(self.ledger, seq, &wrong));
        }
        for message in self.claims.see(seq, event) {
            let hint = "tokens of a claim that was displaced are stale; its owner has to claim again";
            self.problems.push(Problem {
                code: "displaced-claim",
                seq: Some(seq.get()),
                path: Some(self.ledger.at(&self.ledger.file(seq))),
                message,
                hint: Some(hint.to_owned()),
                fix: Fix::No,
            });
        }
    }

    /// The chain counts a repaired event as its original. Whoever could show it repaired something; anybody else removed an event.
    fn repaired(&mut self, seq: Seq, original: Digest) {
        if let Some(aside) = self.look.original(seq, original) {
            let aside = self.ledger.at(&aside);
            self.warnings.push(format!("event {seq} was repaired; the original is {}", aside.display()));
            return;
        }
        let message =
            format!("event {seq} says that it stands for one that was repaired, and the original isn't there");
        self.problem("repaired", seq, message, Fix::No);
        if let Some(problem) = self.problems.last_mut() {
            problem.hint =
                Some(format!("where it was repaired, .lokt/aside has the original; its SHA-256 is {original}"));
        }
    }

    /// What `seq` carries isn't the digest of what is before it.
    fn broken(&mut self, seq: Seq) {
        let first = self.last_chained.map_or(1, Seq::get);
        let before = seq.get() - 1;
        let place = match before {
            0 => format!("event {seq} carries the chain of events that were before it, and it is the first"),
            _ if first == before => format!("event {before} isn't the one that event {seq} was chained to"),
            _ => format!("events {first} to {before} aren't the ones that event {seq} was chained to"),
        };
        let message = format!("the chain is broken: {place}");
        self.problem("chain-broken", seq, message, Fix::No);
        if let Some(problem) = self.problems.last_mut() {
            problem.hint = Some("compare with a copy: something was changed, removed or put in there".to_owned());
        }
    }

    fn push(&mut self, seq: Seq, leaf: Leaf) {
        if let Some((checkpoint, None)) = self.checkpoint
            && checkpoint.head + 1 == seq.get()
            && self.pure.for_next(leaf.filler) == checkpoint.chain
        {
            // The event after it says that it is a filler; the checkpoint may have been taken before that was written, or after.
            self.met(true);
        }
        self.pure.push(leaf);
        self.carried.push(leaf);
        if let Some((checkpoint, None)) = self.checkpoint
            && checkpoint.head == seq.get()
            && self.pure.digest() == checkpoint.chain
        {
            self.met(true);
        }
    }

    fn met(&mut self, good: bool) {
        if let Some((_, met)) = &mut self.checkpoint {
            *met = Some(good);
        }
    }

    /// Is it the event that we wrote?
    fn kept(&mut self, seen: &Seen) {
        let seq = seen.seq;
        match seen.kept {
            Kept::Other => {
                let message = format!("event {seq} was replaced by another program after lokt had written it");
                self.problem(
                    "replaced",
                    seq,
                    message,
                    Fix::Possible("bring it back, if later events prove that this is the same ledger".to_owned()),
                );
            }
            Kept::Late | Kept::Same | Kept::Unknown => {}
        }
    }

    /// Events of ours that would come after the last one.
    fn tail(&mut self, names: &Names) {
        let head = names.head();
        if let Some(last) = self.look.last_kept().filter(|last| *last > head) {
            self.warnings.push(format!(
                "the ledger ends with event {head}, and lokt has written event {last} here: it was shortened, by `git checkout` perhaps"
            ));
        }
        let Some((checkpoint, met)) = self.checkpoint else { return };
        let met = met.unwrap_or(checkpoint.head == 0 && checkpoint.chain == Digest::EMPTY);
        let (seq, message) = if checkpoint.head > head {
            let missing =
                format!("the checkpoint is of event {}, and the ledger ends with event {head}", checkpoint.head);
            (head, format!("the last events are missing: {missing}"))
        } else if met {
            return;
        } else {
            let message = format!("events 1 to {} aren't those of the checkpoint", checkpoint.head);
            (checkpoint.head, message)
        };
        self.problems.push(Problem {
            code: "checkpoint",
            seq: Some(seq),
            path: None,
            message,
            hint: Some("compare with a copy from the time of the checkpoint".to_owned()),
            fix: Fix::No,
        });
    }

    fn strays(&mut self, names: &Names) {
        for (name, oddity) in &names.strays {
            self.problems.push(stray(self.ledger, name, *oddity));
        }
    }

    fn problem(&mut self, code: &'static str, seq: Seq, message: String, fix: Fix) {
        let path = Some(self.ledger.at(&self.ledger.file(seq)));
        // What can be mended says so itself.
        let hint = (fix == Fix::No).then(|| DOCTOR.to_owned());
        self.problems.push(Problem { code, seq: Some(seq.get()), path, message, hint, fix });
    }

    fn verdict(self, events: u64) -> Said<Verification> {
        let checkpoint = Checkpoint { head: self.pure.through(), chain: self.pure.digest() };
        let value = Verification { events, chained: self.chained, checkpoint, problems: self.problems };
        Said { value, warnings: self.warnings }
    }
}

/// A node that isn't what it was when its digest was taken, or whose digest was made up. Which of the two is right isn't known here.
pub(super) fn hash_problem(ledger: &Ledger, seq: Seq, wrong: &WrongHash) -> Problem {
    Problem {
        code: "content-hash",
        seq: Some(seq.get()),
        path: Some(ledger.at(&ledger.file(seq))),
        message: format!("the native program's `replay --verify` fails because of event {seq}: {wrong}"),
        hint: Some(
            "compare with a copy: the node was changed after it was made, or made with a wrong digest".to_owned(),
        ),
        fix: Fix::No,
    }
}

/// A file that looks like an event and is none.
pub(super) fn stray(ledger: &Ledger, name: &str, oddity: Oddity) -> Problem {
    let why = match oddity {
        Oddity::OtherStyle => format!(
            "it is called as in a ledger of the other style, and this one is {}",
            ledger.settings.style.as_str()
        ),
        Oddity::NotCanonical => "its number isn't written with six digits, or with more where it needs more".to_owned(),
        Oddity::OutOfRange => "no event has such a number".to_owned(),
    };
    Problem {
        code: "stray",
        seq: None,
        path: Some(ledger.at(name)),
        message: format!("{name} looks like an event but is none of this ledger's: {why}"),
        hint: Some("if it is wanted, append what it says; then move it out of the ledger".to_owned()),
        fix: Fix::No,
    }
}
