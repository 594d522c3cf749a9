//! Events of a ledger, one at a time and in batches: each stays under its number, with its bytes.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use lokt_testkit::dice::Dice;
use lokt_testkit::swarm::{put, wall_text};
use serde_json::{Value, json};

use super::{Acks, Actor};
use crate::site::{Call, Highest, Site, Stop};
use crate::stored::number;
use crate::tally::Tally;

/// The `content_hash` of the nodes: SHA-256 of `type:claim|statement:s|inference:assumption`.
const HASH: &str = "96febcb19e9936a822b59e40f2466c6059a3eb6b31760d696f0174a1beed9283";

/// How files and claims are called in a ledger.
#[derive(Clone, Copy)]
pub(crate) struct Style {
    name: &'static str,
    /// Nodes that can be claimed.
    pub(super) nodes: [&'static str; 3],
}

impl Style {
    pub(crate) fn documented() -> Self {
        Self { name: "documented", nodes: ["x", "y", "z"] }
    }

    pub(crate) fn native() -> Self {
        Self { name: "native", nodes: ["1", "1.1", "1.2"] }
    }

    /// The directory with the ledger, on the file system.
    pub(super) fn dir(self) -> &'static str {
        self.name
    }

    fn file(self, number: u64) -> String {
        let prefix = if self.name == "documented" { "event-" } else { "" };
        format!("{}/ledger/{prefix}{number:06}.json", self.name)
    }

    fn is_native(self) -> bool {
        self.name == "native"
    }
}

/// One who appends.
pub(crate) struct Events {
    style: Style,
    numbers: Arc<Highest>,
    /// What is in the event of a number.
    appended: BTreeMap<u64, String>,
    /// How many were composed.
    composed: u64,
    /// The last ones, if they weren't answered.
    asked: Vec<String>,
}

impl Events {
    pub(crate) fn new(style: Style, numbers: &Arc<Highest>) -> Self {
        Self { style, numbers: Arc::clone(numbers), appended: BTreeMap::new(), composed: 0, asked: Vec::new() }
    }

    fn compose(&mut self, count: u64) -> Vec<String> {
        let from = self.composed;
        self.composed += count;
        (from..self.composed).map(|n| format!("event-number-{n}-of-{}", self.style.name)).collect()
    }

    /// Appends one under a key, so that it can be repeated.
    fn append_one(&mut self, site: &Site, text: &str) -> Result<(), Stop> {
        let call = Call::new("judy", &format!("ledger append --json -d {} --id {text}", self.style.dir()));
        let before = self.numbers.so_far();
        self.asked = vec![text.to_owned()];
        let answer = site.answer(&call.word(event(text)))?;
        self.asked.clear();
        let first = number(&answer, "seq");
        if answer["duplicate"] != Value::Bool(true) {
            self.numbers.given(before, first, text)?;
        }
        self.appended.insert(first, text.to_owned());
        Ok(())
    }

    fn append_all(&mut self, site: &Site, texts: &[String]) -> Result<(), Stop> {
        let lines: Vec<String> = texts.iter().map(|text| event(text) + "\n").collect();
        let call = Call::new("judy", &format!("ledger append --json -d {}", self.style.dir())).input(lines.concat());
        let before = self.numbers.so_far();
        self.asked = texts.to_vec();
        let answer = site.answer(&call)?;
        self.asked.clear();
        let first = number(&answer, "first");
        self.numbers.given(before, first, &texts[0])?;
        let last = first + texts.len() as u64 - 1;
        if number(&answer, "last") != last {
            return Err(Stop::Wrong(format!("no-gap: a batch has numbers in a row: {answer}")));
        }
        self.appended.extend((first..).zip(texts.iter().cloned()));
        Ok(())
    }

    /// What the native program would have made.
    fn make_nodes(&self, site: &Site) {
        let (dir, at) = (self.style.dir(), wall_text(-60));
        put(&site.at(&format!("{dir}/meta.json")), r#"{"version": "1.0"}"#);
        for name in ["nodes", "ledger", "locks"] {
            fs::create_dir_all(site.at(&format!("{dir}/{name}"))).expect("a new file system is writable");
        }
        let first = json!({"conjecture": "c", "author": "a"}).to_string();
        put(
            &site.at(&self.style.file(1)),
            format!(r#"{{"type":"proof_initialized","timestamp":"{at}",{}"#, &first[1..]),
        );
        for (number, id) in (2..).zip(self.style.nodes) {
            let node = json!({
                "id": id, "type": "claim", "statement": "s", "inference": "assumption", "workflow_state": "available",
                "epistemic_state": "pending", "taint_state": "unresolved", "content_hash": HASH, "created": at,
                "claimed_at": "0001-01-01T00:00:00Z",
            });
            let event = format!(r#"{{"type":"node_created","timestamp":"{at}","node":{node}}}"#);
            put(&site.at(&self.style.file(number)), event);
        }
        site.sync();
    }

    /// How many events of the ledger have this in them.
    fn count(&self, site: &Site, text: &str) -> usize {
        let quoted = format!("\"{text}\"");
        let files = fs::read_dir(site.at(&format!("{}/ledger", self.style.dir())));
        let files = files.into_iter().flatten().flatten().map(|entry| entry.path());
        files.filter(|path| fs::read_to_string(path).is_ok_and(|event| event.contains(&quoted))).count()
    }
}

impl Actor for Events {
    fn kind(&self) -> &'static str {
        if self.style.is_native() { "event, native" } else { "event" }
    }

    fn move_in(&mut self, site: &Site) -> Result<(), Stop> {
        fs::create_dir_all(site.at(self.style.dir())).expect("a new file system is writable");
        site.sync();
        if self.style.is_native() {
            self.make_nodes(site);
        }
        // Each event of the native one vouches for those before it.
        let chain = if self.style.is_native() { "--chain" } else { "" };
        let (dir, style) = (self.style.dir(), self.style.name);
        site.answer(&Call::new("judy", &format!("ledger init -d {dir} --style {style} {chain} --json"))).map(drop)
    }

    fn step(&mut self, site: &Site, dice: &mut Dice) -> Result<Acks, Stop> {
        // From sixteen on they are synced together.
        let count = [1, 1, 1, 2, 5, 20][super::pick(dice, 6)];
        let texts = self.compose(count);
        if count == 1 {
            self.append_one(site, &texts[0])?;
        } else {
            self.append_all(site, &texts)?;
        }
        Ok(vec![(self.kind(), count)])
    }

    fn look(&mut self, site: &Site, tally: &mut Tally) -> Result<(), Stop> {
        let kind = self.kind();
        if !self.asked.is_empty() {
            tally.in_flight(kind);
        }
        for (number, text) in &self.appended {
            let stored = fs::read_to_string(site.at(&self.style.file(*number)));
            let kept = stored.as_ref().is_ok_and(|event| event.contains(&format!("\"{text}\"")));
            tally.check(kind, kept, || format!("no-overwrite: event {number} with {text} became {stored:?}"));
        }
        let verify = Call::new("judy", &format!("ledger verify --json -d {}", self.style.dir()));
        let ended = site.run(&verify);
        tally.check(kind, ended.code == Some(0), || format!("the ledger is sound: {ended:?}"));
        Ok(())
    }

    fn go_on(&mut self, site: &Site, tally: &mut Tally) -> Result<(), Stop> {
        // Whoever wasn't answered may ask again, under the same key, and it is there once.
        if let [text] = &std::mem::take(&mut self.asked)[..] {
            self.append_one(site, text)?;
            let count = self.count(site, text);
            tally.check(self.kind(), count == 1, || format!("{text} was asked for twice and is there {count} times"));
        }
        let text = self.compose(1).concat();
        self.append_one(site, &text)
    }

    fn lose(&mut self, site: &Site, _: &'static str) -> Result<(), Stop> {
        let text = self.compose(1).concat();
        self.append_one(site, &text)?;
        let last = self.appended.keys().next_back().expect("one was appended");
        put(&site.at(&self.style.file(*last)), event("another"));
        Ok(())
    }
}

fn event(text: &str) -> String {
    format!(r#"{{"type":"note","text":"{text}"}}"#)
}
