//! Leases of worktrees: acquired, renewed, released, and files that are published under them. On the same boot a lease outlives the cut; after a
//! reboot it is over. Its token never comes again.

use std::fs;
use std::path::PathBuf;

use lokt_testkit::dice::Dice;
use lokt_testkit::swarm::{Ended, put};

use super::published::{Edition, halve};
use super::{Acks, Actor, pick};
use crate::site::{Call, Highest, Site, Stop};
use crate::stored::number;
use crate::tally::Tally;

const OWNER: &str = "nina";
pub(super) const REPOSITORY: &str = "leased";

#[derive(Clone, Copy, Debug)]
enum Asked {
    Acquire,
    Renew,
    Release,
}

/// What is known of a worktree: the token of its lease, and which version of a file was published in it.
struct Worktree {
    name: &'static str,
    /// The session's file is on the file system that is cut, or outside.
    session_inside: bool,
    tokens: Highest,
    held: Option<u64>,
    asked: Option<Asked>,
    edition: Edition,
}

impl Worktree {
    fn new(name: &'static str, session_inside: bool) -> Self {
        Self { name, session_inside, tokens: Highest::default(), held: None, asked: None, edition: Edition::default() }
    }

    fn session(&self, site: &Site) -> PathBuf {
        let name = format!("session-{}", self.name);
        if self.session_inside { site.at(&format!("{REPOSITORY}/{name}")) } else { site.outside(&name) }
    }

    fn call(&self, site: &Site, words: &str) -> Call<'static> {
        let call = Call::new(OWNER, &format!("lease {words} --worktree {} --json --session", self.name));
        call.word(self.session(site).display().to_string()).within(REPOSITORY)
    }

    fn ask(&mut self, site: &Site, asked: Asked) -> Result<(), Stop> {
        let words = match asked {
            Asked::Acquire => "acquire --lease 1h",
            Asked::Renew => "renew",
            Asked::Release => "release",
        };
        let before = self.tokens.so_far();
        self.asked = Some(asked);
        let answer = site.answer(&self.call(site, words))?;
        self.asked = None;
        let token = number(&answer, "fencing_token");
        match asked {
            Asked::Acquire => {
                self.tokens.given(before, token, self.name)?;
                self.held = Some(token);
            }
            Asked::Renew if self.held != Some(token) => {
                return Err(Stop::Wrong(format!("{:?} was renewed as {token}", self.held)));
            }
            Asked::Renew => {}
            Asked::Release => self.held = None,
        }
        Ok(())
    }

    fn target(&self, site: &Site) -> PathBuf {
        let dir = if self.name == "main" { "main".into() } else { format!("worktrees/{}", self.name) };
        site.at(&format!("{REPOSITORY}/{dir}/published"))
    }

    /// Publishes a file under the lease, which somebody has.
    fn publish(&mut self, site: &Site, token: u64) -> Result<(), Stop> {
        let source = site.outside(&format!("source-{}", self.name));
        self.edition.ask(&source);
        let words = format!("lease fence publish --worktree {} --token {token} --json", self.name);
        let call = Call::new(OWNER, &words).within(REPOSITORY).word(source.display().to_string());
        site.answer(&call.word(self.target(site).display().to_string()))?;
        self.edition.answered();
        Ok(())
    }

    fn look(&mut self, site: &Site, tally: &mut Tally) -> Result<(), Stop> {
        let status = site.answer(&self.call(site, "status"))?;
        let found = status["lock"]["fencing_token"].as_u64();
        if self.asked.is_some() {
            tally.in_flight("lease");
        }
        let kept = match (self.held, self.asked) {
            (None, Some(Asked::Acquire)) => found.is_none_or(|token| token > self.tokens.so_far()),
            (Some(_), Some(Asked::Release)) => found.is_none() || found == self.held,
            _ => found == self.held,
        };
        let lives = found.is_none() || site.is_rebooted() || (status["lives"] == true && status["mine"] == true);
        let (held, asked) = (self.held, self.asked);
        tally.check("lease", kept && lives, || format!("{held:?}, {asked:?} became {status}"));
        (self.held, self.asked) = (found, None);
        self.edition.look(&self.target(site), "published file", tally);
        Ok(())
    }

    fn go_on(&mut self, site: &Site) -> Result<(), Stop> {
        match self.held {
            // It is over with its boot: whoever comes next gets it at once.
            Some(_) if site.is_rebooted() => self.ask(site, Asked::Acquire),
            Some(_) => self.ask(site, Asked::Renew),
            None => self.ask(site, Asked::Acquire),
        }
    }
}

/// One who leases the worktrees of a repository.
pub(crate) struct Leases {
    worktrees: Vec<Worktree>,
}

impl Leases {
    pub(crate) fn new() -> Self {
        Self { worktrees: vec![Worktree::new("main", true), Worktree::new("side", false)] }
    }
}

impl Actor for Leases {
    fn kind(&self) -> &'static str {
        "lease"
    }

    fn kinds(&self) -> Vec<&'static str> {
        vec!["lease", "published file", "audit line"]
    }

    fn move_in(&mut self, site: &Site) -> Result<(), Stop> {
        fs::create_dir(site.at(REPOSITORY)).expect("a new file system is writable");
        site.sync();
        site.answer(&Call::new(OWNER, "worktree init --json").within(REPOSITORY))?;
        site.answer(&Call::new(OWNER, "worktree create side --json").within(REPOSITORY)).map(drop)
    }

    fn step(&mut self, site: &Site, dice: &mut Dice) -> Result<Acks, Stop> {
        let worktree = &mut self.worktrees[pick(dice, 2)];
        match (worktree.held, dice.below(4)) {
            (None, _) => worktree.ask(site, Asked::Acquire)?,
            (Some(_), 0) => worktree.ask(site, Asked::Release)?,
            (Some(token), 1) => {
                worktree.publish(site, token)?;
                return Ok(vec![("published file", 1)]);
            }
            (Some(_), _) => worktree.ask(site, Asked::Renew)?,
        }
        Ok(vec![("lease", 1)])
    }

    fn look(&mut self, site: &Site, tally: &mut Tally) -> Result<(), Stop> {
        for worktree in &mut self.worktrees {
            worktree.look(site, tally)?;
        }
        let verify = Call::new(OWNER, "lease audit --verify --json").within(REPOSITORY);
        let ended: Ended = site.run(&verify);
        if ended.code != Some(0) && !site.is_rebooted() {
            // Its lines aren't synced; on the boot on which they were written a log that lacks some is called broken.
            tally.mended("by `doctor --strict --fix`: a log that lost lines without a reboot");
            return Ok(());
        }
        tally.check("audit line", ended.code == Some(0), || format!("the repository's log is sound: {ended:?}"));
        Ok(())
    }

    fn go_on(&mut self, site: &Site, _: &mut Tally) -> Result<(), Stop> {
        self.worktrees.iter_mut().try_for_each(|worktree| worktree.go_on(site))
    }

    fn lose(&mut self, site: &Site, kind: &'static str) -> Result<(), Stop> {
        let worktree = &mut self.worktrees[0];
        if worktree.held.is_none() {
            worktree.ask(site, Asked::Acquire)?;
        }
        match (kind, worktree.held) {
            ("published file", Some(token)) => {
                worktree.publish(site, token)?;
                halve(&worktree.target(site));
            }
            ("audit line", _) => {
                // A power cut takes lines from the end only.
                let log = site.at(&format!("{REPOSITORY}/.jvs/audit/audit.jsonl"));
                let text = fs::read_to_string(&log).expect("a log can be read");
                put(&log, text.split_once('\n').map_or("", |(_, rest)| rest));
            }
            _ => drop(site.answer(&worktree.call(site, "release"))?),
        }
        Ok(())
    }
}
