//! Argument types that several commands share.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueHint;
use lokt_core::duration;
use lokt_core::ledger::seq::Seq;
use lokt_core::name::LockName;
use lokt_sys::wait_policy::Timeout;

use crate::report::Failure;

/// `--root`, of every command that uses a lock root.
#[derive(clap::Args, Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct RootArg {
    /// Use the lock root in this directory, not the one that would be found
    #[arg(long = "root", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) root: Option<PathBuf>,
}

/// `--wait` and `--timeout` of a lock: waiters for a lock queue.
#[derive(clap::Args, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueArgs {
    /// Wait in line for it, for at most 10 minutes
    #[arg(long)]
    pub(crate) wait: bool,
    /// Wait in line for it, for at most this long; 0 tries once, `never` waits without a limit
    #[arg(long, value_name = "DURATION", value_parser = parse_timeout, allow_hyphen_values = true)]
    pub(crate) timeout: Option<Timeout>,
}

impl QueueArgs {
    /// The time to wait, if any.
    pub(crate) fn timeout(&self) -> Timeout {
        waiting_time(self.wait, self.timeout)
    }
}

/// `--wait` and `--timeout` of a claim or a lease.
#[derive(clap::Args)]
pub(crate) struct WaitArgs {
    /// Wait for it, for at most 10 minutes
    #[arg(long)]
    wait: bool,
    /// Wait for it, for at most this long; 0 tries once, `never` waits without a limit
    #[arg(long, value_name = "DURATION", value_parser = parse_timeout, allow_hyphen_values = true)]
    timeout: Option<Timeout>,
}

impl WaitArgs {
    /// The time to wait, if any.
    pub(crate) fn timeout(&self) -> Timeout {
        waiting_time(self.wait, self.timeout)
    }
}

/// `--quiet`, of every command that can be refused.
#[derive(clap::Args, Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QuietArg {
    /// Say nothing but errors and warnings: a refusal is in the exit code
    #[arg(short = 'q', long)]
    pub(crate) quiet: bool,
}

/// The command after `--`, of every command that runs one.
#[derive(clap::Args, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommandArg {
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// Checks a lock name before the first file is touched.
pub(crate) fn lock_name(text: &str) -> Result<LockName, Failure> {
    LockName::new(text).map_err(|bad| {
        let code = crate::exit::Exit::Usage;
        Failure::new(code, "E_BAD_NAME", format!("invalid lock name: {bad}")).hint(NAME_HINT)
    })
}

/// What a name looks like.
pub(crate) const NAME_HINT: &str =
    "a name has letters (A-Z, a-z), digits, dots, hyphens and underscores, at most 200, like `release-1.2`";

/// Checks a worktree's name before the first file is touched.
pub(crate) fn worktree_name(text: &str) -> Result<LockName, Failure> {
    LockName::new(text).map_err(|bad| {
        let leads_out = text.contains(['/', '\\']) || text.contains("..");
        let code = if leads_out { "E_PATH_ESCAPE" } else { "E_NAME_INVALID" };
        Failure::new(crate::exit::Exit::Usage, code, format!("invalid worktree name: {bad}")).hint(NAME_HINT)
    })
}

/// `--lease`, `--renew`, `--skew` and `--grace`, in milliseconds. What can be a lease's is the library's to say.
pub(crate) fn parse_millis(text: &str) -> Result<u64, String> {
    let time = duration::parse(text).map_err(|bad| bad.to_string())?;
    if !time.is_zero() && time.as_millis() == 0 {
        return Err("shorter than a millisecond".to_owned());
    }
    u64::try_from(time.as_millis()).map_err(|_| duration::BadDuration::TooLong.to_string())
}

/// `--ttl`: 0 is none.
pub(crate) fn parse_ttl(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|bad| match bad {
        duration::BadDuration::Negative => "TTL must be positive (e.g., 5m, 1h)".to_owned(),
        _ => bad.to_string(),
    })
}

/// `--timeout`: 0 is one look.
pub(crate) fn parse_timeout(text: &str) -> Result<Timeout, String> {
    if text == "never" {
        return Ok(Timeout::Never);
    }
    duration::parse(text).map(Timeout::After).map_err(|bad| match bad {
        duration::BadDuration::Negative => {
            "--timeout can't be negative (e.g., 5s, 1m, 0 to try once, never)".to_owned()
        }
        duration::BadDuration::Syntax => format!("{bad}; or `never`"),
        duration::BadDuration::TooLong => bad.to_string(),
    })
}

/// `--interval`
pub(crate) fn parse_interval(text: &str) -> Result<Duration, String> {
    match duration::parse(text) {
        Ok(interval) if !interval.is_zero() => Ok(interval),
        Ok(_) | Err(duration::BadDuration::Negative) => Err("--interval must be positive (e.g., 500ms, 5s)".to_owned()),
        Err(bad) => Err(bad.to_string()),
    }
}

/// How long to wait, if at all. `--timeout` implies `--wait`.
pub(crate) fn waiting_time(wait: bool, timeout: Option<Timeout>) -> Timeout {
    timeout.unwrap_or(if wait { lokt_sys::wait_policy::TIMEOUT.into() } else { Timeout::Once })
}

/// `--bind`
pub(crate) fn parse_pid(text: &str) -> Result<i64, String> {
    let pid = text.parse().ok().filter(|pid| *pid > 0);
    pid.ok_or_else(|| "not a process id, which is a number from 1; in a shell, $$ is the shell's own".to_owned())
}

/// `--poll`
pub(crate) fn parse_poll(text: &str) -> Result<Duration, String> {
    match duration::parse(text) {
        Ok(poll) if !poll.is_zero() => Ok(poll),
        Ok(_) | Err(duration::BadDuration::Negative) => Err("--poll must be positive (e.g., 10ms, 1s)".to_owned()),
        Err(bad) => Err(bad.to_string()),
    }
}

/// The number of an event; also `--token` of a claim, which is one.
pub(crate) fn parse_seq(text: &str) -> Result<Seq, String> {
    let seq = text.parse().ok().and_then(Seq::new);
    seq.ok_or_else(|| format!("not the number of an event, which is one from 1 to {}", Seq::MAX))
}

/// `--expect-seq` and `--after`: 0 stands before the first event.
pub(crate) fn parse_expect(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| *number <= Seq::MAX.get());
    number.ok_or_else(|| {
        format!("not the number of an event, which is one from 1 to {}; 0 is before the first", Seq::MAX)
    })
}

/// `--token`
pub(crate) fn parse_token(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| "not a fencing token, which is a number; `lokt status NAME` shows the current one".to_owned())
}

/// Seconds of a lease, rounded up; `None` for no lease.
pub(crate) fn lease_seconds(ttl: Option<Duration>) -> Option<u64> {
    ttl.filter(|ttl| !ttl.is_zero()).map(duration::whole_seconds)
}

/// `--token` of a lease.
pub(crate) fn parse_lease_token(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| "not a fencing token, which is a number; `lokt lease status` shows the current one".to_owned())
}
