//! A refusal, said in text or JSON.

use jiff::Timestamp;
use lokt_core::denial::Denial;
use lokt_core::duration;
use lokt_core::hold::Hold;
use lokt_core::time::show_wall_seconds;
use lokt_named::{Lokt, Refusal};
use serde::Serialize;

use super::waiting::what_keeps_it;
use crate::exit::Exit;
use crate::members::{FreezeMembers, HolderMembers, KeeperMembers, kept_by, text};
use crate::paint;
use crate::report::{Format, Report};
use crate::show::{Subject, at_and_in, clean, if_certain, quoted, reason, refusal, seconds_since, until};

/// The `blocked` object. Members that would be empty are left out.
#[derive(Serialize, Default)]
pub(crate) struct Blocked {
    status: &'static str,
    name: String,
    #[serde(flatten)]
    holder: HolderMembers,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder_acquired_ts: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder_expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder_held_since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder_held_sec: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder_lock_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder_fencing_token: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder_liveness: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder_reason: Option<String>,
    /// What runs although its guard is gone, and keeps the hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kept_by: Vec<KeeperMembers>,
    #[serde(flatten)]
    freeze: FreezeMembers,
    code: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    waiters: usize,
    /// How long it was waited for in vain.
    #[serde(skip_serializing_if = "Option::is_none")]
    waited_ms: Option<u128>,
}

/// Says no about a lock.
pub(crate) fn report(lokt: &Lokt, name: &str, refused: &Refusal, format: Format) -> Report {
    report_about(Subject::Lock, lokt, name, refused, format)
}

/// Says no.
pub(crate) fn report_about(subject: Subject, lokt: &Lokt, name: &str, refused: &Refusal, format: Format) -> Report {
    let now = lokt.now().wall;
    let me = format!("{}@{}", clean(&lokt.me().owner), clean(&lokt.me().host));
    let message = refusal(subject, name, &refused.denial, &me, now);
    let message = match (&refused.denial, refused.waited) {
        (_, None) => message,
        (Denial::Held(_), Some(_)) => format!("timeout waiting for {message}"),
        (_, Some(waited)) => format!("timeout after {}: {message}", duration::show(waited)),
    };
    let hint = match subject {
        Subject::Lock => hint(name, refused, &lokt.me().owner),
        Subject::Freeze => freeze_hint(name, &refused.denial),
    };
    let exit = Exit::of_denial(&refused.denial);
    match format {
        Format::Json => Report::new(exit).json(&blocked(lokt, name, refused, message, hint, now)),
        Format::Text => {
            let last_resort = last_resort(subject, name, &refused.denial);
            Report::refused(exit, &with_name(&message, name), details(lokt, refused, now), hint, last_resort)
        }
    }
}

/// What ends a hold or a freeze without asking whose it is, for people alone.
fn last_resort(subject: Subject, name: &str, denial: &Denial) -> Option<String> {
    // Who asks for a lock is told to wait, and where to read more; who asks to end something may need it.
    let effect = match denial {
        Denial::NotYours(_) if subject == Subject::Freeze => "ends the freeze without asking who froze it",
        Denial::NotYours(_) | Denial::NotStale(_) => "removes it without asking its holder",
        Denial::Guarded(_) => "takes it away from its command, which keeps running",
        Denial::Frozen(Some(_)) if subject == Subject::Freeze => "ends the freeze without asking who froze it",
        Denial::Frozen(None) | Denial::Newer { .. } => "moves it aside",
        Denial::Corrupt { .. } | Denial::BeingWritten if subject == Subject::Freeze => "moves it aside",
        _ => return None,
    };
    let is_freeze = subject == Subject::Freeze || matches!(denial, Denial::Frozen(_));
    let command = if is_freeze { "unfreeze" } else { "unlock" };
    if_certain(&std::io::stderr(), &format!("lokt {command} --force {name}"), effect)
}

/// The message, with the name standing out.
fn with_name(message: &str, name: &str) -> String {
    let quoted = quoted(name);
    message.replacen(&quoted, &paint::name(&quoted), 1)
}

fn details(lokt: &Lokt, refused: &Refusal, now: Timestamp) -> Vec<String> {
    let mut lines = Vec::new();
    if let Denial::Held(holder) = &refused.denial {
        if let Some(began) = holder.hold.began() {
            lines.push(format!("  since:   {}", show_wall_seconds(began)));
        }
        lines.push(format!("  until:   {}", until(holder, now)));
        lines.extend(what_keeps_it(&kept_by(lokt, holder)).map(|kept| format!("  guard:   gone; {kept}")));
        if let Some(reason) = reason(&holder.hold) {
            lines.push(format!("  reason:  {}", clean(reason)));
        }
    }
    if let Denial::Frozen(Some(freeze)) = &refused.denial {
        let hold = &freeze.hold;
        lines.extend(hold.began().map(|began| format!("  since:   {}", show_wall_seconds(began))));
        lines.push(match freeze.elapsed.left_ms() {
            Some(left_ms) => format!("  until:   {}", at_and_in(left_ms, now)),
            None => {
                format!("  until:   `lokt unfreeze {}` by {}; it has no TTL", clean(&hold.name), clean(&hold.owner))
            }
        });
        lines.extend(reason(hold).map(|reason| format!("  reason:  {}", clean(reason))));
    }
    if refused.waiters > 0 {
        lines.push(format!("  waiting: {}", refused.waiters));
    }
    if let Some(waited) = refused.waited {
        lines.push(format!("  waited:  {}", duration::show(waited)));
    }
    lines
}

fn hint(name: &str, refused: &Refusal, me: &str) -> Option<String> {
    // Whoever has waited knows how to.
    let wait = if refused.waited.is_none() { "`--wait` waits in line for it, " } else { "" };
    Some(match &refused.denial {
        // Refused to its own owner: it is bound to, or guarded by, another process.
        Denial::Held(holder) if holder.hold.owner == me => format!(
            "held by another process of the same owner ({}); {wait}`lokt why {name}` shows the evidence",
            clean(me)
        ),
        Denial::Frozen(Some(freeze)) if freeze.hold.owner == me => {
            format!("frozen by the same owner ({}), who ends it with `lokt unfreeze {name}`", clean(me))
        }
        Denial::Frozen(None) => format!("{wait}`lokt doctor` shows the file; it counts as a freeze"),
        Denial::Held(_) | Denial::Queued { .. } | Denial::Frozen(_) => {
            format!("{wait}`lokt why {name}` shows the evidence and what you can do")
        }
        Denial::BeingWritten => "try again in two seconds".into(),
        Denial::Newer { .. } => "upgrade lokt".into(),
        Denial::Corrupt { .. } => format!(
            "`lokt lock {name}` moves it aside and takes the lock; `lokt unlock --break-stale {name}` only moves it aside"
        ),
        Denial::Missing => "`lokt status` lists what is held".into(),
        Denial::NotYours(holder) if holder.staleness().is_some() => {
            format!(
                "nothing alive is behind it: `lokt unlock --break-stale {name}` removes it, `lokt lock {name}` takes it"
            )
        }
        Denial::NotYours(holder) => as_owner("unlock", name, &holder.hold),
        Denial::Guarded(_) => "it ends with its command".into(),
        Denial::OtherIssuer { .. } => "it comes from a guard of another root, or of a root that was removed since; \
            `lokt root` shows which root is used here"
            .into(),
        Denial::OtherHold(_) | Denial::StaleToken { .. } | Denial::Over(_) => {
            format!("`lokt status {name}` shows the current hold")
        }
        Denial::NotStale(_) => format!("`lokt why {name}` shows the evidence and what you can do"),
        Denial::Kept | Denial::Lost(_) => return None,
    })
}

/// What to do about a refused `freeze` or `unfreeze`.
fn freeze_hint(name: &str, denial: &Denial) -> Option<String> {
    Some(match denial {
        Denial::Frozen(Some(_)) => "only its owner can give it a new end".into(),
        Denial::Frozen(None) | Denial::Corrupt { .. } | Denial::BeingWritten => {
            "what can't be read counts as a freeze; `lokt doctor` shows the file".into()
        }
        Denial::NotYours(holder) => as_owner("unfreeze", name, &holder.hold),
        Denial::Newer { .. } => "upgrade lokt".into(),
        Denial::Missing => "`lokt status` lists what is frozen".into(),
        _ => return None,
    })
}

/// How the owner of `hold` ends it.
fn as_owner(command: &str, name: &str, hold: &Hold) -> String {
    let owner = shell_word(&hold.owner).map(|owner| format!("LOKT_OWNER={owner} ")).unwrap_or_default();
    format!("its owner ends it with `{owner}lokt {command} {name}`")
}

/// An owner as it must be typed in a shell; `None` if it can't be shown as it is.
pub(super) fn shell_word(text: &str) -> Option<String> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-@/+:".contains(&b));
    let quoted = || (clean(text) == text).then(|| format!("'{}'", text.replace('\'', "'\\''")));
    if plain { Some(text.to_owned()) } else { quoted() }
}

fn blocked(
    lokt: &Lokt,
    name: &str,
    refused: &Refusal,
    message: String,
    hint: Option<String>,
    now: Timestamp,
) -> Blocked {
    let denial = &refused.denial;
    let mut blocked = Blocked {
        status: Exit::of_denial(denial).refusal_status(),
        name: name.to_owned(),
        code: denial.code(),
        message,
        hint,
        waiters: refused.waiters,
        waited_ms: refused.waited.map(|waited| waited.as_millis()),
        ..Blocked::default()
    };
    if let Denial::Frozen(freeze) = denial {
        // Whoever froze the name doesn't hold it.
        blocked.freeze = freeze.as_ref().map(|freeze| FreezeMembers::of(freeze, now)).unwrap_or_default();
    } else if let Some(holder) = denial.holder() {
        let hold = &holder.hold;
        blocked.holder = HolderMembers::of(lokt, holder, now);
        blocked.holder_acquired_ts = hold.acquired.map(show_wall_seconds);
        blocked.holder_expires_at = hold.expires_at.map(show_wall_seconds);
        blocked.holder_held_since = hold.began().map(show_wall_seconds);
        blocked.holder_held_sec = Some(seconds_since(hold.began(), now));
        blocked.holder_lock_id = text(hold.lock_id.as_str());
        blocked.holder_fencing_token = hold.token.map(lokt_core::hold::Fence::get);
        blocked.holder_liveness = Some(holder.liveness.as_str());
        blocked.holder_reason = reason(hold).map(ToOwned::to_owned);
        blocked.kept_by = kept_by(lokt, holder);
    }
    blocked
}

/// `lock "x" not found`, as `status` and `exists` have always said it.
pub(crate) fn not_found(name: &str) -> String {
    format!("lock {} not found", quoted(name))
}
