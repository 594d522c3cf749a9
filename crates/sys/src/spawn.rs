//! Starting a command with the signal settings that we were started with, after its pid was
//! recorded.
//!
//! With `std`, a command inherits the mask of the thread that starts it. A guard blocks the signals
//! that it forwards, and a command with that mask would never receive them. Unblocking them for the
//! start would let a signal at that moment end the guard.

use std::collections::HashMap;
use std::error::Error;
use std::ffi::{CString, OsStr, OsString};
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Command;
use std::sync::atomic::AtomicI32;

use nix::sys::signal::SigSet;
pub use rustix::process::Pid;

use super::inherited::ignored_closed_pipes;
use super::machine::knows_starts;
pub use super::vfork::Record;
use super::vfork::{Failed, Lifeline, Start};

/// Search path for programs if `PATH` is unset.
const PATH_USUAL: &[u8] = b"/bin:/usr/bin";

/// The error of a command that was not started because its pid could not be recorded. If its guard
/// were killed, no one would know that it runs.
#[derive(Debug)]
pub struct NotRecorded(io::Error);

impl fmt::Display for NotRecorded {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "its pid could not be recorded: {}", self.0)
    }
}

impl Error for NotRecorded {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

/// Starts `command`: its words, in our environment with its changes, and with our directory and our
/// descriptors. It runs only after it is in all of `records`; otherwise the error contains a
/// [`NotRecorded`].
pub fn spawn(command: &Command, own_group: bool, mask: &SigSet, records: Vec<Record<'_>>) -> io::Result<Pid> {
    Prepared::new(command, own_group, mask)?.start(records, None, &AtomicI32::new(0))
}

/// A command with everything needed to start it.
pub(super) struct Prepared {
    paths: Vec<CString>,
    words: Vec<CString>,
    environment: Vec<CString>,
    own_group: bool,
    mask: SigSet,
}

impl Prepared {
    pub(super) fn new(command: &Command, own_group: bool, mask: &SigSet) -> io::Result<Self> {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let words = words.map(text).collect::<io::Result<Vec<CString>>>()?;
        Ok(Self { paths: paths(command)?, words, environment: environment(command)?, own_group, mask: *mask })
    }

    /// Starts it. Its pid is stored in `pid` as soon as it has one.
    pub(super) fn start(
        &self,
        records: Vec<Record<'_>>,
        lifeline: Option<&Lifeline>,
        pid: &AtomicI32,
    ) -> io::Result<Pid> {
        let start = Start {
            paths: &self.paths,
            words: &self.words,
            environment: &self.environment,
            own_group: self.own_group,
            mask: &self.mask,
            ignores_pipes: ignored_closed_pipes(),
            knows_start: !records.is_empty() && knows_starts(),
            records,
            lifeline,
        };
        let started = start.run(pid).map_err(|failed| match failed {
            Failed::Start(errno) => io::Error::from(errno),
            Failed::Record(errno) => {
                let error = io::Error::from(errno);
                io::Error::new(error.kind(), NotRecorded(error))
            }
        })?;
        Pid::from_raw(started).ok_or_else(|| io::ErrorKind::Other.into())
    }
}

/// Returns the candidate paths of a program, as a shell searches for it. A file that isn't a
/// program is not passed to a shell.
fn paths(command: &Command) -> io::Result<Vec<CString>> {
    let program = command.get_program();
    if program.as_bytes().contains(&b'/') {
        return Ok(vec![text(program)?]);
    }
    if program.is_empty() {
        return Ok(Vec::new());
    }
    let path = std::env::vars_os().find(|(name, _)| name == "PATH").map(|(_, path)| path);
    let path = path.as_ref().map_or(PATH_USUAL, |path| path.as_bytes());
    let place = |dir: &[u8]| {
        let mut place = dir.to_vec();
        if !dir.is_empty() {
            place.push(b'/');
        }
        place.extend_from_slice(program.as_bytes());
        Ok(CString::new(place)?)
    };
    path.split(|byte| *byte == b':').map(place).collect()
}

/// Our environment, with the changes of `command`.
fn environment(command: &Command) -> io::Result<Vec<CString>> {
    let changes: HashMap<&OsStr, Option<&OsStr>> = command.get_envs().collect();
    let ours = std::env::vars_os().filter(|(name, _)| !changes.contains_key(name.as_os_str()));
    let set = changes.iter().filter_map(|(name, value)| Some(((*name).to_owned(), (*value)?.to_owned())));
    ours.chain(set).map(|(name, value)| text(&joined(name, &value))).collect()
}

fn joined(mut name: OsString, value: &OsStr) -> OsString {
    name.push("=");
    name.push(value);
    name
}

fn text(text: &OsStr) -> io::Result<CString> {
    Ok(CString::new(text.as_bytes())?)
}
