//! What came of a torture, in words.

use std::fmt;

use lokt_named::doctor::Status;
use lokt_torture::Ordeal;
use lokt_torture::history::Percentiles;

use crate::show::{clean, count};

/// So many violations are spelt out; JSON has more.
const SHOWN_MAX: usize = 5;
const ERRORS_SHOWN_MAX: usize = 1;

/// What there is to tell.
pub(super) struct Told<'a> {
    pub(super) ordeal: &'a Ordeal,
    pub(super) procs: usize,
    pub(super) seed: u64,
    pub(super) locks: bool,
}

impl Told<'_> {
    /// One sentence.
    pub(super) fn verdict(&self) -> String {
        let ordeal = self.ordeal;
        let system = &ordeal.file_system;
        let place = match system.mount_point.as_str() {
            "" => clean(&system.name),
            point => format!("{} at {}", clean(&system.name), clean(point)),
        };
        let broken = &ordeal.broken;
        let kinds = [
            (broken.overlaps, "overlap", "overlaps"),
            (broken.lost_updates, "lost update", "lost updates"),
            (broken.late_writes, "late write taken", "late writes taken"),
            (broken.tokens, "token out of order", "tokens out of order"),
            (broken.out_of_turn, "entry out of turn", "entries out of turn"),
            (broken.stuck, "lock stuck", "locks stuck"),
        ];
        let kinds: Vec<String> = kinds
            .into_iter()
            .filter(|(many, ..)| *many > 0)
            .map(|(many, one, several)| count(many, one, several))
            .collect();
        let early = if ordeal.interrupted { ", until it was interrupted" } else { "" };
        let without = if self.locks { "" } else { " (without locks)" };
        let mistrust = if system.is_trusted() { "" } else { ", but locks there CAN'T BE TRUSTED" };
        let untried = match ordeal.untried().join(", ") {
            none if none.is_empty() => none,
            some => format!("; never tried: {some}"),
        };
        if !kinds.is_empty() {
            format!("{place}: NOT SAFE{without}: {}", kinds.join(", "))
        } else if ordeal.figures().holds == 0 {
            format!("{place}: nothing was tried{without}: it was interrupted before that{mistrust}")
        } else if system.is_trusted() {
            format!("{place}: every promise held{without}{early}{untried}")
        } else {
            format!("{place}: every promise held among these processes{without}{early}{mistrust}{untried}")
        }
    }
}

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ordeal = self.ordeal;
        let (figures, broken, updates) = (ordeal.figures(), &ordeal.broken, ordeal.updates);
        let lasted = tenths(ordeal.lasted.as_millis(), 1_000);
        let row = |f: &mut fmt::Formatter<'_>, what: &str, told: String| writeln!(f, "  {what:<13} {told}");
        row(
            f,
            "processes",
            format!(
                "{} for {lasted} s; {} killed and replaced, {} stopped and continued",
                self.procs, ordeal.blows.killed, ordeal.blows.stopped
            ),
        )?;
        row(
            f,
            "holds",
            format!(
                "{}; {} handed on to whoever waited; {} not granted",
                figures.holds, figures.hand_offs, figures.gave_up
            ),
        )?;
        row(f, "overlaps", broken.overlaps.to_string())?;
        row(f, "lost updates", format!("{} of {}", broken.lost_updates, updates.taken))?;
        row(f, "late writes", format!("{} taken, {} refused", broken.late_writes, updates.refused))?;
        row(f, "token order", format!("{} wrong", broken.tokens))?;
        row(f, "line", format!("{} out of turn", broken.out_of_turn))?;
        let was_asked = ordeal.afterwards.asked || broken.stuck > 0;
        row(f, "stuck", if was_asked { broken.stuck.to_string() } else { "-".to_owned() })?;
        row(f, "waiting", percentiles(&figures.wait))?;
        row(f, "handing on", percentiles(&figures.hand_over))?;
        row(f, "seed", self.seed.to_string())?;
        if let Some(path) = &ordeal.kept {
            row(f, "kept in", clean(&path.to_string_lossy()))?;
        }
        writeln!(f, "\n{}", self.verdict())?;
        for sentence in broken.told.iter().take(SHOWN_MAX) {
            writeln!(f, "  {}", clean(sentence))?;
        }
        for error in self.ordeal.errors.iter().take(ERRORS_SHOWN_MAX) {
            writeln!(f, "  and there were errors: {}", clean(error))?;
        }
        self.advice(f)
    }
}

impl Told<'_> {
    fn advice(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let system = &self.ordeal.file_system;
        for finding in system.check.findings.iter().filter(|finding| finding.status() != Status::Ok) {
            writeln!(f, "  {}", clean(&finding.message))?;
            if let Some(hint) = &finding.hint {
                writeln!(f, "  hint: {hint}")?;
            }
        }
        for note in &system.notes {
            writeln!(f, "  note: {}", clean(note))?;
        }
        if self.ordeal.broken.count() > 0 && self.locks && system.is_trusted() {
            writeln!(
                f,
                "  hint: don't use locks there; `lokt doctor` examines a root, and `--keep` leaves what is needed to look into it"
            )?;
        }
        Ok(())
    }
}

/// What killed runs have left, or this one could not remove.
pub(super) fn left_over(ordeal: &Ordeal) -> impl Iterator<Item = String> + '_ {
    let paths = ordeal.left_over.iter().map(|path| clean(&path.to_string_lossy()));
    paths.map(|path| format!("note: a run left this behind; unless one is running there, it can be deleted: {path}"))
}

/// What is said when it takes long until everybody is gone.
pub(super) fn dying(many: usize) -> String {
    let killed = count(many as u64, "process that was killed", "processes that were killed");
    format!("note: waiting for the end of {killed}; the disk may be slow. Ctrl-C ends the wait\n")
}

/// `p50 1.2 ms   p90 …`
fn percentiles(of: &Percentiles) -> String {
    if of.count == 0 {
        return "-".to_owned();
    }
    let parts = [("p50", of.p50), ("p90", of.p90), ("p99", of.p99), ("max", of.max)];
    let parts: Vec<String> =
        parts.into_iter().map(|(what, ns)| format!("{what} {} ms", tenths(u128::from(ns), 1_000_000))).collect();
    parts.join("   ")
}

/// With one digit after the point, rounded.
fn tenths(number: u128, unit: u128) -> String {
    let tenths = (number * 10 + unit / 2) / unit;
    format!("{}.{}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_one_digit_after_the_point() {
        let of = Percentiles { count: 4, p50: 1_240_000, p90: 40_000, p99: 12_960_000, max: 1_000_000_000 };
        assert_eq!(percentiles(&of), "p50 1.2 ms   p90 0.0 ms   p99 13.0 ms   max 1000.0 ms");
        assert_eq!(percentiles(&Percentiles::default()), "-");
    }
}
