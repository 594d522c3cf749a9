//! A lease that was refused, said in text or JSON.

use std::time::Duration;

use lokt_core::denial::Denial;
use lokt_core::duration;
use lokt_worktree::lease::{LeaseRefusal, LeaseState, Worktree};
use serde::Serialize;

use super::answer::place;
use super::holder::{HolderMembers, Left, at, by, holder, span, token, until, view};
use crate::exit::Exit;
use crate::report::{Format, Report};
use crate::show::{clean, if_certain, quoted};

/// What was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The lease.
    Take,
    /// The lease, if it is over.
    Steal,
    /// More time for one's own.
    Renew,
    /// The end of one's own.
    Release,
    /// The end of whoever's.
    Break,
    /// To act under this token.
    Token(u64),
    /// Another name for the worktree, or its end.
    Change,
    /// Work that needs the lease, and can take it for itself.
    Work,
}

/// Who asked what.
pub(crate) struct Question<'a> {
    pub(crate) worktree: &'a Worktree,
    pub(crate) asked: Asked,
    /// How the worktree and the session were named on the command line.
    pub(crate) words: &'a str,
    /// The session's id, if it has one.
    pub(crate) session_id: Option<&'a str>,
    /// How long it was waited for in vain.
    pub(crate) waited: Option<Duration>,
}

#[derive(Serialize)]
struct Answer<'a> {
    status: &'static str,
    worktree: &'a str,
    state: &'static str,
    #[serde(flatten)]
    holder: Option<HolderMembers>,
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    skew_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_clock_skew_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waited_ms: Option<u128>,
    code: &'static str,
    message: String,
    hint: String,
}

/// Says no.
pub(crate) fn report(question: &Question<'_>, refused: &LeaseRefusal, format: Format) -> Report {
    let (exit, code) = exit(question.asked, refused);
    let (message, hint) = words(question, refused);
    let message = match question.waited {
        Some(waited) => format!("timeout after {}: {message}", duration::show(waited)),
        None => message,
    };
    match format {
        Format::Json => Report::new(exit).json(&Answer {
            status: exit.refusal_status(),
            worktree: question.worktree.name().as_str(),
            state: refused.state.as_str(),
            holder: refused.record.as_ref().map(HolderMembers::of),
            evidence: refused.evidence.map(lokt_core::lease::evidence::Evidence::as_str),
            retry_after_ms: refused.retry_after_ms,
            skew_ms: refused.skew_ms,
            max_clock_skew_ms: refused.skew_ms.map(|_| refused.skew_max_ms),
            waited_ms: question.waited.map(|waited| waited.as_millis()),
            code,
            message,
            hint,
        }),
        Format::Text => {
            Report::refused(exit, &message, details(question, refused), Some(hint), last_resort(question, refused))
        }
    }
}

/// What ends a lease that another holds, or that can't be read, without asking.
fn last_resort(question: &Question<'_>, refused: &LeaseRefusal) -> Option<String> {
    let is_mine = question.session_id.is_some_and(|mine| is_of(refused, mine));
    let counts = matches!(refused.denial, Denial::Held(_) | Denial::Corrupt { .. }) || refused.unreadable.is_some();
    let command = format!("lokt lease break --force --reason WHY{}", place(question.words));
    (counts && !is_mine).then(|| if_certain(&std::io::stderr(), &command, "ends it without asking its holder"))?
}

/// Where nobody holds anything, it depends on what was asked for.
fn exit(asked: Asked, refused: &LeaseRefusal) -> (Exit, &'static str) {
    match (asked, &refused.denial) {
        (Asked::Steal | Asked::Break, Denial::Missing) => (Exit::Missing, "E_NOT_FOUND"),
        _ => (Exit::of_lease(refused), refused.code()),
    }
}

/// What is known about whoever has it.
fn details(question: &Question<'_>, refused: &LeaseRefusal) -> Vec<String> {
    let mut lines = Vec::new();
    let left = left(question, refused);
    if let Some(record) = &refused.record {
        lines.push(format!("  since:    {}", at(record.created_at, record.policy)));
        lines.push(format!("  until:    {}", until(record, left.own_ms)));
        let purpose = record.purpose.as_deref().filter(|purpose| !purpose.is_empty());
        lines.extend(purpose.map(|purpose| format!("  purpose:  {}", clean(purpose))));
    }
    lines.extend(refused.evidence.map(|evidence| format!("  evidence: {}", by(evidence))));
    lines.push(format!("  file:     {}", clean(&view(question.worktree, refused.evidence).to_string_lossy())));
    lines
}

/// The message and the hint.
fn words(question: &Question<'_>, refused: &LeaseRefusal) -> (String, String) {
    let name = quoted(question.worktree.name().as_str());
    let words = question.words;
    let status = format!("`lokt lease status{words}` shows its state");
    let acquire = format!("`lokt lease acquire{words}` takes it, under a new token");
    let who = refused.record.as_ref().map(|record| format!("{}{}", holder(record), token(record)));
    let who = who.unwrap_or_else(|| "somebody unknown".to_owned());
    let soon = left(question, refused).others_ms.map(|ms| format!(" in {}", span(ms)));
    match &refused.denial {
        Denial::Held(_) | Denial::Corrupt { .. } if refused.skew_ms.is_some() => {
            let skew_ms = refused.skew_ms.unwrap_or(0);
            let side = if skew_ms < 0 { "behind" } else { "ahead of" };
            let (skew, allowed) = (span(skew_ms.unsigned_abs()), span(refused.skew_max_ms));
            let message = format!(
                "whether the lease of worktree {name} is over can't be told: the clock of its holder, {who}, is {skew} {side} ours, and \
                 {allowed} are allowed"
            );
            let wait =
                soon.map(|soon| format!("if nobody renews it, it is over{soon} all the same; ")).unwrap_or_default();
            (message, format!("{wait}set the clocks of both machines"))
        }
        Denial::Held(_) if question.session_id.is_some_and(|mine| is_of(refused, mine)) => (
            format!("the lease of worktree {name} is held by this very session already: {who}"),
            format!(
                "`lokt lease renew{words}` prolongs it, `lokt lease release{words}` gives it back; another agent needs a session of its \
                 own: --session, --owner or LOKT_OWNER"
            ),
        ),
        Denial::Held(_) => held(question, refused, &who, soon.as_deref()),
        Denial::Corrupt { why } => {
            let when = soon.map(|soon| format!(", {}", soon.trim_start())).unwrap_or_default();
            (
                format!("what is stored of the lease of worktree {name} can't be read, and counts: {}", clean(why)),
                format!(
                    "`--wait` waits until it has been like that for long enough{when}; `lokt doctor --strict` names the file"
                ),
            )
        }
        Denial::Missing => match question.asked {
            Asked::Steal => (
                format!("nobody holds the lease of worktree {name}: there is nothing to steal"),
                format!("`lokt lease acquire{words}` takes it"),
            ),
            Asked::Break => (format!("nobody holds the lease of worktree {name}: there is nothing to break"), status),
            Asked::Work => (
                format!("you don't hold the lease of worktree {name}: nobody does"),
                format!("`lokt lease acquire{words}` takes it; `--acquire` takes it for this alone"),
            ),
            _ => (format!("you don't hold the lease of worktree {name}: nobody does"), acquire),
        },
        Denial::NotYours(_) | Denial::Guarded(_) | Denial::OtherHold(_) => (
            format!("the lease of worktree {name} isn't yours: it is held by {who}"),
            format!("{status}; one's own needs the same --session, --owner or LOKT_OWNER as when it was acquired"),
        ),
        Denial::Lost(_) => {
            let now =
                if refused.record.is_some() { format!("it is held by {who}") } else { "nobody has it".to_owned() };
            (format!("the lease of worktree {name} isn't yours any more: {now}"), format!("{status}; {acquire}"))
        }
        Denial::Over(_) => (
            format!("the lease of worktree {name} has ended before it was renewed: {who}"),
            format!("what was done since may collide with others' work; {acquire}"),
        ),
        Denial::StaleToken { named, current: Some(current) } => {
            (format!("token {named} is not the current one of worktree {name}: that is {current}, of {who}"), status)
        }
        Denial::StaleToken { named, current: None } => {
            (format!("token {named} is not the current one of worktree {name}: nobody holds its lease"), acquire)
        }
        _ if let Some(why) = &refused.unreadable => {
            let when = soon.map(|soon| format!(", {}", soon.trim_start())).unwrap_or_default();
            (
                format!(
                    "what is stored of the lease of worktree {name} can't be read, and counts as held: {}",
                    clean(why)
                ),
                format!(
                    "a program may be writing it; `--wait` waits until it has been like that for long enough{when}"
                ),
            )
        }
        other => (format!("the lease of worktree {name} can't be had: {}", other.code()), status),
    }
}

/// Somebody else's, which lives or is not over for others yet.
fn held(question: &Question<'_>, refused: &LeaseRefusal, who: &str, soon: Option<&str>) -> (String, String) {
    let name = quoted(question.worktree.name().as_str());
    let words = question.words;
    let message = match refused.state {
        LeaseState::ExpiredGrace => {
            let soon = soon.unwrap_or(" soon");
            format!(
                "the lease of worktree {name} has ended, but its holder's clock may differ from ours: others may have it{soon}; it was {who}"
            )
        }
        LeaseState::Foreign => format!("the lease of worktree {name} is held by another program's lock file: {who}"),
        _ => format!("the lease of worktree {name} is held by {who}"),
    };
    let free = soon.map(|soon| format!("unless it is renewed others may have it{soon}; ")).unwrap_or_default();
    let hint = match question.asked {
        Asked::Change | Asked::Work => format!("{free}when it was given back, try again"),
        _ if question.waited.is_some() => format!("{free}`lokt lease status{words}` shows its state"),
        _ => format!("{free}`--wait` waits for it; `lokt lease status{words}` shows its state"),
    };
    (message, hint)
}

fn left(question: &Question<'_>, refused: &LeaseRefusal) -> Left {
    let mine = question.session_id.is_some_and(|mine| is_of(refused, mine));
    Left::of(refused.record.as_ref(), refused.retry_after_ms, mine)
}

fn is_of(refused: &LeaseRefusal, session_id: &str) -> bool {
    refused.record.as_ref().is_some_and(|record| record.session_id == session_id)
}
