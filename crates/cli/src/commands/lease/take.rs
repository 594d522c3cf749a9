//! Asking for a lease, for `acquire` and `steal`.

use std::time::Duration;

use lokt_sys::signals::SignalQueue;
use lokt_sys::wait_policy::{Timeout, WaitPolicy, Waiting};
use lokt_sys::warnings::WithWarnings;
use lokt_worktree::lease::{Bearer, Leasing, Taking};

use super::super::waiting::{Display, inbox, interrupted};
use super::answer;
use super::denied::{self, Asked, Question};
use super::waiting::LeaseWait;
use super::wish::{Asker, Wish};
use crate::machine;
use crate::report::{Failure, Format, Report};

/// Asks for the lease, and answers.
pub(super) fn run(wish: &Wish, taking: Taking, format: Format) -> Result<Report, Failure> {
    let asker = wish.asker()?;
    let timeout = wish.timeout();
    let mut inbox = (!timeout.is_once()).then(inbox).transpose()?;
    let began_ms = machine::now().monotonic_ms;
    let said = ask(&asker, taking, None, timeout, wish.quiet.quiet, inbox.as_mut())?;
    let words = wish.words();
    let report = match said.value {
        Leasing::Granted(lease) => answer::granted(&asker, &lease, &words, format),
        Leasing::Denied(refused) => {
            let waited_ms = machine::now().monotonic_ms.saturating_sub(began_ms);
            let question = Question {
                worktree: &asker.worktree,
                asked: if taking == Taking::Over { Asked::Steal } else { Asked::Take },
                words: &words,
                session_id: Some(&asker.session.id),
                waited: (!timeout.is_once()).then(|| Duration::from_millis(waited_ms)),
            };
            denied::report(&question, &refused, format)
        }
        Leasing::Interrupted => {
            let signal = inbox.as_ref().and_then(SignalQueue::ended_by).unwrap_or(0);
            interrupted("worktree", asker.worktree.name().as_str(), signal, format)
        }
    };
    Ok(report.warnings(said.warnings).quiet(wish.quiet.quiet, format))
}

/// Asks for the lease, for as long as `timeout` says.
pub(super) fn ask(
    asker: &Asker,
    taking: Taking,
    bearer: Option<Bearer>,
    timeout: Timeout,
    quiet: bool,
    inbox: Option<&mut SignalQueue>,
) -> Result<WithWarnings<Leasing>, Failure> {
    let mut display = Display::new(LeaseWait(&asker.worktree), quiet);
    let mut tell = |waiting: &Waiting<'_>| display.show(waiting);
    let alarm = inbox.map(|inbox| inbox as _);
    let mut patience = WaitPolicy { timeout, alarm, tell: (!quiet).then_some(&mut tell as _) };
    Ok(asker.worktree.acquire(&asker.session, &asker.terms(taking, bearer), &mut patience)?)
}
