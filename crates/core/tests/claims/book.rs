//! A ledger in memory: what is decided is written, read back and folded, and in a native ledger held against the proof.

use jiff::{SignedDuration, Timestamp};
use lokt_core::denial::Denial;
use lokt_core::hold::Identity;
use lokt_core::ledger::claiming::{self, ClaimFacts, Ended, Refused, Swept, Taken};
use lokt_core::ledger::claims::{Remark, Table};
use lokt_core::ledger::draft::{Added, Draft};
use lokt_core::ledger::lock_file::LockFile;
use lokt_core::ledger::proof::Proof;
use lokt_core::ledger::seq::{Seq, Style};
use lokt_core::ledger::stored::Stored;
use lokt_core::time::Moment;

const TTL_SEC: u64 = 60;
/// The boot clock when a book begins.
const BOOT_MS: u64 = 1_000_000;

/// So many milliseconds after a book began.
pub(crate) fn at(ms: i64) -> Timestamp {
    let began: Timestamp = "2026-11-16T00:00:00Z".parse().expect("a time");
    began.checked_add(SignedDuration::from_millis(ms)).expect("tests stay in their century")
}

/// All clocks at that time.
fn moment(ms: u64) -> Moment {
    let clock_ms = BOOT_MS + ms;
    Moment { wall: at(i64::try_from(ms).expect("tests are short")), monotonic_ms: clock_ms, boottime_ms: clock_ms }
}

fn event(json: &str) -> Stored {
    Stored::parse(json.as_bytes()).unwrap_or_else(|damage| panic!("{json} is no event: {damage}"))
}

/// An event with one member.
pub(crate) fn member(kind: &str, name: &str, value: &str) -> String {
    format!(r#"{{"type":"{kind}","timestamp":"2024-01-15T10:30:00Z","{name}":{value}}}"#)
}

pub(crate) struct Book {
    style: Style,
    pub(crate) table: Table,
    pub(crate) proof: Option<Proof>,
    pub(crate) files: Vec<LockFile>,
    pub(crate) head: u64,
    /// Every event's text.
    pub(crate) lines: Vec<String>,
    /// Everything that was remarked.
    pub(crate) remarks: Vec<Remark>,
    ms: u64,
    pub(crate) wall_shift_ms: i64,
    pub(crate) boot: String,
    /// The claim that a request which is asked again has made already.
    pub(crate) made: Option<Seq>,
}

impl Book {
    pub(crate) fn new(style: Style) -> Self {
        Self {
            style,
            table: Table::new(style),
            proof: (style == Style::Native).then(Proof::new),
            files: Vec::new(),
            head: 0,
            lines: Vec::new(),
            remarks: Vec::new(),
            ms: 0,
            wall_shift_ms: 0,
            boot: "boot".to_owned(),
            made: None,
        }
    }

    /// A native one with these nodes.
    pub(crate) fn with_nodes(ids: &[&str]) -> Self {
        let mut book = Self::new(Style::Native);
        for id in ids {
            book.create(id);
        }
        book
    }

    pub(crate) fn create(&mut self, id: &str) {
        self.write(&member(
            "node_created",
            "node",
            &format!(r#"{{"id":"{id}","workflow_state":"available","epistemic_state":"pending"}}"#),
        ));
    }

    /// Time passes on all clocks.
    pub(crate) fn pass(&mut self, ms: u64) {
        self.ms += ms;
    }

    fn now(&self) -> Moment {
        let now = moment(self.ms);
        Moment { wall: now.wall.checked_add(SignedDuration::from_millis(self.wall_shift_ms)).expect("in range"), ..now }
    }

    fn me(&self, owner: &str) -> Identity {
        Identity {
            owner: owner.to_owned(),
            host: "here".to_owned(),
            pid: 77,
            boot_id: Some(self.boot.clone()),
            boot_clocks: true,
            ..Identity::default()
        }
    }

    /// Somebody writes an event that is fine.
    pub(crate) fn write(&mut self, json: &str) {
        let accepted = self.append(json);
        accepted.unwrap_or_else(|why| panic!("the native program would refuse {json}: {why}"));
    }

    /// Somebody writes an event that the native program refuses.
    pub(crate) fn write_refused(&mut self, json: &str) {
        assert!(self.append(json).is_err(), "the native program would refuse {json}");
    }

    fn append(&mut self, json: &str) -> Result<(), String> {
        self.head += 1;
        let seq = Seq::new(self.head).expect("not zero");
        let event = event(json);
        self.lines.push(json.to_owned());
        self.remarks.extend(self.table.apply(seq, &event));
        let applied = self.proof.as_mut().map_or(Ok(()), |proof| proof.apply(seq, &event));
        applied.map_err(|refusal| refusal.to_string())
    }

    fn write_all(&mut self, drafts: &[Draft]) {
        for draft in drafts {
            let bytes = draft.render(self.style, at(0), Added::default()).expect("it can be written");
            self.write(&String::from_utf8(bytes).expect("JSON"));
        }
    }

    fn asked<T>(&self, owner: &str, ask: impl FnOnce(ClaimFacts<'_>) -> T) -> T {
        let me = self.me(owner);
        ask(ClaimFacts {
            style: self.style,
            table: &self.table,
            proof: self.proof.as_ref(),
            files: &self.files,
            now: self.now(),
            me: &me,
            next: Seq::new(self.head + 1).expect("not zero"),
            made: self.made,
        })
    }

    pub(crate) fn take_any(&mut self, owner: &str, nodes: &[&str]) -> Result<Taken, Vec<(String, Refused)>> {
        let nodes: Vec<String> = nodes.iter().map(|node| (*node).to_owned()).collect();
        let taken = self.asked(owner, |scene| claiming::take(scene, &nodes, TTL_SEC, false))?;
        self.write_all(&taken.drafts);
        Ok(taken)
    }

    pub(crate) fn take(&mut self, owner: &str, node: &str) -> Result<Taken, Refused> {
        self.take_any(owner, &[node]).map_err(|mut refused| refused.remove(0).1)
    }

    /// Takes it, but not if the same owner has it already.
    pub(crate) fn take_new(&mut self, owner: &str, node: &str) -> Result<Taken, Refused> {
        let nodes = [node.to_owned()];
        let taken = self.asked(owner, |scene| claiming::take(scene, &nodes, TTL_SEC, true));
        let taken = taken.map_err(|mut refused| refused.remove(0).1)?;
        self.write_all(&taken.drafts);
        Ok(taken)
    }

    pub(crate) fn extend(&mut self, owner: &str, node: &str, token: Option<Seq>) -> Result<Taken, Refused> {
        let taken = self.asked(owner, |scene| claiming::extend(scene, node, TTL_SEC, token))?;
        self.write_all(&taken.drafts);
        Ok(taken)
    }

    pub(crate) fn release(&mut self, owner: &str, node: &str, token: Option<Seq>) -> Result<Ended, Refused> {
        let ended = self.asked(owner, |scene| claiming::release(scene, node, token))?;
        self.write_all(std::slice::from_ref(&ended.draft));
        Ok(ended)
    }

    pub(crate) fn reap(&mut self, owner: &str) -> Swept {
        let swept = self.asked(owner, claiming::reap);
        self.write_all(&swept.drafts);
        swept
    }

    pub(crate) fn check(&self, owner: &str, token: Seq) -> Result<(), Denial> {
        claiming::check(&self.table, token, &self.now(), &self.me(owner))
    }
}
