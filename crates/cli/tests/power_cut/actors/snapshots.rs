//! Snapshots of a worktree: taken, pinned, restored in place. One that was acknowledged is whole, with every file; a restore leaves the old tree
//! or the new one.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use lokt_testkit::dice::Dice;
use serde_json::Value;

use super::{Acks, Actor, pick};
use crate::site::{Call, Highest, Site, Stop};
use crate::stored::{number, text};
use crate::tally::Tally;

const OWNER: &str = "olivia";
const REPOSITORY: &str = "snapped";
const FILES: usize = 12;
/// More than a block each.
const LINES: usize = 1000;

/// What was acknowledged of one snapshot.
#[derive(Debug)]
struct Snapshot {
    version: u64,
    pinned: bool,
}

/// What the tree of the worktree may be.
#[derive(Clone, Debug)]
enum Tree {
    /// One of these, whole.
    OneOf(Vec<u64>),
    /// Files were written that nobody made durable.
    Written,
}

/// One who takes snapshots.
pub(crate) struct Snapshots {
    tokens: Highest,
    token: u64,
    /// How many trees were written.
    versions: u64,
    tree: Tree,
    /// The same as it was when the power went.
    tree_then: Tree,
    taken: BTreeMap<String, Snapshot>,
    asked: bool,
    /// The one whose pin was asked for and not answered.
    pin_asked: Option<String>,
}

impl Snapshots {
    pub(crate) fn new() -> Self {
        Self {
            tokens: Highest::default(),
            token: 0,
            versions: 0,
            tree: Tree::Written,
            tree_then: Tree::Written,
            taken: BTreeMap::new(),
            asked: false,
            pin_asked: None,
        }
    }

    fn acquire(&mut self, site: &Site) -> Result<(), Stop> {
        let before = self.tokens.so_far();
        let answer = site.answer(&call(site, "lease acquire --lease 1h --json"))?;
        self.token = number(&answer, "fencing_token");
        self.tokens.given(before, self.token, "the worktree of the snapshots")
    }

    /// A new tree, and a snapshot of it. Taking it syncs the tree as well.
    fn take(&mut self, site: &Site) -> Result<(), Stop> {
        self.versions += 1;
        self.tree = Tree::Written;
        if !write_tree(&site.at("snapped/main"), self.versions) {
            return Err(Stop::Cut);
        }
        let answer = site.answer(&call(site, "snapshot create --json"))?;
        self.tree = Tree::OneOf(vec![self.versions]);
        let snapshot = Snapshot { version: self.versions, pinned: false };
        self.taken.insert(text(&answer, "snapshot_id"), snapshot);
        Ok(())
    }

    fn restore(&mut self, site: &Site, id: &str) -> Result<(), Stop> {
        let version = self.taken[id].version;
        if let Tree::OneOf(versions) = &mut self.tree {
            versions.push(version);
        }
        site.answer(&call(site, &format!("snapshot restore {id} --in-place --force --json")))?;
        self.tree = Tree::OneOf(vec![version]);
        Ok(())
    }

    fn pin(&mut self, site: &Site, id: &str) -> Result<(), Stop> {
        let pin = !self.taken[id].pinned;
        self.pin_asked = Some(id.to_owned());
        let word = if pin { "pin" } else { "unpin" };
        site.answer(&Call::new(OWNER, &format!("snapshot {word} {id} --json")).within(REPOSITORY))?;
        self.pin_asked = None;
        self.taken.get_mut(id).expect("it was taken").pinned = pin;
        Ok(())
    }

    fn look_at_tree(&mut self, site: &Site, tally: &mut Tally) {
        let found = version(&site.at("snapped/main"));
        if let Tree::OneOf(versions) = &self.tree {
            let kept = found.is_some_and(|found| versions.contains(&found));
            tally.check("restored tree", kept, || format!("all-or-nothing: {versions:?} became {found:?}"));
        }
        self.tree = found.map_or(Tree::Written, |found| Tree::OneOf(vec![found]));
    }
}

impl Actor for Snapshots {
    fn kind(&self) -> &'static str {
        "snapshot"
    }

    fn move_in(&mut self, site: &Site) -> Result<(), Stop> {
        fs::create_dir(site.at(REPOSITORY)).expect("a new file system is writable");
        site.sync();
        site.answer(&Call::new(OWNER, "worktree init --json").within(REPOSITORY))?;
        self.acquire(site)
    }

    fn step(&mut self, site: &Site, dice: &mut Dice) -> Result<Acks, Stop> {
        self.asked = true;
        let some = self.taken.keys().nth_back(pick(dice, self.taken.len().clamp(1, 5))).cloned();
        let kind = match (some, dice.below(5)) {
            (Some(id), 0) => self.restore(site, &id).map(|()| "restored tree")?,
            (Some(id), 1) => self.pin(site, &id).map(|()| "pin")?,
            _ => self.take(site).map(|()| "snapshot")?,
        };
        self.asked = false;
        Ok(vec![(kind, 1)])
    }

    fn look(&mut self, site: &Site, tally: &mut Tally) -> Result<(), Stop> {
        if std::mem::take(&mut self.asked) {
            tally.in_flight("snapshot");
        }
        self.tree_then = self.tree.clone();
        self.look_at_tree(site, tally);
        let history = site.answer(&Call::new(OWNER, "snapshot history --json").within(REPOSITORY))?;
        let listed: &[Value] = history["snapshots"].as_array().map_or(&[], Vec::as_slice);
        let pin_asked = self.pin_asked.take();
        for (id, snapshot) in &mut self.taken {
            let listed = listed.iter().find(|listed| text(listed, "snapshot_id") == *id);
            let pinned = listed.is_some_and(|listed| listed["pinned"] == true);
            let found = version(&site.at(&format!("snapped/.jvs/snapshots/{id}")));
            let whole = listed.is_some() && found == Some(snapshot.version);
            tally.check("snapshot", whole, || format!("{id}, {snapshot:?} became {found:?}, {listed:?}"));
            if pin_asked.as_ref() != Some(id) {
                tally.check("pin", pinned == snapshot.pinned, || format!("{id}, {snapshot:?} became {listed:?}"));
            }
            snapshot.pinned = pinned;
        }
        let ended = site.run(&Call::new(OWNER, "snapshot verify --all --json").within(REPOSITORY));
        tally.check("snapshot", ended.code == Some(0), || format!("every visible one is whole: {ended:?}"));
        Ok(())
    }

    fn go_on(&mut self, site: &Site, tally: &mut Tally) -> Result<(), Stop> {
        if site.is_rebooted() {
            self.acquire(site)?;
        } else {
            site.answer(&call(site, "lease renew --json"))?;
        }
        // Whoever gets or keeps the lease finishes a restore that was decided: that is the last moment for it.
        self.tree.clone_from(&self.tree_then);
        self.look_at_tree(site, tally);
        self.take(site)
    }
}

fn call(site: &Site, words: &str) -> Call<'static> {
    Call::new(OWNER, words)
        .within(REPOSITORY)
        .word("--session")
        .word(site.outside("session-snapped").display().to_string())
}

/// Files that all say which version they are. Is it all there?
fn write_tree(dir: &Path, version: u64) -> bool {
    let content = format!("{version}\n").repeat(LINES);
    (0..FILES).all(|n| {
        let dir = dir.join(format!("dir-{}", n % 3));
        fs::create_dir_all(&dir).is_ok() && overwrite(&dir.join(format!("file-{n}")), &content)
    })
}

/// With the power off this fails, which is no failure of the test.
#[expect(clippy::disallowed_methods, reason = "an ordinary write into a worktree, which nobody syncs")]
fn overwrite(path: &Path, content: &str) -> bool {
    fs::write(path, content).is_ok()
}

/// Which version a tree is; `None` if it isn't a whole one.
fn version(dir: &Path) -> Option<u64> {
    let read = |n: usize| fs::read_to_string(dir.join(format!("dir-{}/file-{n}", n % 3))).ok();
    let first = read(0)?;
    let version: u64 = first.lines().next()?.parse().ok()?;
    let content = format!("{version}\n").repeat(LINES);
    (0..FILES).all(|n| read(n).as_ref() == Some(&content)).then_some(version)
}
