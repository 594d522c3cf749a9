//! Foreign writers: programs that know the lock but not our mutex, and rename over whatever is there.

use super::Appends;
use super::bounds::Limit;
use super::disk::{Event, Form, Inode, Lock, Owner};
use super::state::State;

/// How a program takes and gives back the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tool {
    /// The native program: a file; on release it reads it, compares the agent, which all of its kind share, and removes
    /// what is there.
    Native,
    /// The documented steps: a file; on release what is there is removed.
    Documented,
    /// The documented shell recipe: a directory, `mktemp`, write, `mv`, `rmdir`.
    Shell,
}

/// What a foreign writer has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Nothing.
    Away,
    /// It has made its lock.
    Locked,
    /// It has counted, and will write to that number.
    Counted(u8),
    /// It has made a temporary file, without bytes.
    Made(u8),
    /// The bytes are in it.
    Written(u8),
    /// It has renamed it, or couldn't.
    Renamed,
    /// It has read the lock, and found it to be its own.
    Compared,
    /// It has done all, or is dead.
    Left,
}

impl Stage {
    /// What comes next, in words.
    pub fn next(self) -> &'static str {
        match self {
            Self::Away => "makes its lock",
            Self::Locked => "counts",
            Self::Counted(_) => "makes a temporary file",
            Self::Made(_) => "writes it",
            Self::Written(_) => "renames it",
            Self::Renamed => "begins to release the lock",
            Self::Compared => "removes the lock",
            Self::Left => "does nothing",
        }
    }
}

/// A foreign writer. It comes once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Foreign {
    /// Its kind.
    pub tool: Tool,
    /// How far it is.
    pub stage: Stage,
    /// Does it want to claim the node?
    pub claims: bool,
    /// Is its temporary file there?
    pub has_temp: bool,
    /// Was its lock judged to be stale and taken over?
    pub is_overtaken: bool,
}

impl Foreign {
    /// One that has not come yet.
    pub(super) fn new(tool: Tool) -> Self {
        Self { tool, stage: Stage::Away, claims: false, has_temp: false, is_overtaken: false }
    }

    /// Is it between taking and giving back the lock?
    pub fn is_inside(&self) -> bool {
        !matches!(self.stage, Stage::Away | Stage::Left)
    }

    fn leave(&mut self) {
        *self = Self { stage: Stage::Left, ..Self::new(self.tool) };
    }
}

/// A foreign writer finds no lock and makes its own.
pub(super) fn come(state: &mut State, place: usize, claims: bool) {
    let writer = &mut state.foreign[place];
    let form = if writer.tool == Tool::Shell { Form::Empty } else { Form::File };
    writer.stage = Stage::Locked;
    writer.claims = claims;
    let owner = Owner::Foreign(number(place));
    state.disk.lock = Some(Lock { owner, form, is_old: false, took_over: None, displaced: None });
}

/// A foreign writer dies. What it has made stays.
pub(super) fn end(state: &mut State, place: usize) {
    state.foreign[place].leave();
}

/// A foreign writer takes its next step.
pub(super) fn step(model: Appends, state: &mut State, place: usize) {
    let tool = state.foreign[place].tool;
    match state.foreign[place].stage {
        Stage::Away | Stage::Left => {}
        Stage::Locked => count(state, place),
        Stage::Counted(target) => {
            state.foreign[place].has_temp = true;
            state.foreign[place].stage = Stage::Made(target);
        }
        Stage::Made(target) => {
            // The shell opens it by name and makes it anew if it is gone; the others have it open.
            state.foreign[place].has_temp |= tool == Tool::Shell;
            state.foreign[place].stage = Stage::Written(target);
        }
        Stage::Written(target) => rename(state, place, target),
        Stage::Renamed if tool == Tool::Native => {
            let is_native =
                |owner| matches!(owner, Owner::Foreign(other) if state.foreign[usize::from(other)].tool == tool);
            if state.disk.lock.as_ref().is_some_and(|lock| lock.form == Form::File && is_native(lock.owner)) {
                state.foreign[place].stage = Stage::Compared;
            } else {
                state.foreign[place].leave();
            }
        }
        Stage::Renamed | Stage::Compared => remove_lock(model, state, place),
    }
}

fn count(state: &mut State, place: usize) {
    let events = state.disk.slots.iter().flatten();
    let target = match state.foreign[place].tool {
        Tool::Shell => u8::try_from(events.count()).expect("events are few") + 1,
        Tool::Native | Tool::Documented => state.disk.head() + 1,
    };
    let is_held = state.disk.slots.iter().flatten().any(|event| event.claims);
    let writer = &mut state.foreign[place];
    writer.stage = if writer.claims && is_held { Stage::Renamed } else { Stage::Counted(target) };
}

fn rename(state: &mut State, place: usize, target: u8) {
    let writer = &mut state.foreign[place];
    writer.stage = Stage::Renamed;
    let (claims, has_temp) = (writer.claims, writer.has_temp);
    writer.claims = false;
    writer.has_temp = false;
    if has_temp {
        state.disk.put(target, Event { inode: Inode::Foreign(number(place)), claims, names_filler: false, chain: 0 });
    }
}

/// Removes what it takes for its own lock, if it can.
fn remove_lock(model: Appends, state: &mut State, place: usize) {
    let removes = match state.foreign[place].tool {
        Tool::Shell => [Form::Empty].as_slice(),
        // The library call tries `unlink` and then `rmdir`.
        Tool::Native | Tool::Documented => [Form::File, Form::Empty].as_slice(),
    };
    if let Some(lock) = &state.disk.lock {
        let is_spared = match lock.owner {
            Owner::Foreign(other) => other != number(place) && model.bounds.limit != Limit::FreesAnother,
            Owner::Ours(_) => false,
        };
        if removes.contains(&lock.form) && !is_spared {
            state.delete_lock();
        }
    }
    state.foreign[place].leave();
}

/// The name of the foreign writer in that place.
pub(super) fn number(place: usize) -> u8 {
    u8::try_from(place).expect("foreign writers are few")
}
