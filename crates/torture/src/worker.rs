//! What one of the processes does until its time is over: asks for a name, enters, reads and writes, leaves, and tells each of these.

use std::cell::RefCell;
use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::thread;
use std::time::Duration;

use crate::history::told::{ODDITY, TROUBLE};
use crate::history::{Deed, Entry};
use lokt_core::decide::Terms;
use lokt_core::hold::Fence;
use lokt_core::inherited_holds::InheritedHolds;
use lokt_core::name::LockName;

use super::counter::Counter;
use super::dice::Dice;
use crate::arena::root_in;
use crate::herd::{die_with_the_parent, tell};
use lokt_named::Lokt;
use lokt_named::Publishing;
use lokt_named::{Acquired, OwnedHold};
use lokt_sys::error::{Error, ErrorKind};
use lokt_sys::machine::{identity, monotonic_ns};
use lokt_sys::wait_policy::{Timeout, WaitPolicy};

/// What is fought for: half of them want the first.
pub(super) const NAMES: [&str; 4] = ["hot", "cold-1", "cold-2", "cold-3"];
/// The shortest lease that there is.
pub(super) const LEASE_SEC: u64 = 1;
const LEASE_NS: u64 = LEASE_SEC * 1_000_000_000;
/// How long somebody is inside, at most.
const INSIDE_US: u64 = 5_000;
/// One of so many holders of a lease sleeps past its end, and writes then.
const OVERSLEEPS: u64 = 40;
/// Longer than this nobody waits in line.
const WAIT_MS: (u64, u64) = (20, 1_500);

/// After an error, before anything is tried again: what is broken stays so for a while, and others are to be heard meanwhile.
const AGAIN: Duration = Duration::from_millis(20);

/// Of a line that says what went wrong; with the rest of it, it is written in one piece.
const WORDS_MAX: usize = 200;

/// What a process is told when it is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Orders {
    /// Which life it is.
    pub who: u64,
    /// Its choices.
    pub seed: u64,
    /// When it ends, on the clock of histories.
    pub until: u64,
    /// It takes no locks.
    pub without_locks: bool,
    /// Before anything else it sleeps past the end of a lease and writes then, so that this is tried in every round.
    pub oversleeps: bool,
}

impl fmt::Display for Orders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = [self.without_locks, self.oversleeps].map(u8::from);
        write!(f, "{}:{}:{}:{}:{}", self.who, self.seed, self.until, flags[0], flags[1])
    }
}

impl FromStr for Orders {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Option<Vec<u64>> = text.split(':').map(|number| number.parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[who, seed, until, without @ (0 | 1), oversleeps @ (0 | 1)]) => {
                Ok(Self { who, seed, until, without_locks: without == 1, oversleeps: oversleeps == 1 })
            }
            _ => Err("these are no orders".to_owned()),
        }
    }
}

/// Does what it was started for, in the directory `arena`. What goes wrong is told, too.
pub fn work(arena: &Path, orders: &Orders) -> io::Result<()> {
    die_with_the_parent()?;
    loop {
        match Worker::new(arena, orders).and_then(|mut worker| worker.fight()) {
            // Whoever started it is gone, and there is nobody to be told.
            Ok(()) | Err(Trouble::Unheard) => return Ok(()),
            // The root could not be opened, this time.
            Err(Trouble::Failed(error)) if !is_final(&error) && monotonic_ns() < orders.until => {
                tell_trouble(ODDITY, &error)?;
                thread::park_timeout(AGAIN);
            }
            Err(Trouble::Failed(error)) => return tell_trouble(TROUBLE, &error),
        }
    }
}

fn tell_trouble(mark: char, error: &Error) -> io::Result<()> {
    let words: String = error.to_string().chars().filter(|c| !c.is_control()).take(WORDS_MAX).collect();
    tell(&format!("{mark}{words}\n"))
}

/// Would nobody else fare better, whatever locks do?
fn is_final(error: &Error) -> bool {
    matches!(
        error.io_kind(),
        Some(
            io::ErrorKind::StorageFull
                | io::ErrorKind::QuotaExceeded
                | io::ErrorKind::ReadOnlyFilesystem
                | io::ErrorKind::PermissionDenied
                | io::ErrorKind::Unsupported
        )
    )
}

/// Why it ends early.
enum Trouble {
    /// Nobody listens any more.
    Unheard,
    Failed(Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// How a lock is asked for, and what is done with it.
struct Visit {
    leased: bool,
    timeout: Option<Duration>,
    /// Past the end of the lease.
    sleeps: bool,
}

struct Worker<'a> {
    arena: &'a Path,
    orders: &'a Orders,
    lokt: Lokt,
    dice: Dice,
    scratch: PathBuf,
}

impl<'a> Worker<'a> {
    fn new(arena: &'a Path, orders: &'a Orders) -> Result<Self, Trouble> {
        let me = identity(format!("torture-{}", orders.who), None);
        let lokt = Lokt::create(&root_in(arena), me)?;
        let scratch = arena.join(format!("scratch-{}", orders.who));
        Ok(Self { arena, orders, lokt, dice: Dice::new(orders.seed), scratch })
    }

    fn fight(&mut self) -> Result<(), Trouble> {
        let mut has_overslept = !self.orders.oversleeps;
        while monotonic_ns() < self.orders.until {
            let done =
                if has_overslept { self.round() } else { self.oversleep().map(|answered| has_overslept = answered) };
            match done {
                Err(Trouble::Failed(error)) if !is_final(&error) => {
                    tell_trouble(ODDITY, &error).map_err(|_| Trouble::Unheard)?;
                    thread::park_timeout(AGAIN);
                }
                done => done?,
            }
        }
        Ok(())
    }

    /// Tells it; gives the moment that was told.
    fn tell(&self, deed: Deed) -> Result<u64, Trouble> {
        let entry = Entry { at: monotonic_ns(), who: self.orders.who, deed };
        tell(&entry.encode()).map_err(|_| Trouble::Unheard)?;
        Ok(entry.at)
    }

    fn round(&mut self) -> Result<(), Trouble> {
        let chosen = if self.dice.once_in(2) { 0 } else { self.dice.below(NAMES.len() as u64) };
        let name = NAMES[usize::try_from(chosen).unwrap_or(0)].to_owned();
        if self.orders.without_locks {
            self.tell(Deed::Asked { name: name.clone() })?;
            self.tell(Deed::Entered { name: name.clone(), token: None, until: None })?;
            let done = self.update(&name);
            self.tell(Deed::Left { name })?;
            done?;
        } else {
            let leased = self.dice.once_in(3);
            let waits = self.dice.below(4) > 0;
            let timeout = waits.then(|| Duration::from_millis(self.dice.between(WAIT_MS.0, WAIT_MS.1)));
            // Not where everybody waits for it.
            let sleeps = leased && name != NAMES[0] && self.dice.once_in(OVERSLEEPS);
            self.lock(name, &Visit { leased, timeout, sleeps })?;
        }
        self.pause(INSIDE_US / 2);
        Ok(())
    }

    /// Comes too late on purpose. True: its write was answered.
    fn oversleep(&mut self) -> Result<bool, Trouble> {
        let name = NAMES[1 + usize::try_from(self.dice.below(NAMES.len() as u64 - 1)).unwrap_or(0)].to_owned();
        let timeout = Some(Duration::from_millis(WAIT_MS.1));
        self.lock(name, &Visit { leased: true, timeout, sleeps: true })
    }

    /// True: it was let in, and its write was answered.
    fn lock(&mut self, text: String, visit: &Visit) -> Result<bool, Trouble> {
        let name = LockName::new(&text).expect("these are names of locks");
        let asked = self.tell(Deed::Asked { name: text.clone() })?;
        let Some(owned) = self.owned(&name, visit, asked)? else {
            self.tell(Deed::GaveUp { name: text })?;
            return Ok(false);
        };
        let token = owned.hold.token.map(Fence::get);
        let until = visit.leased.then(|| self.lease_began(&owned, asked) + LEASE_NS);
        let entered = self.tell(Deed::Entered { name: text.clone(), token, until })?;
        let done = match token {
            // Whoever's lease may end must not write without being asked for its token.
            Some(token) if visit.leased => self.publish(&name, token, visit.sleeps.then_some(entered)),
            _ => self.update(&text),
        };
        self.tell(Deed::Left { name: text })?;
        // One that fails, as where the mutex is busy, leaves a hold without a pulse: the next who asks finds it dead, or what is wrong.
        let _ = owned.release();
        done
    }

    fn owned(&self, name: &LockName, visit: &Visit, asked: u64) -> Result<Option<OwnedHold>, Trouble> {
        let terms = Terms { ttl_sec: visit.leased.then_some(LEASE_SEC), reason: None };
        let told = RefCell::new(None);
        let mut in_line = |_: &lokt_sys::wait_policy::Waiting<'_>| {
            told.borrow_mut().get_or_insert_with(|| self.tell(Deed::InLine { name: name.as_str().to_owned() }));
        };
        let mut patience = WaitPolicy {
            timeout: visit.timeout.map_or(Timeout::Once, Timeout::After),
            alarm: None,
            tell: Some(&mut in_line),
        };
        let grasped = self.lokt.owned(std::slice::from_ref(name), &terms, &InheritedHolds::default(), &mut patience);
        let in_line = told.into_inner().transpose()?;
        match grasped {
            Ok(said) => match said.value {
                Acquired::All { mut owned_holds, .. } => Ok(owned_holds.pop()),
                Acquired::Denied { .. } => {
                    if let (Some(_), Some(timeout)) = (in_line, visit.timeout) {
                        // It was counted from after the asking, in whole milliseconds.
                        let until = asked + u64::try_from(timeout.as_nanos()).unwrap_or(0) - 1_000_000;
                        self.tell(Deed::OutOfTime { name: name.as_str().to_owned(), until })?;
                    }
                    Ok(None)
                }
                Acquired::Interrupted => Ok(None),
            },
            Err(error) if error.kind() == ErrorKind::Busy => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// When the lease began, by the clock that everybody judges it by. Where there is none, it began after it was asked for; it is
    /// counted in whole milliseconds, of which one may have begun before.
    fn lease_began(&self, owned: &OwnedHold, asked: u64) -> u64 {
        if self.lokt.me().boot_clocks { owned.began_ms() * 1_000_000 } else { asked.saturating_sub(1_000_000) }
    }

    /// Reads a number and writes the next one, with nothing but the lock to keep others out.
    fn update(&mut self, name: &str) -> Result<bool, Trouble> {
        let register = format!("count-{name}");
        let counter = Counter::of(self.arena, &register);
        let seen = counter.read().map_err(|error| Error::io("read", counter.path(), error))?;
        self.pause(INSIDE_US);
        let made = seen + 1;
        counter.write(made).map_err(|error| Error::io("write", counter.path(), error))?;
        self.tell(Deed::Wrote { register, token: None, seen, made, taken: true })?;
        Ok(true)
    }

    /// The same under a token: what comes too late is refused. Who entered at `oversleeps` comes too late for certain.
    fn publish(&mut self, name: &LockName, token: u64, oversleeps: Option<u64>) -> Result<bool, Trouble> {
        let register = format!("fenced-{name}");
        let counter = Counter::of(self.arena, &register);
        let seen = counter.read().map_err(|error| Error::io("read", counter.path(), error))?;
        match oversleeps {
            Some(entered) => sleep_until(entered + LEASE_NS + LEASE_NS / 5),
            None => self.pause(INSIDE_US),
        }
        let made = seen + 1;
        self.prepare(made).map_err(|error| Error::io("write", &self.scratch, error))?;
        // By a wall clock that somebody sets, a lease may be longer.
        if oversleeps.is_some() && self.lokt.me().boot_clocks {
            self.tell(Deed::Overslept { name: name.as_str().to_owned(), token })?;
        }
        let taken = match self.lokt.publish(name, token, &self.scratch, counter.path()) {
            Ok(said) => matches!(said.value, Publishing::Published { .. }),
            Err(error) if error.kind() == ErrorKind::Busy => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        self.tell(Deed::Wrote { register, token: Some(token), seen, made, taken })?;
        Ok(true)
    }

    fn prepare(&self, number: u64) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&self.scratch)?;
        file.write_all(format!("{number}\n").as_bytes())
    }

    fn pause(&mut self, us_max: u64) {
        thread::park_timeout(Duration::from_micros(self.dice.below(us_max)));
    }
}

fn sleep_until(moment: u64) {
    while let Some(left) = moment.checked_sub(monotonic_ns()).filter(|left| *left > 0) {
        thread::park_timeout(Duration::from_nanos(left));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_read_back() {
        for (without_locks, oversleeps) in [(true, false), (false, true)] {
            let orders = Orders { who: 3, seed: u64::MAX, until: 77, without_locks, oversleeps };
            assert_eq!(orders.to_string().parse(), Ok(orders));
        }
        for bad in ["", "1:2:3", "1:2:3:0", "1:2:3:0:x", "1:x:2:3:1:0", "1:2:3:2:0", "1:2:3:0:2", "1:2:3:0:1:6"] {
            assert!(bad.parse::<Orders>().is_err(), "{bad}");
        }
    }
}
