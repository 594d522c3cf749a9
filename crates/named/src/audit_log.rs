//! Reads the audit log: all of it, oldest event first, or what is added from now on.

use std::io;
use std::ops::ControlFlow;
use std::time::Duration;

use lokt_core::audit::Event;
use lokt_core::name::LockName;

use crate::file::audit_log::FileFollow;
use crate::inspect::Inspection;
use crate::locks::Lokt;
use crate::store::{Call, Follow, Found};
use lokt_sys::error::Error;
use lokt_sys::wait_policy::Interrupt;
use lokt_sys::wakeup::sleep_on;

/// Interval between checks where changes are reported. It covers changes that are not: those of
/// another machine on a network file system.
const LOOK: Duration = Duration::from_secs(1);
/// Interval between checks where changes can't be reported, because there is no log yet or too much
/// is watched already.
const POLL: Duration = Duration::from_millis(200);

impl Inspection<'_> {
    /// Shows everything in the audit log, oldest first.
    pub fn history(self, show: &mut dyn FnMut(Found<'_>) -> ControlFlow<()>) -> Result<(), Error> {
        self.lokt.store().audit().read(show, &Call::UNLIMITED)
    }

    /// Returns the last events, newest first: at most `limit`, of one name or of all. Lines that
    /// are not events are left out.
    pub fn last_events(self, name: Option<&LockName>, limit: usize) -> Vec<Event> {
        self.lokt.store().audit().last(name, limit, &Call::UNLIMITED)
    }
}

/// Follows the log from now on: through rotations by lokt or another program, truncation, deletion,
/// and before there is a log at all.
#[derive(Default)]
pub struct Follower {
    follow: Option<Box<dyn Follow>>,
}

impl Follower {
    /// Returns a follower that has not checked the log yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Shows what is new since the last call. The first call only finds the end of the log. `lokt`
    /// is `None` while there is no root.
    pub fn look(
        &mut self,
        lokt: Option<&Lokt>,
        show: &mut dyn FnMut(Found<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Error> {
        // Only a root of files can be missing.
        let files = || Box::new(FileFollow::new()) as Box<dyn Follow>;
        let begin = || lokt.map_or_else(files, |lokt| lokt.store().audit().follow());
        self.follow.get_or_insert_with(begin).look(lokt.map(Lokt::store), show)
    }

    /// Sleeps until there may be something new. Returns true if the alarm went off.
    pub fn sleep(&self, alarm: &mut dyn Interrupt) -> io::Result<bool> {
        let ready = {
            let added = self.follow.as_ref().and_then(|follow| follow.fd());
            let tick = if added.is_some() { LOOK } else { POLL };
            let mut fds = vec![alarm.fd()];
            fds.extend(added);
            sleep_on(&fds, tick)?
        };
        Ok(ready.first() == Some(&true) && alarm.is_raised())
    }
}
