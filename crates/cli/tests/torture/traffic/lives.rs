//! What each slot's lives are: their command lines.

use std::path::Path;

use lokt_testkit::dice::Dice;

use super::Traffic;
use crate::ends::{PLANTED, REFUSED};
use crate::nemesis::troubles::{Clockwork, Wrapped, choose};
use crate::scene::{BRIEF, LASTING, MESSY, NODES, WORKTREES, YARD};

/// The longest that anybody waits in line.
const PATIENCE_MS: u64 = 6_000;

/// Some stay for longer than the leases of a second, which are renewed meanwhile.
const BRIEFLY_OUTSTAYED_MS: u64 = 2_600;
/// The same for the leases of two seconds.
const OUTSTAYED_MS: u64 = 4_500;

/// A kind of life, and the ward that it is lived in.
pub(crate) struct Kind {
    /// What it does.
    pub(crate) what: What,
    ward: &'static str,
}

/// What a life does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// `lokt guard` of one name or several, for as long as its command lives.
    Guard,
    /// `lokt guard --ttl 1s`.
    BriefGuard,
    /// `lokt guard` whose messages nobody reads: its stderr is a full pipe.
    MutedGuard,
    /// The same with leases of a second.
    BriefMutedGuard,
    /// `lokt guard` whose command uses its token in another root.
    Trespass,
    /// `lokt claim run`.
    ClaimRun,
    /// `lokt lease run`.
    LeaseRun,
    /// `lokt lease run` around snapshots.
    SnapshotRun,
    /// A worker that does everything itself.
    Worker(&'static str),
    /// The same, and it stops itself again and again, for others to go past it.
    Sleeper(&'static str),
}

const fn in_ward(ward: &'static str, what: What) -> Kind {
    Kind { what, ward }
}

/// All of these at once.
pub(crate) const LOAD: [Kind; 49] = [
    in_ward("main", What::MutedGuard),
    in_ward("main", What::BriefMutedGuard),
    in_ward("main", What::Guard),
    in_ward("main", What::Guard),
    in_ward("main", What::Guard),
    in_ward("main", What::Guard),
    in_ward("main", What::BriefGuard),
    in_ward("main", What::BriefGuard),
    in_ward("main", What::Worker("held")),
    in_ward("main", What::Worker("held")),
    in_ward("main", What::Worker("bound")),
    in_ward("main", What::Worker("bound")),
    in_ward("main", What::Worker("owner")),
    in_ward("main", What::Worker("owner")),
    in_ward("mess", What::Worker("messy")),
    in_ward("mess", What::Worker("messy")),
    in_ward("mess", What::Worker("messy")),
    in_ward("mess", What::Guard),
    in_ward("mess", What::Guard),
    in_ward("main", What::Worker("append")),
    in_ward("main", What::Worker("append")),
    in_ward("main", What::Worker("claim")),
    in_ward("main", What::Worker("claim")),
    in_ward("main", What::ClaimRun),
    in_ward("main", What::Worker("lease")),
    in_ward("main", What::Worker("lease")),
    in_ward("main", What::LeaseRun),
    in_ward("main", What::SnapshotRun),
    in_ward("main", What::SnapshotRun),
    in_ward("main", What::Worker("snapshot")),
    in_ward("disk", What::Guard),
    in_ward("disk", What::Worker("append")),
    in_ward("disk", What::Worker("claim")),
    in_ward("disk", What::ClaimRun),
    in_ward("disk", What::SnapshotRun),
    in_ward("fenced", What::Sleeper("fenced-lock")),
    in_ward("fenced", What::Worker("fenced-lock")),
    in_ward("fenced", What::Worker("fenced-lock")),
    in_ward("fenced", What::Sleeper("fenced-lease")),
    in_ward("fenced", What::Worker("fenced-lease")),
    in_ward("fenced", What::Worker("fenced-lease")),
    in_ward("yard", What::Guard),
    in_ward("yard", What::Guard),
    in_ward("yard", What::Guard),
    in_ward("nest", What::Guard),
    in_ward("nest", What::Guard),
    in_ward("nest", What::Guard),
    in_ward("nest", What::SnapshotRun),
    in_ward("twin", What::Trespass),
];

/// A command line, and what is known about it.
pub(crate) struct Started {
    /// The words.
    pub(crate) words: Vec<String>,
    /// What it is, for whoever judges its end: the words of the command without its troubles.
    pub(crate) command: String,
    /// The ward that it runs in.
    pub(crate) ward: &'static str,
    /// Where in the ward, below its base.
    pub(crate) place: &'static str,
    /// `GIT_DIR` names nothing there.
    pub(crate) has_git_dir: bool,
    /// What it asks for, as the history calls it; a worker says that itself.
    pub(crate) asks: Vec<String>,
    /// Nothing slows it down, so its turn in the line can be judged.
    pub(crate) plain: bool,
    /// Exit code 2 says that it was refused.
    pub(crate) refuses_by_2: bool,
    /// The trouble that it has.
    pub(crate) wrapped: Option<Wrapped>,
}

impl Kind {
    /// One life.
    pub(crate) fn life(&self, traffic: &Traffic<'_>, who: u64, history: &Path, dice: &mut Dice) -> Started {
        let ward = self.ward;
        let seed = dice.below(u64::MAX);
        let worker = |kind: &str, more: &[String]| {
            let mut words = worker_words(traffic, ward, who, seed, history, kind);
            words.extend_from_slice(more);
            words
        };
        if let What::Worker(kind) | What::Sleeper(kind) = self.what {
            let sleeps = u8::from(matches!(self.what, What::Sleeper(_)));
            return alone(ward, worker(kind, &[format!("sleeps={sleeps}")]), format!("worker {kind}"));
        }
        let scene = traffic.scene;
        let clockwork = Clockwork { dynamic: &scene.dynamic, preload: &scene.preload };
        let is_muted = matches!(self.what, What::MutedGuard | What::BriefMutedGuard);
        // What strace has to say about itself would wait for a reader, too.
        let wrapped =
            if is_muted { Wrapped::not() } else { choose(dice, &scene.dir, &clockwork, &format!("{who}"), &[]) };
        let (place, has_git_dir) =
            if ward == "yard" { (YARD[dice.index(YARD.len())], dice.below(3) == 0) } else { ("", false) };
        let mut words = if is_muted { [worker("muted", &[]), vec!["--".into()]].concat() } else { Vec::new() };
        words.extend_from_slice(&wrapped.words);
        let before = words.len();
        let (asks, ttl_ms, more) = match self.what {
            What::Guard | What::MutedGuard => guard(ward, dice, &mut words),
            What::BriefGuard | What::BriefMutedGuard => brief_guard(ward, dice, &mut words),
            What::Trespass => trespass(ward, &mut words),
            What::ClaimRun => claim_run(ward, dice, &mut words),
            _ => lease_run(ward, dice, &mut words, self.what, &scene.dir.join(format!("scratch/{who}.session"))),
        };
        let asked = format!("asked={}", lokt_testkit::scribe::now_ns());
        words.push("--".into());
        words.extend(worker("section", &[more, vec![asked, format!("ttl_ms={ttl_ms}")]].concat()));
        let guards = is_muted || matches!(self.what, What::Guard | What::BriefGuard | What::Trespass);
        let command = words[before..].join(" ");
        let (plain, refuses_by_2) = (wrapped.plain, !guards);
        Started { words, command, ward, place, has_git_dir, asks, plain, refuses_by_2, wrapped: Some(wrapped) }
    }
}

/// A life that asks for nothing before it runs.
fn alone(ward: &'static str, words: Vec<String>, command: String) -> Started {
    let (place, asks, wrapped) = ("", Vec::new(), None);
    Started { words, command, ward, place, has_git_dir: false, asks, plain: true, refuses_by_2: false, wrapped }
}

/// A life that ends as none may, by a script.
pub(crate) fn planted(what: &str, script: &str) -> Started {
    alone("mess", ["sh", "-c", script].map(str::to_owned).to_vec(), format!("{PLANTED}: {what}"))
}

/// A worker whose commands end as none may.
pub(crate) fn planted_worker(traffic: &Traffic<'_>, who: u64, history: &Path) -> Started {
    alone("mess", worker_words(traffic, "mess", who, 0, history, PLANTED), format!("worker {PLANTED}"))
}

/// This program as a worker, with choices of its own from `seed`.
pub(crate) fn worker_words(
    traffic: &Traffic<'_>,
    ward: &str,
    who: u64,
    seed: u64,
    history: &Path,
    kind: &str,
) -> Vec<String> {
    let scene = traffic.scene;
    let this = std::env::current_exe().expect("this program has a path").display().to_string();
    let mut words = vec![this, "--worker".to_owned()];
    words.extend([
        format!("kind={kind}"),
        format!("ward={ward}"),
        format!("base={}", scene.base(ward).display()),
        format!("dir={}", scene.dir.display()),
        format!("who={who}"),
        format!("seed={seed}"),
        format!("history={}", history.display()),
        format!("ends_ms={}", traffic.ends_ms),
        format!("dynamic={}", scene.dynamic),
        format!("preload={}", scene.preload),
    ]);
    words
}

/// What is asked for, the lease in milliseconds, and more words for the section.
type Asking = (Vec<String>, u64, Vec<String>);

fn push(words: &mut Vec<String>, more: &[&str]) {
    words.extend(more.iter().map(|word| (*word).to_owned()));
}

fn patience(dice: &mut Dice) -> Option<String> {
    match dice.below(10) {
        0 => None,
        1..3 => Some(format!("{}ms", 10 + dice.below(200))),
        _ => Some(format!("{PATIENCE_MS}ms")),
    }
}

fn guard(ward: &str, dice: &mut Dice, words: &mut Vec<String>) -> Asking {
    // Where files are damaged nothing is protected.
    let is_messy = ward == "mess";
    let mut names = if is_messy { MESSY.to_vec() } else { LASTING.to_vec() };
    // One name most often: with several the place in a line can't be seen.
    let count = if dice.below(4) == 0 { 2 } else { 1 };
    while names.len() > count {
        names.swap_remove(dice.index(names.len()));
    }
    push(words, &["guard", "-E", &REFUSED.to_string()]);
    push(words, &names);
    if let Some(patience) = patience(dice) {
        push(words, &["--timeout", &patience]);
    }
    // Nothing is stopped for anything like as long, so it never ends by itself.
    if dice.below(3) == 0 {
        push(words, &["--ttl", "30s"]);
    }
    let asks = names.iter().map(|name| format!("{ward}/{name}")).collect();
    let (register, dwell_ms) = if is_messy { ("no", 800) } else { ("yes", 60) };
    (asks, 0, vec![format!("register={register}"), format!("dwell_ms={dwell_ms}")])
}

fn trespass(ward: &str, words: &mut Vec<String>) -> Asking {
    push(words, &["guard", "-E", &REFUSED.to_string(), "r"]);
    (vec![format!("{ward}/r")], 0, vec!["then=trespass".into()])
}

fn brief_guard(ward: &str, dice: &mut Dice, words: &mut Vec<String>) -> Asking {
    let name = BRIEF[dice.index(BRIEF.len())];
    push(words, &["guard", "-E", &REFUSED.to_string(), name, "--ttl", "1s"]);
    if let Some(patience) = patience(dice) {
        push(words, &["--timeout", &patience]);
    }
    (vec![format!("{ward}/{name}")], 1_000, vec![format!("dwell_ms={BRIEFLY_OUTSTAYED_MS}")])
}

fn claim_run(ward: &str, dice: &mut Dice, words: &mut Vec<String>) -> Asking {
    let node = NODES[dice.index(NODES.len())];
    push(words, &["claim", "run", node, "--ttl", "2s"]);
    (vec![format!("{ward}-claims/{node}")], 2_000, vec![format!("dwell_ms={OUTSTAYED_MS}")])
}

fn lease_run(ward: &str, dice: &mut Dice, words: &mut Vec<String>, what: What, session: &Path) -> Asking {
    let snapshots = what == What::SnapshotRun;
    let worktree = WORKTREES[if snapshots { WORKTREES.len() - 1 } else { dice.index(WORKTREES.len() - 1) }];
    let ttl_ms = if snapshots { 8_000 } else { 2_000 };
    let session = session.display().to_string();
    push(words, &["lease", "run", "--worktree", worktree, "--session", &session, "--skew", "0s", "--grace", "0s"]);
    push(words, &["--lease", &format!("{ttl_ms}ms"), "--timeout", &format!("{}ms", 10 + dice.below(1_500))]);
    let mut more = vec![format!("dwell_ms={OUTSTAYED_MS}")];
    if snapshots {
        more.push("then=snapshot".into());
    }
    (vec![format!("{ward}-{worktree}/lease")], ttl_ms, more)
}
