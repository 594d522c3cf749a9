//! Prints what the models have looked at, and how they find known mistakes. `--large` looks further, for minutes.

use std::io::{self, Write};
use std::time::Instant;

use lokt_model::Protocol;
use lokt_model::chain::{self, Leases};
use lokt_model::ledger::{self, Appends};
use lokt_model::line::{self, Queue};
use lokt_model::named::{self, Named};
use lokt_model::swap::{self, Swap};

/// One per core of the smallest machine that runs this.
const THREADS: usize = 2;

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    let large = std::env::args().any(|word| word == "--large");

    writeln!(out, "named locks as they are: three clients, kill at every step")?;
    for bounds in named::Bounds::USUAL.into_iter().chain(named::Bounds::LARGE.into_iter().filter(|_| large)) {
        surveyed(&mut out, Named::new(bounds))?;
    }
    writeln!(out, "\nnamed locks with one mistake")?;
    hunted::<Named>(&mut out)?;

    writeln!(out, "\nthe line as it is: runs of any length")?;
    let further = line::Bounds::LARGE.into_iter().filter(|_| large);
    for bounds in line::Bounds::USUAL.into_iter().chain([line::Bounds::LONG]).chain(further) {
        surveyed(&mut out, Queue::new(bounds))?;
    }
    writeln!(out, "\nthe line with one mistake")?;
    hunted::<Queue>(&mut out)?;

    writeln!(
        out,
        "\nappends to a ledger as they are: two of ours at a time beside foreign writers, kill at every step"
    )?;
    let further = ledger::Bounds::LONG.into_iter().filter(|_| large);
    for bounds in ledger::Bounds::USUAL.into_iter().chain(further) {
        surveyed(&mut out, Appends::new(bounds))?;
    }
    writeln!(out, "\nappends to a ledger with one mistake")?;
    hunted::<Appends>(&mut out)?;
    writeln!(out, "\nappends to a ledger beyond what can be promised")?;
    for (limit, _) in ledger::Limit::ALL {
        surveyed(&mut out, Appends::new(limit.bounds()))?;
    }

    writeln!(out, "\nleases of a worktree as they are: no mutex, kill at every step, the chain deleted")?;
    let further = chain::Bounds::LONG.into_iter().chain(chain::Bounds::LARGE).filter(|_| large);
    for bounds in chain::Bounds::USUAL.into_iter().chain(further) {
        surveyed(&mut out, Leases::new(bounds))?;
    }
    writeln!(out, "\nleases of a worktree with one mistake")?;
    hunted::<Leases>(&mut out)?;
    writeln!(out, "\nleases of a worktree with less than they have")?;
    for flaw in chain::Flaw::HARMLESS {
        writeln!(out, "  {}:", flaw.as_str())?;
        surveyed(&mut out, Leases::with_flaw(flaw))?;
    }

    writeln!(out, "\nnamed locks on an engine as they are: late, doubled and lost requests, sessions that end")?;
    for bounds in swap::Bounds::USUAL.into_iter().chain(swap::Bounds::LONG.into_iter().filter(|_| large)) {
        surveyed(&mut out, Swap::new(bounds))?;
    }
    writeln!(out, "\nnamed locks on an engine with one mistake")?;
    hunted::<Swap>(&mut out)?;
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "how long it took is for people to read; nothing depends on it")]
fn surveyed(out: &mut impl Write, model: impl Protocol) -> io::Result<()> {
    let began = Instant::now();
    let survey = model.survey(THREADS);
    writeln!(out, "  {}: {survey}; {:.1} s", model.bounds(), began.elapsed().as_secs_f64())
}

fn hunted<P: Protocol>(out: &mut impl Write) -> io::Result<()> {
    for (flaw, promise) in P::FLAWS {
        let called = P::called(*flaw);
        match P::with_flaw(*flaw).hunt(promise) {
            Some(trail) => {
                let (steps, states) = (trail.actions.len(), trail.states);
                writeln!(out, "  {called:36} breaks {promise} in {steps} steps, found in {states} states")?;
            }
            None => writeln!(out, "  {called:36} is NOT found")?,
        }
    }
    Ok(())
}
