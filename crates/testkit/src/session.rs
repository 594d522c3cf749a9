//! Processes in a session of their own, with a terminal or without one. None of them outlives the test, however it ends.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcgetpgrp, tcsetwinsize};

use crate::swarm::wait_until;

/// Nothing takes this long, unless it hangs.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How to start one.
pub struct Start<'a> {
    /// The program and its arguments.
    pub words: Vec<&'a str>,
    /// What is added to the environment.
    pub env: Vec<(&'a str, String)>,
    /// Where it runs. What it prints without a terminal is found there: `out` and `err`.
    pub dir: &'a Path,
}

impl Start<'_> {
    fn command(&self, flags: &[&str]) -> Command {
        let mut command = Command::new("setsid");
        command
            .args(flags)
            .args(&self.words)
            .current_dir(self.dir)
            .envs(self.env.iter().map(|(key, value)| (key, value)));
        command
    }

    /// Starts it without a terminal, with nothing to read.
    pub fn session(&self) -> Session {
        self.reading(Stdio::null())
    }

    /// Starts it without a terminal.
    pub fn reading(&self, stdin: impl Into<Stdio>) -> Session {
        let file = |name| File::create(self.dir.join(name)).expect("a test directory is writable");
        let mut command = self.command(&[]);
        command.stdin(stdin).stdout(file("out")).stderr(file("err"));
        Session { child: command.spawn().expect("setsid runs"), dir: self.dir.to_owned() }
    }

    /// Starts it as the leader of a terminal of its own.
    pub fn terminal(&self, columns: u16) -> Terminal {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
        grantpt(&controller).and_then(|()| unlockpt(&controller)).expect("it is ours");
        let user = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let user = ioctl_tiocgptpeer(&controller, user).expect("it was unlocked");
        let flags = fcntl_getfl(&controller).expect("it is open");
        fcntl_setfl(&controller, flags | OFlags::NONBLOCK).expect("it is open");
        set_columns(&controller, columns);
        let copy = || user.try_clone().expect("there are descriptors left");
        let mut command = self.command(&["--ctty"]);
        command.stdin(copy()).stdout(copy()).stderr(copy());
        let session = Session { child: command.spawn().expect("setsid runs"), dir: self.dir.to_owned() };
        Terminal { session, controller: Some(controller), screen: Vec::new() }
    }
}

/// Before anybody looks: whoever starts on a terminal without a size finds out the size that others take for usual.
fn set_columns(controller: impl AsFd, columns: u16) {
    let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(controller, size).expect("it is ours");
}

/// Processes without a terminal.
pub struct Session {
    child: Child,
    dir: PathBuf,
}

impl Session {
    /// The first one, which leads it.
    pub fn pid(&self) -> Pid {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a pid is a positive number")
    }

    /// Sends a signal to the first one.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("it is ours and runs");
    }

    /// What was printed by now.
    pub fn out(&self) -> String {
        std::fs::read_to_string(self.dir.join("out")).expect("it was made at the start")
    }

    /// What was said beside that by now.
    pub fn err(&self) -> String {
        std::fs::read_to_string(self.dir.join("err")).expect("it was made at the start")
    }

    /// How the first one ended, as a shell counts; `None` while it runs.
    pub fn code(&mut self) -> Option<i32> {
        let status = self.child.try_wait().expect("it is our child")?;
        Some(status.code().unwrap_or_else(|| 128 + status.signal().expect("it exited or died of a signal")))
    }

    /// Waits for the end of the first one.
    #[track_caller]
    pub fn ends(&mut self) -> i32 {
        let mut code = None;
        wait_until(PATIENCE, || {
            code = self.code();
            code.is_some()
        });
        code.unwrap_or_else(|| panic!("it ends\n--- stdout\n{}--- stderr\n{}---", self.out(), self.err()))
    }

    /// Everyone in it.
    fn members(&self) -> Vec<Pid> {
        let session = i64::from(self.child.id());
        let found = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = found.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        pids.filter(|pid| stat(*pid, 3) == Some(session)).filter_map(Pid::from_raw).collect()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        for pid in self.members() {
            let _ = kill_process(pid, Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A number in the state of a process, counted from the one after its name.
fn stat(pid: i32, nth: usize) -> Option<i64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(nth)?.parse().ok()
}

/// The state of a process, as `ps` shows it; `None` if it is gone.
pub fn state(pid: Pid) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// The process group of a process.
pub fn group(pid: Pid) -> Option<Pid> {
    stat(pid.as_raw_nonzero().get(), 2).and_then(|group| Pid::from_raw(i32::try_from(group).ok()?))
}

/// A process that left the session on purpose. It doesn't outlive the test either.
pub struct Stray(pub Pid);

impl Stray {
    /// Does it run?
    pub fn lives(&self) -> bool {
        test_kill_process(self.0).is_ok() && state(self.0) != Some('Z')
    }

    /// Ends it.
    pub fn kill(&self) {
        let _ = kill_process(self.0, Signal::KILL);
    }
}

impl Drop for Stray {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A terminal, and the processes on it.
pub struct Terminal {
    session: Session,
    controller: Option<OwnedFd>,
    screen: Vec<u8>,
}

impl Terminal {
    fn controller(&self) -> &OwnedFd {
        self.controller.as_ref().expect("nobody hung up")
    }

    /// The processes on it.
    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Somebody types.
    pub fn types(&mut self, keys: &str) {
        let written = rustix::io::write(self.controller(), keys.as_bytes()).expect("somebody reads");
        assert_eq!(written, keys.len(), "what is typed fits the terminal's buffer");
    }

    /// It gets another width.
    pub fn resize(&mut self, columns: u16) {
        set_columns(self.controller(), columns);
    }

    /// Does it collect lines and show what is typed, as a shell leaves it?
    pub fn is_cooked(&self) -> bool {
        let modes = tcgetattr(self.controller()).expect("it is ours").local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    /// The line is cut.
    pub fn hang_up(&mut self) {
        self.look();
        self.controller = None;
    }

    /// Which process group is in the foreground.
    pub fn foreground(&self) -> Option<Pid> {
        tcgetpgrp(self.controller()).ok()
    }

    /// All that was ever shown.
    pub fn screen(&mut self) -> String {
        self.look();
        String::from_utf8_lossy(&self.screen).into_owned()
    }

    fn look(&mut self) {
        let Some(controller) = &self.controller else { return };
        let mut buffer = [0_u8; 4096];
        while let Ok(read @ 1..) = rustix::io::read(controller, &mut buffer) {
            self.screen.extend_from_slice(&buffer[..read]);
        }
    }

    /// Waits until `text` is shown after the first `from` bytes of [`Self::screen`]. Gives the place after it.
    #[track_caller]
    pub fn shows_after(&mut self, from: usize, text: &str) -> usize {
        let mut place = None;
        wait_until(PATIENCE, || {
            place = self.screen()[from..].find(text);
            place.is_some()
        });
        let place = place.unwrap_or_else(|| panic!("{text:?} is shown; the screen: {:?}", &self.screen()[from..]));
        from + place + text.len()
    }

    /// Waits for the end of the first process on it.
    #[track_caller]
    pub fn ends(&mut self) -> i32 {
        let mut code = None;
        wait_until(PATIENCE, || {
            self.look();
            code = self.session.code();
            code.is_some()
        });
        self.look();
        code.unwrap_or_else(|| panic!("it ends; the screen: {:?}", self.screen()))
    }
}
