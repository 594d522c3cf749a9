//! What is on disk: the chain of one worktree, its ceilings, and what is staged.

/// The birth of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Base {
    /// Which chain: no other ever has this.
    pub chain: u8,
    /// Its first number.
    pub first: u8,
    /// Its first ceiling.
    pub block: u8,
}

/// What a slot says was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A lease began; its token is the slot's number.
    Grant,
    /// It got more time.
    Renew,
    /// It ended.
    Release,
    /// Something staged becomes visible.
    Publish,
    /// The numbers go on in another block.
    Rebase,
}

/// A lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Record {
    /// Its token.
    pub token: u8,
    /// Whose.
    pub session: u8,
    /// When it was renewed last.
    pub since: u8,
}

/// A numbered file with the whole state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    /// Its number, which is its name.
    pub number: u8,
    /// Of which chain.
    pub chain: u8,
    /// By which command: this and the number are which file it is.
    pub by: u8,
    /// What was done.
    pub kind: Kind,
    /// The lease after that.
    pub record: Option<Record>,
    /// The number of the slot after it.
    pub next: u8,
    /// No number above this may be used.
    pub ceiling: u8,
}

/// Which file a slot is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct File {
    /// Its number.
    pub number: u8,
    /// Who made it.
    pub by: u8,
}

impl Slot {
    /// Which file it is.
    pub fn file(&self) -> File {
        File { number: self.number, by: self.by }
    }
}

/// A renewal beside the chain. Only where that is the mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Renewal {
    /// Of which token.
    pub token: u8,
    /// The how manyth.
    pub count: u8,
    /// When.
    pub since: u8,
}

/// A file that is about to be published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Staged {
    /// Under which token.
    pub token: u8,
    /// By which client.
    pub client: u8,
}

/// The files of one worktree.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Disk {
    /// Is there a directory for the chain?
    pub dir: bool,
    /// The birth of the chain in it.
    pub base: Option<Base>,
    /// The slots in it, lowest first, whichever chain they belong to.
    pub slots: Vec<Slot>,
    /// The chains of which it notes that slots were removed.
    pub pruned: Vec<u8>,
    /// The renewals in it.
    pub renewals: Vec<Renewal>,
    /// The tokens that were noted outside of it, lowest first.
    pub granted: Vec<u8>,
    /// The ceilings, outside of it.
    pub fences: Vec<u8>,
    /// What is staged, outside of it.
    pub staging: Vec<Staged>,
}

impl Disk {
    /// Is this very file still under its number?
    pub fn has(&self, file: File) -> bool {
        self.at(file.number).is_some_and(|slot| slot.by == file.by)
    }

    /// What is under a number.
    pub fn at(&self, number: u8) -> Option<&Slot> {
        self.slots.iter().find(|slot| slot.number == number)
    }

    /// The highest ceiling; 0 if there is none.
    pub fn fence(&self) -> u8 {
        self.fences.iter().copied().max().unwrap_or(0)
    }

    /// Puts a slot there, whatever is.
    pub(super) fn put(&mut self, slot: Slot) {
        self.unlink(slot.number);
        self.slots.push(slot);
        self.slots.sort_unstable();
    }

    /// Notes a token.
    pub(super) fn grant(&mut self, token: u8) {
        self.granted.push(token);
        self.granted.sort_unstable();
        self.granted.dedup();
    }

    /// Removes a slot.
    pub(super) fn unlink(&mut self, number: u8) {
        self.slots.retain(|slot| slot.number != number);
    }

    /// `rm -rf` of the directory.
    pub(super) fn remove_dir(&mut self) {
        let Self { granted, fences, staging, .. } = std::mem::take(self);
        *self = Self { granted, fences, staging, ..Self::default() };
    }
}
