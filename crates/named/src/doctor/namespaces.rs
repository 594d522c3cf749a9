//! Reports the namespaces of this process. Outside the initial ones, clocks or pids mean something
//! else.

use lokt_core::hold::Identity;

use super::{Check, Finding};
use lokt_sys::pid_spaces::PID_NS_INITIAL;

pub(super) fn check(me: &Identity) -> Check {
    let time = (!me.boot_clocks).then(|| {
        Finding::warn(
            "this is a time namespace of its own: leases are measured by the wall clock, and setting that ends or prolongs them",
        )
        .hint("run lokt outside of it, or don't set the clock")
    });
    let pids = me.pid_ns.is_none_or(|space| space != PID_NS_INITIAL).then(|| {
        Finding::info(
            "this is a pid namespace of its own: a process outside of it is known by its pulse; where that can't be seen, it \
             counts as alive until its lease ends",
        )
    });
    Check::new("namespaces", time.into_iter().chain(pids))
}
