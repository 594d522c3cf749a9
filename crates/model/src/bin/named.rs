//! Prints what the model of named locks has looked at, and how it finds known mistakes. `--large` looks further, for minutes.

use std::io::{self, Write};

use lokt_model::named::{Bounds, Flaw, Named, hunt, survey};

/// One per core of the smallest machine that runs this.
const THREADS: usize = 2;

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "the protocol as it is: three clients, kill at every step")?;
    let large = std::env::args().any(|word| word == "--large");
    for bounds in Bounds::USUAL.into_iter().chain(Bounds::LARGE.into_iter().filter(|_| large)) {
        let survey = survey(Named::new(bounds), THREADS);
        writeln!(out, "  {bounds}: {survey}")?;
    }
    writeln!(out, "\nwith one mistake")?;
    for (flaw, promise) in Flaw::ALL {
        match hunt(Named::new(flaw.bounds()).with_flaw(flaw), promise) {
            Some(trail) => {
                let (steps, states) = (trail.actions.len(), trail.states);
                writeln!(out, "  {:36} breaks {promise} in {steps} steps, found in {states} states", flaw.as_str())?;
            }
            None => writeln!(out, "  {:36} is NOT found", flaw.as_str())?,
        }
    }
    Ok(())
}
