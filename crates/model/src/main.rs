//! Prints what the models have looked at, and how they find known mistakes. `--large` looks further, for minutes.

use std::fmt::Display;
use std::io::{self, Write};
use std::time::Instant;

use lokt_model::chain::{self, Leases};
use lokt_model::ledger::{self, Appends};
use lokt_model::line::{self, Queue};
use lokt_model::named::{self, Named, Survey};

/// One per core of the smallest machine that runs this.
const THREADS: usize = 2;

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    let large = std::env::args().any(|word| word == "--large");

    writeln!(out, "named locks as they are: three clients, kill at every step")?;
    for bounds in named::Bounds::USUAL.into_iter().chain(named::Bounds::LARGE.into_iter().filter(|_| large)) {
        surveyed(&mut out, bounds, || named::survey(Named::new(bounds), THREADS))?;
    }
    writeln!(out, "\nnamed locks with one mistake")?;
    for (flaw, promise) in named::Flaw::ALL {
        let trail = named::hunt(Named::new(flaw.bounds()).with_flaw(flaw), promise);
        hunted(&mut out, flaw.as_str(), promise, trail.map(|trail| (trail.actions.len(), trail.states)))?;
    }

    writeln!(out, "\nthe line as it is: runs of any length")?;
    let further = line::Bounds::LARGE.into_iter().filter(|_| large);
    for bounds in line::Bounds::USUAL.into_iter().chain([line::Bounds::LONG]).chain(further) {
        surveyed(&mut out, bounds, || line::survey(Queue::new(bounds), THREADS))?;
    }
    writeln!(out, "\nthe line with one mistake")?;
    for (flaw, promise) in line::Flaw::ALL {
        let trail = line::hunt(Queue::new(flaw.bounds()).with_flaw(flaw), promise);
        hunted(&mut out, flaw.as_str(), promise, trail.map(|trail| (trail.actions.len(), trail.states)))?;
    }

    writeln!(
        out,
        "\nappends to a ledger as they are: two of ours at a time beside foreign writers, kill at every step"
    )?;
    let further = ledger::Bounds::LONG.into_iter().filter(|_| large);
    for bounds in ledger::Bounds::USUAL.into_iter().chain(further) {
        surveyed(&mut out, bounds, || ledger::survey(Appends::new(bounds), THREADS))?;
    }
    writeln!(out, "\nappends to a ledger with one mistake")?;
    for (flaw, promise) in ledger::Flaw::ALL {
        let trail = ledger::hunt(Appends::new(flaw.bounds()).with_flaw(flaw), promise);
        hunted(&mut out, flaw.as_str(), promise, trail.map(|trail| (trail.actions.len(), trail.states)))?;
    }
    writeln!(out, "\nappends to a ledger beyond what can be promised")?;
    for (limit, _) in ledger::Limit::ALL {
        surveyed(&mut out, limit.bounds(), || ledger::survey(Appends::new(limit.bounds()), THREADS))?;
    }

    writeln!(out, "\nleases of a worktree as they are: no mutex, kill at every step, the chain deleted")?;
    let further = chain::Bounds::LONG.into_iter().chain(chain::Bounds::LARGE).filter(|_| large);
    for bounds in chain::Bounds::USUAL.into_iter().chain(further) {
        surveyed(&mut out, bounds, || chain::survey(Leases::new(bounds), THREADS))?;
    }
    writeln!(out, "\nleases of a worktree with one mistake")?;
    for (flaw, promise) in chain::Flaw::ALL {
        let trail = chain::hunt(Leases::new(flaw.bounds()).with_flaw(flaw), promise);
        hunted(&mut out, flaw.as_str(), promise, trail.map(|trail| (trail.actions.len(), trail.states)))?;
    }
    writeln!(out, "\nleases of a worktree with less than they have")?;
    for flaw in chain::Flaw::HARMLESS {
        writeln!(out, "  {}:", flaw.as_str())?;
        let model = Leases::new(flaw.bounds()).with_flaw(flaw);
        surveyed(&mut out, model.bounds, || chain::survey(model, THREADS))?;
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "how long it took is for people to read; nothing depends on it")]
fn surveyed(out: &mut impl Write, bounds: impl Display, survey: impl FnOnce() -> Survey) -> io::Result<()> {
    let began = Instant::now();
    let survey = survey();
    writeln!(out, "  {bounds}: {survey}; {:.1} s", began.elapsed().as_secs_f64())
}

/// `trail` is the steps and the states until it was found.
fn hunted(out: &mut impl Write, flaw: &str, promise: &str, trail: Option<(usize, usize)>) -> io::Result<()> {
    match trail {
        Some((steps, states)) => {
            writeln!(out, "  {flaw:36} breaks {promise} in {steps} steps, found in {states} states")
        }
        None => writeln!(out, "  {flaw:36} is NOT found"),
    }
}
