//! A directory with a ledger, the commands on it, and events as other programs write them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Call, Root, Said, from_now, names_in, put};

/// The `content_hash` of the nodes: SHA-256 of `type:claim|statement:s|inference:assumption`.
const HASH: &str = "96febcb19e9936a822b59e40f2466c6059a3eb6b31760d696f0174a1beed9283";

/// A directory that a ledger belongs to. It goes away with the test.
pub(crate) struct Book {
    root: Root,
    native: bool,
}

impl Book {
    /// No ledger yet.
    pub(crate) fn none() -> Self {
        Self { root: Root::new(), native: false }
    }

    /// An empty ledger of the documented style.
    pub(crate) fn new() -> Self {
        let book = Self::none();
        book.run("setup", "ledger init").exits(0, "a ledger is made");
        book
    }

    /// A directory as the native program makes it, with the nodes 1, 1.1 and 1.2.
    pub(crate) fn native() -> Self {
        let book = Self { root: Root::new(), native: true };
        put(&book.dir().join("meta.json"), r#"{"version": "1.0"}"#);
        for dir in ["nodes", "ledger", "locks"] {
            fs::create_dir(book.dir().join(dir)).expect("a temp directory is writable");
        }
        let at = from_now(-60).to_string();
        book.put(1, &json!({"type": "proof_initialized", "timestamp": at, "conjecture": "c", "author": "a"}));
        for (seq, id) in [(2, "1"), (3, "1.1"), (4, "1.2")] {
            let node = json!({
                "id": id, "type": "claim", "statement": "s", "inference": "assumption", "workflow_state": "available",
                "epistemic_state": "pending", "taint_state": "unresolved", "content_hash": HASH, "created": at,
                "claimed_at": "0001-01-01T00:00:00Z",
            });
            // `type` first, as that program wants it.
            let node = format!(r#"{{"type":"node_created","timestamp":"{at}","node":{node}}}"#);
            put(&book.path(seq), node);
        }
        book
    }

    /// A ledger with `count` events of the type `note`, whose `n` counts from 1.
    pub(crate) fn with(count: u64) -> Self {
        let book = Self::new();
        for n in 1..=count {
            book.append(&format!(r#"{{"type":"note","n":{n}}}"#)).exits(0, "it is appended");
        }
        book
    }

    /// The directory around the ledger: where commands run.
    pub(crate) fn dir(&self) -> &Path {
        self.root.outside()
    }

    pub(crate) fn ledger(&self) -> PathBuf {
        self.dir().join("ledger")
    }

    /// `lokt`, as `owner`, beside the ledger.
    pub(crate) fn lokt(&self, owner: &str) -> Call {
        self.root.lokt(owner)
    }

    /// Another program, beside the ledger.
    pub(crate) fn call(&self, program: &str) -> Call {
        self.root.call(program)
    }

    /// Runs `lokt` with `words`, which are separated by spaces.
    pub(crate) fn run(&self, owner: &str, words: &str) -> Said {
        self.root.run(owner, words)
    }

    /// Runs `lokt ledger append EVENT`.
    pub(crate) fn append(&self, event: &str) -> Said {
        self.lokt("a").args(["ledger", "append", event]).run()
    }

    /// The file of an event.
    pub(crate) fn path(&self, seq: u64) -> PathBuf {
        let prefix = if self.native { "" } else { "event-" };
        self.ledger().join(format!("{prefix}{seq:06}.json"))
    }

    pub(crate) fn bytes(&self, seq: u64) -> Vec<u8> {
        fs::read(self.path(seq)).unwrap_or_else(|error| panic!("event {seq} is there: {error}"))
    }

    pub(crate) fn event(&self, seq: u64) -> Value {
        serde_json::from_slice(&self.bytes(seq)).expect("an event is JSON")
    }

    /// Puts an event there as another program would.
    pub(crate) fn put(&self, seq: u64, event: &Value) {
        // `type` must come first, and the members of a JSON value are sorted.
        let mut rest = event.as_object().expect("an event is an object").clone();
        let kind = rest.remove("type").expect("an event has a type");
        let rest = Value::Object(rest).to_string();
        put(&self.path(seq), format!(r#"{{"type":{kind},{}"#, &rest[1..]));
    }

    /// A claim as a program writes it that knows nothing of lokt.
    pub(crate) fn put_claim(&self, seq: u64, node: &str, owner: &str, left_sec: i64) {
        let (at, end) = (from_now(left_sec - 300).to_string(), from_now(left_sec).to_string());
        let claim = if self.native {
            json!({"type": "nodes_claimed", "timestamp": at, "node_ids": [node], "owner": owner, "timeout": end})
        } else {
            json!({"type": "lock_acquired", "timestamp": at, "node_id": node, "owner": owner, "expires_at": end})
        };
        self.put(seq, &claim);
    }

    /// The numbers of all events.
    pub(crate) fn numbers(&self) -> Vec<u64> {
        let number = |path: PathBuf| {
            let stem = path.file_name()?.to_str()?.strip_suffix(".json")?.to_owned();
            stem.strip_prefix("event-").unwrap_or(&stem).parse().ok()
        };
        names_in(&self.ledger()).into_iter().filter_map(number).collect()
    }

    /// Every event file with its bytes: equal ones mean that nothing was written.
    pub(crate) fn events(&self) -> Vec<(u64, Vec<u8>)> {
        self.numbers().into_iter().map(|seq| (seq, self.bytes(seq))).collect()
    }
}

/// The objects on stdout, one per line.
#[track_caller]
pub(crate) fn objects(said: &Said) -> Vec<Value> {
    let object = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}{said}"));
    said.stdout.lines().map(object).collect()
}

/// The `seq` of each object on stdout.
#[track_caller]
pub(crate) fn seqs(said: &Said) -> Vec<u64> {
    objects(said).iter().map(|object| object["seq"].as_u64().expect("each has its number")).collect()
}
