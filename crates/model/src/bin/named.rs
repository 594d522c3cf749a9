//! Prints what the model of named locks has looked at, and how it finds known mistakes.

use std::io::{self, Write};

use lokt_model::named::{Bounds, Flaw, NO_RETURN, Named, ONE_HOLDER, RETURNED_TOKEN, SHARED_TOKEN, hunt, survey};

/// One per core of the smallest machine that runs this.
const THREADS: usize = 2;

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "the protocol as it is: three clients, kill at every step")?;
    for bounds in Bounds::USUAL {
        let survey = survey(Named::new(bounds), THREADS);
        writeln!(out, "  {bounds}: {survey}")?;
    }
    writeln!(out, "\nwith one mistake: {}", Bounds::SMALL)?;
    for (flaw, promise) in Flaw::ALL {
        match hunt(Named::new(Bounds::SMALL).with_flaw(flaw), promise) {
            Some(trail) => {
                let (steps, states) = (trail.actions.len(), trail.states);
                writeln!(out, "  {:34} breaks {promise} in {steps} steps, found in {states} states", flaw.as_str())?;
            }
            None => writeln!(out, "  {:34} is NOT found", flaw.as_str())?,
        }
    }
    writeln!(out, "\nknown gaps")?;
    for (bounds, promise) in [(SHARED_TOKEN, ONE_HOLDER), (RETURNED_TOKEN, NO_RETURN)] {
        match hunt(Named::new(bounds).with_gaps(), promise) {
            Some(trail) => write!(out, "  {promise} is broken in {} steps:\n{trail}", trail.actions.len())?,
            None => writeln!(out, "  {promise} is NOT broken any more: {bounds}")?,
        }
    }
    Ok(())
}
