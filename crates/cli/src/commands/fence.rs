//! `lokt fence check`: is a token still the one to act under?

use lokt_core::decide::Presented;
use lokt_core::denial::Holder;
use lokt_core::hold::LockId;
use lokt_named::Fenced;
use serde::Serialize;

use super::deny;
use crate::args::{RootArg, parse_token};
use crate::context::{Claimed, Context};
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};
use crate::show::{quoted, until};

/// Say by the exit code whether a fencing token is still good
#[derive(clap::Parser)]
#[command(
    after_help = "Inside `lokt guard` neither name nor token is needed: then all of the guard's locks are checked. \
    The token that a guard hands down counts only for the lock of that guard: in another root the same number is another hold's (6). \
    A number that is given with --token alone is compared as a number. \
    A token is good while its hold lives: 0. Its lease has expired and nobody has taken the lock since: 5. Anything else: 6. \
    Between the check and what you do next the lock may be lost; `lokt publish` has no such gap."
)]
pub(crate) struct Args {
    /// What to do
    #[arg(value_name = "check", value_parser = ["check"])]
    action: String,
    /// The lock's name; without it, the locks of the guard that this runs under
    name: Option<String>,
    /// The token; without it, the one that the guard got
    #[arg(long, value_name = "TOKEN", value_parser = parse_token)]
    token: Option<u64>,
    /// With --token: the lock id of the hold for which it was issued
    #[arg(long, value_name = "ID", requires = "token")]
    lock_id: Option<String>,
    #[command(flatten)]
    root: RootArg,
}

/// The token of the command line, and the hold for which it was issued, if that was said.
pub(super) fn given(token: Option<u64>, lock_id: Option<&str>) -> Option<Presented> {
    token.map(|token| Presented { token, lock_id: lock_id.map(LockId::from_text) })
}

#[derive(Serialize)]
struct Good<'a> {
    status: &'static str,
    name: &'a str,
    fencing_token: u64,
    owner: &'a str,
    lock_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining_sec: Option<i64>,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    debug_assert_eq!(args.action, "check", "there is no other");
    let context = Context::read(&args.root)?;
    let lokt = context.open()?;
    let claimed = context.claimed(args.name.as_deref(), given(args.token, args.lock_id.as_deref()), lokt.as_ref())?;
    let mut report = Report::new(Exit::Done);
    let mut checked = Vec::new();
    for Claimed { name, presented } in &claimed {
        let token = presented.token;
        let Some(lokt) = &lokt else { return Err(nobody(name.as_str(), token)) };
        let holder = match lokt.check_token(name, presented.clone())? {
            Fenced::Denied(refused) => return Ok(deny::report(lokt, name.as_str(), &refused, format)),
            Fenced::Current(holder) => holder,
        };
        if format == Format::Text {
            let now = lokt.now().wall;
            report = report
                .text(format!("token {token} of lock {} is good\n", quoted(name.as_str())))
                .note(format!("note: the lock is held until {}", until(&holder, now)));
        }
        checked.push((name, token, holder));
    }
    let checked: Vec<_> = checked.iter().map(|(name, token, holder)| good(name.as_str(), *token, holder)).collect();
    Ok(match (format, checked.as_slice()) {
        (Format::Text, _) => report,
        (Format::Json, [one]) => report.json(one),
        // A guard of several names: one answer all the same.
        (Format::Json, several) => report.json(&several),
    })
}

fn good<'a>(name: &'a str, token: u64, holder: &'a Holder) -> Good<'a> {
    Good {
        status: "good",
        name,
        fencing_token: token,
        owner: &holder.hold.owner,
        lock_id: holder.hold.lock_id.as_str(),
        remaining_sec: holder.left_ms().map(crate::show::seconds),
    }
}

/// There is no root, so nobody holds anything.
pub(super) fn nobody(name: &str, token: u64) -> Failure {
    let message = format!("token {token} is not the current one of lock {}: it has none", quoted(name));
    Failure::new(Exit::StaleToken, "E_FENCING_MISMATCH", message).hint("`lokt root` shows which root is used")
}
