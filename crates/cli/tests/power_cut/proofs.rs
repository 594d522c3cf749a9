//! What shows that the cuts are cuts, and that the judge can condemn.

use std::fs;

use lokt_testkit::dice::Dice;
use lokt_testkit::swarm::put;

use crate::actors;
use crate::course::Stage;
use crate::site::{Site, Stop, Syncs};
use crate::tally::Tally;

/// What one does by chance may leave nothing to be lost: an answer that it has already. Not so often in a row.
const ALONE_MAX: usize = 8;

/// A cut that loses nothing proves nothing: a file that was written and not synced is gone or empty after it, one that was synced isn't.
pub(crate) fn a_cut_loses_what_was_never_synced(kind: &str) -> Result<String, String> {
    let mut site = Site::new(kind);
    put(&site.at("synced"), "synced");
    site.sync();
    put(&site.at("written"), "written");
    site.cut_power();
    site.come_back(false);
    let synced = fs::read_to_string(site.at("synced"));
    if synced.as_ref().ok().map(String::as_str) != Some("synced") {
        return Err(format!("what was synced is there: {synced:?}"));
    }
    match fs::read_to_string(site.at("written")) {
        Ok(text) if !text.is_empty() => Err(format!("a cut loses what was never synced, and this is there: {text:?}")),
        Ok(_) => Ok("a file that was written and not synced is empty".into()),
        Err(_) => Ok("a file that was written and not synced is gone".into()),
    }
}

/// The other planted fault: one thing of each kind of each actor goes behind its back, and each must find that it is lost. And a run in which
/// nothing was tried must fail.
pub(crate) fn every_kind_of_loss_is_noticed(kind: &str) -> Result<String, String> {
    if Tally::default().verdict(&actors::kinds()).is_ok() {
        return Err("a run in which nothing was acknowledged and compared fails".into());
    }
    let mut before = Tally::default();
    let mut stage = Stage::new(kind, &mut before);
    stage.site.cut_power();
    stage.site.come_back(true);
    stage.look(&mut before);
    stage.go_on(&mut before);
    if !before.findings.is_empty() {
        return Err(before.findings.join("\n"));
    }
    let mut noticed = Vec::new();
    // Who comes later depends on those before: a claim on its ledger.
    for actor in stage.actors.iter_mut().rev() {
        for kind in actor.kinds() {
            let wrong = |what: &str, stop: Stop| format!("{kind}: {what}: {stop:?}");
            let mut before = Tally::default();
            actor.look(&stage.site, &mut before).map_err(|stop| wrong("looking before", stop))?;
            if before.has_lost(kind) {
                return Err(format!(
                    "one of {kind} is lost although nobody took it away: {}",
                    before.findings.join("\n")
                ));
            }
            actor.lose(&stage.site, kind).map_err(|stop| wrong("losing", stop))?;
            let mut after = Tally::default();
            actor.look(&stage.site, &mut after).map_err(|stop| wrong("looking", stop))?;
            if !after.has_lost(kind) {
                actor.go_on(&stage.site, &mut after).map_err(|stop| wrong("going on", stop))?;
            }
            if !after.has_lost(kind) {
                return Err(format!("one of {kind} was taken away, and nobody noticed"));
            }
            noticed.push(kind);
        }
    }
    Ok(format!("taken away and noticed: {}", noticed.join("; ")))
}

/// The planted fault: syncs are answered and not made. Then what was acknowledged must be found to be lost.
pub(crate) fn without_syncs_acknowledged_things_are_lost(kind: &str, dice: &mut Dice) -> Result<String, String> {
    let mut before = Tally::default();
    let mut stage = Stage::new(kind, &mut before);
    stage.site.sync();
    if !before.findings.is_empty() {
        return Err(before.findings.join("\n"));
    }
    stage.site.set_syncs(Syncs::Skipped);
    stage.work_until_cut(dice, &mut before);
    stage.site.set_syncs(Syncs::Kept);
    stage.site.come_back(false);
    let mut tally = Tally::default();
    stage.look(&mut tally);
    let lost: Vec<String> = tally.lost().iter().map(|(kind, count)| format!("{count} of {kind}")).collect();
    if lost.is_empty() {
        return Err("without syncs nothing was lost: either the fault wasn't planted, or the judge is blind".into());
    }
    Ok(format!("lost and noticed: {}", lost.join(", ")))
}

/// The same for each by itself: one who is alone, and whose last answer comes without a sync, must find that something of it is lost. So those who
/// work at the same time don't hide from the judge that somebody forgot to sync.
pub(crate) fn whoever_is_alone_and_does_not_sync_loses_it(kind: &str, dice: &mut Dice) -> Result<String, String> {
    let mut before = Tally::default();
    let mut stage = Stage::new(kind, &mut before);
    if !before.findings.is_empty() {
        return Err(before.findings.join("\n"));
    }
    let mut noticed = Vec::new();
    // Who comes later depends on those before: a claim on its ledger.
    for nth in (0..stage.actors.len()).rev() {
        if stage.actors[nth].kind() == actors::GUARDS_TOKEN {
            // Made durable a thousand at a time, long before one is given.
            continue;
        }
        let lost = (0..ALONE_MAX).find_map(|_| lose_alone(&mut stage, nth, dice).transpose());
        match lost {
            Some(Ok(lost)) => noticed.push(lost),
            Some(Err(why)) => return Err(why),
            None => return Err(format!("{}: nothing was lost without syncs", stage.actors[nth].kind())),
        }
    }
    Ok(format!("lost and noticed: {}", noticed.join("; ")))
}

/// One step of one actor without syncs, and a cut. Gives what it missed, if anything.
fn lose_alone(stage: &mut Stage, nth: usize, dice: &mut Dice) -> Result<Option<String>, String> {
    let Stage { site, actors } = stage;
    let actor = &mut actors[nth];
    let wrong = |stop: Stop| format!("{stop:?}");
    site.sync();
    site.set_syncs(Syncs::Skipped);
    let done = actor.step(site, dice);
    site.set_syncs(Syncs::Kept);
    let mut tally = Tally::default();
    match done {
        Ok(_) => {}
        // What somebody else lost before may have been the count of tokens. That shows nothing about this one, whose book is put right.
        Err(Stop::Wrong(sentence)) if sentence.contains("token-order") => {
            actor.look(site, &mut tally).map_err(wrong)?;
            return Ok(None);
        }
        Err(stop) => return Err(wrong(stop)),
    }
    site.cut_power();
    site.come_back(false);
    actor.look(site, &mut tally).map_err(wrong)?;
    Ok(tally.lost().first().map(|(kind, _)| (*kind).to_owned()))
}
