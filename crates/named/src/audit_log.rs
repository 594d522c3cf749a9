//! Reading the audit log: all of it, oldest event first, or what is added from now on.

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

/// Where changes are reported, a look now and then catches what isn't: another machine's, on a network file system.
const LOOK: Duration = Duration::from_secs(1);
/// Where they can't be, because there is no log yet or too much is watched already.
const POLL: Duration = Duration::from_millis(200);

impl Inspection<'_> {
    /// Everything in the audit log, oldest first.
    pub fn history(self, show: &mut dyn FnMut(Found<'_>) -> ControlFlow<()>) -> Result<(), Error> {
        self.lokt.store().audit().read(show, &Call::UNLIMITED)
    }

    /// What happened last, newest first: at most `limit` events, of one name or of all. Lines that are none are left out.
    pub fn last_events(self, name: Option<&LockName>, limit: usize) -> Vec<Event> {
        self.lokt.store().audit().last(name, limit, &Call::UNLIMITED)
    }
}

/// Follows the log from now on: through rotations, ours and anybody's, truncation, deletion, and before there is a log at all.
#[derive(Default)]
pub struct Follower {
    follow: Option<Box<dyn Follow>>,
}

impl Follower {
    /// Nothing has been looked at.
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells what is new since the last look. The first look only finds out where the end is. `None`: there is no root at this moment.
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

    /// Sleeps until there may be something new. True: the alarm went off.
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
