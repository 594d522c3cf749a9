//! What a command has to say, and the one place where it is said: answers on stdout, conversation on stderr.

use std::borrow::Cow;
use std::io::{self, Write as _};
use std::time::Duration;

use lokt_sys::error::ErrorKind;
use lokt_sys::output::has_room;
use lokt_sys::signals::SignalQueue;
use lokt_sys::wakeup::write_unless;
use serde::Serialize;

use crate::exit::Exit;
use crate::{outbox, paint};

/// Text or JSON?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Json,
}

impl Format {
    pub(crate) fn of(json: bool) -> Self {
        if json { Self::Json } else { Self::Text }
    }
}

/// What a command has to say.
#[derive(Debug)]
#[must_use]
pub(crate) struct Report {
    exit: Exit,
    stdout: String,
    stderr: Vec<String>,
    purpose: Purpose,
}

/// What a command is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Changing something, or not known: the exit code tells of that, also if the answer is lost.
    Work,
    /// Nothing but the answer: without it the command has failed.
    Answer,
    /// A command that only answers has changed something this time.
    Changed,
}

impl Report {
    pub(crate) fn new(exit: Exit) -> Self {
        Self { exit, stdout: String::new(), stderr: Vec::new(), purpose: Purpose::Work }
    }

    /// A refusal in text: the message, details about the holder, and what to type next.
    pub(crate) fn refused(
        exit: Exit,
        message: &str,
        details: impl IntoIterator<Item = String>,
        hint: Option<String>,
        last_resort: Option<String>,
    ) -> Self {
        let report = Self::new(exit).note(format!("error: {message}")).notes(details);
        report.notes(hint.map(|hint| format!("hint: {hint}"))).notes(last_resort)
    }

    /// The same from a command that does nothing but answer: it fails if its answer can't be written.
    pub(crate) fn only_answers(mut self) -> Self {
        if self.purpose == Purpose::Work {
            self.purpose = Purpose::Answer;
        }
        self
    }

    /// The same from a command that mostly only answers, but was asked to change something.
    pub(crate) fn changes(mut self) -> Self {
        self.purpose = Purpose::Changed;
        self
    }

    /// The same, with another exit code.
    pub(crate) fn exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    /// Is this its exit code?
    pub(crate) fn is(&self, exit: Exit) -> bool {
        self.exit == exit
    }

    /// The report under `-q`: a success, a refusal and an end by a signal are in the exit code alone. Errors and
    /// warnings are still said, and JSON was asked for.
    pub(crate) fn quiet(mut self, quiet: bool, format: Format) -> Self {
        if quiet && format == Format::Text && matches!(self.exit, Exit::Done | Exit::Held | Exit::Signal(_)) {
            self.stdout.clear();
            self.stderr.retain(|line| line.starts_with("warning: "));
        }
        self
    }

    /// One more member of the answer, which is a JSON object.
    pub(crate) fn member(mut self, key: &str, value: bool) -> Self {
        if let Some(members) = self.stdout.strip_suffix("\n}\n") {
            self.stdout = format!("{members},\n  \"{key}\": {value}\n}}\n");
        }
        self
    }

    /// An answer in text, newline included.
    pub(crate) fn text(mut self, text: impl AsRef<str>) -> Self {
        self.stdout.push_str(text.as_ref());
        self
    }

    /// An answer in JSON.
    pub(crate) fn json(mut self, value: &impl Serialize) -> Self {
        let text = serde_json::to_string_pretty(value).expect("reports have only strings and numbers");
        self.stdout.push_str(&crate::show::clean_json(&text));
        self.stdout.push('\n');
        self
    }

    /// A line of conversation.
    pub(crate) fn note(mut self, line: impl Into<String>) -> Self {
        self.stderr.push(line.into());
        self
    }

    pub(crate) fn notes(mut self, lines: impl IntoIterator<Item = String>) -> Self {
        self.stderr.extend(lines);
        self
    }

    /// Warnings of the library.
    pub(crate) fn warnings(self, warnings: impl IntoIterator<Item = impl ToString>) -> Self {
        let line = |text: String| format!("warning: {}", crate::show::clean(&text));
        self.notes(warnings.into_iter().map(|warning| line(warning.to_string())))
    }

    /// Says it. Whoever closed our output doesn't want the answer any more, but the exit code is still true.
    pub(crate) fn print(self) -> Exit {
        let mut text = String::new();
        for line in &self.stderr {
            text.push_str(line);
            text.push('\n');
        }
        say(&text);
        if !self.stdout.is_empty() && !has_room(io::stdout(), Duration::ZERO).unwrap_or(true) {
            lokt_sys::signals::let_signals_end_us();
        }
        if let Err(error) = answer(&self.stdout)
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            let is_failure = self.purpose == Purpose::Answer && !matches!(self.exit, Exit::Signal(_));
            let prefix = if is_failure { "error" } else { "warning" };
            say(&format!("{prefix}: the answer could not be written to stdout: {error}\n"));
            if is_failure {
                outbox::close();
                return Exit::Failed;
            }
        }
        outbox::close();
        self.exit
    }
}

/// Says something while a command runs. A command that holds or waits for something doesn't wait for its reader: [`outbox`].
pub(crate) fn say(text: &str) {
    if text.is_empty() {
        return;
    }
    let shown = if paint::wanted(&io::stderr()) { paint::conversation(text).into() } else { paint::plain(text) };
    if !outbox::put(&shown) {
        let _ = io::stderr().write_all(shown.as_bytes());
    }
}

/// Answers, or a part of it, while a command runs.
pub(crate) fn answer(text: &str) -> io::Result<()> {
    io::stdout().write_all(for_stdout(text).as_bytes())?;
    io::stdout().flush()
}

/// The same, unless a signal comes before somebody has read what is there. Says whether it did.
pub(crate) fn answer_unless(text: &str, inbox: &mut SignalQueue) -> io::Result<bool> {
    write_unless(io::stdout(), for_stdout(text).as_bytes(), inbox)
}

fn for_stdout(text: &str) -> Cow<'_, str> {
    // Most answers have no style, and need not ask who reads them.
    if text.contains(paint::ESCAPE) && !paint::wanted(&io::stdout()) { paint::plain(text) } else { text.into() }
}

/// Something went wrong, as opposed to: was refused.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    code: &'static str,
    message: String,
    hint: Option<String>,
    /// The hint is what is said about all errors of this kind.
    general: Option<ErrorKind>,
}

#[derive(Serialize)]
struct FailureJson<'a> {
    status: &'static str,
    code: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, code: &'static str, message: impl Into<String>) -> Self {
        Self { exit, code, message: message.into(), hint: None, general: None }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "E_USAGE", message)
    }

    pub(crate) fn io(message: impl Into<String>, hint: Option<&str>) -> Self {
        Self { hint: hint.map(Into::into), ..Self::new(Exit::Failed, "E_IO", message) }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same from a command of this name: what is said about errors in general is about a root, and not every command has one.
    pub(crate) fn of_command(mut self, command: &str) -> Self {
        let group = command.split_once(' ').map(|(group, _)| group);
        match (self.general, group) {
            (Some(ErrorKind::BadEvent), Some("claim")) => {
                self.code = "E_BAD_NAME";
                self.hint("a node is named by its id, like 1.2")
            }
            (Some(ErrorKind::Io | ErrorKind::NotARecord | ErrorKind::Unusable), Some("ledger" | "claim")) => {
                self.hint("`-d DIR` names the directory that contains `ledger`")
            }
            (
                Some(ErrorKind::Io | ErrorKind::NotARecord | ErrorKind::Unusable | ErrorKind::Damaged),
                Some("worktree" | "lease" | "snapshot"),
            ) => self.hint("`lokt doctor --strict` examines the repository"),
            _ => self,
        }
    }

    pub(crate) fn report(&self, format: Format) -> Report {
        let report = Report::new(self.exit);
        match format {
            Format::Json => report.json(&FailureJson {
                status: "error",
                code: self.code,
                message: &self.message,
                hint: self.hint.as_deref(),
            }),
            Format::Text => {
                let report = report.note(format!("error: {}", crate::show::clean(&self.message)));
                match &self.hint {
                    Some(hint) => report.note(format!("hint: {hint}")),
                    None => report,
                }
            }
        }
    }
}

impl From<lokt_sys::error::Error> for Failure {
    fn from(error: lokt_sys::error::Error) -> Self {
        let general = error.next_step().is_none().then_some(error.kind());
        let hint = error.next_step().map_or_else(|| next_step(error.kind()).to_owned(), Into::into);
        let (exit, code) = (Exit::of_error(&error), error.code());
        Self { exit, code, message: error.to_string(), hint: Some(hint), general }
    }
}

/// What to do about an error that came without advice of its own.
fn next_step(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Io | ErrorKind::NotARecord | ErrorKind::Unusable => {
            "`lokt root` shows which root is used and how it was found"
        }
        ErrorKind::Newer | ErrorKind::Format => "upgrade lokt",
        ErrorKind::Moving => "nothing was published; try again when nobody writes to it",
        ErrorKind::Shared => "`lokt lease status` says so; everybody may write there",
        ErrorKind::BadName => crate::args::NAME_HINT,
        ErrorKind::Missing => "`lokt worktree list` shows those that there are",
        ErrorKind::BadEvent => {
            "an event is one JSON object with a `type`, like '{\"type\":\"note\",\"text\":\"hello\"}'"
        }
        ErrorKind::Damaged => "`lokt ledger verify` names every place",
        ErrorKind::PayloadMismatch => "`lokt snapshot verify --all` says what is damaged",
        ErrorKind::Busy | ErrorKind::Halted => "try again",
        ErrorKind::OutcomeUnknown => "`lokt status` shows what came of it",
        ErrorKind::NoProcess => "`--bind` takes the pid of a running process; in a shell, $$ is the shell's own",
    }
}
