//! Checks the audit log: can it be written, is its last line complete, is it rotated?

use super::{Check, Finding, Patient, typed};
use crate::file::audit_write::{LOG, LOG_BYTES_MAX, files};
use crate::store::Call;
use lokt_sys::error::{At as _, Error};
use lokt_sys::look::{Look, look, may_write};

const NAME: &str = "audit";
/// Maximum size of the log in bytes: one line more than it takes to be rotated, however long that
/// is.
const TOO_LONG: u64 = LOG_BYTES_MAX + (2 << 20);

pub(super) fn check(patient: &Patient) -> Check {
    let mut findings = Vec::new();
    for file in files() {
        match look(&patient.path(&file)) {
            Ok(None) => {}
            Ok(Some(found)) => findings.extend(judge(patient, &file, &found)),
            Err(error) => findings.push(Finding::error(format!("look at {}: {error}", patient.shown(&file)))),
        }
    }
    Check::new(NAME, findings)
}

fn judge(patient: &Patient, file: &str, found: &Look) -> Option<Finding> {
    let path = patient.shown(file);
    if let Some(kind) = found.kind {
        let message = format!("{path} is {kind}: nothing can be logged there");
        return Some(Finding::error(message).hint("move it away; the next change makes a new one"));
    }
    if file != LOG {
        return None;
    }
    if let Err(error) = may_write(&patient.path(file)) {
        let message = format!("{path} can't be written: {error}; locks work, but what happens isn't remembered");
        return Some(Finding::warn(message).hint(format!("`ls -l {}` shows whose it is", typed(&patient.path(file)))));
    }
    if found.size > TOO_LONG {
        let message = format!("{path} has {} MiB and isn't rotated at {}", found.size >> 20, LOG_BYTES_MAX >> 20);
        return Some(Finding::warn(message).hint("see whether audit.log.1 to .9 can be written, or move it away"));
    }
    torn(patient)
}

/// Reports a last line whose end is missing. Checked inside the mutex: outside, the rest may be on
/// its way.
fn torn(patient: &Patient) -> Option<Finding> {
    if let Some(busy) = &patient.busy {
        return Some(Finding::skipped(busy));
    }
    let store = patient.store();
    let _inside = match store.enter(&Call::UNLIMITED) {
        Ok(inside) => inside,
        Err(error) => return Some(Finding::skipped(error)),
    };
    let last = store.disk.tail(LOG, 1).ok()?;
    if matches!(last.as_slice(), [] | [b'\n']) {
        return None;
    }
    let message = format!(
        "the last line of {} has no end: whoever wrote it was killed, or the disk was full",
        patient.shown(LOG)
    );
    let finding = Finding::warn(message).hint("`lokt doctor --fix` ends the line; so does the next event");
    patient.mend(finding, || {
        // Appends only the newline that precedes any append to a torn line.
        store.disk.append(LOG, b"").at("write", store.root(), LOG)?;
        Ok::<_, Error>(Some("ended the line".to_owned()))
    })
}
