//! `lokt ledger follow`: events as they come.

use std::cell::RefCell;
use std::io::stdout;
use std::ops::ControlFlow;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::rc::Rc;

use lokt_core::ledger::seq::Seq;
use lokt_ledger::{Ledger, Slot};
use lokt_sys::signals::SignalQueue;
use lokt_sys::wait_policy::Interrupt;
use lokt_sys::wakeup::write_unless;

use super::super::waiting::inbox;
use super::place::Place;
use super::scan::{Look, Seen, Wanted, Wrong, line};
use crate::args::parse_expect;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report, say};
use crate::show::clean_json;
use crate::stream::Stream;

/// Show events as they come, until Ctrl-C
#[derive(clap::Parser)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// Begin after this number; without it, with the next event
    #[arg(long, value_name = "N", value_parser = parse_expect)]
    after: Option<u64>,
    /// Only events of this type; may be given several times
    #[arg(long = "type", id = "type", value_name = "TYPE")]
    types: Vec<String>,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    let ledger = args.place.open()?;
    let ears = Ears::new(inbox()?)?;
    let after = match args.after {
        Some(after) => after,
        None => ledger.head()?.value,
    };
    let wanted = Wanted { types: args.types.clone() };
    let mut printer = Printer { ledger: &ledger, wanted, format, ears: ears.again()?, failure: None };
    let mut alarm = ears.again()?;
    ledger.follow(after, &mut alarm, &mut |seq, slot| printer.show(seq, slot))?;
    if let Some(failure) = printer.failure {
        return Err(failure);
    }
    let signal = ears.inbox.borrow().ended_by();
    Ok(Report::new(signal.map_or(Exit::Done, Exit::of_signal)))
}

/// The signals of this process, for the one who waits for events and for the one who writes them.
struct Ears {
    fd: OwnedFd,
    inbox: Rc<RefCell<SignalQueue>>,
}

impl Ears {
    fn new(inbox: SignalQueue) -> Result<Self, Failure> {
        let fd = copy(inbox.as_fd())?;
        Ok(Self { fd, inbox: Rc::new(RefCell::new(inbox)) })
    }

    fn again(&self) -> Result<Self, Failure> {
        Ok(Self { fd: copy(self.fd.as_fd())?, inbox: Rc::clone(&self.inbox) })
    }
}

fn copy(fd: BorrowedFd<'_>) -> Result<OwnedFd, Failure> {
    fd.try_clone_to_owned().map_err(|error| Failure::io(format!("receive signals: {error}"), None))
}

impl Interrupt for Ears {
    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn is_raised(&mut self) -> bool {
        let mut inbox = self.inbox.borrow_mut();
        inbox.ended_by().is_some() || inbox.is_raised()
    }
}

struct Printer<'a> {
    ledger: &'a Ledger,
    wanted: Wanted,
    format: Format,
    ears: Ears,
    /// What went wrong on the way to stdout.
    failure: Option<Failure>,
}

impl Printer<'_> {
    fn show(&mut self, seq: Seq, slot: Slot) -> ControlFlow<()> {
        if let Slot::Rewound { head } = slot {
            return self.rewound(seq, head);
        }
        let wrong = match self.wanted.judge(seq, slot) {
            Seen::Unwanted => {
                return if Stream::is_read() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
            }
            Seen::Event(seq, bytes) => match line(Look::of(self.format), seq, &bytes) {
                Ok(line) => return self.print(&line),
                Err(why) => Wrong::damaged(self.ledger, seq, &why),
            },
            Seen::Gap(first, last) => Wrong::gap(self.ledger, first, last),
            Seen::Damaged(seq, why) => Wrong::damaged(self.ledger, seq, &why),
        };
        match self.format {
            Format::Json => self.print(&wrong.json()),
            Format::Text => {
                wrong.say();
                ControlFlow::Continue(())
            }
        }
    }

    /// What was shown from `seq` on isn't there any more.
    fn rewound(&mut self, seq: Seq, head: u64) -> ControlFlow<()> {
        let message = format!("the ledger is another one from event {seq} on, and ends with event {head}");
        match self.format {
            Format::Json => {
                let line = serde_json::json!({"seq": seq.get(), "status": "rewound", "head": head, "message": message});
                self.print(&clean_json(&line.to_string()))
            }
            Format::Text => {
                say(&format!("note: {message}\n"));
                ControlFlow::Continue(())
            }
        }
    }

    /// At once: somebody waits for it.
    fn print(&mut self, line: &str) -> ControlFlow<()> {
        match write_unless(stdout(), format!("{line}\n").as_bytes(), &mut self.ears) {
            Ok(true) => ControlFlow::Continue(()),
            Ok(false) => ControlFlow::Break(()),
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => ControlFlow::Break(()),
            Err(error) => {
                let message = format!("the answer could not be written to stdout: {error}");
                self.failure = Some(Failure::io(message, Some("write it to another place")));
                ControlFlow::Break(())
            }
        }
    }
}
