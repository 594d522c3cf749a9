//! Claims: exactly one agent has a node, until it says otherwise or its time is over.
//!
//! What is decided is decided about the ledger as it stands inside the lock, and the events that say so are added in the same hold of
//! it. So an expired claim is ended and the next one made with nobody in between, and a reap never ends a claim that was extended in
//! the last moment. Whoever waits is woken by changes of the directory and by the end of what it waits for.

use std::borrow::Cow;
use std::os::fd::AsFd as _;
use std::time::Duration;

use lokt_core::denial::Denial;
use lokt_core::ledger::claiming::{self, Ended, Refused, Scene, Swept, Taken, check_node};
use lokt_core::ledger::fold::Folded;
use lokt_core::ledger::lock_file::LockFile;
use lokt_core::ledger::seq::Seq;

use super::Ledger;
use super::answers::{ClaimEntry, ClaimTerms, Claimed, Claiming, How, LockPatience, Reaped, Releasing};
use super::commit::{Compose, Need, Outcome, Piece, View};
use crate::error::{Error, ErrorKind};
use crate::locks::Said;
use crate::sys::bell::sleep_on;
use crate::sys::changes::Changes;
use crate::wait::{Patience, Timeout, Waiting};

/// Who waits looks so often at what the kernel doesn't report: files in `locks`, another machine's events.
const LOOK: Duration = Duration::from_secs(1);
/// So often where the kernel reports nothing.
const POLL: Duration = Duration::from_millis(100);

/// May claims be judged by what was read? A missing or damaged event may have been one, so only for somebody who says so.
pub(super) fn trusted(folded: &Folded, gap: Option<u64>, force: bool) -> Result<(), Error> {
    // What an earlier command has read may be gone by now.
    let gone = gap.filter(|_| folded.trouble.is_empty()).map(|gap| (gap, format!("event {gap} is missing")));
    let Some((_, first)) = folded.trouble.first().or(gone.as_ref()).filter(|_| !force) else { return Ok(()) };
    let more = match folded.trouble.len() {
        0 | 1 => String::new(),
        count => format!(", and {} more", count - 1),
    };
    let message = format!("the ledger has gaps or damaged events, which may be claims: {first}{more}");
    Err(Error::new(ErrorKind::Damaged, message).hint("`lokt ledger doctor` says more; --force goes on without them"))
}

impl Ledger {
    /// Claims the first of `nodes` that is free, waiting for it if asked to.
    pub fn take(
        &self,
        nodes: &[String],
        terms: &ClaimTerms,
        patience: &mut Patience<'_>,
    ) -> Result<Said<Claiming>, Error> {
        self.check_names(nodes)?;
        let mut odd = Vec::new();
        let ttl_sec = self.ttl_sec(terms.ttl_sec, &mut odd)?;
        let began_ms = self.now().monotonic_ms;
        let timeout = if terms.dry_run { Timeout::Once } else { patience.timeout };
        let mut told: Option<Duration> = None;
        loop {
            let waited = Duration::from_millis(self.now().monotonic_ms.saturating_sub(began_ms));
            let left = timeout.limit().saturating_sub(waited);
            self.is_still_here(None)?;
            // Before the look, so that whatever happens after it wakes us.
            let watch = if left.is_zero() { None } else { self.disk.changes("").ok() };
            let mut warnings = odd.clone();
            let refused = match self.patient_for(timeout, left).try_take(nodes, ttl_sec, terms, &mut warnings) {
                Ok(Ok(claimed)) => return Ok(Said { value: Claiming::Claimed(claimed), warnings }),
                Ok(Err(refused)) => refused,
                // Who waits goes on waiting: a busy ledger is nothing but another reason to.
                Err(error) if error.kind() == ErrorKind::Busy && !left.is_zero() => Vec::new(),
                Err(error) => return Err(error),
            };
            if left.is_zero() || !(refused.is_empty() || refused.iter().any(|(_, refused)| may_end(refused))) {
                let first = refused.into_iter().next();
                let (node, refused) = first.unwrap_or_else(|| (String::new(), Refused::NoSuchNode));
                return Ok(Said { value: Claiming::Denied { node, refused }, warnings });
            }
            let wait = Wait { refused: &refused, waited, left, told: timeout.left_after(waited), watch };
            if told.is_none_or(|told| waited >= told + LOOK) {
                wait.tell(patience);
                told = Some(waited);
            }
            if self.sleep(&wait, patience)? {
                return Ok(Said { value: Claiming::Interrupted, warnings });
            }
        }
    }

    /// The same ledger for one look: whoever said for how long to wait doesn't wait longer for another program's lock either.
    fn patient_for(&self, timeout: Timeout, left: Duration) -> Cow<'_, Self> {
        match timeout {
            Timeout::After(_) if left < self.patience.timeout => {
                Cow::Owned(self.clone().patient(LockPatience { timeout: left, ..self.patience }))
            }
            _ => Cow::Borrowed(self),
        }
    }

    fn try_take(
        &self,
        nodes: &[String],
        ttl_sec: u64,
        terms: &ClaimTerms,
        warnings: &mut Vec<String>,
    ) -> Result<Result<Claimed, Vec<(String, Refused)>>, Error> {
        let files = self.lock_files();
        warnings.extend(files.warnings);
        let decide = |scene: Scene<'_>| claiming::take(scene, nodes, ttl_sec, terms.only_new);
        let taken = self.judged(terms, &files.found, warnings, &|taken: &Taken| taken.drafts.clone(), &decide)?;
        Ok(match taken {
            Judged::Done(taken, seq) => Ok(self.claimed(taken, seq, ttl_sec)),
            Judged::Denied(refused) => Err(refused),
            Judged::Nothing => unreachable!("a claim is an event"),
        })
    }

    /// Gives a claim a new end, counted from now. `token`: only if it is this one.
    pub fn extend(&self, node: &str, token: Option<Seq>, terms: &ClaimTerms) -> Result<Said<Claiming>, Error> {
        self.check_names(&[node.to_owned()])?;
        let mut warnings = Vec::new();
        let ttl_sec = self.ttl_sec(terms.ttl_sec, &mut warnings)?;
        let decide = |scene: Scene<'_>| claiming::extend(scene, node, ttl_sec, token);
        let value = match self.judged(terms, &[], &mut warnings, &|taken: &Taken| taken.drafts.clone(), &decide)? {
            Judged::Done(taken, seq) => Claiming::Claimed(self.claimed(taken, seq, ttl_sec)),
            Judged::Denied(refused) => Claiming::Denied { node: node.to_owned(), refused },
            Judged::Nothing => unreachable!("an extension is an event"),
        };
        Ok(Said { value, warnings })
    }

    /// Ends a claim of ours. `token`: only if it is this one.
    pub fn release(&self, node: &str, token: Option<Seq>, terms: &ClaimTerms) -> Result<Said<Releasing>, Error> {
        self.check_names(&[node.to_owned()])?;
        let mut warnings = Vec::new();
        let decide = |scene: Scene<'_>| claiming::release(scene, node, token);
        let value = match self.judged(terms, &[], &mut warnings, &|ended: &Ended| vec![ended.draft.clone()], &decide)? {
            Judged::Done(ended, seq) => Releasing::Released { seq, token: ended.token },
            Judged::Denied(refused) => Releasing::Denied(refused),
            Judged::Nothing => unreachable!("a release is an event"),
        };
        Ok(Said { value, warnings })
    }

    /// Ends every claim that has expired.
    pub fn reap(&self, terms: &ClaimTerms) -> Result<Said<Reaped>, Error> {
        let mut warnings = Vec::new();
        let decide = |scene: Scene<'_>| Ok::<_, Refused>(claiming::reap(scene));
        let value = match self.judged(terms, &[], &mut warnings, &|swept: &Swept| swept.drafts.clone(), &decide)? {
            Judged::Done(swept, seq) => {
                let claims = swept.claims.into_iter().map(|(node, owner, token)| (node, owner, Some(token)));
                Reaped { claims: claims.collect(), seq: Some(seq).filter(|_| !terms.dry_run) }
            }
            Judged::Denied(_) | Judged::Nothing => Reaped::default(),
        };
        Ok(Said { value, warnings })
    }

    /// Every claim, expired ones too.
    pub fn claims(&self) -> Result<Said<Vec<ClaimEntry>>, Error> {
        let head = self.catch_up()?;
        let folded = self.folded(head.seq)?;
        let now = self.now();
        let files = self.lock_files();
        let mut warnings: Vec<String> = folded.trouble.iter().map(|(_, what)| what.clone()).collect();
        warnings.extend(unreadable(&folded));
        warnings.extend(files.warnings);
        let entry = |(node, claim): (&str, &lokt_core::ledger::claims::Claim)| ClaimEntry {
            node: node.to_owned(),
            holder: claim.holder(node, &now, &self.me),
            lock_file: None,
        };
        let mut entries: Vec<ClaimEntry> = folded.table.iter().map(entry).collect();
        entries.extend(files.found.iter().zip(files.paths).map(|(file, path)| ClaimEntry {
            node: file.node.clone(),
            holder: file.holder(&now, &self.me),
            lock_file: Some(path),
        }));
        entries.sort_by_cached_key(|entry| place(&entry.node));
        self.keep_what_was_read(Some(folded));
        Ok(Said { value: entries, warnings })
    }

    fn check_names(&self, nodes: &[String]) -> Result<(), Error> {
        let bad = |why: String| Err(Error::new(ErrorKind::BadEvent, why));
        if nodes.is_empty() {
            return bad("there is no node to claim".to_owned());
        }
        if self.me.owner.trim().is_empty() {
            return bad("an owner's name must not be blank".to_owned());
        }
        match nodes.iter().find_map(|node| check_node(self.settings.style, node).err()) {
            Some(why) => bad(why.to_string()),
            None => Ok(()),
        }
    }

    /// Decides about the ledger inside the lock and adds the events of what was decided. Of a dry run, says which number the last of them
    /// would get.
    fn judged<T, D>(
        &self,
        terms: &ClaimTerms,
        files: &[LockFile],
        warnings: &mut Vec<String>,
        drafts: &dyn Fn(&T) -> Vec<lokt_core::ledger::draft::Draft>,
        decide: &dyn Fn(Scene<'_>) -> Result<T, D>,
    ) -> Result<Judged<T, D>, Error> {
        let (decided, warning, written, made) = (None, None, None, None);
        let mut judge =
            Judge { ledger: self, force: terms.force, files, decide, drafts, decided, warning, written, made };
        let outcome = if terms.dry_run {
            match self.rehearse(&mut judge, warnings)? {
                Ok((_, 0)) => Outcome::Nothing,
                Ok((head, count)) => Outcome::Committed(head + count),
                Err(denied) => Outcome::Denied(denied),
            }
        } else {
            match self.commit(&mut judge, self.settings.chain, warnings, &mut |_, _| {})? {
                Outcome::Committed(done) => Outcome::Committed(done.last.get()),
                Outcome::Nothing => Outcome::Nothing,
                Outcome::Denied(denied) => Outcome::Denied(denied),
            }
        };
        warnings.extend(judge.warning);
        Ok(match (outcome, judge.decided) {
            (Outcome::Committed(last), Some(decided)) => Judged::Done(decided, Seq::new(last).unwrap_or(Seq::MAX)),
            (Outcome::Denied(denied), _) => Judged::Denied(denied),
            _ => Judged::Nothing,
        })
    }

    fn claimed(&self, taken: Taken, seq: Seq, ttl_sec: u64) -> Claimed {
        let how = match (taken.token, taken.from) {
            (Some(_), _) => How::Refreshed,
            (None, Some(from)) => How::TookOver { from },
            (None, None) => How::New,
        };
        let (owner, token) = (self.me.owner.clone(), taken.token.unwrap_or(seq));
        let (at, expires_at, before) = (taken.at, taken.expires_at, taken.before.map(Box::new));
        Claimed { node: taken.node, owner, seq, token, ttl_sec, at, expires_at, how, before }
    }

    /// Sleeps until it may be time for another look. True: the wait was interrupted.
    fn sleep(&self, wait: &Wait<'_>, patience: &mut Patience<'_>) -> Result<bool, Error> {
        let tick = if wait.watch.is_some() && !wait.refused.is_empty() { LOOK } else { POLL };
        let nap = tick.min(wait.left).min(wait.ends_in().unwrap_or(tick));
        let mut fds: Vec<_> = wait.watch.iter().filter(|_| !wait.refused.is_empty()).map(|fd| fd.as_fd()).collect();
        fds.extend(patience.alarm.as_ref().map(|alarm| alarm.fd()));
        let ready = sleep_on(&fds, nap).map_err(|error| Error::io("wait in", &self.path, error))?;
        let alarmed = patience.alarm.is_some() && ready.last() == Some(&true);
        Ok(alarmed && patience.alarm.as_mut().is_some_and(|alarm| alarm.went_off()))
    }
}

/// What was decided, and what came of it.
enum Judged<T, D> {
    /// The last event has this number.
    Done(T, Seq),
    Denied(D),
    Nothing,
}

/// Decides whenever it is asked how the ledger should go on.
struct Judge<'j, T, D> {
    ledger: &'j Ledger,
    force: bool,
    files: &'j [LockFile],
    decide: &'j dyn Fn(Scene<'_>) -> Result<T, D>,
    drafts: &'j dyn Fn(&T) -> Vec<lokt_core::ledger::draft::Draft>,
    decided: Option<T>,
    warning: Option<String>,
    /// The number of the last event that was composed.
    written: Option<Seq>,
    /// The same of events that were published, of which some were lost: it may be a claim of ours.
    made: Option<Seq>,
}

impl<T, D> Compose for Judge<'_, T, D> {
    type Denied = D;

    fn need(&self) -> Need {
        Need::Fold
    }

    fn compose(&mut self, view: &mut View<'_>) -> Result<Result<Vec<Piece>, D>, Error> {
        let folded = view.folded.as_deref().expect("it was asked for");
        trusted(folded, view.gap, self.force)?;
        self.warning = unreadable(folded);
        let scene = Scene {
            style: self.ledger.settings.style,
            table: &folded.table,
            proof: folded.proof.as_ref(),
            files: self.files,
            now: view.now,
            me: &self.ledger.me,
            next: view.next,
            made: self.made,
        };
        Ok(match (self.decide)(scene) {
            Ok(decided) => {
                let pieces: Vec<Piece> = (self.drafts)(&decided).into_iter().map(Piece::from).collect();
                self.decided = Some(decided);
                self.written = Seq::new(view.next.get() + (pieces.len() as u64).saturating_sub(1));
                Ok(pieces)
            }
            Err(denied) => Err(denied),
        })
    }

    fn lost(&mut self, _which: &[usize]) {
        self.made = self.written;
    }
}

/// What to say if the native program can't read its ledger any more.
fn unreadable(folded: &Folded) -> Option<String> {
    let (number, why) = folded.refusals.first()?;
    Some(format!("the native program can't read this ledger: of event {number} it says that {why}"))
}

/// What somebody waits for.
struct Wait<'w> {
    /// Why none of the nodes can be had; none if the ledger was busy.
    refused: &'w [(String, Refused)],
    waited: Duration,
    left: Duration,
    /// The same for those who are told.
    told: Option<Duration>,
    watch: Option<Changes>,
}

impl Wait<'_> {
    /// Tells of the first that somebody has.
    fn tell(&self, patience: &mut Patience<'_>) {
        let held = self.refused.iter().find_map(|(node, refused)| match refused {
            Refused::Hold(denial) => Some((node.as_str(), denial)),
            _ => None,
        });
        if let (Some(tell), Some((name, denial))) = (patience.tell.as_mut(), held) {
            tell(&Waiting { name, denial, ahead: 0, waited: self.waited, left: self.told });
        }
    }

    /// When the first of them ends by itself.
    fn ends_in(&self) -> Option<Duration> {
        let left_ms = |(_, refused): &(String, Refused)| match refused {
            Refused::Hold(denial) => denial.holder()?.left_ms(),
            _ => None,
        };
        // The last millisecond is still its owner's.
        self.refused.iter().filter_map(left_ms).min().map(|left_ms| Duration::from_millis(left_ms + 1))
    }
}

/// Is it worth waiting for?
fn may_end(refused: &Refused) -> bool {
    match refused {
        Refused::Hold(denial) => matches!(denial, Denial::Held(_)),
        Refused::NotAvailable(_) => true,
        Refused::NoSuchNode => false,
    }
}

/// 1.2 comes before 1.10, and both before a name.
fn place(node: &str) -> (bool, Vec<u64>, String) {
    let numbers = node.split('.').map(|part| part.parse::<u64>().ok()).collect::<Option<Vec<u64>>>();
    (numbers.is_none(), numbers.unwrap_or_default(), node.to_owned())
}
