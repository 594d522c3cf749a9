//! Which worktree a command changes or copies, and under which lease.

use lokt_core::hold::Identity;
use lokt_core::lease::config::Isolation;
use lokt_core::lease::session::Session;
use lokt_worktree::lease::{LeaseRefusal, LeaseState, Worktree, session_file};
use lokt_worktree::snapshot::Acting;

use super::super::lease::denied::{self, Asked, Question};
use super::super::lease::place::Place;
use super::super::lease::who::Who;
use crate::args::parse_lease_token;
use crate::report::{Failure, Format, Report};

/// Who acts, and on what.
#[derive(clap::Args)]
pub(super) struct Actor {
    #[command(flatten)]
    pub(super) place: Place,
    #[command(flatten)]
    pub(super) who: Who,
    /// Act under the lease with this token; without it, under one's own, or that of the `lokt lease run` that this runs under
    #[arg(long, value_name = "TOKEN", value_parser = parse_lease_token, conflicts_with = "acquire")]
    pub(super) token: Option<u64>,
    /// Take the lease for as long as this takes, if nobody has it
    #[arg(long)]
    pub(super) acquire: bool,
}

/// Somebody who is ready to act.
pub(super) struct Ready {
    pub(super) worktree: Worktree,
    under: Under,
    words: String,
}

enum Under {
    Session(Session),
    Token(u64),
    Acquire,
}

impl Actor {
    /// Finds the worktree and the lease, as far as that can be told before it is asked for.
    pub(super) fn ready(&self) -> Result<Ready, Failure> {
        self.place.named()?;
        let me = self.who.me()?;
        let (worktree, inherited) = self.place.open_leased(me.clone())?;
        let under = self.under(&worktree, &me, inherited)?;
        Ok(Ready { worktree, under, words: self.words() })
    }

    fn under(&self, worktree: &Worktree, me: &Identity, inherited: Option<u64>) -> Result<Under, Failure> {
        if worktree.isolation() == Isolation::Shared {
            // Nobody is asked there.
            return Ok(Under::Acquire);
        }
        if let Some(token) = self.token {
            return Ok(Under::Token(token));
        }
        if self.acquire {
            // Who has it already needn't take it.
            return Ok(self.own_lease(worktree, me)?.map_or(Under::Acquire, Under::Session));
        }
        if let Some(token) = inherited.filter(|_| !self.who.names_session()) {
            return Ok(Under::Token(token));
        }
        let next = format!("`lokt lease acquire{}` takes it; `--acquire` takes it for this alone", self.words());
        self.who.session_or(worktree, me, &next).map(Under::Session)
    }

    fn own_lease(&self, worktree: &Worktree, me: &Identity) -> Result<Option<Session>, Failure> {
        let Some(session) = session_file::load(&self.who.session_path(worktree, me)?)? else { return Ok(None) };
        let status = worktree.status(Some(&session))?;
        Ok((status.mine && status.state == LeaseState::Held).then_some(session))
    }

    fn words(&self) -> String {
        self.place.words() + &self.who.words()
    }
}

impl Ready {
    /// Under what, for the library.
    pub(super) fn acting(&self) -> Acting<'_> {
        match &self.under {
            Under::Session(session) => Acting::Session(session),
            Under::Token(token) => Acting::Token(*token),
            Under::Acquire => Acting::Acquire,
        }
    }

    /// Says that the lease isn't theirs. `undone`: what didn't happen.
    pub(super) fn denied(&self, refused: &LeaseRefusal, undone: &str, format: Format) -> Report {
        let question = Question {
            worktree: &self.worktree,
            asked: match self.under {
                Under::Token(token) => Asked::Token(token),
                Under::Session(_) | Under::Acquire => Asked::Work,
            },
            words: &self.words,
            session_id: None,
            waited: None,
        };
        let report = denied::report(&question, refused, format);
        if format == Format::Json { report } else { report.note(format!("note: {undone}")) }
    }
}
