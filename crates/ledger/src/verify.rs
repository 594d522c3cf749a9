//! Verification: reads everything and names what is wrong.
//!
//! An event that carries the chain carries the digest of everything before it. If the stored bytes
//! give another digest, an event was changed, removed or added between the last chained event
//! (included) and this one. From then on the carried digest is believed, so that each place is
//! named once. A checkpoint is compared with the digest of the bytes alone, whatever events carry.
//! Only a checkpoint proves that the last events are missing.

mod claims;

use lokt_core::checkup::{Finding, Fix};
use lokt_core::ledger::chain::{Chain, Digest, Leaf};
use lokt_core::ledger::checkpoint::Checkpoint;
use lokt_core::ledger::proof::{WrongHash, wrong_hash};
use lokt_core::ledger::seq::{Oddity, Seq, Style};
use lokt_core::ledger::stored::Stored;

use self::claims::Claims;
use super::Ledger;
use super::answers::{Progress, Verification};
use super::file::{Backup, FileLog, Look, Names, Seen, What};
use lokt_sys::error::Error;
use lokt_sys::parallel;
use lokt_sys::warnings::{Warning, WithWarnings};

/// Maximum number of events in memory at a time.
const BLOCK: usize = 4096;
/// The repair of damage by `doctor --fix`.
pub(super) const NO_OP: &str = "put an event that says nothing in its place, and keep it in .lokt/aside";
/// The hint for everything else.
const DOCTOR: &str = "`lokt ledger doctor` says what can be done about it";

impl Ledger {
    /// Reads everything and returns what is wrong.
    pub fn verify(
        &self,
        checkpoint: Option<Checkpoint>,
        progress: &mut Progress<'_>,
    ) -> Result<WithWarnings<Verification>, Error> {
        let log = self.files()?;
        let look = Look::new(log);
        let names = log.names()?;
        let mut judge = Judge::new(log, &look, checkpoint);
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
        said.warnings.extend(log.doubted());
        Ok(said)
    }

    /// The digest of all events.
    pub fn checkpoint(&self, progress: &mut Progress<'_>) -> Result<WithWarnings<Checkpoint>, Error> {
        let WithWarnings { value, mut warnings } = self.verify(None, progress)?;
        if let Some(first) = value.problems.first() {
            warnings.push(Warning::Damaged(format!(
                "the digest is of a ledger with problems ({} of them, the first: {}); `lokt ledger verify` lists them",
                value.problems.len(),
                first.message
            )));
        }
        Ok(WithWarnings { value: value.checkpoint, warnings })
    }
}

/// Judges the events in their order.
struct Judge<'a> {
    log: &'a FileLog,
    look: &'a Look<'a>,
    /// The digest of the bytes.
    pure: Chain,
    /// The same, corrected at each event that carries another digest.
    carried: Chain,
    /// The last event that carries the chain.
    last_chained: Option<Seq>,
    chained: u64,
    claims: Claims,
    /// The event just before, if the next one may say more about it.
    before: Option<Before>,
    /// The checkpoint, and whether it was met, once that is known.
    checkpoint: Option<(Checkpoint, Option<bool>)>,
    problems: Vec<Finding>,
    warnings: Vec<Warning>,
}

/// An event that isn't a filler.
struct Before {
    seq: Seq,
    /// True if lokt wrote a filler there.
    is_late: bool,
}

impl<'a> Judge<'a> {
    fn new(log: &'a FileLog, look: &'a Look<'a>, checkpoint: Option<Checkpoint>) -> Self {
        Self {
            log,
            look,
            pure: Chain::new(),
            carried: Chain::new(),
            last_chained: None,
            chained: 0,
            claims: Claims::new(log.settings.style),
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
        self.before = is_strange.then_some(Before { seq, is_late: seen.kept == Backup::Late });
    }

    /// Warns if the event before the one that names `filler` is in a filler's place. Nothing proves
    /// what was put there: not the chain, and not a checkpoint. Any writer can name any last event
    /// as a filler, whatever second names show.
    fn place_of_filler(&mut self, filler: Option<Seq>) {
        let Some(Before { seq, is_late }) = self.before.take() else { return };
        if filler == Some(seq) {
            let late = format!("event {seq} came into a filler's place; the chain doesn't vouch for it");
            self.warnings.push(Warning::OtherPrograms(late));
        } else if is_late {
            self.warnings.push(Warning::OtherPrograms(format!(
                "event {seq} came late: it was written in a place that was kept free for it, by a program whose lock had been taken over"
            )));
        }
    }

    /// Reports missing numbers before `seq`.
    fn gap_before(&mut self, seq: Seq) {
        let (first, last) = (self.pure.through() + 1, seq.get() - 1);
        let Some(last) = Seq::new(last).filter(|last| last.get() >= first) else { return };
        let message = if first == last.get() {
            format!("event {first} is missing")
        } else {
            format!("events {first} to {last} are missing")
        };
        let file = Seq::new(first).map(|first| self.log.at(&self.log.file(first)));
        let gap = Finding::error(message).code("gap").seq(first);
        let gap = gap.fixable("fill it with an event that says nothing, or bring back what was there");
        self.problems.push(match file {
            Some(file) => gap.at(file.display()),
            None => gap,
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
                // Continue as if everything before it had the digest that it carries.
                self.carried = Chain::settled(seq.get() - 1, says);
            }
            self.last_chained = Some(seq);
        }
        if let Some(original) = event.repaired() {
            self.repaired(seq, original);
        }
        if let Some(wrong) = wrong_hash(event).filter(|_| self.log.settings.style == Style::Native) {
            self.problems.push(hash_problem(self.log, seq, &wrong));
        }
        for message in self.claims.see(seq, event) {
            let hint = "tokens of a claim that was displaced are stale; its owner has to claim again";
            let path = self.log.at(&self.log.file(seq));
            let finding = Finding::error(message).code("displaced-claim").seq(seq.get());
            self.problems.push(finding.at(path.display()).hint(hint));
        }
    }

    /// Reports a repaired event. The chain counts it as its original: without the original at hand,
    /// an event was removed.
    fn repaired(&mut self, seq: Seq, original: Digest) {
        if let Some(aside) = self.look.original(seq, original) {
            let aside = self.log.at(&aside);
            let repaired = format!("event {seq} was repaired; the original is {}", aside.display());
            self.warnings.push(Warning::Damaged(repaired));
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

    /// Reports that `seq` doesn't carry the digest of what is before it.
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
            // The event after it names it as a filler. The checkpoint may have been taken before or
            // after that was written.
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

    /// Reports an event that isn't the one that we wrote.
    fn kept(&mut self, seen: &Seen) {
        let seq = seen.seq;
        match seen.kept {
            Backup::Other => {
                let message = format!("event {seq} was replaced by another program after lokt had written it");
                self.problem(
                    "replaced",
                    seq,
                    message,
                    Fix::Possible("bring it back, if later events prove that this is the same ledger".to_owned()),
                );
            }
            Backup::Late | Backup::Same | Backup::Unknown => {}
        }
    }

    /// Reports missing events after the last one.
    fn tail(&mut self, names: &Names) {
        let head = names.head();
        if let Some(last) = self.look.last_kept().filter(|last| *last > head) {
            self.warnings.push(Warning::Damaged(format!(
                "the ledger ends with event {head}, and lokt has written event {last} here: it was shortened, by `git checkout` perhaps"
            )));
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
        let hint = "compare with a copy from the time of the checkpoint";
        self.problems.push(Finding::error(message).code("checkpoint").seq(seq).hint(hint));
    }

    fn strays(&mut self, names: &Names) {
        for (name, oddity) in &names.strays {
            self.problems.push(stray(self.log, name, *oddity));
        }
    }

    fn problem(&mut self, code: &'static str, seq: Seq, message: String, fix: Fix) {
        let path = self.log.at(&self.log.file(seq));
        // A possible repair is hint enough.
        let hint = (fix == Fix::No).then(|| DOCTOR.to_owned());
        let finding = Finding::error(message).code(code).seq(seq.get()).at(path.display());
        self.problems.push(Finding { hint, fix, ..finding });
    }

    fn verdict(self, events: u64) -> WithWarnings<Verification> {
        let checkpoint = Checkpoint { head: self.pure.through(), chain: self.pure.digest() };
        let value = Verification { events, chained: self.chained, checkpoint, problems: self.problems };
        WithWarnings { value, warnings: self.warnings }
    }
}

/// The problem of a node whose digest doesn't fit it. Either of the two may be wrong.
pub(super) fn hash_problem(log: &FileLog, seq: Seq, wrong: &WrongHash) -> Finding {
    let message = format!("the native program's `replay --verify` fails because of event {seq}: {wrong}");
    let hint = "compare with a copy: the node was changed after it was made, or made with a wrong digest";
    let path = log.at(&log.file(seq));
    Finding::error(message).code("content-hash").seq(seq.get()).at(path.display()).hint(hint)
}

/// The problem of a file that looks like an event and isn't one.
pub(super) fn stray(log: &FileLog, name: &str, oddity: Oddity) -> Finding {
    let why = match oddity {
        Oddity::OtherStyle => {
            format!("it is called as in a ledger of the other style, and this one is {}", log.settings.style.as_str())
        }
        Oddity::NotCanonical => "its number isn't written with six digits, or with more where it needs more".to_owned(),
        Oddity::OutOfRange => "no event has such a number".to_owned(),
    };
    let message = format!("{name} looks like an event but is none of this ledger's: {why}");
    let hint = "if it is wanted, append what it says; then move it out of the ledger";
    Finding::error(message).code("stray").at(log.at(name).display()).hint(hint)
}
