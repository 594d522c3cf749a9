//! An append of ours, one effect on disk at a time.

use lokt_core::ledger::writer_lock::Verdict;

use super::Appends;
use super::disk::{Event, Fold, Form, Hint, Inode, Lock, Owner};
use super::flaw::Flaw;
use super::judge::judge;
use super::state::{Draft, Outcome, Phase, State, Swap, Writer};
use super::truth::Offence;

/// One of ours begins.
pub(super) fn start(model: Appends, state: &mut State, draft: Draft) {
    let is_early = matches!(model.flaw, Flaw::ValidateOutside | Flaw::FoldUnchecked);
    let early = is_early.then(|| look_up(model, state, Fold::default(), state.disk.head()));
    let is_refused = draft == Draft::Claim && early.as_ref().is_some_and(|fold| fold.claimed);
    if !is_refused {
        let phase = Phase::Waiting;
        state.writers.push(Writer { op: state.ops, attempt: 0, draft, early, is_wary: false, phase });
    }
    state.ops += 1;
}

/// Is there something to do for the writer in that place, or does it wait?
pub(super) fn can_step(model: Appends, state: &State, place: usize) -> bool {
    match state.writers[place].phase {
        Phase::Waiting => state.is_mutex_free() || model.flaw == Flaw::NoMutex,
        Phase::Locking => state.disk.lock.as_ref().is_none_or(|lock| judge(model, state, lock, true) != Verdict::Held),
        _ => true,
    }
}

/// Can the writer in that place be misled by its hint? Time stamps of directories are coarse: an append in the same
/// tick isn't seen.
pub(super) fn can_lag(state: &State, place: usize) -> bool {
    let looks = matches!(state.writers[place].phase, Phase::CatchingUp { listing: false, .. });
    looks && state.disk.sound_hint().is_some_and(|hint| hint.head < state.disk.head())
}

/// The writer in that place takes its next step. `lags`: its hint misleads it.
pub(super) fn step(model: Appends, state: &mut State, place: usize, lags: bool) {
    let next = match state.writers[place].phase.clone() {
        Phase::Waiting => {
            state.writers[place].is_wary = state.disk.is_wary;
            Some(Phase::Locking)
        }
        Phase::Locking => Some(lock(model, state, place)),
        Phase::Looking(seen) => Some(match &state.disk.lock {
            Some(lock) if lock.owner == seen && judge(model, state, lock, true) == Verdict::Stale => {
                Phase::Bewaring(seen)
            }
            _ => Phase::Locking,
        }),
        Phase::Bewaring(judged) => {
            state.disk.is_wary = model.flaw != Flaw::NeverWary;
            let form = if model.flaw == Flaw::FileAtTakeOver { Form::File } else { Form::Full };
            let took_over = (model.flaw != Flaw::NoFiller).then_some(judged);
            Some(Phase::Exchanging(Swap { judged, form, took_over }))
        }
        Phase::Exchanging(swap) => Some(exchange(model, state, place, swap)),
        Phase::Inspecting(swap) => Some(inspect(model, state, place, swap)),
        Phase::Cleaning(swap) => {
            state.note_cleaning();
            state.foreign.iter_mut().for_each(|foreign| foreign.has_temp = false);
            let is_last = model.flaw != Flaw::CleanFirst;
            Some(if is_last { Phase::CatchingUp { owes: true, listing: false } } else { Phase::Inspecting(swap) })
        }
        Phase::CatchingUp { owes, listing } => Some(catch_up(model, state, place, owes, listing, lags)),
        Phase::Filling(head) => Some(fill(model, state, place, head)),
        Phase::Validating { head, owes } => Some(validate(model, state, place, head, owes)),
        Phase::Closing(head, fold) => Some(close(state, place, head, fold)),
        Phase::Publishing(head, fold) => Some(publish(model, state, place, head, fold)),
        Phase::Releasing(outcome) => {
            // What isn't ours stays.
            let me = Owner::Ours(state.writers[place].op);
            state.disk.lock.take_if(|lock| lock.owner == me);
            Some(Phase::Noting(outcome))
        }
        Phase::Noting(outcome) => note(model, state, place, outcome),
        Phase::Confirming(number) => confirm(model, state, place, number),
        Phase::Keeping(number) => {
            keep(state, place, number);
            None
        }
    };
    match next {
        Some(phase) => state.writers[place].phase = phase,
        None => end(state, place),
    }
}

/// One of ours is gone: the kernel gives its mutex back.
pub(super) fn end(state: &mut State, place: usize) {
    state.writers.remove(place);
}

/// Puts a lock there that is complete from its first moment, or judges the one that is.
fn lock(model: Appends, state: &mut State, place: usize) -> Phase {
    let Some(found) = &state.disk.lock else {
        let form = if state.writers[place].is_wary { Form::Full } else { Form::File };
        let owner = Owner::Ours(state.writers[place].op);
        state.disk.lock = Some(Lock { owner, form, is_old: false, took_over: None, displaced: None });
        return Phase::CatchingUp { owes: false, listing: false };
    };
    let judged = found.owner;
    if judge(model, state, found, false) != Verdict::Dead {
        return Phase::Looking(judged);
    }
    let took_over = found.took_over.filter(|_| model.flaw != Flaw::DebtForgotten);
    let swap = Swap { judged, form: found.form, took_over };
    match (&found.displaced, found.took_over) {
        // It died before it could see that it had displaced somebody else's.
        (Some(displaced), Some(judged)) if displaced.owner != judged && model.flaw != Flaw::ShelfForgotten => {
            state.disk.lock = Some((**displaced).clone());
            Phase::Locking
        }
        _ => Phase::Exchanging(swap),
    }
}

/// Puts its own lock where the judged one was, or whatever is there by now.
fn exchange(model: Appends, state: &mut State, place: usize, swap: Swap) -> Phase {
    let Some(mut displaced) = state.disk.lock.take() else { return Phase::Locking };
    if let (Owner::Foreign(foreign), true) = (swap.judged, displaced.owner == swap.judged) {
        state.foreign[usize::from(foreign)].is_overtaken = true;
    }
    if model.flaw == Flaw::DeleteStale {
        return Phase::Locking;
    }
    displaced.displaced = None;
    let Swap { form, took_over, .. } = swap;
    let owner = Owner::Ours(state.writers[place].op);
    state.disk.lock = Some(Lock { owner, form, is_old: false, took_over, displaced: Some(Box::new(displaced)) });
    if model.flaw == Flaw::CleanFirst { Phase::Cleaning(swap) } else { Phase::Inspecting(swap) }
}

/// Looks at what was displaced, and puts it back if it isn't what was judged.
fn inspect(model: Appends, state: &mut State, place: usize, swap: Swap) -> Phase {
    let me = Owner::Ours(state.writers[place].op);
    if let Some(lock) = state.disk.lock.as_mut().filter(|lock| lock.owner == me) {
        let displaced = lock.displaced.take().expect("it was exchanged");
        if displaced.owner != swap.judged && model.flaw != Flaw::NotInspected {
            *lock = *displaced;
            return Phase::Locking;
        }
    }
    let owes = swap.took_over.is_some();
    let cleans = owes && model.flaw != Flaw::CleanFirst;
    if cleans { Phase::Cleaning(swap) } else { Phase::CatchingUp { owes, listing: false } }
}

fn catch_up(model: Appends, state: &State, place: usize, owes: bool, listing: bool, lags: bool) -> Phase {
    let disk = &state.disk;
    let hint = if model.flaw == Flaw::HintUnchecked { disk.hint } else { disk.sound_hint() };
    let head = match hint {
        Some(hint) if lags => hint.head,
        Some(hint) if !listing => disk.probe(hint.head),
        _ => disk.head(),
    };
    let is_filler = disk.at(head).is_some_and(Event::is_filler);
    let owes = owes && !(is_filler && model.flaw == Flaw::FillerReused);
    match &state.writers[place].early {
        _ if owes && model.flaw == Flaw::FillerWithEvent => Phase::Validating { head, owes },
        _ if owes => Phase::Filling(head),
        Some(fold) if model.flaw != Flaw::FoldUnchecked => Phase::Publishing(head, fold.clone()),
        _ => Phase::Validating { head, owes },
    }
}

/// Publishes the filler: a paused writer has counted up to the head, and will hit this.
fn fill(model: Appends, state: &mut State, place: usize, head: u8) -> Phase {
    if state.disk.at(head + 1).is_some() {
        return Phase::CatchingUp { owes: true, listing: true };
    }
    state.note_entry();
    let Writer { op, attempt, .. } = state.writers[place];
    // One of ours that died may have left a filler that nobody names.
    let names_filler = state.disk.at(head).is_some_and(Event::is_filler) && model.flaw != Flaw::FillerNamesNone;
    state.disk.put(head + 1, Event { inode: Inode::Filler(op, attempt), claims: false, names_filler, chain: 0 });
    match state.writers[place].early.take_if(|_| model.flaw != Flaw::FoldUnchecked) {
        Some(fold) => Phase::Publishing(head + 1, fold),
        None => Phase::Validating { head: head + 1, owes: false },
    }
}

/// The claims up to `head`: on from `fold`, or from the cache if that is further and can be trusted.
fn look_up(model: Appends, state: &State, fold: Fold, head: u8) -> Fold {
    let heeds_fillers = model.flaw != Flaw::CacheWithoutFillers;
    let is_sound = |cached: &&Fold| cached.through <= head && state.disk.proves(cached, heeds_fillers);
    let known =
        if fold.through > 0 { fold } else { state.disk.cache.as_ref().filter(is_sound).cloned().unwrap_or_default() };
    state.disk.fold(known, head)
}

fn validate(model: Appends, state: &mut State, place: usize, head: u8, owes: bool) -> Phase {
    let early = state.writers[place].early.take().filter(|fold| fold.through <= head).unwrap_or_default();
    let fold = look_up(model, state, early, head);
    if state.writers[place].draft == Draft::Claim {
        state.note_fold(&fold);
        if fold.claimed {
            let Writer { op, attempt, .. } = state.writers[place];
            let is_open =
                state.disk.inode(head) == Some(Inode::Filler(op, attempt)) && model.flaw != Flaw::FillerUnnamed;
            return if is_open { Phase::Closing(head, fold) } else { Phase::Releasing(Outcome { wrote: None, fold }) };
        }
    }
    if owes {
        state.writers[place].early = Some(fold);
        return Phase::Filling(head);
    }
    Phase::Publishing(head, fold)
}

/// Names the filler that is the head, so that the chain knows it for one whatever becomes of it.
fn close(state: &mut State, place: usize, head: u8, fold: Fold) -> Phase {
    if state.disk.at(head + 1).is_some() {
        return Phase::CatchingUp { owes: false, listing: true };
    }
    state.note_entry();
    let Writer { op, attempt, .. } = state.writers[place];
    state.disk.put(head + 1, Event { inode: Inode::Closing(op, attempt), claims: false, names_filler: true, chain: 0 });
    Phase::Releasing(Outcome { wrote: None, fold })
}

fn publish(model: Appends, state: &mut State, place: usize, head: u8, fold: Fold) -> Phase {
    let number = head + 1;
    if state.disk.at(number).is_some() {
        match model.flaw {
            Flaw::PublishReplaces => state.truth.note(Offence::Replaced, true),
            Flaw::NextNumberBlindly => return Phase::Publishing(number, fold),
            _ => return Phase::CatchingUp { owes: false, listing: true },
        }
    }
    state.note_entry();
    let claims = state.writers[place].draft == Draft::Claim;
    if claims {
        state.note_claim(&fold, number);
    }
    // Its own, as it was when it was read: a late writer may have been there since. Nobody else leaves one that must be
    // named.
    let Writer { op, attempt, .. } = state.writers[place];
    let names_filler = fold.fillers.contains(&(head, Inode::Filler(op, attempt)));
    let chain = state.disk.digest(head, names_filler);
    state.disk.put(number, Event { inode: state.writers[place].inode(), claims, names_filler, chain });
    Phase::Releasing(Outcome { wrote: Some(number), fold })
}

/// Writes down what it knows, and leaves the mutex. Files are replaced whole, so that dying between two of them is
/// nothing new.
fn note(model: Appends, state: &mut State, place: usize, outcome: Outcome) -> Option<Phase> {
    let Outcome { wrote, mut fold } = outcome;
    if model.flaw == Flaw::FillerLookedUpLate {
        for (number, inode) in &mut fold.fillers {
            *inode = state.disk.inode(*number).unwrap_or(*inode);
        }
    }
    let Some(number) = wrote else {
        state.disk.cache = Some(fold);
        return None;
    };
    let writer = &state.writers[place];
    let inode = writer.inode();
    state.disk.hint = Some(Hint { head: number, inode });
    if fold.through + 1 == number {
        let claimed = fold.claimed || writer.draft == Draft::Claim;
        state.disk.cache = Some(Fold { through: number, inode: Some(inode), claimed, ..fold });
    }
    if model.flaw != Flaw::KeptLast {
        keep(state, place, number);
    }
    Some(Phase::Confirming(number))
}

fn keep(state: &mut State, place: usize, number: u8) {
    state.disk.kept.push((number, state.writers[place].inode()));
    state.disk.kept.sort_unstable();
}

/// Acknowledges the event if it is still there, and else appends it again.
fn confirm(model: Appends, state: &mut State, place: usize, number: u8) -> Option<Phase> {
    let inode = state.writers[place].inode();
    if state.disk.inode(number) != Some(inode) {
        state.writers[place].attempt += 1;
        return Some(Phase::Waiting);
    }
    state.truth.acknowledged.push((number, inode));
    state.truth.acknowledged.sort_unstable();
    (model.flaw == Flaw::KeptLast).then_some(Phase::Keeping(number))
}
