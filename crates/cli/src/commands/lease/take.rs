//! Asking for a lease, for `acquire` and `steal`.

use std::time::Duration;

use lokt::lease::{Bearer, Leasing, Taking};
use lokt::sys::machine::{Linux, Machine as _};
use lokt::{Inbox, Patience, Said, Timeout, Waiting};

use super::super::waiting::{inbox, interrupted_at};
use super::answer;
use super::denied::{self, Asked, Question};
use super::waiting::Display;
use super::wish::{Asker, Wish};
use crate::report::{Failure, Format, Report};

/// Asks for the lease, and answers.
pub(super) fn run(wish: &Wish, taking: Taking, format: Format) -> Result<Report, Failure> {
    let asker = wish.asker()?;
    let timeout = wish.timeout();
    let mut inbox = (!timeout.is_once()).then(inbox).transpose()?;
    let began_ms = Linux.now().monotonic_ms;
    let said = ask(&asker, taking, None, timeout, wish.quiet, inbox.as_mut())?;
    let words = wish.words();
    let report = match said.value {
        Leasing::Granted(lease) => answer::granted(&asker, &lease, &words, format),
        Leasing::Denied(refused) => {
            let waited_ms = Linux.now().monotonic_ms.saturating_sub(began_ms);
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
            let signal = inbox.as_ref().and_then(Inbox::ended_by).unwrap_or(0);
            interrupted_at("worktree", asker.worktree.name().as_str(), signal, format)
        }
    };
    Ok(report.warnings(said.warnings).quiet(wish.quiet, format))
}

/// Asks for the lease, for as long as `timeout` says.
pub(super) fn ask(
    asker: &Asker,
    taking: Taking,
    bearer: Option<Bearer>,
    timeout: Timeout,
    quiet: bool,
    inbox: Option<&mut Inbox>,
) -> Result<Said<Leasing>, Failure> {
    let mut display = Display::new(&asker.worktree);
    let mut tell = |waiting: &Waiting<'_>| display.show(waiting);
    let alarm = inbox.map(|inbox| inbox as _);
    let mut patience = Patience { timeout, alarm, tell: (!quiet).then_some(&mut tell as _) };
    Ok(asker.worktree.acquire(&asker.session, &asker.terms(taking, bearer), &mut patience)?)
}
