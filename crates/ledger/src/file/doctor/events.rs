//! Gaps, damage, and events that were replaced or that the af program refuses.

use std::collections::BTreeSet;

use lokt_core::checkup::Fix;
use lokt_core::ledger::proof::{Proof, wrong_hash};
use lokt_core::ledger::seq::{Seq, Style};

use super::{Doctor, Repair, Repairable};
use crate::answers::Progress;
use crate::file::Names;
use crate::file::{Backup, Look, Seen, What};
use crate::verify::{NO_OP, hash_problem};
use lokt_sys::parallel;
use lokt_sys::warnings::Warning;

/// Maximum number of events in memory at a time.
const BLOCK: usize = 4096;
/// Longest gap that is filled. A longer one comes from a made-up number.
const FILLED_MAX: u64 = 1024;
const REPLACED: &str = "replaced";
const REFUSED: &str = "refused";
/// Problems after which it isn't known what later events mean.
const HOLES: [&str; 4] = ["gap", "damaged", "unreadable", REPLACED];
/// Hint for an event that may belong to another branch that was checked out.
const UNPROVEN: &str =
    "it isn't known whether this is the same ledger or another branch of it; .lokt/kept has what lokt wrote";
const DEPENDENT: &str = "an event before it is missing or damaged: bring that back, and this one may be good";

impl Doctor<'_> {
    pub(super) fn event_findings(
        self,
        names: &Names,
        warnings: &mut Vec<Warning>,
        progress: &mut Progress<'_>,
    ) -> Vec<Repairable> {
        let look = Look::new(self.log);
        warnings.extend(look.warning.clone());
        let mut findings = Vec::new();
        for (first, last) in names.gaps() {
            findings.extend(self.gap_findings(&look, first, last));
        }
        let mut proof = (self.log.settings.style == Style::Native).then(Proof::new);
        let total = names.numbers.len() as u64;
        let mut done = 0;
        let mut last_same = 0;
        for block in names.numbers.chunks(BLOCK) {
            for seen in parallel::map(block, |number| look.at(*number)) {
                if seen.kept == Backup::Same {
                    last_same = seen.seq.get();
                }
                findings.extend(self.event_finding(&seen, proof.as_mut(), warnings));
            }
            done += block.len() as u64;
            progress(done, total);
        }
        let replaced = |finding: &Repairable| finding.problem.seq.filter(|_| finding.problem.code == REPLACED);
        let all: BTreeSet<u64> = findings.iter().filter_map(replaced).collect();
        // Several in a row may belong to another branch that was checked out; a late writer
        // replaces only one.
        let in_a_row = |seq: u64| all.contains(&(seq + 1)) || all.contains(&seq.saturating_sub(1));
        let unproven =
            |finding: &&mut Repairable| replaced(finding).is_some_and(|seq| seq > last_same || in_a_row(seq));
        findings.iter_mut().filter(unproven).for_each(|finding| finding.leave(UNPROVEN));
        // Later events may refer to what is missing or damaged.
        let hole =
            findings.iter().filter(|finding| HOLES.contains(&finding.problem.code)).filter_map(|hole| hole.problem.seq);
        let first_hole = hole.min().unwrap_or(u64::MAX);
        let dependent = |finding: &&mut Repairable| {
            finding.problem.code == REFUSED && finding.problem.seq.is_some_and(|seq| seq > first_hole)
        };
        findings.iter_mut().filter(dependent).for_each(|finding| finding.leave(DEPENDENT));
        findings.sort_by_key(|finding| finding.problem.seq);
        findings
    }

    /// The findings of a gap, cut where events of ours can be restored.
    fn gap_findings(self, look: &Look<'_>, first: u64, last: u64) -> Vec<Repairable> {
        let too_long = last - first >= FILLED_MAX;
        if too_long {
            let message = format!("events {first} to {last} are missing");
            let finding = Repairable::new("gap", message);
            let hint = format!(
                "nobody wrote that many: is {} one of this ledger's?",
                Seq::new(last + 1).map(|seq| self.log.file(seq)).unwrap_or_default()
            );
            return Seq::new(first)
                .map(|seq| finding.at(seq, self.log.at(&self.log.file(seq))).hint(hint))
                .into_iter()
                .collect();
        }
        let mut findings: Vec<Repairable> = Vec::new();
        let mut run: Option<(Seq, Seq)> = None;
        for seq in (first..=last).filter_map(Seq::new) {
            if look.ours(seq).is_some() {
                findings.extend(run.take().map(|(first, last)| self.gap(first, last)));
                let message = format!("event {seq} is missing, and lokt has its second name");
                findings.push(
                    Repairable::new("gap", message)
                        .at(seq, self.log.at(&self.log.file(seq)))
                        .hint("another program removed it")
                        .repair(Repair::Restore(seq), "bring it back"),
                );
            } else {
                run = Some((run.map_or(seq, |(first, _)| first), seq));
            }
        }
        findings.extend(run.map(|(first, last)| self.gap(first, last)));
        findings
    }

    fn gap(self, first: Seq, last: Seq) -> Repairable {
        let message = if first == last {
            format!("event {first} is missing")
        } else {
            format!("events {first} to {last} are missing")
        };
        Repairable::new("gap", message)
            .at(first, self.log.at(&self.log.file(first)))
            .hint("look for it in a copy first: it may have been a claim, and a filled gap is none any more")
            .repair(Repair::Fill(first, last), "fill it with an event that says nothing")
    }

    fn event_finding(self, seen: &Seen, proof: Option<&mut Proof>, warnings: &mut Vec<Warning>) -> Option<Repairable> {
        let seq = seen.seq;
        let refusal = match &seen.what {
            What::Event(event) => proof.and_then(|proof| proof.apply(seq, event).err()),
            _ => None,
        };
        let path = self.log.at(&self.log.file(seq));
        let found = |code, message: String| Repairable::new(code, message).at(seq, path.clone());
        let no_op = |finding: Repairable| finding.repair(Repair::Neutralise(seq), NO_OP);
        let finding = match (&seen.what, seen.kept, refusal) {
            (_, Backup::Other, _) => {
                found(REPLACED, format!("event {seq} isn't the one that lokt wrote: another program replaced it"))
                    .hint("what stands there now is kept in .lokt/aside; append it again if it is wanted")
                    .repair(Repair::Restore(seq), "bring back what lokt wrote")
            }
            (What::Damaged(damage), _, _) => no_op(
                found("damaged", format!("event {seq} is damaged: it {damage}"))
                    .hint("look for it in a copy first: it may have been a claim"),
            ),
            (What::Unreadable(why), _, _) => {
                found("unreadable", format!("event {seq} can't be read: {why}")).hint("its owner can make it readable")
            }
            (What::Event(_), _, Some(why)) => no_op(found(
                REFUSED,
                format!("the native program refuses the whole ledger because of event {seq}: {why}"),
            )),
            (What::Event(_), _, None) if seen.misread => {
                let message = format!(
                    "the native program refuses the whole ledger because of event {seq}: it takes something else for its type"
                );
                found("misread", message).hint("write `type` as its first member, as plain text, and keep a copy")
            }
            (What::Event(event), kept, None) => {
                if let Some(wrong) = wrong_hash(event).filter(|_| self.log.settings.style == Style::Native) {
                    return Some(Repairable { problem: hash_problem(self.log, seq, &wrong), repair: None });
                }
                if kept == Backup::Late {
                    let late = format!("event {seq} came late, in a place that was kept free for it");
                    warnings.push(Warning::OtherPrograms(late));
                }
                if event.repaired().is_some() {
                    let repaired = format!("event {seq} stands for one that was repaired");
                    warnings.push(Warning::Damaged(repaired));
                }
                return None;
            }
            (What::Gone, _, _) => return None,
        };
        Some(finding)
    }
}

impl Repairable {
    /// Removes the repair.
    fn leave(&mut self, why: &str) {
        self.repair = None;
        self.problem.fix = Fix::No;
        self.problem.hint = Some(why.to_owned());
    }
}
