//! What is looked at when nobody is left: can every lock be had again, and do the numbers say what was acknowledged?
//!
//! A history tells nothing of a lock that nobody gets any more: everybody gives up in the best of order. And whoever writes last is read by
//! nobody.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::history::judge::Write;
use lokt_core::decide::Terms;
use lokt_core::denial::Denial;
use lokt_core::inherited_holds::InheritedHolds;
use lokt_core::name::LockName;

use super::counter::Counter;
use super::worker::{LEASE_SEC, NAMES};
use crate::arena::root_in;
use lokt_named::Acquired;
use lokt_named::{Lokt, Refusal};
use lokt_sys::error::{Error, ErrorKind};
use lokt_sys::machine::{identity, monotonic_ns};
use lokt_sys::wait_policy::{Interrupt, WaitPolicy};

/// How long it may take until all that the dead held is free: the longest lease, and time to look on a slow disk.
const FREE_SEC: u64 = LEASE_SEC + 5;
/// Whoever asks after that gets what is free; it takes no longer than a look.
const LOOK: Duration = Duration::from_millis(100);

/// What came of asking.
#[derive(Default)]
pub(super) struct Asked {
    /// What can't be had: which, through which place, and why.
    pub(super) stuck: BTreeMap<(PathBuf, &'static str), String>,
    /// The alarm went off before all were asked for.
    pub(super) interrupted: bool,
}

/// Asks for each name through each place, except for those that are `known` to be stuck. All of them have the same time to become free.
pub(super) fn ask(
    places: &[PathBuf],
    known: &BTreeMap<(PathBuf, &'static str), String>,
    alarm: &mut dyn Interrupt,
) -> Result<Asked, Error> {
    let deadline = monotonic_ns() + FREE_SEC * 1_000_000_000;
    let mut asked = Asked::default();
    for place in places {
        let lokt = Lokt::create(&root_in(place), identity("torture".to_owned(), None))?;
        for name in NAMES {
            let key = (place.clone(), name);
            if known.contains_key(&key) {
                continue;
            }
            let left = Duration::from_nanos(deadline.saturating_sub(monotonic_ns())).max(LOOK);
            match ask_for(&lokt, name, left, alarm)? {
                Answer::Had => {}
                Answer::Interrupted => return Ok(Asked { interrupted: true, ..asked }),
                Answer::Stuck(why) => drop(asked.stuck.insert(key, sentence(name, place, &why))),
            }
        }
    }
    Ok(asked)
}

enum Answer {
    Had,
    Interrupted,
    Stuck(String),
}

fn ask_for(lokt: &Lokt, name: &str, patience: Duration, alarm: &mut dyn Interrupt) -> Result<Answer, Error> {
    let name = LockName::new(name).expect("these are names of locks");
    let terms = Terms { ttl_sec: None, reason: None };
    let mut patience = WaitPolicy { timeout: patience.into(), alarm: Some(alarm), tell: None };
    match lokt.owned(&[name], &terms, &InheritedHolds::default(), &mut patience).map(|said| said.value) {
        Ok(Acquired::All { owned_holds, .. }) => {
            for owned in owned_holds {
                // One that fails leaves a hold without a pulse: whoever asks next finds it dead, or what is wrong.
                let _ = owned.release();
            }
            Ok(Answer::Had)
        }
        Ok(Acquired::Interrupted) => Ok(Answer::Interrupted),
        Ok(Acquired::Denied { refusal, .. }) => Ok(Answer::Stuck(why(&refusal))),
        // Nobody is left who could be inside of the mutex.
        Err(error) if error.kind() == ErrorKind::Busy => Ok(Answer::Stuck(error.to_string())),
        Err(error) => Err(error),
    }
}

fn why(refusal: &Refusal) -> String {
    match &refusal.denial {
        Denial::Held(holder) => format!("{} holds it", holder.hold.owner),
        Denial::Queued { ahead } => format!("{ahead} are ahead in line"),
        Denial::Frozen(_) => "it is frozen".to_owned(),
        Denial::Corrupt { why } => format!("its record can't be read: {why}"),
        _ => "it is refused".to_owned(),
    }
}

fn sentence(name: &str, place: &Path, why: &str) -> String {
    format!("{name}: stuck: all are gone, and it can't be had in {}: {why}", place.display())
}

/// Reads each number through each place. Less than what was acknowledged is a lost update, one sentence each.
pub(super) fn compare(places: &[PathBuf], made: &BTreeMap<String, Write>) -> Result<Vec<String>, Error> {
    let mut lost = Vec::new();
    for (register, write) in made {
        for place in places {
            let counter = Counter::of(place, register);
            let says = match counter.read() {
                Ok(number) if number >= write.made => continue,
                Ok(number) => number.to_string(),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => error.to_string(),
                Err(error) => return Err(Error::io("read", counter.path(), error)),
            };
            lost.push(format!("{register}: {write}; in the end {} says {says}: updates are lost", place.display()));
        }
    }
    Ok(lost)
}
