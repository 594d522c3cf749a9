//! Checks that files can be created, written, synced and deleted.

use super::{Check, Finding, LOOK_AT_ROOT, Place, Untried};
use crate::root::State;
use lokt_sys::probe_dir::ProbeDir;

const NAME: &str = "writable";

pub(super) fn check(place: &Place, probe: Result<&ProbeDir, &Untried>) -> Check {
    let root = place.root.display();
    if let State::Unusable(why) = &place.state {
        let finding = Finding::error(format!("{root} can't be used as a root: {why}"));
        return Check::new(NAME, [finding.hint("set LOKT_ROOT to a directory, or unset it")]);
    }
    let missing = place.state == State::Missing;
    let tried = probe.map_err(ToString::to_string).and_then(|probe| {
        probe.try_writing().map_err(|error| format!("can't write to {}: {error}", probe.path().display()))
    });
    let finding = match tried {
        Err(why) if missing => Some(Finding::error(format!("{root} isn't there, and can't be made: {why}"))),
        Err(why) => Some(Finding::error(why)),
        Ok(()) if missing => Some(Finding::info(format!("{root} isn't there yet; the first lock makes it"))),
        Ok(()) => None,
    };
    let finding = finding.map(|finding| match finding.status() {
        super::Status::Ok => finding,
        _ => finding.hint(format!("make it writable, or set LOKT_ROOT to a directory that is; {LOOK_AT_ROOT}")),
    });
    Check::new(NAME, finding)
}
