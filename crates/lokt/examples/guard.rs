//! Runs a job under a lock: one process at a time, even if different users start it.
//!
//!     cargo run --example guard [DIRECTORY]

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::time::Duration;

use lokt::{LockError, Lokt};

fn main() -> Result<(), Box<dyn Error>> {
    let lokt = Lokt::discover(std::env::args_os().nth(1).unwrap_or_else(|| ".".into()))?;
    let request = lokt.guard("nightly").ttl(Duration::from_secs(60)).reason("nightly report");
    let request = request.on_wait(|waiting| {
        if let (Some(holder), Some(ahead)) = (waiting.holder(), waiting.ahead()) {
            println!("waiting for {holder}, {ahead} ahead");
        }
    });
    let held = match request.acquire_timeout(Duration::from_secs(2)) {
        Ok(held) => held,
        Err(LockError::Denied(denial)) => {
            println!("not today: {denial}");
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    println!("working under token {}", held.token());
    held.release()?;
    println!("done");
    Ok(())
}
