//! `lokt status --watch`: the locks as they change. On a terminal a live view, elsewhere a snapshot whenever something has changed.
//!
//! It only looks, and never takes the mutex. A look costs as much as a `status`; it is taken when the kernel tells of a change, and once an
//! interval for what the kernel doesn't tell.

use std::io::{self, stdout};
use std::os::fd::AsFd as _;
use std::time::Duration;

use lokt_core::name::LockName;
use lokt_core::time::show_wall_seconds;
use lokt_named::{Entry, EntryState, Lokt, Watch, Woken};
use lokt_sys::signals::SignalQueue;
use lokt_sys::terminal::{Keys, Size, in_foreground, suspend};
use serde::Serialize;

use super::status::{Row, json_of, row};
use super::waiting::inbox;
use super::watch_frame::{Frame, frame};
use crate::context::{self, Context};
use crate::exit::Exit;
use crate::machine;
use crate::report::{Failure, Format, Report, answer, answer_unless};
use crate::show::{clean_json, quoted};

/// Between two looks there is at least this, however much changes: nobody reads faster.
const PAUSE: Duration = Duration::from_millis(50);
/// While things change, looking takes at most one part in so many of the time.
const BUSY_SHARE: u32 = 10;
/// While nothing does, one in so many.
const IDLE_SHARE: u32 = 50;

pub(super) fn run(
    context: &Context,
    name: Option<&LockName>,
    interval: Duration,
    format: Format,
) -> Result<Report, Failure> {
    let mut inbox = inbox()?;
    // In the background, as under `timeout`, there is no screen to take: whoever tries is stopped.
    let live = format == Format::Text && Size::of(stdout()).is_some() && in_foreground() && !context::dumb_terminal();
    // Before the screen is taken: what is wrong from the beginning is said as by every command.
    context.open()?;
    let mut view = if live { View::Screen(Screen::take()) } else { View::Snapshots { format, last: None } };
    let mut watch = Watch::default();
    loop {
        let began = now();
        let lokt = context.open()?;
        watch.aim(lokt.as_ref());
        let seen = Seen { context, name, lokt: lokt.as_ref() };
        match view.show(&seen, &mut inbox) {
            Ok(true) => {}
            Ok(false) => return Ok(ended_by(inbox.ended_by())),
            Err(Trouble::Look(failure)) => return Err(failure),
            Err(Trouble::Show) => return Ok(Report::new(Exit::Done)),
        }
        let cost = now().saturating_sub(began);
        let pauses = [
            // First nothing but keys and signals, then changes too.
            (&Watch::default(), PAUSE.max(cost * BUSY_SHARE)),
            (&watch, interval.max(cost * IDLE_SHARE)),
        ];
        for (watch, pause) in pauses {
            match view.rest(watch, pause, &mut inbox)? {
                Next::Wait => {}
                Next::Look => break,
                Next::End(report) => return Ok(report),
            }
        }
    }
}

/// On a clock that nobody sets.
fn now() -> Duration {
    Duration::from_millis(machine::now().monotonic_ms)
}

/// Ctrl-C and SIGTERM are how one ends it; other signals are accidents.
fn ended_by(signal: Option<i32>) -> Report {
    match signal {
        None | Some(2 | 15) => Report::new(Exit::Done),
        Some(other) => Report::new(Exit::of_signal(other)),
    }
}

/// What is looked at.
struct Seen<'a> {
    context: &'a Context,
    name: Option<&'a LockName>,
    /// The root, once there is one.
    lokt: Option<&'a Lokt>,
}

impl Seen<'_> {
    fn entries(&self) -> Result<Vec<Entry>, Failure> {
        Ok(match (self.lokt, self.name) {
            (None, _) => Vec::new(),
            (Some(lokt), None) => lokt.inspect().map_entries(|entry| entry)?,
            (Some(lokt), Some(name)) => lokt.inspect().entry(name)?.into_iter().chain(freeze(lokt, name)).collect(),
        })
    }

    /// What is said where there is nothing.
    fn nothing(&self) -> String {
        self.name.map_or_else(|| "no locks".to_owned(), |name| format!("lock {} is free", quoted(name.as_str())))
    }
}

/// The freeze over a name, as an entry.
fn freeze(lokt: &Lokt, name: &LockName) -> Option<Entry> {
    let state = match lokt.inspect().outlook(name).ok()?.frozen? {
        Ok(freeze) => EntryState::Held(freeze),
        Err(why) => EntryState::Corrupt(why),
    };
    Some(Entry { name: name.to_string(), is_freeze: true, state, waiters: 0 })
}

/// Why it can't go on.
enum Trouble {
    Look(Failure),
    /// Nobody sees what is shown.
    Show,
}

/// What to do next.
enum Next {
    Wait,
    Look,
    End(Report),
}

enum View {
    Screen(Screen),
    Snapshots {
        format: Format,
        /// What was last shown, without what the passing of time changes.
        last: Option<String>,
    },
}

impl View {
    /// Looks and shows. False: a signal came meanwhile.
    fn show(&mut self, seen: &Seen<'_>, inbox: &mut SignalQueue) -> Result<bool, Trouble> {
        let entries = seen.entries().map_err(Trouble::Look)?;
        let text = match self {
            Self::Screen(_) => {
                let size = Size::of(stdout()).ok_or(Trouble::Show)?;
                frame(&Frame {
                    root: &seen.context.root.path,
                    name: seen.name,
                    lokt: seen.lokt,
                    entries: &entries,
                    nothing: &seen.nothing(),
                    now: machine::now().wall,
                    size,
                })
            }
            Self::Snapshots { format, last } => {
                let lasting = lasting(seen, &entries, *format);
                if last.as_ref() == Some(&lasting) {
                    return Ok(true);
                }
                let is_first = last.replace(lasting).is_none();
                snapshot(seen, &entries, *format, is_first)
            }
        };
        answer_unless(&text, inbox).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Trouble::Show,
            _ => Trouble::Look(Failure::io(format!("the answer could not be written to stdout: {error}"), None)),
        })
    }

    /// Waits for something that is worth another look, for at most `pause`.
    fn rest(&mut self, watch: &Watch, pause: Duration, inbox: &mut SignalQueue) -> Result<Next, Failure> {
        let mut inputs = vec![inbox.as_fd()];
        if let Self::Screen(Screen { keys: Some(keys), deaf: false }) = &*self {
            inputs.push(keys.as_fd());
        }
        let woken = watch.sleep(&inputs, stdout(), pause);
        Ok(match woken.map_err(|error| Failure::io(format!("wait for changes: {error}"), None))? {
            Woken::Input(0) => match std::iter::from_fn(|| inbox.take()).find(|arrived| arrived.ends()) {
                Some(arrived) => Next::End(ended_by(Some(arrived.number))),
                // The window has another size.
                None => Next::Look,
            },
            Woken::Input(_) => match self {
                Self::Screen(screen) => screen.hear(),
                Self::Snapshots { .. } => Next::Wait,
            },
            Woken::Closed => Next::End(Report::new(Exit::Done)),
            Woken::Changed => Next::Look,
            Woken::Time => Next::Wait,
        })
    }
}

/// All that is shown, without what the passing of time changes.
fn lasting(seen: &Seen<'_>, entries: &[Entry], format: Format) -> String {
    let rows: Vec<Row> = json_rows(seen, entries).into_iter().map(|row| row.lasting(format)).collect();
    serde_json::to_string(&rows).expect("rows have only strings and numbers")
}

fn json_rows(seen: &Seen<'_>, entries: &[Entry]) -> Vec<Row> {
    let now = machine::now().wall;
    seen.lokt.map(|lokt| entries.iter().map(|entry| json_of(lokt, entry, now)).collect()).unwrap_or_default()
}

#[derive(Serialize)]
struct Snapshot {
    ts: String,
    locks: Vec<Row>,
}

fn snapshot(seen: &Seen<'_>, entries: &[Entry], format: Format, is_first: bool) -> String {
    let now = machine::now().wall;
    let ts = show_wall_seconds(now);
    if format == Format::Json {
        let snapshot = Snapshot { ts, locks: json_rows(seen, entries) };
        let text = serde_json::to_string(&snapshot).expect("rows have only strings and numbers");
        return clean_json(&text) + "\n";
    }
    let rows: String = entries.iter().map(|entry| row(entry, now)).collect();
    let rows = if rows.is_empty() { seen.nothing() + "\n" } else { rows };
    format!("{}{ts}\n{rows}", if is_first { "" } else { "\n" })
}

/// The terminal's other screen, ours until this is dropped: what was on the first one is there again then, and keys do what they did.
struct Screen {
    keys: Option<Keys>,
    /// Nothing more will be typed.
    deaf: bool,
}

/// Goes to the other screen and hides the cursor.
const TAKE: &str = "\x1b[?1049h\x1b[?25l";
/// Shows the cursor and goes back.
const GIVE_BACK: &str = "\x1b[?25h\x1b[?1049l";

impl Screen {
    fn take() -> Self {
        // In the background this waits for the foreground; the screen isn't ours before.
        let keys = Keys::listen();
        let _ = answer(TAKE);
        Self { keys, deaf: false }
    }

    fn hear(&mut self) -> Next {
        let typed = self.keys.as_ref().and_then(Keys::typed);
        match typed {
            None => {
                self.deaf = true;
                Next::Wait
            }
            Some(typed) if typed.iter().any(|key| matches!(key, b'q' | b'Q')) => Next::End(Report::new(Exit::Done)),
            Some(typed) if typed.contains(&Keys::SUSPEND) => {
                let _ = answer(GIVE_BACK);
                self.keys = None;
                suspend();
                self.keys = Keys::listen();
                let _ = answer(TAKE);
                Next::Look
            }
            Some(_) => Next::Look,
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = answer(GIVE_BACK);
    }
}
