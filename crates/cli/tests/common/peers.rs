//! A ledger that several programs share: the stand-ins for the others, as real processes, and `lokt` on it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lokt_testkit::swarm::wait_until;
use lokt_testkit::tally::{self, Trial};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use rustix::process::{Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::{Call, LOKT, Said, from_now, names_in, pid_of, put};

/// The stand-in for the native program. Python leaves no compiled files behind and takes no notice of its user.
const PYTHON: [&str; 5] = ["python3", "-B", "-E", "-s", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/af.py")];
/// The document's shell example.
pub(crate) const SEED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/seed.sh");
/// No step of a peer takes this long, unless it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// So many events take long enough to publish for a test to meet their writer inside the lock.
const BATCH: usize = 2_000;
/// It is missed that often only if it never holds the lock.
const ATTEMPTS_MAX: usize = 50;

/// How a ledger's files are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Documented,
    Native,
}

/// A directory with a ledger; it goes away with the test.
pub(crate) struct SharedLedger {
    dir: TempDir,
    style: Style,
}

impl SharedLedger {
    fn new(style: Style) -> Self {
        Self { dir: tempfile::tempdir().expect("there is room for a temp directory"), style }
    }

    /// An empty one, as somebody makes it who follows the document.
    pub(crate) fn documented() -> Self {
        let shared = Self::new(Style::Documented);
        fs::create_dir(shared.ledger()).expect("a temp directory is writable");
        shared
    }

    /// A proof with the root node, as the native program makes it: two events.
    pub(crate) fn native() -> Self {
        Self::native_with(0)
    }

    /// The same with so many children of the root.
    pub(crate) fn native_with(children: usize) -> Self {
        let shared = Self::new(Style::Native);
        shared.af(&format!("init DIR --children {children}")).exits(0, "a proof can be made");
        shared
    }

    pub(crate) fn style(&self) -> Style {
        self.style
    }

    /// The directory around the ledger.
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn ledger(&self) -> PathBuf {
        self.path().join("ledger")
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.ledger().join("ledger.lock")
    }

    /// Is there a lock of any kind?
    pub(crate) fn is_locked(&self) -> bool {
        fs::symlink_metadata(self.lock()).is_ok()
    }

    /// Where an event is.
    pub(crate) fn event_path(&self, number: u64) -> PathBuf {
        let prefix = if self.style == Style::Documented { "event-" } else { "" };
        self.ledger().join(format!("{prefix}{number:06}.json"))
    }

    pub(crate) fn event_bytes(&self, number: u64) -> Vec<u8> {
        let path = self.event_path(number);
        fs::read(&path).unwrap_or_else(|error| panic!("{} can be read: {error}", path.display()))
    }

    pub(crate) fn event(&self, number: u64) -> Value {
        let bytes = self.event_bytes(number);
        serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("event {number} is JSON: {error}: {bytes:?}"))
    }

    /// Puts an event where a foreign program would.
    pub(crate) fn put_event(&self, number: u64, bytes: impl AsRef<[u8]>) {
        put(&self.event_path(number), bytes);
    }

    /// Every number that has a file of this ledger's style, in order.
    pub(crate) fn numbers(&self) -> Vec<u64> {
        let mut numbers: Vec<u64> = names_in(&self.ledger()).iter().filter_map(|path| self.number_of(path)).collect();
        numbers.sort_unstable();
        numbers
    }

    fn number_of(&self, path: &Path) -> Option<u64> {
        let stem = path.file_name()?.to_str()?.strip_suffix(".json")?;
        let digits = if self.style == Style::Documented { stem.strip_prefix("event-")? } else { stem };
        let number = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())??;
        (self.event_path(number) == path).then_some(number)
    }

    /// The events are numbered from 1 without a gap, each is whole, and nothing is left beside them.
    #[track_caller]
    pub(crate) fn is_contiguous(&self, events: u64) {
        let expected: Vec<u64> = (1..=events).collect();
        assert_eq!(self.numbers(), expected, "the events are contiguous");
        for number in expected {
            let bytes = self.event_bytes(number);
            assert!(bytes.starts_with(b"{\"type\":\""), "event {number} begins with its type: {bytes:?}");
            self.event(number);
        }
        assert_eq!(self.temps(), Vec::<PathBuf>::new(), "no temporary file is left");
        assert!(!self.is_locked(), "no lock is left");
    }

    /// What writers have left in the ledger before it became an event.
    pub(crate) fn temps(&self) -> Vec<PathBuf> {
        let is_temp = |path: &PathBuf| path.extension().is_some_and(|end| end == "tmp");
        names_in(&self.ledger()).into_iter().filter(is_temp).collect()
    }

    /// How often each payload is there. A carrier's payload is that of the event inside.
    pub(crate) fn payloads(&self) -> BTreeMap<String, usize> {
        let mut found = BTreeMap::new();
        for number in self.numbers() {
            let event = self.event(number);
            let inside = if event["event"].is_object() { &event["event"] } else { &event };
            if let Some(payload) = inside["payload"].as_str() {
                *found.entry(payload.to_owned()).or_insert(0) += 1;
            }
        }
        found
    }

    /// The words of a command line, `DIR` standing for the directory.
    fn words<'a>(&'a self, words: &'a str) -> Vec<&'a str> {
        let dir = self.path().to_str().expect("a plain path");
        words.split_whitespace().map(|word| if word == "DIR" { dir } else { word }).collect()
    }

    /// Runs the stand-in for the native program.
    pub(crate) fn af(&self, words: &str) -> Said {
        Call::new(PYTHON[0]).args(&PYTHON[1..]).args(self.words(words)).run()
    }

    /// Starts it.
    pub(crate) fn start_af(&self, words: &str) -> Peer {
        Peer::start(&[&PYTHON, self.words(words).as_slice()].concat())
    }

    /// Starts the document's shell example: so many events with numbered payloads, stopping after `step` if that has a name.
    pub(crate) fn start_seed(&self, count: u32, payload: &str, step: &str) -> Peer {
        let dir = self.path().to_str().expect("a plain path");
        let native = if self.style == Style::Native { "NATIVE=1" } else { "NATIVE=" };
        Peer::start(&["env", native, "bash", SEED, dir, &count.to_string(), payload, step])
    }

    /// `lokt`, in this directory; `DIR` stands for it too.
    pub(crate) fn lokt(&self, owner: &str, words: &str) -> Said {
        self.call(owner).args(self.words(words)).run()
    }

    /// `lokt` with arguments that may have blanks.
    pub(crate) fn call(&self, owner: &str) -> Call {
        Call::new(LOKT).env("LOKT_OWNER", owner).env("LOKT_ROOT", self.path().join("root")).cwd(self.path())
    }

    /// Appends an event with this payload; `words` are flags.
    pub(crate) fn append(&self, payload: &str, words: &str) -> Said {
        self.call("b").args(["ledger", "append", "--json"]).args(self.words(words)).args([event_with(payload)]).run()
    }

    /// What the lock says, file or directory; null if there is none, or it says nothing.
    pub(crate) fn lock_note(&self) -> Value {
        let bytes = fs::read(self.lock().join("holder.json")).or_else(|_| fs::read(self.lock()));
        bytes.ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    /// Makes the lock look as old as it would if its holder had gone on for so long: no test waits for that.
    pub(crate) fn age_lock(&self, secs: i64) {
        let mut note = self.lock_note();
        if note["acquired_at"].is_string() {
            note["acquired_at"] = from_now(-secs).to_string().into();
            put(&self.lock(), format!("{note}\n"));
        }
        date(&self.lock(), -secs);
    }

    /// A writer of ours that stands inside the lock: a long batch, stopped while it is published. Its payloads begin with `payload`.
    #[track_caller]
    pub(crate) fn lokt_inside(&self, payload: &str) -> Peer {
        for attempt in 0..ATTEMPTS_MAX {
            let batch = self.path().join("batch.jsonl");
            let lines: Vec<String> = (0..BATCH).map(|at| event_with(&format!("{payload}{attempt}-{at}"))).collect();
            put(&batch, lines.join("\n"));
            let dir = self.path().to_str().expect("a plain path");
            let file = batch.to_str().expect("a plain path");
            let peer =
                Peer::start(&[LOKT, "ledger", "append", "--json", "-d", dir, "--file", file, "--timeout", "60s"]);
            while !peer.has_ended() {
                if self.lock_note()["pid"] == peer.pid() {
                    peer.stop();
                    if peer.state() == "T" && self.lock_note()["pid"] == peer.pid() {
                        return peer;
                    }
                    peer.resume();
                }
            }
            let ending = peer.ends();
            assert_eq!(ending.code, Some(0), "a batch that wasn't met inside is appended: {ending:?}");
        }
        panic!("a batch of {BATCH} is met inside the lock once in {ATTEMPTS_MAX} times");
    }

    /// Starts `lokt`, to be stopped and killed.
    pub(crate) fn start_lokt(&self, words: &str) -> Peer {
        Peer::start(&[&[LOKT], self.words(words).as_slice()].concat())
    }

    /// The native program reads it, and every hash is right.
    #[track_caller]
    pub(crate) fn pleases_af(&self) {
        assert_eq!(self.style, Style::Native, "the native program reads its own style");
        self.af("check DIR --verify").exits(0, "the native program reads what lokt has written");
    }
}

/// A running peer. It is killed when this is dropped.
pub(crate) struct Peer {
    what: String,
    child: Option<Child>,
}

impl Peer {
    fn start(words: &[&str]) -> Self {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let what = format!("{words:?}");
        let child = command.spawn().unwrap_or_else(|error| panic!("{what} starts: {error}"));
        Self { what, child: Some(child) }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child().id()
    }

    fn has_ended(&self) -> bool {
        self.state() == "Z"
    }

    /// Stops it, wherever it is; it may have ended before.
    fn stop(&self) {
        tally::count(Trial::Stop);
        kill_process(pid_of(self.pid()), Signal::STOP).expect("it is our child, and we haven't waited for it");
        assert!(wait_until(PATIENCE, || matches!(self.state().as_str(), "T" | "Z")), "{} stops", self.what);
    }

    /// Kills it and waits for its end.
    pub(crate) fn dies(mut self) {
        tally::count(Trial::Kill);
        let mut child = self.child.take().expect("it is waited for once");
        child.kill().expect("it is our child");
        child.wait().expect("it is our child");
    }

    fn child(&self) -> &Child {
        self.child.as_ref().expect("it is there until it was waited for")
    }

    /// What `/proc` says that it does: `T` if it is stopped.
    fn state(&self) -> String {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child().id())).unwrap_or_default();
        let (_, fields) = stat.rsplit_once(") ").unwrap_or_default();
        fields.chars().take(1).collect()
    }

    /// Waits until it has stopped itself.
    #[track_caller]
    pub(crate) fn stops(self) -> Self {
        assert!(wait_until(PATIENCE, || matches!(self.state().as_str(), "T" | "Z")), "{} stops", self.what);
        assert_eq!(self.state(), "T", "{} stops before it ends", self.what);
        self
    }

    /// Waits until it sleeps between two looks at the lock.
    #[track_caller]
    pub(crate) fn waits(self) -> Self {
        assert!(wait_until(PATIENCE, || self.naps()), "{} waits for the lock", self.what);
        self
    }

    /// Does it sleep for a moment, as between two looks at a lock?
    pub(crate) fn naps(&self) -> bool {
        let call = fs::read_to_string(format!("/proc/{}/wchan", self.pid())).unwrap_or_default();
        call.contains("nanosleep") || call.contains("poll")
    }

    /// Lets it go on.
    pub(crate) fn resume(&self) {
        kill_process(pid_of(self.child().id()), Signal::CONT).expect("it is our child, and we haven't waited for it");
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn ends(mut self) -> Ending {
        assert!(wait_until(PATIENCE, || self.state() == "Z"), "{} ends", self.what);
        let output = self.child.take().expect("it is waited for once").wait_with_output().expect("it is our child");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ending { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    /// Lets it go on and waits for its end.
    #[track_caller]
    pub(crate) fn finishes(self) -> Ending {
        self.resume();
        self.ends()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// How a peer ended.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// An event that the native program doesn't know.
pub(crate) fn event_with(payload: &str) -> String {
    serde_json::json!({"type": "custom_event", "payload": payload}).to_string()
}

/// Dates a file, directory or link so many seconds from now.
pub(crate) fn date(path: &Path, secs: i64) {
    let at = Timespec { tv_sec: from_now(secs).as_second(), tv_nsec: 0 };
    let times = Timestamps { last_access: at, last_modification: at };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).expect("it is there and ours");
}
