//! The owner of a claim, as it is named on the command line.

use lokt_ledger::Ledger;

use super::super::ledger::place::Place;
use crate::context;
use crate::report::Failure;

/// The owner of a claim that is asked for: of `take` and `run`.
#[derive(clap::Args)]
pub(super) struct NewOwner {
    /// Claim it for this owner; otherwise `LOKT_OWNER`, or whoever is logged in
    #[arg(long, value_name = "OWNER")]
    owner: Option<String>,
}

impl NewOwner {
    /// The ledger at `place`, and the owner's name.
    pub(super) fn open(&self, place: &Place) -> Result<(Ledger, String), Failure> {
        open(place, self.owner.as_deref())
    }
}

/// A claim that the caller has: of `release` and `extend`.
#[derive(clap::Args)]
pub(super) struct OwnClaim {
    /// The node
    #[arg(id = "nodes", value_name = "NODE")]
    pub(super) node: String,
    #[command(flatten)]
    place: Place,
    /// Whose claim it is; otherwise that of `LOKT_OWNER`, or of whoever is logged in
    #[arg(long, value_name = "OWNER")]
    owner: Option<String>,
}

impl OwnClaim {
    /// The ledger, and the owner's name.
    pub(super) fn open(&self) -> Result<(Ledger, String), Failure> {
        open(&self.place, self.owner.as_deref())
    }
}

fn open(place: &Place, owner: Option<&str>) -> Result<(Ledger, String), Failure> {
    let me = context::caller(owner)?;
    let owner = me.owner.clone();
    Ok((place.open_as(me)?, owner))
}
