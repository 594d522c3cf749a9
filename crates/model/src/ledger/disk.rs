//! What is on disk: events under their numbers, the one lock, and lokt's own notes.

/// Which file an event is: an inode that nothing else ever has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Inode {
    /// An append of ours, and for the how manyth time it was tried.
    Ours(u8, u8),
    /// A filler of ours, by the same two.
    Filler(u8, u8),
    /// The filler that one of ours leaves when it is refused after a take-over, by the same two.
    Closing(u8, u8),
    /// What was there before anybody came.
    First,
    /// A foreign writer's.
    Foreign(u8),
}

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Event {
    /// Its file.
    pub inode: Inode,
    /// Does it claim the node?
    pub claims: bool,
    /// Does it say that the number before it was filled?
    pub names_filler: bool,
    /// The digest of all before it; 0 where there is none.
    pub chain: u32,
}

impl Event {
    /// Does it say of itself that it is a filler?
    pub fn is_filler(&self) -> bool {
        matches!(self.inode, Inode::Filler(..) | Inode::Closing(..))
    }
}

/// Who made a lock. Nobody makes two that lie around at the same time, so this is also which one it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// An append of ours.
    Ours(u8),
    /// A foreign writer.
    Foreign(u8),
}

/// What a lock is made of, and so who can remove it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Form {
    /// A file: `unlink` removes it.
    File,
    /// An empty directory: `rmdir` removes it.
    Empty,
    /// A directory with something in it: only a rename does.
    Full,
}

/// `ledger.lock`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lock {
    /// Whose.
    pub owner: Owner,
    /// A file or a directory.
    pub form: Form,
    /// Did time pass since it was made?
    pub is_old: bool,
    /// The foreign lock that it says it took over: whoever finds it left behind owes a filler.
    pub took_over: Option<Owner>,
    /// What it was exchanged with, in lokt's own state, until that was looked at.
    pub displaced: Option<Box<Lock>>,
}

/// What lokt has noted about the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hint {
    /// Its number.
    pub head: u8,
    /// Its file.
    pub inode: Inode,
}

/// The claims up to a number, as lokt keeps them in memory and on disk.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Fold {
    /// Up to which number.
    pub through: u8,
    /// That one's file.
    pub inode: Option<Inode>,
    /// The filled numbers, each with the file that was read there.
    pub fillers: Vec<(u8, Inode)>,
    /// Is the node claimed?
    pub claimed: bool,
}

/// The files of one ledger.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Disk {
    /// What is under 1, 2, …
    pub slots: Vec<Option<Event>>,
    /// The lock.
    pub lock: Option<Lock>,
    /// The head as it was.
    pub hint: Option<Hint>,
    /// The claims as they were.
    pub cache: Option<Fold>,
    /// Hard links of our events.
    pub kept: Vec<(u8, Inode)>,
    /// Is it noted that a lock was taken over, and that its owner may come back?
    pub is_wary: bool,
}

impl Disk {
    /// The highest number.
    pub fn head(&self) -> u8 {
        u8::try_from(self.slots.len()).expect("events are few")
    }

    /// What is under a number.
    pub fn at(&self, number: u8) -> Option<&Event> {
        self.slots.get(usize::from(number.checked_sub(1)?))?.as_ref()
    }

    /// Which file is under a number.
    pub fn inode(&self, number: u8) -> Option<Inode> {
        self.at(number).map(|event| event.inode)
    }

    /// Puts an event under a number, whatever is there.
    pub(super) fn put(&mut self, number: u8, event: Event) {
        if number > self.head() {
            self.slots.resize(usize::from(number), None);
        }
        self.slots[usize::from(number) - 1] = Some(event);
    }

    /// The hint, if the head event that it names is still there.
    pub(super) fn sound_hint(&self) -> Option<Hint> {
        self.hint.filter(|hint| self.inode(hint.head) == Some(hint.inode))
    }

    /// The first number from `from` upward after which there is nothing.
    pub(super) fn probe(&self, from: u8) -> u8 {
        (from..u8::MAX).find(|number| self.at(number + 1).is_none()).expect("events are few")
    }

    /// Are the number and the fillers that a fold was made from still what they were?
    pub(super) fn proves(&self, fold: &Fold, heeds_fillers: bool) -> bool {
        self.inode(fold.through) == fold.inode
            && (!heeds_fillers || fold.fillers.iter().all(|(number, inode)| self.inode(*number) == Some(*inode)))
    }

    /// Folds on from `fold` up to `head`.
    pub(super) fn fold(&self, mut fold: Fold, head: u8) -> Fold {
        for number in fold.through + 1..=head {
            let Some(event) = self.at(number) else { continue };
            if event.is_filler() {
                fold.fillers.push((number, event.inode));
            }
            let before = number - 1;
            if event.names_filler && !fold.fillers.iter().any(|(filler, _)| *filler == before) {
                fold.fillers.extend(self.inode(before).map(|inode| (before, inode)));
            }
            fold.claimed |= event.claims;
            fold.through = number;
            fold.inode = Some(event.inode);
        }
        fold
    }

    /// The digest of all events up to a number, if the one after that names it as a filler or not.
    pub(super) fn digest(&self, through: u8, is_named: bool) -> u32 {
        (1..=through).fold(1, |digest: u32, number| {
            let names =
                if number == through { is_named } else { self.at(number + 1).is_some_and(|next| next.names_filler) };
            let leaf = match self.at(number) {
                Some(event) if !names && !event.is_filler() => leaf(event.inode),
                _ => 1,
            };
            digest.wrapping_mul(257).wrapping_add(leaf)
        })
    }
}

/// Another number for each file.
fn leaf(inode: Inode) -> u32 {
    match inode {
        Inode::First => 2,
        Inode::Foreign(place) => 3 + u32::from(place),
        Inode::Ours(op, attempt) => 16 + 8 * u32::from(op) + u32::from(attempt),
        Inode::Filler(..) | Inode::Closing(..) => 1,
    }
}
