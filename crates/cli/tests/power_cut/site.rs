//! A file system whose power is cut, and the commands that run on it. Whatever is known of their answers is kept elsewhere.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lokt_testkit::mounted::{Mounted, Switch};
use lokt_testkit::swarm::{Ended, pause, put, wait_until};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use tempfile::TempDir;

pub(crate) const LOKT: &str = env!("CARGO_BIN_EXE_lokt");
/// xfs wants 300 at least.
const MEGABYTES: u32 = 320;
/// Who gets an error from everything it tries ends soon; a guard tries for longer, and is ended.
const FAREWELL: Duration = Duration::from_millis(700);
/// An empty file counts as being written for two seconds.
const BEING_WRITTEN: Duration = Duration::from_millis(2500);

/// Who is told to try again (75) does so that often: a disk that stands still for seconds is no mistake of those who wait for it, and each
/// waits for seconds itself.
const AGAIN_MAX: u32 = 20;

/// A command that hasn't ended by then hangs.
const COMMAND_SECS_MAX: &str = "300";

/// When a lock that says nothing is taken over, and a little more.
const LEFT_BEHIND: Duration = Duration::from_secs(31);
/// The same for what nobody announced anything with.
const FORGOTTEN: Duration = Duration::from_secs(61);

/// Why somebody stopped working.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The power is off. What was under way may have happened or not.
    Cut,
    /// A command did what it should not, with the power on.
    Wrong(String),
}

/// Do syncs happen?
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Syncs {
    Kept,
    /// They are answered, and not made: the planted fault.
    Skipped,
}

/// A command line.
pub(crate) struct Call<'a> {
    owner: &'a str,
    dir: PathBuf,
    words: Vec<String>,
    input: String,
}

impl<'a> Call<'a> {
    /// The words of `text`, at the top of the file system.
    pub(crate) fn new(owner: &'a str, text: &str) -> Self {
        Self {
            owner,
            dir: ".".into(),
            words: text.split_whitespace().map(str::to_owned).collect(),
            input: String::new(),
        }
    }

    /// One more word, with whatever is in it.
    pub(crate) fn word(mut self, word: impl Into<String>) -> Self {
        self.words.push(word.into());
        self
    }

    /// In this directory.
    pub(crate) fn within(mut self, dir: &str) -> Self {
        self.dir = dir.into();
        self
    }

    /// With this on standard input.
    pub(crate) fn input(mut self, text: String) -> Self {
        self.input = text;
        self
    }
}

/// The greatest token that anybody was given.
#[derive(Default)]
pub(crate) struct Highest(AtomicU64);

impl Highest {
    /// To be asked before a command is started.
    pub(crate) fn so_far(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// A new token must be greater than those that were known when it was asked for.
    pub(crate) fn given(&self, before: u64, token: u64, what: &str) -> Result<(), Stop> {
        self.note(token);
        if token > before {
            Ok(())
        } else {
            Err(Stop::Wrong(format!("token-order: {what} got {token} after {before}")))
        }
    }

    /// Somebody was given this one.
    pub(crate) fn note(&self, token: u64) {
        self.0.fetch_max(token, Ordering::SeqCst);
    }
}

/// A file system of a test's own, with the commands that run on it.
pub(crate) struct Site {
    /// Before the file system: as long as it stands by, that can't be taken down.
    switch: Mutex<Option<Switch>>,
    mounted: Mounted,
    /// Outside of it.
    notes: TempDir,
    syncs: Syncs,
    /// The boot that commands believe to be on, if it isn't the real one.
    boot: Option<PathBuf>,
    boots: u32,
    rebooted: bool,
    off: AtomicBool,
    running: Mutex<BTreeSet<u32>>,
    /// How often somebody was told to try again since that was asked.
    repeated: AtomicU64,
}

impl Site {
    /// A new file system.
    pub(crate) fn new(kind: &str) -> Self {
        let mounted = Mounted::image(kind, MEGABYTES);
        Self {
            switch: Mutex::new(Some(mounted.switch())),
            mounted,
            notes: tempfile::tempdir().expect("there is room for a temp directory"),
            syncs: Syncs::Kept,
            boot: None,
            boots: 0,
            rebooted: false,
            off: AtomicBool::new(false),
            running: Mutex::default(),
            repeated: AtomicU64::new(0),
        }
    }

    /// A path on it.
    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.mounted.at().join(path)
    }

    /// A path that no cut touches.
    pub(crate) fn outside(&self, path: &str) -> PathBuf {
        self.notes.path().join(path)
    }

    /// From now on syncs are made, or not.
    pub(crate) fn set_syncs(&mut self, syncs: Syncs) {
        self.syncs = syncs;
    }

    /// A lock of a ledger that a cut left without its bytes is taken over when it is half a minute old. That much time passes.
    pub(crate) fn age_ledger_lock(&self, dir: &str) -> bool {
        let lock = self.at(&format!("{dir}/ledger/ledger.lock"));
        let note = if lock.is_dir() { lock.join("holder.json") } else { lock.clone() };
        let left = lock.exists() && is_blank(&note);
        if left {
            age(&lock, LEFT_BEHIND);
        }
        left
    }

    /// An empty record counts as being written for a while: until then no doctor says anything about it.
    pub(crate) fn wait_for_blank_records(&self) {
        let listed = fs::read_dir(self.at("root/locks")).into_iter().flatten().flatten();
        if listed.map(|entry| entry.path()).any(|path| is_blank(&path)) {
            pause(BEING_WRITTEN);
        }
    }

    /// What somebody was at, without its bytes, is forgotten after a minute. That much time passes; gives how often.
    pub(crate) fn age_intents(&self, dir: &str) -> usize {
        let listed = fs::read_dir(self.at(&format!("{dir}/.jvs/intents"))).into_iter().flatten().flatten();
        let blank = listed.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|kind| kind == "json"));
        let blank: Vec<PathBuf> = blank.filter(|path| is_blank(path)).collect();
        for intent in &blank {
            age(&intent.with_extension("pulse"), FORGOTTEN);
        }
        blank.len()
    }

    /// Everything that is there becomes durable: for what the test itself puts there.
    pub(crate) fn sync(&self) {
        let synced = Command::new("sync").arg("-f").arg(self.mounted.at()).status();
        assert!(synced.is_ok_and(|status| status.success()), "a file system can be synced");
    }

    pub(crate) fn is_off(&self) -> bool {
        self.off.load(Ordering::SeqCst)
    }

    /// Did the machine reboot, as far as commands can tell, when the power came back?
    pub(crate) fn is_rebooted(&self) -> bool {
        self.rebooted
    }

    /// Cuts the power.
    pub(crate) fn cut_power(&self) {
        let switch = self.switch.lock().expect("no thread panicked with it").take().expect("the power is on");
        self.off.store(true, Ordering::SeqCst);
        switch.off();
    }

    /// Ends what still runs.
    pub(crate) fn end_all(&self) {
        let all_ended = || self.running.lock().expect("no thread panicked with it").is_empty();
        if wait_until(FAREWELL, all_ended) {
            return;
        }
        for pid in self.running.lock().expect("no thread panicked with it").iter() {
            let pid = Pid::from_raw(i32::try_from(*pid).expect("pids are small"));
            // It may have ended just now.
            let _ = kill_process_group(pid.expect("a child has a pid"), Signal::KILL);
        }
    }

    /// The power is back; on the same boot as far as commands can tell, or on another one.
    pub(crate) fn come_back(&mut self, rebooted: bool) {
        self.mounted.come_back();
        self.switch = Mutex::new(Some(self.mounted.switch()));
        self.rebooted = rebooted;
        if rebooted {
            self.boots += 1;
            let boot = self.outside(&format!("boot-{}", self.boots));
            put(&boot, format!("{:08x}-0000-4000-8000-00000000c0de\n", self.boots));
            self.boot = Some(boot);
        }
        self.off.store(false, Ordering::SeqCst);
    }

    /// How often somebody was told to try again since this was last asked.
    pub(crate) fn take_repeated(&self) -> u64 {
        self.repeated.swap(0, Ordering::SeqCst)
    }

    /// Runs a command to its end, and again if it is told to try again.
    pub(crate) fn run(&self, call: &Call) -> Ended {
        self.run_listening(call, |_| {})
    }

    /// The same. What the command says while it runs is heard line by line; what is said when the power is off isn't.
    pub(crate) fn run_listening(&self, call: &Call, mut hear: impl FnMut(&str)) -> Ended {
        for _ in 0..AGAIN_MAX {
            let ended = self.run_once(call, &mut hear);
            if ended.code != Some(75) || self.is_off() {
                return ended;
            }
            self.repeated.fetch_add(1, Ordering::SeqCst);
        }
        self.run_once(call, &mut hear)
    }

    fn run_once(&self, call: &Call, hear: &mut impl FnMut(&str)) -> Ended {
        let words = self.words(call);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).current_dir(self.mounted.at().join(&call.dir)).process_group(0);
        command.env("LOKT_ROOT", self.at("root")).env("LOKT_OWNER", call.owner);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = match command.spawn() {
            Ok(child) => child,
            // Its directory is on a file system without power.
            Err(error) => return Ended { code: None, stdout: String::new(), stderr: error.to_string() },
        };
        let pid = child.id();
        self.running.lock().expect("no thread panicked with it").insert(pid);
        let mut input = child.stdin.take().expect("it was asked for");
        // Whoever ended before reading has said why.
        let _ = input.write_all(call.input.as_bytes());
        drop(input);
        let mut said = BufReader::new(child.stdout.take().expect("it was asked for"));
        let mut stdout = Vec::new();
        let mut heard = 0;
        // What is said on stderr meanwhile is little, and fits into its pipe.
        while said.read_until(b'\n', &mut stdout).is_ok_and(|count| count > 0) {
            if !self.is_off() {
                hear(&String::from_utf8_lossy(&stdout[heard..]));
            }
            heard = stdout.len();
        }
        let output = child.wait_with_output().expect("a child can be waited for");
        self.running.lock().expect("no thread panicked with it").remove(&pid);
        Ended {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The command with everything around it.
    fn words(&self, call: &Call) -> Vec<String> {
        // It ends with this program, and long before anybody gives up waiting for that.
        let bounds = ["setpriv", "--pdeathsig", "TERM", "timeout", "--kill-after", "5", COMMAND_SECS_MAX];
        let mut words: Vec<String> = bounds.map(str::to_owned).to_vec();
        if self.syncs == Syncs::Skipped {
            let strace = "strace -f --seccomp-bpf -o /dev/null -e trace=fsync,fdatasync,syncfs,sync_file_range \
                -e inject=fsync,fdatasync,syncfs,sync_file_range:retval=0";
            words.extend(strace.split_whitespace().map(str::to_owned));
        }
        if let Some(boot) = &self.boot {
            let script = "mount --bind \"$0\" /proc/sys/kernel/random/boot_id && exec \"$@\"";
            words.extend(["unshare", "--mount", "sh", "-c", script].map(str::to_owned));
            words.push(boot.display().to_string());
        }
        words.push(LOKT.to_owned());
        words.extend(call.words.iter().cloned());
        words
    }

    /// Did a command say yes, before the power went? What is said later doesn't count: nobody would have heard it, and a file system that was
    /// stopped says things that one without power can't (xfs: that a directory is synced).
    pub(crate) fn judge(&self, call: &Call, ended: &Ended) -> Result<(), Stop> {
        match ended.code {
            _ if self.is_off() => Err(Stop::Cut),
            Some(0) => Ok(()),
            code => {
                let (said, beside) = (ended.stdout.trim(), ended.stderr.trim());
                Err(Stop::Wrong(format!("`{}` ended with {code:?}: {said} {beside}", call.words.join(" "))))
            }
        }
    }

    /// Runs a command, which must say yes, and gives its answer, which is JSON.
    pub(crate) fn answer(&self, call: &Call) -> Result<Value, Stop> {
        let ended = self.run(call);
        self.judge(call, &ended)?;
        serde_json::from_str(&ended.stdout).map_err(|error| Stop::Wrong(format!("{error} in {}", ended.stdout)))
    }

    /// The same where an empty file that a cut left may count as being written for a while.
    pub(crate) fn answer_soon(&self, call: &Call, record: &Path) -> Result<Value, Stop> {
        let empty = fs::metadata(record).is_ok_and(|about| about.len() == 0);
        if empty {
            pause(BEING_WRITTEN);
        }
        self.answer(call)
    }
}

/// Has a file lost its bytes, or is it not there?
fn is_blank(path: &Path) -> bool {
    fs::read(path).map_or(true, |bytes| bytes.iter().all(|byte| *byte == 0))
}

/// Makes a file older.
fn age(path: &Path, by: Duration) {
    let aged = fs::File::open(path).and_then(|file| file.set_modified(file.metadata()?.modified()? - by));
    aged.unwrap_or_else(|error| panic!("{} can be made older: {error}", path.display()));
}
