//! Leader election: of all processes that run this, one works and the others wait to take over. A
//! leader that loses the lock stops working.
//!
//!     cargo run --example leader [DIRECTORY]

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use lokt::Lokt;

/// Number of rounds, so that the example ends; a real leader works until it is stopped.
const ROUNDS: u32 = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let lokt = Lokt::discover(std::env::args_os().nth(1).unwrap_or_else(|| ".".into()))?;
    let mut held = lokt.guard("leader").ttl(Duration::from_secs(10)).acquire()?;
    println!("leading in term {}", held.token());
    let losses = held.losses();
    for round in 1..=ROUNDS {
        println!("round {round}");
        // The pause between two rounds ends at once when the lock is lost.
        match losses.recv_timeout(Duration::from_millis(100)) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(lost) => return Err(lost.into()),
            Err(RecvTimeoutError::Disconnected) => unreachable!("it is held"),
        }
    }
    held.release()?;
    println!("stepped down");
    Ok(())
}
