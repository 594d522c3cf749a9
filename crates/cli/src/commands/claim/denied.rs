//! A claim that was refused, said in text or JSON.

use lokt_core::denial::{Denial, Holder};
use lokt_core::ledger::claiming::Refused;
use lokt_core::time::show_wall_seconds;
use serde::Serialize;

use super::holder::{HolderMembers, claimant, expired_ago, until};
use crate::exit::Exit;
use crate::machine;
use crate::report::{Format, Report};
use crate::show::{clean, quoted};

#[derive(Serialize)]
struct Answer<'a> {
    status: &'static str,
    node: &'a str,
    owner: &'a str,
    #[serde(flatten)]
    holder: Option<HolderMembers>,
    code: &'static str,
    message: String,
    hint: String,
}

/// Says no. `me` asked.
pub(super) fn report(node: &str, me: &str, refused: &Refused, format: Format) -> Report {
    let (exit, code, message, hint) = words(node, me, refused);
    let holder = match refused {
        Refused::Hold(denial) => denial.holder(),
        Refused::NoSuchNode | Refused::NotAvailable(_) => None,
    };
    match format {
        Format::Json => Report::new(exit).json(&Answer {
            status: exit.refusal_status(),
            node,
            owner: me,
            holder: holder.map(HolderMembers::of),
            code,
            message,
            hint,
        }),
        Format::Text => {
            let now = machine::now().wall;
            let lines = holder.filter(|_| exit == Exit::Held).map(|holder| {
                let since = holder.hold.began().map(|began| format!("  since:   {}", show_wall_seconds(began)));
                let until = until(holder, now);
                let until = until.strip_prefix("until ").unwrap_or(&until).to_owned();
                since.into_iter().chain([format!("  until:   {until}")])
            });
            Report::refused(exit, &message, lines.into_iter().flatten(), Some(hint), None)
        }
    }
}

fn words(node: &str, me: &str, refused: &Refused) -> (Exit, &'static str, String, String) {
    let name = quoted(node);
    let list = "`lokt claim list` shows the claims and their tokens";
    let denial = match refused {
        Refused::NoSuchNode => {
            let message = format!("there is no node {name} in this ledger");
            return (Exit::Missing, "E_NOT_FOUND", message, "a node is claimed by its id, like 1.2".to_owned());
        }
        Refused::NotAvailable(state) => {
            let message = format!("node {name} can't be claimed: it is {}", clean(state));
            return (Exit::Held, "E_LOCK_CONFLICT", message, "choose another node".to_owned());
        }
        Refused::Hold(denial) => denial,
    };
    let expired = |holder: &Holder| expired_ago(holder).map(|ago| format!(" {ago}")).unwrap_or_default();
    let take = format!("`lokt claim take {}` claims it anew", clean(node));
    let (message, hint) = match denial {
        // Only `claim run` is refused so.
        Denial::Held(holder) if holder.hold.owner == me => (
            format!(
                "node already locked: node {name} is claimed by {}, under the same owner name",
                claimant(&holder.hold)
            ),
            format!(
                "give each agent a name of its own with --owner or LOKT_OWNER; `--wait` waits for it; \
                `lokt claim take {}` refreshes one's own claim; its token is {}",
                clean(node),
                token(holder)
            ),
        ),
        Denial::Held(holder) => (
            format!("node already locked: node {name} is claimed by {}", claimant(&holder.hold)),
            format!("`--wait` waits for it, `--any` takes another; it was claimed with token {}", token(holder)),
        ),
        Denial::Missing => (format!("nobody has claimed node {name}"), list.to_owned()),
        Denial::Over(holder) => {
            (format!("your claim on node {name} expired{}, and nobody has taken it since", expired(holder)), take)
        }
        Denial::NotYours(holder) | Denial::OtherHold(holder) | Denial::Guarded(holder) => {
            (format!("node {name} is claimed by {}, not by {}", claimant(&holder.hold), clean(me)), list.to_owned())
        }
        Denial::Lost(Some(holder)) => {
            (format!("node {name} is claimed by {} now", claimant(&holder.hold)), list.to_owned())
        }
        Denial::StaleToken { named, current: Some(current) } => {
            (format!("token {named} is not the current one of node {name}: that is {current}"), list.to_owned())
        }
        Denial::StaleToken { named, current: None } => {
            (format!("token {named} is not the current one of node {name}: nobody has claimed it"), list.to_owned())
        }
        Denial::Corrupt { why } => (
            format!("node {name}: the ledger is damaged: {}", clean(why)),
            "`lokt ledger verify` names every place; --force claims it all the same".to_owned(),
        ),
        other => (format!("node {name} can't be claimed: {}", other.code()), list.to_owned()),
    };
    (Exit::of_denial(denial), denial.code(), message, hint)
}

fn token(holder: &Holder) -> String {
    holder.hold.token.map_or_else(|| "unknown".to_owned(), |token| token.to_string())
}
