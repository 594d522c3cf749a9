//! A storm: many real guards on one root for a while, some of them killed and stopped, and what must be true when it is over.
//!
//! Each guard runs a *section*: a program that adds one to a counter without any protection but the lock, and writes into a journal when it
//! begins and when it ends. A nemesis kills and stops guards and sections. Who was killed is known, so every section that has no end, and
//! every line that the audit log lacks, must be one of theirs.

mod verdict;

use std::collections::HashSet;
use std::fs::{self, File};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use lokt_sys::machine::{Linux, Machine as _};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use self::verdict::{Audit, judge_journal, judge_run};
use crate::cmd::Place;
use crate::dice::Dice;
use crate::judge::read_audit;
use crate::swarm::{Ended, pause, wait_until};
use crate::tally::{self, Trial};

/// The section. Whoever finds the witness locked looks who has it: a process that is on its way out of the kernel has done all it will do.
const SECTION: &str = r#"
use strict; use Fcntl qw(:flock :DEFAULT);
my ($dir, $dwell_ms) = @ARGV;
my @names = split /,/, $ENV{LOKT_NAME};
my @tokens = split /,/, $ENV{LOKT_FENCING_TOKEN};
sub note {
    my ($name, $line) = @_;
    sysopen(my $journal, "$dir/$name.journal", O_WRONLY | O_APPEND | O_CREAT) or die "journal: $!";
    syswrite($journal, "$line\n") or die "journal: $!";
}
sub text { my ($path) = @_; open(my $file, '<', $path) or return ''; local $/; return <$file> // ''; }
sub leaves {
    my ($pid) = @_;
    my $stat = text("/proc/$pid/stat") or return 1;
    $stat =~ s/.*\)//s;
    my @fields = split ' ', $stat;
    return @fields < 7 || $fields[0] =~ /[ZXx]/ || ($fields[6] & 4) != 0;
}
my (@witness, @counter, @value);
for my $i (0 .. $#names) {
    my ($name, $token) = ($names[$i], $tokens[$i]);
    note($name, "start $token $$");
    sysopen($witness[$i], "$dir/$name.witness", O_RDWR | O_CREAT) or die "witness: $!";
    until (flock($witness[$i], LOCK_EX | LOCK_NB)) {
        my $pid = (text("$dir/$name.witness") || 0) + 0;
        if ($pid && !leaves($pid)) { note($name, "overlap $token $pid"); last; }
        select(undef, undef, undef, 0.001);
    }
    sysseek($witness[$i], 0, 0); syswrite($witness[$i], sprintf("%-10d", $$));
    sysopen($counter[$i], "$dir/$name.counter", O_RDWR | O_CREAT) or die "counter: $!";
    my $digits = ''; sysread($counter[$i], $digits, 8); $value[$i] = ($digits || 0) + 0;
}
select(undef, undef, undef, $dwell_ms / 1000) if $dwell_ms > 0;
for my $i (0 .. $#names) {
    sysseek($counter[$i], 0, 0); syswrite($counter[$i], sprintf("%08d", $value[$i] + 1));
    note($names[$i], "end $tokens[$i] $value[$i]");
}
"#;

/// Whoever is ready to wait this long for sections of milliseconds gets its turn, unless somebody waits for ever.
const PATIENT_SECS: u64 = 60;
/// Stops are shorter than this.
const STOP_MS_MAX: u64 = 3_800;
/// When all should have ended, this is how long they have.
const LAST_WAIT: Duration = Duration::from_secs(PATIENT_SECS + 60);

/// What kind of storm.
pub struct Weather {
    /// How many guards at once.
    pub workers: usize,
    /// The names that they want.
    pub names: &'static [&'static str],
    /// How many of them each guard wants.
    pub at_once: RangeInclusive<u64>,
    /// Are guards and sections killed and stopped?
    pub nemesis: bool,
    /// For how long.
    pub lasts: Duration,
}

/// What happened in it.
#[derive(Debug, Default)]
pub struct Tally {
    /// Sections from beginning to end.
    pub sections: usize,
    /// Sections that were killed.
    pub cut_short: usize,
    /// Guards that were killed.
    pub guards_killed: usize,
    /// Guards and sections that were stopped.
    pub stops: usize,
    /// Guards that gave up.
    pub gave_up: usize,
    /// Guards that found the root busy (exit 75).
    pub busy: usize,
    /// Audit lines that died with their process.
    pub unwritten: usize,
}

/// A seed that nobody had before.
pub fn new_seed() -> u64 {
    let bits = Linux.random().expect("the kernel has random bits");
    u64::try_from(bits >> 96).expect("32 bits fit")
}

/// One run of a guard.
struct Ran {
    owner: String,
    names: Vec<&'static str>,
    patient: bool,
    code: Option<i32>,
    stderr: String,
}

/// A guard that runs now.
struct Target {
    owner: String,
    pid: u64,
    handle: OwnedFd,
}

/// Who was killed. Noted before the signal is sent.
#[derive(Default)]
struct Deaths {
    owners: HashSet<String>,
    sections: HashSet<u64>,
}

struct Storm<'a> {
    place: &'a Place,
    weather: &'a Weather,
    ends_ms: u64,
    targets: Vec<Mutex<Option<Target>>>,
    deaths: Mutex<Deaths>,
    stops: AtomicUsize,
    done: AtomicUsize,
}

/// Lets it storm. An error tells which promises were broken, and the seed.
pub fn storm(place: &Place, weather: &Weather, seed: u64) -> Result<Tally, String> {
    let now_ms = Linux.now().monotonic_ms;
    let storm = Storm {
        place,
        weather,
        ends_ms: now_ms + u64::try_from(weather.lasts.as_millis()).expect("a storm is short"),
        targets: (0..weather.workers).map(|_| Mutex::new(None)).collect(),
        deaths: Mutex::default(),
        stops: AtomicUsize::new(0),
        done: AtomicUsize::new(0),
    };
    let (runs, hung) = storm.rage(seed);
    let mut broken = hung;
    let tally = storm.aftermath(&runs, &mut broken);
    tally::add(Trial::Kill, tally.guards_killed + tally.cut_short);
    tally::add(Trial::Stop, tally.stops);
    broken.extend(sweep(place, weather.names));
    if broken.is_empty() { Ok(tally) } else { Err(format!("seed {seed}: {tally:?}\n{}", broken.join("\n"))) }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Storm<'_> {
    fn is_over(&self) -> bool {
        Linux.now().monotonic_ms >= self.ends_ms
    }

    /// All the runs, and what never ended by itself.
    fn rage(&self, seed: u64) -> (Vec<Ran>, Vec<String>) {
        let mut hung = Vec::new();
        let runs = thread::scope(|scope| {
            let workers: Vec<_> = (0..self.weather.workers)
                .map(|worker| {
                    let dice = Dice::new(seed ^ (worker as u64 + 1) << 32);
                    scope.spawn(move || self.work(worker, dice))
                })
                .collect();
            if self.weather.nemesis {
                scope.spawn(move || self.haunt(Dice::new(seed)));
            }
            let all_done = || self.done.load(Ordering::SeqCst) == self.weather.workers;
            if !wait_until(self.weather.lasts + LAST_WAIT, all_done) {
                hung.push("guards still wait, long after their patience".to_owned());
                for name in self.weather.names {
                    hung.push(self.place.run("witness", &["why", name]).stdout);
                }
                // Nothing may be left behind, whatever is wrong.
                while !wait_until(Duration::from_millis(200), all_done) {
                    for target in &self.targets {
                        if let Some(target) = &*locked(target) {
                            locked(&self.deaths).owners.insert(target.owner.clone());
                            let _ = pidfd_send_signal(target.handle.as_fd(), Signal::KILL);
                        }
                    }
                }
            }
            workers.into_iter().flat_map(|worker| worker.join().expect("a worker doesn't panic")).collect()
        });
        (runs, hung)
    }

    fn work(&self, worker: usize, mut dice: Dice) -> Vec<Ran> {
        let mut runs = Vec::new();
        while !self.is_over() {
            let owner = format!("w{worker}-{}", runs.len());
            let ran = self.run_guard(worker, owner, &mut dice);
            // Whoever may not wait comes again a little later.
            let refused = ran.code == Some(2);
            runs.push(ran);
            if refused {
                pause(Duration::from_millis(50 + dice.below(100)));
            }
        }
        self.done.fetch_add(1, Ordering::SeqCst);
        runs
    }

    fn run_guard(&self, worker: usize, owner: String, dice: &mut Dice) -> Ran {
        let count = dice.among(&self.weather.at_once);
        let names = dice.shuffled(self.weather.names, count);
        let dwell_ms = if dice.below(10) == 0 { dice.below(60) } else { dice.below(8) };
        // Nothing is stopped for anything like as long as a lease lasts, so none runs out.
        let ttl = ["", "", "30s", "60s"][dice.index(4)];
        let patience = match dice.below(20) {
            0..2 => None,
            2..5 => Some(format!("{}ms", 10 + dice.below(200))),
            _ => Some(format!("{PATIENT_SECS}s")),
        };
        let patient = patience.as_deref().is_some_and(|patience| !patience.ends_with("ms"));
        let complaints = self.place.beside(&format!("{worker}.stderr"));
        let dwell = dwell_ms.to_string();
        let dir = self.place.dir().display().to_string();
        let mut args = vec!["guard"];
        args.extend(&names);
        args.extend(if ttl.is_empty() { vec![] } else { vec!["--ttl", ttl] });
        args.extend(patience.iter().flat_map(|patience| ["--timeout", patience.as_str()]));
        args.extend(["--", "perl", "-e", SECTION, &dir, &dwell]);
        let words = self.place.words(&args);
        // Others have work to do on this machine, too.
        let mut command = Command::new("nice");
        command.args(["-n", "5"]).args(&words).envs(self.place.env(&owner)).current_dir(self.place.dir());
        command.env_remove("LOKT_HOLDS").stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(File::create(&complaints).expect("a temp directory is writable"));
        let mut child = command.spawn().expect("a guard can be started");
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a pid is a positive number");
        let handle = pidfd_open(pid, PidfdFlags::empty()).expect("it is our child and not waited for");
        *locked(&self.targets[worker]) = Some(Target { owner: owner.clone(), pid: child.id().into(), handle });
        let code = child.wait().expect("it is our child").code();
        *locked(&self.targets[worker]) = None;
        let stderr = fs::read_to_string(&complaints).unwrap_or_default();
        Ran { owner, names, patient, code, stderr }
    }

    /// Kills and stops.
    fn haunt(&self, mut dice: Dice) {
        let mut stopped = Stopped(Vec::new());
        while !self.is_over() {
            pause(Duration::from_millis(10 + dice.below(90)));
            stopped.go_on(Linux.now().monotonic_ms);
            if dice.below(16) == 0 {
                stopped.0.extend(self.make_orphan(&mut dice));
                continue;
            }
            let kills = dice.below(2) == 0;
            let handle = if dice.below(3) == 0 {
                self.some_guard(&mut dice, kills)
            } else {
                self.some_section(&mut dice).map(|(pid, handle)| {
                    if kills {
                        locked(&self.deaths).sections.insert(pid);
                    }
                    handle
                })
            };
            let Some(handle) = handle else { continue };
            if kills {
                let _ = pidfd_send_signal(handle.as_fd(), Signal::KILL);
            } else if pidfd_send_signal(handle.as_fd(), Signal::STOP).is_ok() {
                self.stops.fetch_add(1, Ordering::SeqCst);
                let for_ms = if dice.below(8) == 0 { dice.below(STOP_MS_MAX) } else { dice.below(300) };
                stopped.0.push((Linux.now().monotonic_ms + for_ms, handle));
            }
        }
    }

    /// Stops a section and kills its guard: nobody may enter, however long it takes until the section goes on.
    fn make_orphan(&self, dice: &mut Dice) -> Option<(u64, OwnedFd)> {
        let (pid, section) = self.some_section(dice)?;
        pidfd_send_signal(section.as_fd(), Signal::STOP).ok()?;
        self.stops.fetch_add(1, Ordering::SeqCst);
        let parent = parent_of(pid);
        for target in &self.targets {
            if let Some(target) = &*locked(target)
                && Some(target.pid) == parent
            {
                locked(&self.deaths).owners.insert(target.owner.clone());
                let _ = pidfd_send_signal(target.handle.as_fd(), Signal::KILL);
            }
        }
        Some((Linux.now().monotonic_ms + 1_200 + dice.below(1_500), section))
    }

    fn some_guard(&self, dice: &mut Dice, kills: bool) -> Option<OwnedFd> {
        let target = locked(&self.targets[dice.index(self.targets.len())]);
        let target = target.as_ref()?;
        if kills {
            locked(&self.deaths).owners.insert(target.owner.clone());
        }
        target.handle.try_clone().ok()
    }

    /// A section that runs. They are short, so it looks for a while.
    fn some_section(&self, dice: &mut Dice) -> Option<(u64, OwnedFd)> {
        let mut found = None;
        wait_until(Duration::from_millis(100), || {
            found = self.current_section(dice);
            found.is_some()
        });
        found
    }

    fn current_section(&self, dice: &mut Dice) -> Option<(u64, OwnedFd)> {
        let name = self.weather.names[dice.index(self.weather.names.len())];
        let pid = fs::read_to_string(self.place.beside(&format!("{name}.witness"))).ok()?;
        let pid: u64 = pid.trim().parse().ok()?;
        let handle = pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::empty()).ok()?;
        // What has our directory on its command line is ours; if the number was given to another process before that, the handle is dead.
        let ours = self.place.dir().display().to_string();
        let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        String::from_utf8_lossy(&words).contains(&ours).then_some(())?;
        Some((pid, handle))
    }

    /// What the journals, the counters and the audit log say.
    fn aftermath(&self, runs: &[Ran], broken: &mut Vec<String>) -> Tally {
        let deaths = locked(&self.deaths);
        let mut tally = Tally { stops: self.stops.load(Ordering::SeqCst), ..Tally::default() };
        // Sections of killed guards may still run: the last of the line waits for them.
        for name in self.weather.names {
            let last = run_last(self.place, &["guard", name, "--timeout", "60s", "--", "true"]);
            if last.code != Some(0) {
                broken.push(format!("crash-frees: the last guard gets {name}: {last:?}"));
            }
        }
        let history = match read_audit(&self.place.root()) {
            Ok(history) => history,
            Err(why) => {
                broken.push(format!("audited: the log is whole: {why}"));
                Vec::new()
            }
        };
        let audit = Audit::of(&history, &deaths.owners, broken);
        tally.unwritten = audit.unwritten;
        for ran in runs {
            judge_run(ran, &audit, &deaths.owners, &mut tally, broken);
        }
        for name in self.weather.names {
            let journal = fs::read_to_string(self.place.beside(&format!("{name}.journal"))).unwrap_or_default();
            let counter = fs::read_to_string(self.place.beside(&format!("{name}.counter"))).unwrap_or_default();
            let told = judge_journal(name, &journal, counter.trim().parse().unwrap_or(0), &deaths.sections);
            tally.sections += told.sections;
            tally.cut_short += told.cut_short;
            broken.extend(told.broken);
        }
        tally
    }
}

fn parent_of(pid: u64) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Processes that are stopped, and until when. They go on with the test at the latest.
struct Stopped(Vec<(u64, OwnedFd)>);

impl Stopped {
    fn go_on(&mut self, now_ms: u64) {
        self.0.retain(|(until, handle)| {
            let stays = *until > now_ms;
            if !stays {
                let _ = pidfd_send_signal(handle.as_fd(), Signal::CONT);
            }
            stays
        });
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.go_on(u64::MAX);
    }
}

/// Runs the command when the storm is over. Nobody is there to end it if it hangs.
fn run_last(place: &Place, args: &[&str]) -> Ended {
    let words = place.words(args);
    place.run_words("last", &[&["timeout", "--signal=KILL", "120"], words.as_slice()].concat())
}

/// What a storm leaves behind when the last guard has come and gone.
fn sweep(place: &Place, names: &[&str]) -> Vec<String> {
    let state = place.root().join("state");
    // Without it the next guard begins a new stretch of numbers, and looks what the dead have left.
    remove(&state.join("next"));
    for name in names {
        let last = run_last(place, &["guard", name, "--", "true"]);
        if last.code != Some(0) {
            return vec![format!("a name that nobody wants any more is free: {name}: {last:?}")];
        }
    }
    let dirs =
        [place.root().join("locks"), state.join("line"), state.join("held"), state.join("tmp"), state.join("aside")];
    let left = dirs.iter().flat_map(|dir| fs::read_dir(dir).into_iter().flatten().flatten());
    left.map(|entry| format!("nothing is left behind: {}", entry.path().display())).collect()
}

#[expect(clippy::disallowed_methods, reason = "a test takes away what a user would")]
fn remove(path: &Path) {
    let _ = fs::remove_file(path);
}
