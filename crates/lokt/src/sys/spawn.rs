//! Starting a command with the signal mask that we were started with.
//!
//! `std` lets a command inherit the mask of the thread that starts it. A guard blocks what it forwards, and a command that inherited that
//! would never hear of it; unblocking for the moment of the start would let a signal of that moment end the guard. `posix_spawn`
//! can give the child another mask.

use std::collections::HashMap;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Command;

use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawnp};
use nix::sys::signal::{SigSet, Signal};
use rustix::process::Pid;

/// Starts `command`: its words, in our environment and what it changes of that, with our directory and our descriptors.
pub(crate) fn spawn(command: &Command, own_group: bool, mask: &SigSet) -> io::Result<Pid> {
    let program = text(command.get_program())?;
    let words = std::iter::once(Ok(program.clone())).chain(command.get_args().map(text));
    let words = words.collect::<io::Result<Vec<CString>>>()?;
    launch(&program, &words, &environment(command)?, own_group, mask)
}

/// Starts `program` with these words, the first of which is what it is called.
pub(super) fn launch(
    program: &CStr,
    words: &[CString],
    environment: &[CString],
    own_group: bool,
    mask: &SigSet,
) -> io::Result<Pid> {
    let mut flags = PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF;
    let mut attributes = PosixSpawnAttr::init()?;
    attributes.set_sigmask(mask)?;
    // The runtime of Rust ignores it, for itself.
    let mut defaults = SigSet::empty();
    defaults.add(Signal::SIGPIPE);
    attributes.set_sigdefault(&defaults)?;
    if own_group {
        flags |= PosixSpawnFlags::POSIX_SPAWN_SETPGROUP;
        attributes.set_pgroup(nix::unistd::Pid::from_raw(0))?;
    }
    attributes.set_flags(flags)?;
    let pid = posix_spawnp(program, &PosixSpawnFileActions::init()?, &attributes, words, environment)?;
    Pid::from_raw(pid.as_raw()).ok_or_else(|| io::ErrorKind::Other.into())
}

/// Our environment, with what `command` changes of it.
pub(super) fn environment(command: &Command) -> io::Result<Vec<CString>> {
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

pub(super) fn text(text: &OsStr) -> io::Result<CString> {
    Ok(CString::new(text.as_bytes())?)
}
