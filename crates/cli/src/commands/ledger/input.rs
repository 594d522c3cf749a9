//! Events as they are given to a command: one as an argument, or one per line of a file or of standard input.

use std::io::{self, BufRead, BufReader, IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};

use lokt_core::ledger::draft::{Added, BadEvent, Draft, EVENT_BYTES_MAX};
use lokt_ledger::Ledger;
use lokt_sys::files;

use crate::exit::Exit;
use crate::report::Failure;
use crate::show::clean;

/// An event may be typed with more space than it is stored with, but not without an end.
const LINE_BYTES_MAX: usize = 2 * EVENT_BYTES_MAX;

/// Where events come from.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Source {
    Argument(String),
    File(PathBuf),
    Stdin,
}

impl Source {
    /// What was asked for; standard input if nothing was, unless somebody sits there.
    pub(super) fn chosen(event: Option<&str>, file: Option<&Path>) -> Result<Self, Failure> {
        match (event, file) {
            (Some("-"), _) => Ok(Self::Stdin),
            (Some(event), _) => Ok(Self::Argument(event.to_owned())),
            (None, Some(file)) if file == Path::new("-") => Ok(Self::Stdin),
            (None, Some(file)) => Ok(Self::File(file.to_owned())),
            (None, None) if io::stdin().is_terminal() => Err(Failure::usage("no event is given")
                .hint("give it as an argument, as in `lokt ledger append '{\"type\":\"note\"}'`, with --file, or on standard input")),
            (None, None) => Ok(Self::Stdin),
        }
    }

    /// All of the events, or what is wrong with one of them, for this ledger.
    pub(super) fn drafts(&self, ledger: &Ledger) -> Result<Vec<Draft>, Failure> {
        match self {
            Self::Argument(event) => Ok(vec![Draft::parse(event.as_bytes()).map_err(|bad| refused("", &bad))?]),
            Self::File(path) => {
                let shown = clean(&path.to_string_lossy());
                let file = files::open(path).map_err(|error| unreadable(&shown, &error))?;
                lines(ledger, BufReader::new(file), &shown)
            }
            Self::Stdin => lines(ledger, io::stdin().lock(), "standard input"),
        }
    }
}

/// One event per line; blank lines are none.
fn lines(ledger: &Ledger, mut input: impl BufRead, name: &str) -> Result<Vec<Draft>, Failure> {
    let (style, now) = (ledger.settings().style, ledger.now().wall);
    let mut drafts = Vec::new();
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        let limit = u64::try_from(LINE_BYTES_MAX + 1).unwrap_or(u64::MAX);
        let read = input.by_ref().take(limit).read_until(b'\n', &mut line).map_err(|error| unreadable(name, &error))?;
        if read == 0 {
            break;
        }
        let place = format!("line {number} of {name}: ");
        if read > LINE_BYTES_MAX {
            return Err(refused(&place, &BadEvent(format!("longer than {LINE_BYTES_MAX} bytes"))));
        }
        let event = line.trim_ascii();
        if !event.is_empty() {
            let draft = Draft::parse(event).map_err(|bad| refused(&place, &bad))?;
            // Tried here, where its line is known.
            draft.render(style, now, Added::default()).map_err(|bad| refused(&place, &bad))?;
            drafts.push(draft);
        }
    }
    if drafts.is_empty() {
        return Err(Failure::usage(format!("no event in {name}"))
            .hint("an event is one JSON object with a `type` per line, like {\"type\":\"note\"}"));
    }
    Ok(drafts)
}

fn refused(place: &str, bad: &BadEvent) -> Failure {
    let nothing = if place.is_empty() { "" } else { "nothing was appended; " };
    Failure::new(Exit::Usage, "E_BAD_EVENT", format!("{place}{}", bad.0)).hint(format!(
        "{nothing}an event is one JSON object with a `type`, like '{{\"type\":\"note\",\"text\":\"hello\"}}'"
    ))
}

fn unreadable(name: &str, error: &io::Error) -> Failure {
    Failure::io(format!("read {name}: {error}"), Some("nothing was appended"))
}
