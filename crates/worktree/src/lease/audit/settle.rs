//! Recovery after a power cut. Lines aren't synced, but the links that they describe are. After the
//! first start of a machine since the log was last written, the ends of all chains are compared
//! with the log, once.
//!
//! Missing lines are recreated in their original order, as far as the anchors tell; then the bytes
//! are the same. Anchors that can't be satisfied any more are listed in an event of their own, and
//! no longer count. That event stays: anyone who truncates the log and blames a power cut has to
//! say so in it.

use std::collections::{HashMap, HashSet};

use lokt_core::lease::audit::{Anchor, Event, Head};
use lokt_core::lease::slot::Slot;
use serde_json::{Map, Value, json};

use super::chains;
use super::fill::unread;
use super::lines::{Line, Place};
use super::log::{Closed, Log, sync};
use super::note::event;
use super::{HEAD, LOG, REPAIR};

/// Maximum number of anchors in an event: there is one for each worktree that ever existed.
const VOID_MAX: usize = 100_000;

/// State of an anchor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// The log has its line.
    Good,
    /// It doesn't have the line, and says that it can't.
    Void,
    /// It doesn't have the line.
    Bad,
}

/// Searches the whole log for the line of an anchor.
pub(super) fn standing(log: &Log<'_>, anchor: &Anchor) -> Result<Standing, Closed> {
    let mut wanted = Wanted::new([anchor]);
    each_event(log, |place, event| wanted.see(place, event))?;
    Ok(wanted.standing(anchor))
}

/// Anchors to search for in a log.
#[derive(Default)]
pub(super) struct Wanted {
    counts: HashMap<u64, HashSet<String>>,
    seen: HashSet<(u64, String)>,
    void: HashSet<(u64, String)>,
}

impl Wanted {
    pub(super) fn new<'a>(anchors: impl IntoIterator<Item = &'a Anchor>) -> Self {
        let mut wanted = Self::default();
        for anchor in anchors {
            wanted.counts.entry(anchor.count).or_default().insert(anchor.hash.clone());
        }
        wanted
    }

    /// Takes a line, and the place after it.
    pub(super) fn see(&mut self, place: &Place, event: &Event) {
        if self.has(place.count, &place.hash) {
            self.seen.insert((place.count, place.hash.clone()));
        }
        if event.operation == REPAIR {
            let listed = event.details.get("void").and_then(Value::as_array).into_iter().flatten();
            self.void.extend(listed.filter_map(|void| Some((void["count"].as_u64()?, void["hash"].as_str()?.into()))));
        }
    }

    pub(super) fn standing(&self, anchor: &Anchor) -> Standing {
        let key = (anchor.count, anchor.hash.clone());
        match () {
            () if anchor.count == 0 || self.seen.contains(&key) => Standing::Good,
            () if self.void.contains(&key) => Standing::Void,
            () => Standing::Bad,
        }
    }

    fn has(&self, count: u64, hash: &str) -> bool {
        self.counts.get(&count).is_some_and(|hashes| hashes.contains(hash))
    }
}

fn each_event(log: &Log<'_>, mut see: impl FnMut(&Place, &Event)) -> Result<(), Closed> {
    let Some(mut lines) = log.lines(Place::default()) else { return Ok(()) };
    loop {
        match lines.next().map_err(|error| unread(&error))? {
            None | Some(Line::Torn) => return Ok(()),
            Some(Line::Bad(_)) => {}
            // Until it is cut off, it isn't a line.
            Some(Line::Wiped(_)) if !log.is_settled => return Ok(()),
            Some(Line::Wiped(_)) => {}
            Some(Line::Good(event)) => see(&lines.place, &event),
        }
    }
}

/// Compares the log with the ends of all chains. `head` is what was last known of the log, during
/// another boot.
pub(super) fn settle(log: &mut Log<'_>, head: Option<&Head>) -> Result<(), Closed> {
    let newest = chains::newest_of_all(log.repo);
    if let (None, Some((name, _))) = (head, chains::knows_lines(log.repo, &newest)) {
        return Err(Closed::broken(&headless(name)));
    }
    let is_short = newest.iter().any(|(_, slot)| slot.anchor.size > log.end.size);
    if !is_short && head.is_none_or(|head| head.size <= log.end.size) {
        return Ok(());
    }
    let links: Vec<Vec<Slot>> = chains::all(log.repo).iter().map(|dir| chains::links(log.repo, dir)).collect();
    let lost = Anchor { count: head.map_or(0, |head| head.count), ..Anchor::default() };
    let lost = Anchor { hash: head.map(|head| head.hash.clone()).unwrap_or_default(), ..lost };
    let mut wanted = Wanted::new(links.iter().flatten().map(|slot| &slot.anchor).chain([&lost]));
    let mut logged: HashSet<String> = HashSet::new();
    each_event(log, |place, event| {
        wanted.see(place, event);
        logged.insert(event.event_id.clone());
    })?;
    let bad = |wanted: &Wanted| -> Vec<(String, Slot)> {
        newest.iter().filter(|(_, slot)| wanted.standing(&slot.anchor) == Standing::Bad).cloned().collect()
    };
    if let Some((name, slot)) = bad(&wanted).iter().find(|(_, slot)| chains::is_of_this_boot(log.repo, slot)) {
        let why = format!("the line {} that the lease of worktree {name} knows isn't there", slot.anchor.count);
        return Err(Closed::broken(&why));
    }
    let kept = log.end.clone();
    let again = in_order(&kept, &links, &logged, &wanted);
    let mut place = kept.clone();
    for event in &again {
        (place.hash, place.count) = (event.line(&place.hash).1, place.count + 1);
        wanted.see(&place, event);
    }
    log.append(&again)?;
    let mut void: Vec<Anchor> = bad(&wanted).into_iter().map(|(_, slot)| slot.anchor).collect();
    if wanted.standing(&lost) == Standing::Bad {
        void.push(lost);
    }
    if !void.is_empty() {
        let why = format!("lines after the first {} were lost when the machine stopped", kept.count);
        log.void(void, &why)?;
    }
    sync(log.repo).map_err(Closed)
}

/// Describes a missing head: a process that removed it may have removed lines, too.
pub(super) fn headless(name: &str) -> String {
    format!("{HEAD} is missing, and the lease of worktree {name} knows that it was there since this machine started")
}

/// Returns the events that come next, as far as the anchors tell. Of those that follow in their
/// chains, this is the one whose link was created when the log ended here, or after which some link
/// was created.
fn in_order(kept: &Place, links: &[Vec<Slot>], logged: &HashSet<String>, wanted: &Wanted) -> Vec<Event> {
    let missing = |slot: &&Slot| !logged.contains(&slot.event.event_id);
    let mut queues: Vec<_> = links.iter().map(|chain| chain.iter().filter(missing).peekable()).collect();
    let mut place = kept.clone();
    let mut order = Vec::new();
    loop {
        let rated = queues.iter_mut().enumerate().filter_map(|(index, queue)| {
            let slot = queue.peek()?;
            let hash = slot.event.line(&place.hash).1;
            let begins_here = slot.anchor.count == place.count && slot.anchor.hash == place.hash;
            let is_known = wanted.has(place.count + 1, &hash);
            let rating = 2 * u8::from(is_known) + u8::from(begins_here);
            (rating > 0).then_some((rating, index, hash))
        });
        let Some((_, index, hash)) = rated.max_by_key(|(rating, ..)| *rating) else { return order };
        order.extend(queues[index].next().map(|slot| slot.event.clone()));
        (place.hash, place.count) = (hash, place.count + 1);
    }
}

impl Log<'_> {
    /// Records in the log, durably, that these anchors no longer count.
    pub(super) fn void(&mut self, anchors: impl IntoIterator<Item = Anchor>, why: &str) -> Result<(), Closed> {
        let mut details = Map::new();
        details.insert("problem".into(), why.into());
        details.insert("void".into(), listed(anchors));
        let event = event(self.repo, REPAIR, LOG, details).map_err(|error| Closed(error.to_string()))?;
        self.append([&event])?;
        sync(self.repo).map_err(Closed)
    }
}

pub(super) fn listed(anchors: impl IntoIterator<Item = Anchor>) -> Value {
    let void = |anchor: Anchor| json!({"count": anchor.count, "hash": anchor.hash});
    anchors.into_iter().take(VOID_MAX).map(void).collect::<Vec<_>>().into()
}
