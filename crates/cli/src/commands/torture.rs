//! `lokt torture`: is this directory safe for locks, and how fast are they there?

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use lokt_core::duration;
use lokt_sys::signals::SignalQueue;
use lokt_torture::history::Percentiles;
use lokt_torture::{Ordeal, Orders, Tidings, Torture, work};
use serde::Serialize;

use super::torture_text;
use crate::exit::Exit;
use crate::machine;
use crate::progress::Progress;
use crate::report::{Failure, Format, Report};

/// Try out whether locks in a directory can be trusted, and how fast they are
#[derive(clap::Parser)]
#[command(
    after_help = "Processes fight for a few locks in a directory of their own in DIR, which is removed afterwards; some of them are \
    killed and stopped. What they did is judged: was anybody inside together with another, was an update lost, was a late write taken, did \
    tokens grow, was the line kept, can every lock be had when all are gone? Exit codes: 0 every promise held; 10 one was broken; 11 none was, but locks on that file system can't be trusted."
)]
pub(crate) struct Args {
    /// A directory on the file system in question
    #[arg(long, value_name = "DIR", default_value = ".", hide_default_value = true, value_hint = clap::ValueHint::DirPath)]
    dir: PathBuf,
    /// Another path to the same directory: half of the processes go that way
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    also: Option<PathBuf>,
    /// How many processes, from 2 to 256
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = parse_procs)]
    procs: usize,
    /// How long, up to a day: 10, 90s, 5m
    #[arg(long, value_name = "DURATION", default_value = "10", value_parser = parse_seconds)]
    seconds: Duration,
    /// Make the same choices again: who is killed and stopped when
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Leave the root and the history where they are
    #[arg(long)]
    keep: bool,
    /// Take no locks, to see what that looks like
    #[arg(long)]
    without_locks: bool,
    /// Fight in this directory, with these orders; for lokt's own use
    #[arg(long, hide = true, value_name = "ORDERS")]
    worker: Option<Orders>,
}

const PROCS_MAX: usize = 256;
const SECONDS_MAX: Duration = Duration::from_secs(86_400);

fn parse_procs(text: &str) -> Result<usize, String> {
    let procs = text.parse().ok().filter(|procs| (2..=PROCS_MAX).contains(procs));
    procs.ok_or_else(|| format!("not a number from 2 to {PROCS_MAX}"))
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    match duration::parse(text).map_err(|bad| bad.to_string())? {
        time if time.is_zero() => Err("that is no time at all; write 10, 90s or 5m".to_owned()),
        time if time > SECONDS_MAX => Err("longer than a day".to_owned()),
        time => Ok(time),
    }
}

#[derive(Serialize)]
struct Answer<'a> {
    status: &'static str,
    verdict: String,
    file_system: &'a str,
    mount_point: &'a str,
    dir: String,
    processes: usize,
    locks: bool,
    lasted_ms: u64,
    interrupted: bool,
    seed: u64,
    holds: u64,
    gave_up: u64,
    hand_offs: u64,
    killed: u64,
    stopped: u64,
    updates: u64,
    updates_refused: u64,
    overlaps: u64,
    lost_updates: u64,
    late_writes_taken: u64,
    tokens_out_of_order: u64,
    out_of_turn: u64,
    stuck: u64,
    untried: Vec<&'static str>,
    violations: &'a [String],
    errors: &'a [String],
    trusted: bool,
    warnings: Vec<&'a str>,
    notes: &'a [String],
    wait_ns: Nanos,
    hand_over_ns: Nanos,
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_over: Vec<String>,
}

#[derive(Serialize)]
struct Nanos {
    p50: u64,
    p90: u64,
    p99: u64,
    max: u64,
}

impl From<Percentiles> for Nanos {
    fn from(of: Percentiles) -> Self {
        Self { p50: of.p50, p90: of.p90, p99: of.p99, max: of.max }
    }
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    if let Some(orders) = &args.worker {
        let done = work(&args.dir, orders);
        return done.map(|()| Report::new(Exit::Done)).map_err(|error| Failure::io(error.to_string(), None));
    }
    let seed = match args.seed {
        Some(seed) => seed,
        None => random_seed().map_err(|error| Failure::io(format!("get random bits: {error}"), None))?,
    };
    let mut inbox = SignalQueue::open().map_err(|error| Failure::io(format!("listen to signals: {error}"), None))?;
    let torture = Torture {
        dir: &args.dir,
        also: args.also.as_deref(),
        procs: args.procs,
        time: args.seconds,
        seed,
        keep: args.keep,
        without_locks: args.without_locks,
        worker: &start_worker,
        rival: &super::doctor::start_rival,
    };
    let mut progress = Progress::new("seconds of torture");
    let ordeal = torture.run(&mut inbox, &mut |news| match news {
        Tidings::Lasted(lasted) => progress.step(lasted.as_secs(), args.seconds.as_secs()),
        Tidings::Dying(many) => progress.wait_for(|| torture_text::dying(many)),
    })?;
    drop(progress);
    let exit = exit(&ordeal, inbox.ended_by());
    let told = torture_text::Told { ordeal: &ordeal, procs: args.procs, seed, locks: !args.without_locks };
    let report = Report::new(exit);
    Ok(match format {
        Format::Json => report.json(&answer(args, &told)),
        Format::Text => report.text(told.to_string()).notes(torture_text::left_over(&ordeal)),
    })
}

/// Short enough to be typed.
fn random_seed() -> std::io::Result<u64> {
    Ok(u64::try_from(machine::random()? >> 96).unwrap_or(0))
}

fn exit(ordeal: &Ordeal, ended_by: Option<i32>) -> Exit {
    match ended_by {
        _ if ordeal.broken.count() > 0 => Exit::Broken,
        Some(number) if ordeal.interrupted => Exit::of_signal(number),
        _ if !ordeal.file_system.is_trusted() => Exit::Untrusted,
        _ => Exit::Done,
    }
}

/// This very program, wherever its file is by now.
fn start_worker(arena: &Path, orders: &Orders) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg("torture").arg("--dir").arg(arena).arg(format!("--worker={orders}"));
    command
}

fn answer<'a>(args: &Args, told: &torture_text::Told<'a>) -> Answer<'a> {
    let ordeal = told.ordeal;
    let (figures, broken) = (ordeal.figures(), &ordeal.broken);
    let findings = ordeal.file_system.check.findings.iter();
    let warnings = findings.filter(|finding| finding.status() != lokt_named::doctor::Status::Ok);
    Answer {
        status: match () {
            () if broken.count() > 0 => "broken",
            () if figures.holds == 0 => "untried",
            () if !ordeal.file_system.is_trusted() => "untrusted",
            () => "held",
        },
        verdict: told.verdict(),
        file_system: &ordeal.file_system.name,
        mount_point: &ordeal.file_system.mount_point,
        dir: args.dir.to_string_lossy().into_owned(),
        processes: args.procs,
        locks: told.locks,
        lasted_ms: u64::try_from(ordeal.lasted.as_millis()).unwrap_or(u64::MAX),
        interrupted: ordeal.interrupted,
        seed: told.seed,
        holds: figures.holds,
        gave_up: figures.gave_up,
        hand_offs: figures.hand_offs,
        killed: ordeal.blows.killed,
        stopped: ordeal.blows.stopped,
        updates: ordeal.updates.taken,
        updates_refused: ordeal.updates.refused,
        overlaps: broken.overlaps,
        lost_updates: broken.lost_updates,
        late_writes_taken: broken.late_writes,
        tokens_out_of_order: broken.tokens,
        out_of_turn: broken.out_of_turn,
        stuck: broken.stuck,
        untried: ordeal.untried(),
        violations: &broken.told,
        errors: &ordeal.errors,
        trusted: ordeal.file_system.is_trusted(),
        warnings: warnings.map(|finding| finding.message.as_str()).collect(),
        notes: &ordeal.file_system.notes,
        wait_ns: figures.wait.into(),
        hand_over_ns: figures.hand_over.into(),
        kept: ordeal.kept.as_ref().map(|path| path.to_string_lossy().into_owned()),
        left_over: ordeal.left_over.iter().map(|path| path.to_string_lossy().into_owned()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use lokt_named::doctor::FileSystem;
    use lokt_torture::Ordeal;
    use lokt_torture::history::{Deed, Entry};

    use super::{Args, answer, exit, parse_procs, parse_seconds, torture_text};
    use crate::exit::Exit;

    const NFS: u64 = 0x6969;

    /// What is said about a file system on which somebody got a lock and nothing was broken.
    fn held_on(file_system: FileSystem) -> (Exit, serde_json::Value, String) {
        let mut ordeal = Ordeal::new(file_system, Vec::new(), None);
        let entered = Deed::Entered { name: "hot".into(), token: Some(1), until: None };
        ordeal.judge(&[Entry { at: 1, who: 1, deed: entered }], Vec::new());
        let told = torture_text::Told { ordeal: &ordeal, procs: 2, seed: 7, locks: true };
        let json = serde_json::to_value(answer(&Args::parse_from(["torture"]), &told)).expect("it is JSON");
        (exit(&ordeal, None), json, told.to_string())
    }

    #[test]
    fn nfs_whose_locks_stay_on_this_machine_is_not_trusted_whatever_was_seen() {
        for (kind, options, word) in [
            ("nfs", "rw,vers=3,nolock", "nolock"),
            ("nfs4", "rw,local_lock=all", "local_lock"),
            ("nfs4", "rw,local_lock=none", "other machines"),
        ] {
            let (exit, json, text) = held_on(FileSystem::by_name(NFS, kind, "/mnt", options));
            assert_eq!(exit, Exit::Untrusted, "{kind} {options}");
            let verdict = format!(
                "{kind} at /mnt: every promise held among these processes, but locks there CAN'T BE TRUSTED; never tried: "
            );
            assert!(json["verdict"].as_str().is_some_and(|said| said.starts_with(&verdict)), "{json}");
            assert_eq!((&json["status"], &json["trusted"]), (&"untrusted".into(), &false.into()), "{json}");
            assert!(json["warnings"][0].as_str().is_some_and(|said| said.contains(word)), "{word:?}: {json}");
            assert!(text.contains(&format!("\n{verdict}")) && text.contains(word), "{word:?}: {text}");
            assert!(text.contains("  hint: set LOKT_ROOT"), "a way out: {text}");
        }
        let (exit, json, _) = held_on(FileSystem::by_name(0xef53, "ext4", "/", "rw"));
        assert_eq!((exit, &json["status"]), (Exit::Done, &"held".into()), "one kernel's own: {json}");
    }

    #[test]
    fn limits_are_said_in_words() {
        assert_eq!((parse_procs("2"), parse_procs("256")), (Ok(2), Ok(256)));
        for bad in ["1", "257", "-3", "x", ""] {
            assert_eq!(parse_procs(bad), Err("not a number from 2 to 256".to_owned()), "{bad}");
        }
        assert_eq!(parse_seconds("1m").map(|time| time.as_secs()), Ok(60));
        assert_eq!(parse_seconds("24h").map(|time| time.as_secs()), Ok(86_400));
        for bad in ["0", "25h", "-1", "x"] {
            assert!(parse_seconds(bad).is_err(), "{bad}");
        }
    }
}
