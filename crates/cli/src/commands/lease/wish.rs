//! How a lease is asked for: the flags of `acquire`, `steal` and `run`, and what they come to.

use std::path::PathBuf;

use lokt_core::lease::policy::{LeasePolicy, PolicyWish};
use lokt_core::lease::session::Session;
use lokt_sys::wait_policy::Timeout;
use lokt_worktree::lease::{Bearer, LeaseTerms, Taking, Worktree, session_file};

use super::place::Place;
use super::who::Who;
use crate::args::{QuietArg, WaitArgs, parse_millis};
use crate::report::Failure;

/// How a lease is asked for.
#[derive(clap::Args)]
pub(crate) struct Wish {
    #[command(flatten)]
    pub(super) place: Place,
    #[command(flatten)]
    pub(super) who: Who,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    pub(super) quiet: QuietArg,
    /// How long it lasts without renewals: 30s, or as the repository says
    #[arg(long, value_name = "DURATION", value_parser = parse_millis, allow_hyphen_values = true)]
    lease: Option<u64>,
    /// How often it is renewed: 10s, and a third of a shorter lease
    #[arg(long, value_name = "DURATION", value_parser = parse_millis, allow_hyphen_values = true)]
    renew: Option<u64>,
    /// How far clocks may differ: 2s
    #[arg(long, value_name = "DURATION", value_parser = parse_millis, allow_hyphen_values = true)]
    skew: Option<u64>,
    /// What is added for good measure before others may have it: 1s
    #[arg(long, value_name = "DURATION", value_parser = parse_millis, allow_hyphen_values = true)]
    grace: Option<u64>,
    /// Say what for; shown to everyone who is refused
    #[arg(long, value_name = "TEXT")]
    purpose: Option<String>,
}

/// Somebody who is ready to ask.
pub(crate) struct Asker {
    pub(crate) worktree: Worktree,
    pub(crate) session: Session,
    /// Where the session is kept.
    pub(crate) session_path: PathBuf,
    pub(crate) policy: LeasePolicy,
    purpose: Option<String>,
}

/// Somebody who is ready to run a command.
pub(crate) struct Runner {
    pub(crate) worktree: Worktree,
    pub(crate) session: Session,
    pub(crate) policy: LeasePolicy,
    pub(crate) purpose: Option<String>,
}

impl Asker {
    /// What is asked for.
    pub(crate) fn terms(&self, taking: Taking, bearer: Option<Bearer>) -> LeaseTerms {
        LeaseTerms { policy: self.policy, purpose: self.purpose.clone(), taking, bearer }
    }
}

impl Wish {
    /// How long to wait, if at all.
    pub(crate) fn timeout(&self) -> Timeout {
        self.wait.timeout()
    }

    /// Finds the worktree and the session, which is made if it is missing: before the grant, so that nobody gets a lease that isn't
    /// theirs.
    pub(crate) fn asker(&self) -> Result<Asker, Failure> {
        self.place.named()?;
        self.policy(PolicyWish::default())?;
        let me = self.who.me()?;
        let worktree = self.place.exclusive(me.clone())?;
        let policy = self.policy(worktree.repository().policy()?)?;
        let session_path = self.who.session_path(&worktree, &me)?;
        let session = session_file::make(&session_path)?;
        Ok(Asker { worktree, session, session_path, policy, purpose: self.purpose.clone() })
    }

    /// The same for a command that is to run under the lease. Without a file of its own nobody else can be its session.
    pub(crate) fn runner(&self) -> Result<Runner, Failure> {
        self.place.named()?;
        self.policy(PolicyWish::default())?;
        let worktree = self.place.exclusive(self.who.me()?)?;
        let policy = self.policy(worktree.repository().policy()?)?;
        Ok(Runner { worktree, session: self.who.own_session()?, policy, purpose: self.purpose.clone() })
    }

    /// How the same is asked about again: ` --worktree NAME --session FILE --owner OWNER`, as far as it was said.
    pub(crate) fn words(&self) -> String {
        self.place.words() + &self.who.words()
    }

    fn policy(&self, mut config: PolicyWish) -> Result<LeasePolicy, Failure> {
        let (lease_ms, renew_ms, skew_ms, grace_ms) = (self.lease, self.renew, self.skew, self.grace);
        // Whoever asks for a short lease doesn't want it to end before its first renewal.
        if renew_ms.is_none() && lease_ms.is_some_and(|lease| config.renew_ms.is_some_and(|renew| renew >= lease)) {
            config.renew_ms = None;
        }
        let wish = PolicyWish { lease_ms, renew_ms, skew_ms, grace_ms };
        wish.or(config).policy().map_err(|bad| {
            Failure::usage(bad.to_string()).hint(
                "the defaults are --lease 30s --renew 10s --skew 2s --grace 1s; `.jvs/config.json` can say lease_ms, renew_ms, skew_ms, \
                 grace_ms",
            )
        })
    }
}
