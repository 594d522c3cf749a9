//! File systems that are made for a test and taken down whatever happens. They need the superuser, for the mounts, and fail without: a test
//! that can't run has shown nothing.

use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::swarm::wait_until;

/// A file system whose last process has ended can be taken down at once.
const PATIENCE: Duration = Duration::from_secs(120);

/// Becomes this program again, given `words`, with mounts of its own. Comes back only if that can't be done.
///
/// Whoever gets a copy of all mounts (`unshare --mount`) keeps a file system that others have unmounted, and its device. Only this program's own
/// children get a copy of its mounts; and they go with the last of them, whatever ended it.
pub fn again_with_own_mounts<S: AsRef<std::ffi::OsStr>>(words: impl IntoIterator<Item = S>) -> io::Error {
    let this = match std::env::current_exe() {
        Ok(this) => this,
        Err(error) => return error,
    };
    Command::new("unshare").args(["--mount", "--propagation", "private"]).arg(this).args(words).exec()
}

/// A file system of the test's own, until this is dropped.
pub struct Mounted {
    dir: TempDir,
}

impl Mounted {
    /// Runs `script` in a new directory; it mounts something at `at`. `$1` is the file system.
    pub fn new(kind: &str, script: &str) -> Self {
        let mounted = Self { dir: tempfile::tempdir().expect("there is room for a temp directory") };
        let text = format!("set -e; mkdir at; {script}");
        let made = Command::new("sh").args(["-c", &text, "sh", kind]).current_dir(mounted.dir.path()).output();
        let made = made.expect("a shell runs");
        let why = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "{kind} can be made and mounted here; that needs root, and its tools: {why}");
        mounted
    }

    /// An image of so many megabytes, most of them holes, as a block device.
    pub fn image(kind: &str, megabytes: u32) -> Self {
        let make = "mkfs.\"$1\" -q image";
        Self::new(kind, &format!("truncate -s {megabytes}M image; {make}; mount -o loop -t \"$1\" image at"))
    }

    /// In memory.
    pub fn tmpfs() -> Self {
        Self::new("tmpfs", "mount -t tmpfs none at")
    }

    /// One directory over another.
    pub fn overlay() -> Self {
        Self::overlay_over("")
    }

    /// The same; `prepare` is a script that puts things into `lower` before.
    pub fn overlay_over(prepare: &str) -> Self {
        let mount = "mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work none at";
        Self::new("overlay", &format!("mkdir lower upper work; {prepare} {mount}"))
    }

    /// What is in its directory, the image above all, stays when this is dropped; it isn't mounted any longer then.
    #[must_use]
    pub fn keep(mut self) -> Self {
        self.dir.disable_cleanup(true);
        self
    }

    /// Its root.
    pub fn at(&self) -> PathBuf {
        self.dir.path().join("at")
    }

    /// A switch for the power of an image of ext4 or xfs.
    pub fn switch(&self) -> Switch {
        let words = ["--fifo", "1", "xfs_io", "-x", "at"];
        let mut command = Command::new("chrt");
        command.args(words).current_dir(self.dir.path());
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let child = child.unwrap_or_else(|error| panic!("chrt is needed for this test: {error}"));
        Switch { child, at: self.at() }
    }

    /// The power is back: the image is mounted again, and the file system replays its log. Nobody may use it meanwhile.
    pub fn come_back(&self) {
        let down = || self.tool("umount", &["at"]).status.success();
        assert!(wait_until(PATIENCE, down), "nobody uses {} any more", self.at().display());
        // As long as the old device is there, a second one would write to the same image.
        let gone = || self.tool("losetup", &["-j", "image"]).stdout.is_empty();
        assert!(wait_until(PATIENCE, gone), "nothing keeps the file system of {}", self.at().display());
        let up = self.tool("mount", &["-o", "loop", "image", "at"]);
        assert!(up.status.success(), "it can be mounted again: {}", String::from_utf8_lossy(&up.stderr));
    }

    fn tool(&self, program: &str, args: &[&str]) -> Output {
        let output = Command::new(program).args(args).current_dir(self.dir.path()).output();
        output.unwrap_or_else(|error| panic!("{program} is needed for this test: {error}"))
    }

    /// What the kernel calls it.
    pub fn kind(&self) -> String {
        let mounts = std::fs::read_to_string("/proc/self/mounts").expect("it is there");
        let at = self.at().display().to_string();
        let line = mounts.lines().find(|line| line.split(' ').nth(1) == Some(&at)).expect("it is mounted");
        line.split(' ').nth(2).expect("a mount has a kind").to_owned()
    }
}

/// Takes the power away from a file system at once: a program that stands by, before all others.
pub struct Switch {
    child: Child,
    at: PathBuf,
}

impl Switch {
    /// The file system stops in this moment, without writing what it has only in memory. Whoever uses it gets `EIO` from now on.
    pub fn off(mut self) {
        let mut words = self.child.stdin.take().expect("it was asked for");
        words.write_all(b"shutdown\nquit\n").expect("a switch listens");
        drop(words);
        let mut said = String::new();
        let (stdout, stderr) = (self.child.stdout.take(), self.child.stderr.take());
        // It ends with 0 also when the kernel refused.
        let _ = stdout.expect("it was asked for").read_to_string(&mut said);
        let _ = stderr.expect("it was asked for").read_to_string(&mut said);
        let status = self.child.wait().expect("it is our child");
        assert!(status.success() && said.is_empty(), "xfs_io stops it: {said}");
        assert!(std::fs::create_dir(self.at.join("with-power")).is_err(), "without power nothing can be made");
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        // One that nobody used keeps the file system.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily: whatever a failed test left in there must not keep it. A loop device goes with its mount.
        let _ = Command::new("umount").arg("--lazy").arg(self.at()).status();
    }
}
