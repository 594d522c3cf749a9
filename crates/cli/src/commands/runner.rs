//! What the commands that run another command have in common: `guard`, `claim run` and `lease run`.

use std::ffi::OsString;
use std::io;

use lokt::{Finished, Inbox};

use super::guard::cant_run;
use crate::context;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};

/// How a runner answers when its command was not started.
pub(super) struct Runner {
    pub(super) quiet: bool,
    pub(super) format: Format,
    /// Instead of 2.
    conflict_exit_code: Option<u8>,
}

/// What came of running a command.
pub(super) enum Ran {
    /// It was started: this is how it ended.
    Started(Report),
    /// It was not: this is why.
    NotStarted(Report),
}

impl Runner {
    /// Runs a command by `attempt`, and says so if it was not started.
    pub(super) fn run(
        quiet: bool,
        conflict_exit_code: Option<u8>,
        format: Format,
        attempt: impl FnOnce(&Self) -> Result<Ran, Failure>,
    ) -> Report {
        let mut runner = Self { quiet, format, conflict_exit_code: None };
        let ran = context::conflict_exit_code(conflict_exit_code).and_then(|code| {
            runner.conflict_exit_code = code;
            attempt(&runner)
        });
        match ran {
            Ok(Ran::Started(report)) => report,
            Ok(Ran::NotStarted(report)) => runner.not_run(report.quiet(quiet, format)),
            Err(failure) => runner.not_run(failure.report(format)),
        }
    }

    /// What a run came to. `what` is what the command was to run under.
    pub(super) fn ran(
        &self,
        finished: io::Result<Finished>,
        inbox: &Inbox,
        command: &[OsString],
        what: &str,
    ) -> Result<Ran, Failure> {
        match finished {
            Ok(Finished { code, started: true }) => Ok(Ran::Started(Report::new(Exit::of_command(code, inbox)))),
            Ok(Finished { code, started: false }) => Ok(Ran::NotStarted(Report::new(Exit::of_command(code, inbox)))),
            Err(error) if lokt::had_started(&error) => {
                let failure = Failure::io(format!("wait for the command: {error}"), Some("the command may still run"));
                Ok(Ran::Started(failure.report(self.format)))
            }
            Err(error) => Err(cant_run(command, &error, what)),
        }
    }

    fn not_run(&self, report: Report) -> Report {
        let report = match self.conflict_exit_code {
            Some(code) if report.is(Exit::Held) => report.exit(Exit::Other(code)),
            _ => report,
        };
        match self.format {
            // What ran could have ended with the same code.
            Format::Json => report.member("run", false),
            Format::Text if self.quiet => report,
            Format::Text => report.note("lokt: not run"),
        }
    }
}
