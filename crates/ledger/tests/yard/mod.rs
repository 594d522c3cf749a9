//! A directory with a ledger, on clocks that a test moves or on the real ones.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lokt_core::hold::Identity;
use lokt_core::ledger::claiming::Refused;
use lokt_core::ledger::seq::{Seq, Style};
use lokt_ledger::{ClaimTerms, Claimed, Claiming, InitOptions, Ledger};
use lokt_sys::machine::{Machine, identity};
use lokt_sys::os_disk::OsDisk;
use lokt_sys::wait_policy::WaitPolicy;
use lokt_testkit::machine::{FakeMachine, somebody};
use lokt_testkit::swarm::put;

/// Nothing takes this long, unless it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// A lease that ends when a test says so.
pub(crate) const TTL_SEC: u64 = 60;

pub(crate) struct Yard {
    dir: tempfile::TempDir,
    pub(crate) machine: Arc<FakeMachine>,
    pub(crate) style: Style,
}

impl Yard {
    pub(crate) fn new(style: Style) -> Self {
        let dir = tempfile::tempdir().expect("there is room for a temp directory");
        let options = InitOptions { style: Some(style), chain: false };
        Ledger::init(dir.path(), options, identity("founder".into(), None)).expect("a temp directory is writable");
        let yard = Self { dir, machine: Arc::new(FakeMachine::new()), style };
        if style == Style::Native {
            for node in ["1", "1.1", "1.2"] {
                yard.foreign(&format!(
                    r#"{{"type":"node_created","timestamp":"2026-01-01T00:00:00Z","node":{{"id":"{node}","workflow_state":"available","epistemic_state":"pending","content_hash":"06d59ed4a6db6f9aca78dddf853c594aeaa3229187fcc20bb8ad64a60d40876b"}}}}"#
                ));
            }
        }
        yard
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn events_dir(&self) -> PathBuf {
        self.path().join("ledger")
    }

    pub(crate) fn event(&self, number: u64) -> PathBuf {
        self.events_dir().join(self.style.file_name(Seq::new(number).expect("not zero")))
    }

    /// Somebody whose time is the test's.
    pub(crate) fn ledger(&self, owner: &str) -> Ledger {
        self.ledger_of(somebody(owner, 1), self.machine.clone())
    }

    pub(crate) fn ledger_of(&self, me: Identity, machine: Arc<dyn Machine>) -> Ledger {
        let disk = OsDisk::open(&self.events_dir()).expect("it was founded");
        let above = OsDisk::open(self.path()).expect("it is there");
        Ledger::on(self.path(), Arc::new(disk), Arc::new(above), machine, me).expect("it can be opened")
    }

    /// Somebody whose time is real.
    pub(crate) fn real(&self, owner: &str) -> Ledger {
        let ledger = Ledger::existing(self.path(), identity(owner.into(), None)).expect("it can be opened");
        ledger.expect("it was founded")
    }

    pub(crate) fn head(&self) -> u64 {
        let numbers = fs::read_dir(self.events_dir()).expect("it is there").flatten().filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            name.trim_start_matches("event-").strip_suffix(".json")?.parse().ok()
        });
        numbers.max().unwrap_or(0)
    }

    /// Another program appends, without a lock.
    pub(crate) fn foreign(&self, json: &str) -> u64 {
        let number = self.head() + 1;
        put(&self.event(number), json);
        number
    }

    /// Every event's text from `first` on.
    pub(crate) fn texts(&self, first: u64) -> Vec<String> {
        (first..=self.head()).map(|number| fs::read_to_string(self.event(number)).expect("it is there")).collect()
    }

    /// The types of the events from `first` on.
    pub(crate) fn kinds(&self, first: u64) -> Vec<String> {
        let kind = |text: String| text.split('"').nth(3).expect("the type is the first member").to_owned();
        self.texts(first).into_iter().map(kind).collect()
    }

    /// Everything that there is, with its times.
    pub(crate) fn traces(&self) -> BTreeMap<PathBuf, (std::time::SystemTime, u64)> {
        fn collect(dir: &Path, traces: &mut BTreeMap<PathBuf, (std::time::SystemTime, u64)>) {
            for entry in fs::read_dir(dir).expect("it is there").flatten() {
                let meta = entry.metadata().expect("it is there");
                traces.insert(entry.path(), (meta.modified().expect("files have one"), meta.len()));
                if meta.is_dir() {
                    collect(&entry.path(), traces);
                }
            }
        }
        let mut traces = BTreeMap::new();
        let meta = fs::metadata(self.events_dir()).expect("it is there");
        traces.insert(self.events_dir(), (meta.modified().expect("directories have one"), 0));
        collect(self.path(), &mut traces);
        traces
    }
}

pub(crate) fn terms() -> ClaimTerms {
    ClaimTerms { ttl_sec: Some(TTL_SEC), ..ClaimTerms::default() }
}

/// Takes a node at once or not at all.
pub(crate) fn take(ledger: &Ledger, node: &str) -> Result<Claimed, Refused> {
    claimed(ledger.take(&[node.to_owned()], &terms(), &mut WaitPolicy::none()).expect("it can be asked").value)
}

pub(crate) fn claimed(claiming: Claiming) -> Result<Claimed, Refused> {
    match claiming {
        Claiming::Claimed(claimed) => Ok(claimed),
        Claiming::Denied { refused, .. } => Err(refused),
        Claiming::Interrupted => panic!("nobody interrupted it"),
    }
}
