//! A root of its own per test, the real binary on it, and records as other programs write them.

pub(crate) mod desk;
pub(crate) mod exam;
pub(crate) mod grove;
pub(crate) mod guards;
pub(crate) mod jvs;
pub(crate) mod kinds;
pub(crate) mod ledgers;
pub(crate) mod page;
pub(crate) mod peers;
pub(crate) mod programs;
pub(crate) mod seen_twice;
pub(crate) mod stopped;
pub(crate) mod transcript;

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use jiff::{SignedDuration, Timestamp};
use lokt_testkit::tally::{self, Trial};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The binary under test.
pub(crate) const LOKT: &str = env!("CARGO_BIN_EXE_lokt");
/// No process has this pid: the kernel's limit is one below it.
pub(crate) const NO_PID: i64 = 4_194_304;
/// No command takes this long, unless it hangs. A busy mutex takes five seconds, a torture of 15 seconds about 25.
const DEADLINE: Duration = Duration::from_secs(50);
/// What would change the outcome if it leaked in from whoever runs the tests.
const VARIABLES: [&str; 22] = [
    "LOKT_EXIT_CONFLICT",
    "LOKT_ROOT",
    "LOKT_OWNER",
    "LOKT_AGENT_ID",
    "LOKT_HOLDS",
    "LOKT_CLAIM_NODE",
    "LOKT_CLAIM_TOKEN",
    "LOKT_LEDGER_DIR",
    "LOKT_SESSION",
    "LOKT_LEASE_WORKTREE",
    "LOKT_LEASE_TOKEN",
    "LOKT_LEASE_REPO",
    "LOKT_LEASE_REPO_ID",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
    "GIT_DIR",
    "GIT_COMMON_DIR",
    "GIT_CEILING_DIRECTORIES",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "HOME",
    "USER",
];

/// A root directory that doesn't exist yet, and goes away with the test.
pub(crate) struct Root {
    dir: TempDir,
}

impl Root {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("there is room for a temp directory") }
    }

    /// A root that has been used: its directories are there.
    pub(crate) fn used() -> Self {
        let root = Self::new();
        root.run("setup", "lock setup").exits(0, "a fresh root can be used");
        root.run("setup", "unlock setup").exits(0, "a lock can be given back");
        root
    }

    /// The directory around the root.
    pub(crate) fn outside(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    /// `lokt`, as `owner`, on this root.
    pub(crate) fn lokt(&self, owner: &str) -> Call {
        self.call(LOKT).env("LOKT_OWNER", owner)
    }

    /// Any program, beside this root; as owner `b`, if it runs `lokt`.
    pub(crate) fn call(&self, program: &str) -> Call {
        Call::new(program).env("LOKT_ROOT", self.path()).env("LOKT_OWNER", "b").cwd(self.outside())
    }

    /// Runs `lokt` with `words`, which are separated by spaces.
    pub(crate) fn run(&self, owner: &str, words: &str) -> Said {
        self.lokt(owner).args(words.split_whitespace()).run()
    }

    /// Where the record of `name` is.
    pub(crate) fn record_path(&self, name: &str) -> PathBuf {
        self.path().join(format!("locks/{name}.json"))
    }

    pub(crate) fn record_text(&self, name: &str) -> String {
        fs::read_to_string(self.record_path(name)).unwrap_or_else(|error| panic!("{name} has a record: {error}"))
    }

    pub(crate) fn record(&self, name: &str) -> Value {
        serde_json::from_str(&self.record_text(name)).expect("a record is JSON")
    }

    pub(crate) fn has_record(&self, name: &str) -> bool {
        fs::symlink_metadata(self.record_path(name)).is_ok()
    }

    /// Puts a record where a lock's is.
    pub(crate) fn put_record(&self, name: &str, record: &Value) {
        self.put(&format!("locks/{name}.json"), record.to_string());
    }

    /// Puts a record where a freeze's is.
    pub(crate) fn put_freeze(&self, name: &str, record: &Value) {
        self.put(&format!("freezes/{name}.json"), record.to_string());
    }

    /// Puts a file below the root.
    pub(crate) fn put(&self, path: &str, bytes: impl AsRef<[u8]>) {
        put(&self.path().join(path), bytes);
    }

    /// Changes the text of a record in place, as an editor would.
    pub(crate) fn edit(&self, name: &str, from: &str, to: &str) {
        let text = self.record_text(name);
        assert!(text.contains(from), "{from} is in the record: {text}");
        self.put(&format!("locks/{name}.json"), text.replace(from, to));
    }

    /// All events, in order.
    pub(crate) fn audit(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.path().join("audit.log")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("an audit line is JSON")).collect()
    }

    /// The events about `name`.
    pub(crate) fn audit_of(&self, name: &str) -> Vec<Value> {
        self.audit().into_iter().filter(|event| event["name"] == name).collect()
    }

    /// What happened to `name`.
    pub(crate) fn events_of(&self, name: &str) -> Vec<String> {
        let events = self.audit_of(name);
        events.iter().map(|event| event["event"].as_str().expect("an event has a name").to_owned()).collect()
    }

    /// Everything that was moved aside.
    pub(crate) fn aside(&self) -> Vec<PathBuf> {
        names_in(&self.path().join("state/aside"))
    }

    /// Every path below the root, with what is there: equal snapshots mean that nothing changed.
    pub(crate) fn snapshot(&self) -> Vec<(PathBuf, String)> {
        let mut found = Vec::new();
        walk(&self.path(), &mut found);
        found
    }
}

fn walk(path: &Path, found: &mut Vec<(PathBuf, String)>) {
    let Ok(meta) = fs::symlink_metadata(path) else { return };
    let kind = meta.file_type();
    let content = if kind.is_file() {
        format!("{:?}", fs::read(path).expect("it is there"))
    } else if kind.is_fifo() || kind.is_socket() || kind.is_symlink() {
        format!("{kind:?}")
    } else {
        String::new()
    };
    found.push((path.to_owned(), format!("{:o} {}", meta.mode(), content)));
    if kind.is_dir() {
        for child in names_in(path) {
            walk(&child, found);
        }
    }
}

/// The paths in a directory, sorted; none if there is no such directory.
pub(crate) fn names_in(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("it can be listed").path()).collect();
    paths.sort();
    paths
}

/// Writes a file, making the directories above it.
#[expect(clippy::disallowed_methods, reason = "a fixture is written in place on purpose, as an editor would")]
pub(crate) fn put(path: &Path, bytes: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().expect("a file is in a directory")).expect("a temp directory is writable");
    fs::write(path, bytes).expect("a temp directory is writable");
}

/// Removes a file.
#[expect(clippy::disallowed_methods, reason = "a test takes away what a user would")]
pub(crate) fn remove(path: &Path) {
    fs::remove_file(path).unwrap_or_else(|error| panic!("{} can be removed: {error}", path.display()));
}

pub(crate) fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
}

/// The permission bits.
pub(crate) fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap_or_else(|error| panic!("{} is there: {error}", path.display())).mode() & 0o777
}

/// One call of a program.
pub(crate) struct Call {
    command: Command,
}

impl Call {
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        let mut command = Command::new(program);
        for name in VARIABLES {
            command.env_remove(name);
        }
        command.stdin(Stdio::null());
        Self { command }
    }

    #[must_use]
    pub(crate) fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(args);
        self
    }

    #[must_use]
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    #[must_use]
    pub(crate) fn env_remove(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    #[must_use]
    pub(crate) fn cwd(mut self, dir: &Path) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// Lets it read this file.
    #[must_use]
    pub(crate) fn reads(mut self, path: &Path) -> Self {
        self.command.stdin(File::open(path).expect("it is there"));
        self
    }

    /// Starts it; [`Running::wait`] gives its answer.
    pub(crate) fn start(mut self) -> Running {
        self.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        self.begin()
    }

    fn begin(mut self) -> Running {
        let what = format!("{:?}", self.command);
        let child = self.command.spawn().unwrap_or_else(|error| panic!("{what} starts: {error}"));
        let pid = child.id();
        // Our own end of what it writes to.
        drop(self);
        let (send, done) = mpsc::channel();
        thread::spawn(move || send.send(child.wait_with_output()));
        Running { what, pid, done }
    }

    /// Starts it with this as its stderr.
    pub(crate) fn says_to(mut self, stderr: OwnedFd) -> Running {
        self.command.stdout(Stdio::piped()).stderr(Stdio::from(stderr));
        self.begin()
    }

    /// Starts it with this as its stdout.
    pub(crate) fn answers_to(mut self, stdout: OwnedFd) -> Running {
        self.command.stdout(Stdio::from(stdout)).stderr(Stdio::piped());
        self.begin()
    }

    /// Runs it to its end.
    pub(crate) fn run(self) -> Said {
        self.start().wait()
    }

    /// Runs it to its end for nothing but its exit code; `None` if a signal ended it.
    pub(crate) fn code(mut self) -> Option<i32> {
        self.command.status().expect("it starts").code()
    }
}

/// A call that hasn't been waited for.
pub(crate) struct Running {
    what: String,
    pid: u32,
    done: mpsc::Receiver<std::io::Result<Output>>,
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Has it ended? A zombie has.
    pub(crate) fn has_ended(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        stat.rsplit_once(')').is_none_or(|(_, fields)| fields.starts_with(" Z"))
    }

    /// Does it sleep in `poll`, as whoever waits for a signal too?
    pub(crate) fn sleeps(&self) -> bool {
        let call = fs::read_to_string(format!("/proc/{}/wchan", self.pid)).unwrap_or_default();
        call.contains("poll")
    }

    pub(crate) fn wait(self) -> Said {
        let Ok(output) = self.done.recv_timeout(DEADLINE) else {
            let _ = kill_process(pid_of(self.pid), Signal::KILL);
            panic!("{} ends within {DEADLINE:?}", self.what);
        };
        let output = output.expect("a child can be waited for");
        let text = |bytes| String::from_utf8(bytes).expect("lokt speaks UTF-8");
        let (stderr, created) = without_creation(&text(output.stderr));
        let said = Said {
            what: self.what,
            // Like a shell: a program that died of a signal, as a panic or an overflow makes it, has no code of its own.
            code: output.status.code().unwrap_or_else(|| {
                use std::os::unix::process::ExitStatusExt as _;
                128 + output.status.signal().expect("it exited or died of a signal")
            }),
            stdout: text(output.stdout),
            stderr,
            created,
        };
        assert!(!said.stderr.contains("panicked at"), "no input makes lokt panic{said}");
        let mut printed = said.stdout.chars().chain(said.stderr.chars());
        assert!(
            printed.all(|c| c == '\n' || !c.is_control()),
            "nothing that is printed moves a cursor: {:?}",
            said.stderr
        );
        said
    }
}

/// What a call said.
pub(crate) struct Said {
    what: String,
    pub(crate) code: i32,
    pub(crate) stdout: String,
    /// Without the note about a new root: nearly every test makes one.
    pub(crate) stderr: String,
    /// The root that it says it has created.
    pub(crate) created: Option<PathBuf>,
}

/// What begins the note about a new root.
pub(crate) const CREATED: &str = "note: created a new lock root: ";

/// What was said, without the note about a new root; and the root's path.
fn without_creation(stderr: &str) -> (String, Option<PathBuf>) {
    let (notes, rest): (Vec<&str>, Vec<&str>) =
        stderr.split_inclusive('\n').partition(|line| line.starts_with(CREATED));
    let path = |note: &&str| PathBuf::from(note.trim_end().trim_start_matches(CREATED));
    assert!(notes.len() <= 1, "a root is created once: {stderr}");
    (rest.concat(), notes.first().map(path))
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n  {}\n  exit {}\n--- stdout\n{}--- stderr\n{}---", self.what, self.code, self.stdout, self.stderr)
    }
}

impl Said {
    /// It exited with `code`; otherwise `sentence` is false.
    #[track_caller]
    pub(crate) fn exits(self, code: i32, sentence: &str) -> Self {
        assert_eq!(self.code, code, "{sentence}{self}");
        self
    }

    /// `text` is on stdout.
    #[track_caller]
    pub(crate) fn says(self, text: &str, sentence: &str) -> Self {
        assert!(self.stdout.contains(text), "{sentence}: {text:?} is on stdout{self}");
        self
    }

    /// `text` is on stderr.
    #[track_caller]
    pub(crate) fn notes(self, text: &str, sentence: &str) -> Self {
        assert!(self.stderr.contains(text), "{sentence}: {text:?} is on stderr{self}");
        self
    }

    /// The one JSON value on stdout.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("stdout is one JSON value: {error}{self}"))
    }

    /// The members of the JSON object on stdout, in order.
    #[track_caller]
    pub(crate) fn members(&self) -> Vec<String> {
        members(&self.stdout)
    }

    /// The failure object: its code, with a message and a hint.
    #[track_caller]
    pub(crate) fn failure(&self) -> String {
        let json = self.json();
        assert_eq!(json["status"], "error", "a failure says so{self}");
        assert!(json["message"].as_str().is_some_and(|text| !text.is_empty()), "a failure has a message{self}");
        assert!(json["hint"].as_str().is_some_and(|text| !text.is_empty()), "a failure has a hint{self}");
        json["code"].as_str().unwrap_or_else(|| panic!("a failure has a code{self}")).to_owned()
    }
}

/// The members of the outermost object of an indented JSON text, in order.
pub(crate) fn members(text: &str) -> Vec<String> {
    let outer = text.lines().filter_map(|line| line.strip_prefix("  \""));
    outer.map(|line| line.split('"').next().expect("split gives at least one").to_owned()).collect()
}

pub(crate) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

pub(crate) fn now() -> Timestamp {
    let at = clock_gettime(ClockId::Realtime);
    Timestamp::new(at.tv_sec, i32::try_from(at.tv_nsec).expect("below 10^9")).expect("the clock shows this century")
}

/// So many seconds from now, or before now.
pub(crate) fn from_now(secs: i64) -> Timestamp {
    now().checked_add(SignedDuration::from_secs(secs)).expect("the clock shows this century")
}

/// The member of a record or answer that is a time.
#[track_caller]
pub(crate) fn time(value: &Value) -> Timestamp {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{value} is a time"))
}

/// Seconds from one member to another.
#[track_caller]
pub(crate) fn seconds_between(from: &Value, to: &Value) -> f64 {
    time(to).duration_since(time(from)).as_secs_f64()
}

/// A record as the Go program writes it: taken a minute ago by `owner` on this host, by a process that has ended.
pub(crate) fn go_record(name: &str, owner: &str) -> Value {
    json!({
        "version": 1,
        "name": name,
        "lock_id": "0123456789abcdef0123456789abcdef",
        "owner": owner,
        "host": host(),
        "pid": NO_PID,
        "pid_start_ns": 4711,
        "agent_id": "agent-beef",
        "acquired_ts": from_now(-60).to_string(),
    })
}

/// The same with a lease of `ttl_sec` that ends `left` seconds from now.
pub(crate) fn go_lease(name: &str, owner: &str, ttl_sec: i64, left: i64) -> Value {
    let mut record = go_record(name, owner);
    record["acquired_ts"] = from_now(left - ttl_sec).to_string().into();
    record["ttl_sec"] = ttl_sec.into();
    record["expires_at"] = from_now(left).to_string().into();
    record
}

/// The same, taken on a machine that can't be asked about its processes.
pub(crate) fn elsewhere(mut record: Value) -> Value {
    record["host"] = "elsewhere.example".into();
    record
}

/// The same, with a process that lives: this one.
pub(crate) fn alive(mut record: Value) -> Value {
    record["pid"] = std::process::id().into();
    record["pid_start_ns"] = start_of(std::process::id()).into();
    record
}

/// When a process started, in clock ticks since boot.
pub(crate) fn start_of(pid: u32) -> i64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let (_, fields) = stat.rsplit_once(')').expect("the command is in parentheses");
    fields.split_whitespace().nth(19).and_then(|start| start.parse().ok()).expect("field 22 is a number")
}

pub(crate) fn pid_of(pid: u32) -> Pid {
    i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a pid is a positive number")
}

/// A process to bind a lock to. It ends with the test at the latest.
pub(crate) struct Sleeper(Child);

impl Sleeper {
    pub(crate) fn new() -> Self {
        let child = Command::new("sleep").arg("600").stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        Self(child.expect("sleep can be started"))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Kills it and lets it be a zombie.
    pub(crate) fn kill(&mut self) {
        tally::count(Trial::Kill);
        self.0.kill().expect("it is ours");
        // The kill has arrived when the state says so.
        let pid = self.pid();
        eventually("a killed process becomes a zombie", || {
            fs::read_to_string(format!("/proc/{pid}/stat"))
                .is_ok_and(|stat| stat.rsplit_once(')').is_some_and(|(_, fields)| fields.starts_with(" Z")))
        });
    }

    /// Kills it and takes note, so that the pid is free.
    pub(crate) fn end(&mut self) {
        tally::count(Trial::Kill);
        self.0.kill().expect("it is ours");
        self.0.wait().expect("it is our child");
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A pulse: the file of a process that waits or holds, locked for as long as it lives.
pub(crate) struct Pulse(File);

impl Pulse {
    /// The pulse of a process that holds a lock.
    pub(crate) fn holding(root: &Root, number: u64, owner: &str, pid: u32) -> Self {
        Self::at(&root.path().join(format!("state/held/{number}")), owner, pid)
    }

    fn at(path: &Path, owner: &str, pid: u32) -> Self {
        let process = json!({"pid": pid, "start": start_of(pid)});
        let since = now().to_string();
        put(path, json!({"version": 1, "owner": owner, "process": process, "since": since}).to_string());
        let file = File::open(path).expect("it was just made");
        flock(&file, FlockOperation::NonBlockingLockExclusive).expect("nobody else knows it");
        Self(file)
    }

    /// Somebody in the line of `name`: this process.
    pub(crate) fn waiting(root: &Root, name: &str, owner: &str) -> Self {
        Self::at(&root.path().join(format!("state/line/{name}/1")), owner, std::process::id())
    }

    /// Device and inode, by which a record knows it.
    pub(crate) fn id(&self) -> (u64, u64) {
        let meta = self.0.metadata().expect("it is open");
        (meta.dev(), meta.ino())
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        // Closing isn't enough: what another test is starting at this moment may have inherited it.
        flock(&self.0, FlockOperation::Unlock).expect("it is ours");
    }
}

/// Looks until it is true, for at most a minute.
#[track_caller]
pub(crate) fn eventually(sentence: &str, is_true: impl Fn() -> bool) {
    for _ in 0..12_000 {
        if is_true() {
            return;
        }
        thread::park_timeout(Duration::from_millis(5));
    }
    panic!("{sentence}, within a minute");
}

/// Makes a file look as if it had last been written in 2001.
pub(crate) fn make_old(path: &Path) {
    let file = File::options().write(true).open(path).expect("it is there");
    file.set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000_000)).expect("it is ours");
}
