//! Writes a file only while the lock is still held: a process that was suspended for too long can't
//! overwrite what its successor wrote.
//!
//!     cargo run --example fenced_write [DIRECTORY]

#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "an example shows what it does")]

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use lokt::{LockError, Lokt};

fn main() -> Result<(), Box<dyn Error>> {
    let dir = PathBuf::from(std::env::args_os().nth(1).unwrap_or_else(|| ".".into()));
    let (draft, page) = (dir.join("page.draft"), dir.join("page"));
    let lokt = Lokt::discover(&dir)?;

    let slow = lokt.guard("page").ttl(Duration::from_secs(30)).acquire()?;
    // Slow was suspended for an hour; an operator gave the lock to another program, which wrote.
    lokt.force_unlock("page")?;
    let fast = lokt.guard("page").acquire()?;
    std::fs::write(&draft, "from the new holder\n")?;
    println!("published {} bytes under token {}", fast.publish(&draft, &page)?, fast.token());

    std::fs::write(&draft, "from the past\n")?;
    match slow.publish(&draft, &page) {
        Err(LockError::Denied(denial)) => println!("refused token {}: {}", slow.token(), denial.code()),
        other => return Err(format!("a stale token was accepted: {other:?}").into()),
    }
    print!("{}", std::fs::read_to_string(&page)?);
    Ok(())
}
