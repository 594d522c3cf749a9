//! Leases at length: hundreds of thefts that sixteen want, with and without the help of `flock`; everything that changes a lease killed or
//! stopped at each step; and thousands of grants of which none is lost or given twice.

#[path = "lease_storm/grants.rs"]
mod grants;
#[path = "lease_storm/killed.rs"]
mod killed;
#[path = "lease_storm/stopped.rs"]
mod stopped;
#[path = "lease_storm/thieves.rs"]
mod thieves;

use std::io::Write as _;

const LOKT: &str = env!("CARGO_BIN_EXE_lokt");

fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
