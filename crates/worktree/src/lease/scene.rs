//! The state of a worktree's lease: the chain, the views that other tools read, and what is known
//! about the time.

use super::chain::Chain;
use std::borrow::Cow;

use jiff::Timestamp;
use lokt_core::denial::{Denial, Holder};
use lokt_core::hold::Identity;
use lokt_core::lease::deciding::Stored;
use lokt_core::lease::evidence::{Clues, Verdict, judge};
use lokt_core::lease::jvs;
use lokt_core::lease::names::File;
use lokt_core::lease::record::{Binding, Record};
use lokt_core::lease::session::Session;
use lokt_core::liveness::{Liveness, is_local};
use lokt_core::time::{Moment, millis_between};

use super::Worktree;
use super::answers::{Lease, LeaseRefusal, LeaseState};
use super::chain::{Links, Reading};
use super::sight::Sight;
use super::view::{Board, Foreign, View};
use lokt_sys::error::{Error, ErrorKind};
use lokt_sys::witness::Witness;

/// Magic numbers of NFS, and the two of SMB: a server stamps the files.
const SERVED: [u64; 3] = [0x6969, 0xff53_4d42, 0xfe53_4d42];
const NFS: u64 = 0x6969;
/// Tolerance in ms: the kernel stamps files by a coarser clock than it shows.
const STAMP_MS: i64 = 20;

/// The owner of a lease, and its state.
#[derive(Debug)]
pub(crate) enum Ownership {
    Free,
    Held {
        record: Box<Record>,
        verdict: Verdict,
        foreign: bool,
    },
    /// A file is there, but unreadable.
    Unreadable {
        why: String,
        over: bool,
        retry_after_ms: u64,
        foreign: bool,
    },
}

/// Everything at one moment.
#[derive(Debug)]
pub(crate) struct LeaseSnapshot {
    pub(crate) links: Links,
    pub(crate) view: View,
    /// The lock file of `jvs`, which may show our lease.
    pub(crate) jvs: View,
    pub(crate) standing: Ownership,
    /// The lease belongs to the session that asked.
    pub(crate) mine: bool,
    skew_max_ms: u64,
}

impl Ownership {
    pub(crate) fn stored(&self) -> Stored<'_> {
        match self {
            Self::Free => Stored::Free,
            Self::Held { record, verdict, .. } => Stored::Held(record, *verdict),
            Self::Unreadable { why, over, .. } => Stored::Unreadable { why, over: *over },
        }
    }

    /// Reports whether it is free or has ended.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Self::Free => true,
            Self::Held { record, verdict, .. } => !holder(record, verdict).lives(),
            Self::Unreadable { over, .. } => *over,
        }
    }
}

/// Converts a lease to a holder of any lock.
pub(crate) fn holder(record: &Record, verdict: &Verdict) -> Holder {
    Holder { hold: record.hold(), liveness: verdict.liveness, elapsed: verdict.elapsed }
}

impl LeaseSnapshot {
    /// Returns the content of each view.
    pub(crate) fn views(&self) -> [(Board, &View); 2] {
        [(Board::Record, &self.view), (Board::Jvs, &self.jvs)]
    }

    /// Returns the locks of other tools, ended or not.
    pub(crate) fn foreigners(&self) -> Vec<(Board, &Foreign)> {
        let views = self.views().into_iter();
        views.filter_map(|(board, view)| if let View::Foreign(of) = view { Some((board, of)) } else { None }).collect()
    }

    pub(crate) fn record(&self) -> Option<&Record> {
        match &self.standing {
            Ownership::Held { record, .. } => Some(record),
            _ => None,
        }
    }

    pub(crate) fn verdict(&self) -> Option<&Verdict> {
        match &self.standing {
            Ownership::Held { verdict, .. } => Some(verdict),
            _ => None,
        }
    }

    /// Returns the state in one word.
    pub(crate) fn state(&self) -> LeaseState {
        match &self.standing {
            Ownership::Free => LeaseState::Free,
            Ownership::Unreadable { .. } => LeaseState::Corrupt,
            Ownership::Held { foreign: true, .. } if !self.standing.is_over() => LeaseState::Foreign,
            Ownership::Held { .. } if self.standing.is_over() => LeaseState::Expired,
            Ownership::Held { verdict, .. } if verdict.in_grace => LeaseState::ExpiredGrace,
            Ownership::Held { .. } => LeaseState::Held,
        }
    }

    /// Returns the refusal that follows from a denial.
    pub(crate) fn refusal(&self, denial: Denial) -> LeaseRefusal {
        let retry_after_ms = match &self.standing {
            Ownership::Free => None,
            Ownership::Held { verdict, .. } => verdict.retry_after_ms,
            Ownership::Unreadable { retry_after_ms, .. } => Some(*retry_after_ms),
        };
        LeaseRefusal {
            denial,
            state: self.state(),
            record: self.record().cloned(),
            retry_after_ms,
            skew_ms: self.verdict().and_then(|verdict| verdict.skew_ms),
            skew_max_ms: self.skew_max_ms,
            evidence: self.verdict().and_then(|verdict| verdict.evidence),
            unreadable: match &self.standing {
                Ownership::Unreadable { why, .. } => Some(why.clone()),
                _ => None,
            },
        }
    }
}

/// The process that asks: for its holder a lease ends earlier than for others.
#[derive(Clone, Copy)]
pub(crate) enum Caller<'a> {
    Anybody,
    /// The owner of this session's file.
    Session(&'a Session),
    /// The process that acquired this lease, or renewed it last. It knows by its own clock when
    /// that was.
    Keeper(&'a Session, &'a Lease),
    /// A process that acts under this token.
    Token(u64),
}

impl<'a> Caller<'a> {
    pub(crate) fn session(self) -> Option<&'a Session> {
        match self {
            Self::Session(session) | Self::Keeper(session, _) => Some(session),
            Self::Anybody | Self::Token(_) => None,
        }
    }

    /// Reports whether this lease is the caller's.
    fn has(self, record: &Record) -> bool {
        self.session()
            .is_some_and(|session| session.id == record.session_id && session.nonce(&record.lock_id) == record.nonce)
    }

    /// Returns when the caller last renewed it, by its own clock, if it did.
    fn renewed_ms(self, record: &Record) -> Option<u64> {
        let Self::Keeper(_, lease) = self else { return None };
        let is_it = lease.record.lock_id == record.lock_id && lease.record.last_renewed_at == record.last_renewed_at;
        is_it.then_some(lease.began.boottime_ms)
    }
}

/// Reads the state of a lease, and judges it.
pub(crate) struct Observer<'w> {
    pub(crate) worktree: &'w Worktree,
}

impl Observer<'_> {
    /// Reads everything; `None` if there is no chain.
    pub(crate) fn read(&self, asker: Caller<'_>, sight: &mut Sight) -> Result<Option<LeaseSnapshot>, Error> {
        let Reading::Born(links) = self.worktree.chain().read()? else { return Ok(None) };
        let links = *links;
        // Read after the chain: a release removes the view later.
        let view = self.worktree.views().view_from(Board::Record, &links)?;
        let jvs = self.worktree.views().view_from(Board::Jvs, &links)?;
        let mine = links.record().is_some_and(|record| asker.has(record));
        let mut standing = self.chain_standing(&links, asker, sight);
        // The holder keeps its lease, but none is granted while other tools can't be shown it.
        if let (View::Odd(what), _, true, Caller::Session(_)) | (_, View::Odd(what), true, Caller::Session(_)) =
            (&view, &jvs, standing.is_over(), asker)
        {
            let hint = "`lokt lease break --force --reason TEXT` moves it aside";
            return Err(Error::new(ErrorKind::NotARecord, what.clone()).hint(hint));
        }
        // While a lease of ours is held, a foreign file changes nothing: its writer saw ours, or
        // used force.
        for (board, view) in [(Board::Record, &view), (Board::Jvs, &jvs)] {
            if standing.is_over()
                && let View::Foreign(foreign) = view
            {
                standing = self.foreign_standing(board, foreign, &links, sight);
            }
        }
        let skew_max_ms = match &standing {
            Ownership::Held { record, .. } => record.policy.clamped().skew_ms,
            _ => 0,
        };
        Ok(Some(LeaseSnapshot { links, view, jvs, standing, mine, skew_max_ms }))
    }

    /// Judges another tool's lock.
    fn foreign_standing(&self, board: Board, foreign: &Foreign, links: &Links, sight: &mut Sight) -> Ownership {
        let record = match &foreign.record {
            Ok(record) => record,
            Err(why) => return self.unreadable(why, &foreign.identity, true, &links.now, sight),
        };
        let verdict = match board {
            Board::Record => {
                let written = || self.worktree.repo.disk.changed(&self.worktree.views().path(board)).ok().flatten();
                self.verdict(record, &written, &foreign.identity, Caller::Anybody, links, sight)
            }
            // The clock is read after the lock, which may have been created since the chain was
            // read.
            Board::Jvs => jvs::judge(record, &self.worktree.repo.machine.now()),
        };
        Ownership::Held { record: record.clone(), verdict, foreign: true }
    }

    /// Reports whether `jvs` holds this worktree. An unreadable lock counts.
    pub(crate) fn jvs_holds(&self) -> Result<bool, Error> {
        let chain = match self.worktree.chain().read()? {
            Reading::Born(links) => links.base.chain.clone(),
            Reading::Unborn => String::new(),
        };
        Ok(match self.worktree.views().read(Board::Jvs, &chain)? {
            View::Missing | View::Ours(_) => false,
            View::Odd(_) => true,
            View::Foreign(foreign) => {
                !foreign.record.is_ok_and(|record| jvs::judge(&record, &self.worktree.repo.machine.now()).is_over())
            }
        })
    }

    fn chain_standing(&self, links: &Links, asker: Caller<'_>, sight: &mut Sight) -> Ownership {
        if let Some(damaged) = &links.damaged {
            let identity = format!("damaged/{}/{}", links.base.chain, damaged.number);
            return self.unreadable(&damaged.why, &identity, false, &links.now, sight);
        }
        let Some(record) = links.record() else { return Ownership::Free };
        let renewed = record.last_renewed_at.as_nanosecond();
        let number = links.last.as_ref().map_or(0, |last| last.number);
        let identity = format!("{}/{number}/{}/{renewed}", links.base.chain, record.lock_id);
        // The time of its content: the view is another hard link to that file, and a new link
        // changes the ctime.
        let written = || links.stamp.map(|stamp| stamp.modified);
        let verdict = self.verdict(record, &written, &identity, asker, links, sight);
        Ownership::Held { record: Box::new(record.clone()), verdict, foreign: false }
    }

    fn unreadable(&self, why: &str, identity: &str, foreign: bool, now: &Moment, sight: &mut Sight) -> Ownership {
        let limit_ms = self.worktree.repo.own_policy().steal_after_ms() + cache_ms(self.worktree.chain().fs());
        let seen_ms = self.worktree.sightings().seen_for(identity, now, sight);
        let over = seen_ms > limit_ms;
        let retry_after_ms = limit_ms.saturating_sub(seen_ms).max(1);
        Ownership::Unreadable { why: why.to_owned(), over, retry_after_ms, foreign }
    }

    /// Judges a lease. `written` returns when it was written, by the clock of the file system.
    fn verdict(
        &self,
        record: &Record,
        written: &dyn Fn() -> Option<Timestamp>,
        identity: &str,
        asker: Caller<'_>,
        links: &Links,
        sight: &mut Sight,
    ) -> Verdict {
        let mut me = self.worktree.me();
        let mut record = Cow::Borrowed(record);
        let is_comparable = me.boot_clocks && record.boottime_ms.is_some() && record.boot_id == me.boot_id;
        let own = match asker {
            Caller::Anybody => false,
            Caller::Session(_) | Caller::Keeper(..) => asker.has(&record),
            // On other boots it is only known that it hasn't ended for others.
            Caller::Token(token) => is_comparable && record.token.is_some_and(|of| of.get() == token),
        };
        if let (Some(renewed_ms), false) = (asker.renewed_ms(&record), is_comparable) {
            me.boot_clocks = true;
            let renewed = Record { boottime_ms: Some(renewed_ms), boot_id: me.boot_id.clone(), ..record.into_owned() };
            record = Cow::Owned(renewed);
        }
        let record = &*record;
        let liveness = match record.binding {
            Some(Binding::Process) => self.liveness(record, &me),
            _ => Liveness::Unknown,
        };
        let cache_ms = cache_ms(self.worktree.chain().fs());
        let mut clues = Clues { liveness, server_ms: None, seen_ms: 0, cache_ms, skew_ms: None };
        let verdict = judge(record, &links.now, &me, &clues, own);
        if verdict.evidence.is_some() || own {
            return verdict;
        }
        clues.seen_ms = self.worktree.sightings().seen_for(identity, &links.now, sight);
        if let Some(written) = written() {
            clues.server_ms = links.served.map(|served| u64::try_from(millis_between(written, served)).unwrap_or(0));
            clues.skew_ms = self.skew(record, written);
        }
        judge(record, &links.now, &me, &clues, own)
    }

    /// Returns how far the holder's clock is ahead of ours, in ms: both are compared with that of
    /// the file system, if that is a single clock.
    fn skew(&self, record: &Record, written: Timestamp) -> Option<i64> {
        let fs = self.worktree.chain().fs();
        if !is_local(fs) && !fs.is_some_and(|fs| SERVED.contains(&fs)) {
            return None;
        }
        // A directory that can't be written has no clock; readers do without.
        let probed = self.worktree.repo.disk.file_clock().ok().flatten()?;
        let we_ahead = millis_between(probed, self.worktree.repo.machine.now().wall);
        let skew_ms = millis_between(written, record.last_renewed_at).saturating_sub(we_ahead);
        Some(skew_ms.abs().saturating_sub(STAMP_MS).max(0) * skew_ms.signum())
    }

    pub(crate) fn liveness(&self, record: &Record, me: &Identity) -> Liveness {
        let pulse_path = |number| self.worktree.chain().file(&File::Pulse(number));
        let witness = Witness {
            disk: &*self.worktree.repo.disk,
            machine: &*self.worktree.repo.machine,
            me,
            pulse_path: &pulse_path,
        };
        witness.liveness(&record.hold()).0
    }
}

impl Chain<'_> {
    /// Returns the clock of the file server, if there is one.
    pub(crate) fn server_clock(&self) -> Option<Timestamp> {
        self.fs().filter(|fs| SERVED.contains(fs))?;
        self.repo.disk.file_clock().ok().flatten()
    }

    pub(crate) fn fs(&self) -> Option<u64> {
        self.repo.disk.mount().fs
    }
}

impl Worktree {
    /// Returns this process's identity, on the file system of the chain.
    pub(crate) fn me(&self) -> Identity {
        Identity { fs: self.chain().fs(), ..self.repo.me.clone() }
    }
}

/// Returns how old a directory listing may be, in ms.
fn cache_ms(fs: Option<u64>) -> u64 {
    match fs {
        _ if is_local(fs) => 0,
        Some(NFS) => 3_000,
        _ => 1_000,
    }
}
