//! Checks whether the root's mutex can be acquired, and if not, which process holds it.

use std::time::Duration;

use super::{Check, Finding};
use crate::file::FileStore;
use lokt_sys::keepers::keeper;
use lokt_sys::machine::ProcessStat;
use lokt_sys::mutex::PATIENCE;

const NAME: &str = "mutex";
/// Time after which the mutex counts as stuck: no working process holds it this long.
const FIRST: Duration = Duration::from_secs(1);

/// Returns the check, and the reason why the mutex can't be entered, if it can't.
pub(super) fn check(store: &FileStore) -> (Check, Option<String>) {
    let enters = |patience| store.enter_within(patience).map(drop);
    let Err(_) = enters(FIRST) else { return (Check::new(NAME, []), None) };
    let stopped = || holder(store).is_some_and(|pid| store.machine.process(pid).is_some_and(ProcessStat::is_stopped));
    // A suspended process won't release it, however long we wait.
    let patience = if stopped() { Duration::ZERO } else { PATIENCE.saturating_sub(FIRST) };
    let Err(error) = enters(patience) else { return (Check::new(NAME, []), None) };
    let finding = match holder(store) {
        Some(pid) => kept_by(store, pid),
        None => Finding::error(error.to_string()).hint(error.next_step().unwrap_or("try again").to_owned()),
    };
    (Check::new(NAME, [finding]), Some("the mutex of this root is taken".to_owned()))
}

fn kept_by(store: &FileStore, pid: i64) -> Finding {
    let (root, command) = (store.root().display(), keeper(pid).command);
    let state = store.machine.process(pid).map(|stat| stat.state);
    match state {
        Some('T' | 't') => {
            let who = format!("process {pid} ({command}), which is stopped (state {})", state.unwrap_or('T'));
            Finding::error(format!("the mutex of {root} is held by {who}: nobody can take or give back a lock there"))
                .hint(format!("`kill -CONT {pid}` lets it go on, `kill -KILL {pid}` ends it"))
        }
        state => {
            let state = state.map(|state| format!(", state {state}")).unwrap_or_default();
            let message = format!("the mutex of {root} is held by process {pid} ({command}{state}) for seconds now");
            Finding::error(message).hint(format!("lokt holds it for a moment only; see what process {pid} is doing"))
        }
    }
}

fn holder(store: &FileStore) -> Option<i64> {
    store.disk.mutex_holder()
}
