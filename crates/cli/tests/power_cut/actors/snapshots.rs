//! Snapshots of a worktree: taken, pinned, restored in place, and collected when they are old. One that was acknowledged is whole, with every
//! file, until it is removed; then it doesn't come back. A restore leaves the old tree or the new one.

use std::collections::BTreeMap;
use std::fs;

use lokt_testkit::dice::Dice;
use serde_json::Value;

use super::published::halve;
use super::restored::{Restored, some_file, version};
use super::{Acks, Actor, pick};
use crate::site::{Call, Site, Stop};
use crate::stored::text;
use crate::tally::Tally;

pub(super) const OWNER: &str = "olivia";
pub(super) const REPOSITORY: &str = "snapped";
/// So many are there before the first are collected: enough that some go, whatever is kept.
const ENOUGH: usize = 6;
/// What `gc` keeps beside what it must.
const KEEP_LAST: usize = 3;

/// What was acknowledged of one snapshot.
#[derive(Debug)]
struct Snapshot {
    version: u64,
    pinned: bool,
}

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Take,
    RestoreMain,
    RestoreBack,
    Pin,
    Collect,
}

impl Step {
    fn kind(self) -> &'static str {
        match self {
            Self::Take => "snapshot",
            Self::RestoreMain | Self::RestoreBack => "restored tree",
            Self::Pin => "pin",
            Self::Collect => "removed snapshot",
        }
    }
}

/// One who takes snapshots.
pub(crate) struct Snapshots {
    /// What snapshots are taken of.
    main: Restored,
    /// Nobody writes to this one: after every cut it must be one that was restored.
    back: Restored,
    /// Which one `back` is at, if that was acknowledged.
    back_at: Option<String>,
    /// How many trees were written.
    versions: u64,
    taken: BTreeMap<String, Snapshot>,
    /// Those that were removed. False: that wasn't answered, but they were gone.
    gone: BTreeMap<String, bool>,
    asked: Option<Step>,
    /// The one whose pin was asked for and not answered.
    pin_asked: Option<String>,
    has_pinned: bool,
}

impl Snapshots {
    pub(crate) fn new() -> Self {
        Self {
            main: Restored::new("main"),
            back: Restored::new("back"),
            back_at: None,
            versions: 0,
            taken: BTreeMap::new(),
            gone: BTreeMap::new(),
            asked: None,
            pin_asked: None,
            has_pinned: false,
        }
    }

    /// Everything once, and then anything.
    fn choose(&self, dice: &mut Dice) -> Step {
        let any = dice.below(8);
        match any {
            _ if self.taken.is_empty() => Step::Take,
            _ if self.back_at.is_none() => Step::RestoreBack,
            _ if !self.has_pinned => Step::Pin,
            _ if self.gone.is_empty() && self.taken.len() >= ENOUGH => Step::Collect,
            _ if self.gone.is_empty() => Step::Take,
            0 => Step::RestoreMain,
            1 => Step::RestoreBack,
            2 => Step::Pin,
            3 => Step::Collect,
            _ => Step::Take,
        }
    }

    /// A new tree, and a snapshot of it. Taking it syncs the tree as well.
    fn take(&mut self, site: &Site) -> Result<String, Stop> {
        self.versions += 1;
        if !self.main.write(site, self.versions) {
            return Err(Stop::Cut);
        }
        let answer = site.answer(&self.main.call(site, "snapshot create"))?;
        self.main.is_now(self.versions);
        let id = text(&answer, "snapshot_id");
        self.taken.insert(id.clone(), Snapshot { version: self.versions, pinned: false });
        Ok(id)
    }

    fn restore_main(&mut self, site: &Site, id: &str) -> Result<(), Stop> {
        let version = self.taken[id].version;
        self.main.may_be(version);
        site.answer(&self.main.call(site, &format!("snapshot restore {id} --in-place --force")))?;
        self.main.is_now(version);
        Ok(())
    }

    fn restore_back(&mut self, site: &Site, id: &str) -> Result<(), Stop> {
        let version = self.taken[id].version;
        self.back.may_be(version);
        self.back_at = None;
        site.answer(&self.back.call(site, &format!("snapshot restore {id} --in-place --force")))?;
        self.back.is_now(version);
        self.back_at = Some(id.to_owned());
        Ok(())
    }

    fn pin(&mut self, site: &Site, id: &str) -> Result<(), Stop> {
        let pin = !self.taken[id].pinned;
        self.pin_asked = Some(id.to_owned());
        let word = if pin { "pin" } else { "unpin" };
        site.answer(&Call::new(OWNER, &format!("snapshot {word} {id} --json")).within(REPOSITORY))?;
        self.pin_asked = None;
        self.taken.get_mut(id).expect("it was taken").pinned = pin;
        self.has_pinned = true;
        Ok(())
    }

    /// Lets old ones go; gives how many went.
    fn collect(&mut self, site: &Site, now: &str) -> Result<u64, Stop> {
        let words = format!("snapshot gc run --keep-last {KEEP_LAST} {now} --json");
        let answer = site.answer(&Call::new(OWNER, &words).within(REPOSITORY))?;
        let removed = answer["removed"].as_array().map_or(&[][..], Vec::as_slice);
        let removed: Vec<String> = removed.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        for id in &removed {
            if !self.may_go(id) {
                return Err(Stop::Wrong(format!("gc keeps {id}: {:?}", self.taken.get(id))));
            }
            self.taken.remove(id);
            self.gone.insert(id.clone(), true);
        }
        Ok(removed.len() as u64)
    }

    /// What is pinned, where a worktree is and the newest one must stay. Others may be older than those that were never answered.
    fn may_go(&self, id: &str) -> bool {
        let is_pinned = self.taken.get(id).is_some_and(|snapshot| snapshot.pinned);
        let newest = self.taken.iter().max_by_key(|(_, snapshot)| snapshot.version).map(|(id, _)| id.as_str());
        !is_pinned && self.back_at.as_deref() != Some(id) && newest != Some(id)
    }

    /// Compares every snapshot with the book, given what the history says.
    fn look_at_taken(&mut self, site: &Site, listed: &[Value], asked: Option<Step>, tally: &mut Tally) {
        let find = |id: &str| listed.iter().find(|listed| text(listed, "snapshot_id") == id);
        let pin_asked = self.pin_asked.take();
        let may_be_gone = |id: &&String| asked == Some(Step::Collect) && self.may_go(id) && find(id).is_none();
        let may_be_gone: Vec<String> = self.taken.keys().filter(may_be_gone).cloned().collect();
        for id in may_be_gone {
            self.taken.remove(&id);
            self.gone.insert(id, false);
        }
        for (id, snapshot) in &mut self.taken {
            let listed = find(id);
            let pinned = listed.is_some_and(|listed| listed["pinned"] == true);
            let found = version(&tree_of(site, id));
            let whole = listed.is_some() && found == Some(snapshot.version);
            tally.check("snapshot", whole, || format!("{id}, {snapshot:?} became {found:?}, {listed:?}"));
            if pin_asked.as_ref() != Some(id) {
                tally.check("pin", pinned == snapshot.pinned, || format!("{id}, {snapshot:?} became {listed:?}"));
            }
            snapshot.pinned = pinned;
        }
        for (id, answered) in &self.gone {
            // One whose removal wasn't answered is finished by whoever collects next.
            let is_gone = find(id).is_none() && !(*answered && tree_of(site, id).exists());
            tally.check("removed snapshot", is_gone, || format!("{id}, which was removed, is back: {:?}", find(id)));
        }
    }
}

impl Actor for Snapshots {
    fn kind(&self) -> &'static str {
        "snapshot"
    }

    fn kinds(&self) -> Vec<&'static str> {
        vec!["pin", "removed snapshot", "restored tree", "snapshot"]
    }

    fn move_in(&mut self, site: &Site) -> Result<(), Stop> {
        fs::create_dir(site.at(REPOSITORY)).expect("a new file system is writable");
        site.sync();
        site.answer(&Call::new(OWNER, "worktree init --json").within(REPOSITORY))?;
        site.answer(&Call::new(OWNER, "worktree create back --json").within(REPOSITORY))?;
        self.main.acquire(site)?;
        self.back.acquire(site)
    }

    fn step(&mut self, site: &Site, dice: &mut Dice) -> Result<Acks, Stop> {
        let step = self.choose(dice);
        let some = self.taken.keys().nth_back(pick(dice, self.taken.len().clamp(1, 5))).cloned().unwrap_or_default();
        let now = ["", "--now"][pick(dice, 2)];
        self.asked = Some(step);
        let mut count = 1;
        match step {
            Step::Take => drop(self.take(site)?),
            Step::RestoreMain => self.restore_main(site, &some)?,
            Step::RestoreBack => self.restore_back(site, &some)?,
            Step::Pin => self.pin(site, &some)?,
            Step::Collect => count = self.collect(site, now)?,
        }
        self.asked = None;
        Ok(if count == 0 { Vec::new() } else { vec![(step.kind(), count)] })
    }

    fn look(&mut self, site: &Site, tally: &mut Tally) -> Result<(), Stop> {
        let asked = self.asked.take();
        if let Some(step) = asked {
            tally.in_flight(step.kind());
        }
        self.main.look(site, tally);
        self.back.look(site, tally);
        let history = site.answer(&Call::new(OWNER, "snapshot history --json").within(REPOSITORY))?;
        let listed: &[Value] = history["snapshots"].as_array().map_or(&[], Vec::as_slice);
        self.look_at_taken(site, listed, asked, tally);
        let ended = site.run(&Call::new(OWNER, "snapshot verify --all --json").within(REPOSITORY));
        tally.check("snapshot", ended.code == Some(0), || format!("every visible one is whole: {ended:?}"));
        Ok(())
    }

    fn go_on(&mut self, site: &Site, tally: &mut Tally) -> Result<(), Stop> {
        self.main.go_on(site, tally)?;
        self.back.go_on(site, tally)?;
        self.take(site).map(drop)
    }

    fn lose(&mut self, site: &Site, kind: &'static str) -> Result<(), Stop> {
        let id = self.take(site)?;
        match kind {
            "pin" => {
                self.pin(site, &id)?;
                site.answer(&Call::new(OWNER, &format!("snapshot unpin {id} --json")).within(REPOSITORY))?;
            }
            // As if it had been removed, and had come back.
            "removed snapshot" => drop(self.gone.insert(id, true)),
            "restored tree" => {
                self.restore_back(site, &id)?;
                halve(&some_file(&self.back.dir(site)));
            }
            _ => halve(&some_file(&tree_of(site, &id))),
        }
        Ok(())
    }
}

fn tree_of(site: &Site, id: &str) -> std::path::PathBuf {
    site.at(&format!("{REPOSITORY}/.jvs/snapshots/{id}"))
}
