//! Running a command under a lock, a claim or a lease: `guard`, `claim run` and `lease run`.

use std::ffi::OsString;
use std::io;
use std::mem::ManuallyDrop;
use std::path::Path;
use std::process::Command;

use lokt_core::guard::OnLost;
use lokt_guard::Finished;
use lokt_sys::files::exists;
use lokt_sys::signals::SignalQueue;
use lokt_sys::spawn::NotRecorded;
use lokt_sys::warnings::Warning;

use crate::context;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report, say};
use crate::show::clean;

/// A lock, claim or lease that was granted, for a command that isn't started yet.
pub(super) trait Guard {
    /// The noun for it in messages.
    fn noun(&self) -> &'static str;

    /// Runs `command` under it, and releases it. `warn` is called with what happens meanwhile.
    fn run(
        self: Box<Self>,
        command: &mut Command,
        inbox: &mut SignalQueue,
        warn: &mut dyn FnMut(String),
    ) -> Result<io::Result<Finished>, NotStarted>;
}

/// A guard, and what else its acquisition came with.
pub(super) struct Acquired<'a> {
    pub(super) guard: Box<dyn Guard + 'a>,
    pub(super) inbox: SignalQueue,
    pub(super) warnings: Vec<Warning>,
}

/// The reason why the command was not started.
pub(super) enum NotStarted {
    Refused(Report),
    Failed(Failure),
}

impl From<Failure> for NotStarted {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<lokt_sys::error::Error> for NotStarted {
    fn from(error: lokt_sys::error::Error) -> Self {
        Self::Failed(error.into())
    }
}

/// The options that all commands that run a command have.
pub(super) struct Runner<'a> {
    pub(super) command: &'a [OsString],
    pub(super) quiet: bool,
    /// Instead of 2.
    pub(super) conflict_exit_code: Option<u8>,
    pub(super) format: Format,
}

impl Runner<'_> {
    /// Runs the command under what `acquire` gets. If the command was not started, the answer says so.
    pub(super) fn run_under<'g>(mut self, acquire: impl FnOnce() -> Result<Acquired<'g>, NotStarted>) -> Report {
        let flag = self.conflict_exit_code.take();
        let ran = context::conflict_exit_code(flag).map_err(NotStarted::Failed).and_then(|code| {
            self.conflict_exit_code = code;
            self.run(acquire()?)
        });
        match ran {
            Ok(report) => report,
            Err(NotStarted::Refused(report)) => self.not_run(report.quiet(self.quiet, self.format)),
            Err(NotStarted::Failed(failure)) => self.not_run(failure.report(self.format)),
        }
    }

    fn run(&self, acquired: Acquired<'_>) -> Result<Report, NotStarted> {
        let Acquired { guard, inbox, warnings } = acquired;
        // The process ends next, and closes its descriptor with all others.
        let mut inbox = ManuallyDrop::new(inbox);
        for warning in warnings {
            say(&format!("warning: {}\n", clean(&warning.to_string())));
        }
        let noun = guard.noun();
        let (program, rest) = self.command.split_first().expect("the parser wants a command");
        let mut last = String::new();
        let mut warn = |warning: String| {
            // A renewal that keeps failing fails several times a lease; once is enough.
            if warning != last {
                say(&format!("warning: {warning}\n"));
                last = warning;
            }
        };
        match guard.run(Command::new(program).args(rest), &mut inbox, &mut warn)? {
            Ok(Finished { code, started: true }) => Ok(Report::new(Exit::of_command(code, &inbox))),
            Ok(Finished { code, started: false }) => {
                Err(NotStarted::Refused(Report::new(Exit::of_command(code, &inbox))))
            }
            Err(error) if lokt_guard::had_started(&error) => {
                let failure = Failure::io(format!("wait for the command: {error}"), Some("the command may still run"));
                Ok(failure.report(self.format))
            }
            Err(error) => Err(cant_run(self.command, &error, noun).into()),
        }
    }

    fn not_run(&self, report: Report) -> Report {
        let report = match self.conflict_exit_code {
            Some(code) if report.is(Exit::Held) => report.exit(Exit::Other(code)),
            _ => report,
        };
        match self.format {
            // The command could have ended with the same code.
            Format::Json => report.member("run", false),
            Format::Text if self.quiet => report,
            Format::Text => report.note("lokt: not run"),
        }
    }
}

/// The consequence of a lost lock, claim or lease for the command that runs under it.
pub(super) fn what_follows(stops: bool, on_lost: OnLost) -> &'static str {
    match (stops, on_lost) {
        (true, _) => "; the command is being stopped",
        (false, OnLost::Fail) => "; the command goes on, and its success will be exit code 79",
        (false, _) => "; the command goes on",
    }
}

/// The failure to start the command. `what` is the noun for what it was to run under.
fn cant_run(command: &[OsString], error: &io::Error, what: &str) -> Failure {
    let path = &command[0];
    let program = clean(&path.to_string_lossy());
    if let Some(unrecorded) = error.get_ref().and_then(|source| source.downcast_ref::<NotRecorded>()) {
        return Failure::io(format!("{program} was not run: {unrecorded}"), None)
            .hint(format!("the {what} was given back; a command runs only if others can tell that it does"));
    }
    match error.kind() {
        io::ErrorKind::NotFound if path.to_string_lossy().contains('/') && exists(Path::new(path)) => {
            let message = format!("can't run {program}: the interpreter in its first line was not found");
            Failure::new(Exit::NotExecutable, "E_NOT_EXECUTABLE", message)
                .hint(format!("correct its first line, or run it by its interpreter; the {what} was given back"))
        }
        io::ErrorKind::NotFound => {
            Failure::new(Exit::NoCommand, "E_NO_COMMAND", format!("command not found: {program}"))
                .hint(format!("the {what} was given back; the command is run directly, not by a shell"))
        }
        _ => {
            let advice = lokt_sys::error::too_many_open(error)
                .unwrap_or_else(|| "a script needs a first line like #!/bin/sh, or run it as `sh SCRIPT`".to_owned());
            Failure::new(Exit::NotExecutable, "E_NOT_EXECUTABLE", format!("can't run {program}: {error}"))
                .hint(format!("the {what} was given back; {advice}"))
        }
    }
}
