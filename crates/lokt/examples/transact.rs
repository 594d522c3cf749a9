//! A ledger transaction: five programs (here threads) book three seats, and none is booked twice.
//!
//! ```sh
//! cargo run -p lokt --example transact [DIR]
//! ```

use std::error::Error;
use std::io::{self, Write as _};
use std::path::Path;
use std::{env, fmt, thread};

use lokt::ledger::{Ledger, NewEvent};

const SEATS: usize = 3;
const GUESTS: [&str; 5] = ["ada", "barbara", "edsger", "grace", "leslie"];

/// The reason why a guest has no seat.
#[derive(Debug)]
enum NoSeat {
    SoldOut,
    Failed(lokt::Error),
}

/// Lets `?` convert errors of the ledger.
impl From<lokt::Error> for NoSeat {
    fn from(error: lokt::Error) -> Self {
        Self::Failed(error)
    }
}

impl fmt::Display for NoSeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SoldOut => f.write_str("sold out"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl Error for NoSeat {}

/// Books a seat. The closure runs again if another program was faster, so the answer is always
/// about the ledger to which the event is appended.
fn book(ledger: &Ledger, guest: &str) -> Result<u64, NoSeat> {
    let appended = ledger.transact(|view| {
        let mut booked = 0;
        for event in view.events() {
            booked += usize::from(event?.kind() == "seat_booked");
        }
        if booked == SEATS {
            return Err(NoSeat::SoldOut);
        }
        Ok(vec![NewEvent::new("seat_booked", &format!(r#"{{"guest":"{guest}","seat":{}}}"#, booked + 1))?])
    })?;
    Ok(appended.map_or(0, |appended| appended.seq()))
}

fn run(dir: &Path) -> Result<(), Box<dyn Error>> {
    let ledger = Ledger::create(dir)?;
    let answers: Vec<Result<u64, NoSeat>> = thread::scope(|scope| {
        let bookings = GUESTS.map(|guest| scope.spawn(|| book(&ledger, guest)));
        bookings.into_iter().map(|booking| booking.join().expect("booking does not panic")).collect()
    });
    let mut refused = 0;
    for answer in answers {
        match answer {
            Ok(_) => {}
            Err(NoSeat::SoldOut) => refused += 1,
            Err(NoSeat::Failed(error)) => return Err(error.into()),
        }
    }
    let mut out = io::stdout();
    for event in ledger.read(1) {
        let event = event?;
        writeln!(out, "{} {} {}", event.seq(), event.kind(), event.body())?;
    }
    writeln!(out, "refused: {refused}, sound: {}", ledger.verify()?.is_sound())?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    match env::args_os().nth(1) {
        Some(dir) => run(Path::new(&dir)),
        None => run(tempfile::tempdir()?.path()),
    }
}
