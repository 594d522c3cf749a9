//! Can the root's mutex be had? If not, who keeps it?

use std::time::Duration;

use super::{Check, Finding};
use crate::locks::Lokt;
use crate::store::Store;
use crate::sys::keepers::keeper;
use crate::sys::machine::{Linux, Machine as _, ProcessStat};
use crate::sys::mutex::PATIENCE;

const NAME: &str = "mutex";
/// Nobody who works keeps it this long.
const FIRST: Duration = Duration::from_secs(1);

/// The check, and why the mutex can't be had, if so.
pub(super) fn check(lokt: &Lokt) -> (Check, Option<String>) {
    let enters = |patience| Store { patience, ..lokt.store() }.enter().map(drop);
    let Err(_) = enters(FIRST) else { return (Check::new(NAME, []), None) };
    let stopped = || holder(lokt).is_some_and(|pid| Linux.process(pid).is_some_and(ProcessStat::is_stopped));
    // A stopped one won't let go by being waited for.
    let patience = if stopped() { Duration::ZERO } else { PATIENCE.saturating_sub(FIRST) };
    let Err(error) = enters(patience) else { return (Check::new(NAME, []), None) };
    let finding = match holder(lokt) {
        Some(pid) => kept_by(lokt, pid),
        None => Finding::fail(error.to_string()).hint(error.next_step().unwrap_or("try again").to_owned()),
    };
    (Check::new(NAME, [finding]), Some("the mutex of this root is taken".to_owned()))
}

fn kept_by(lokt: &Lokt, pid: i64) -> Finding {
    let (root, command) = (lokt.root().display(), keeper(pid).command);
    let state = Linux.process(pid).map(|stat| stat.state);
    match state {
        Some('T' | 't') => {
            let who = format!("process {pid} ({command}), which is stopped (state {})", state.unwrap_or('T'));
            Finding::fail(format!("the mutex of {root} is held by {who}: nobody can take or give back a lock there"))
                .hint(format!("`kill -CONT {pid}` lets it go on, `kill -KILL {pid}` ends it"))
        }
        state => {
            let state = state.map(|state| format!(", state {state}")).unwrap_or_default();
            let message = format!("the mutex of {root} is held by process {pid} ({command}{state}) for seconds now");
            Finding::fail(message).hint(format!("lokt holds it for a moment only; see what process {pid} is doing"))
        }
    }
}

fn holder(lokt: &Lokt) -> Option<i64> {
    lokt.disk().mutex_holder()
}
