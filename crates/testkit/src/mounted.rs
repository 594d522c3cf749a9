//! File systems that are made for a test and taken down whatever happens. They need the superuser, for the mounts, and fail without: a test
//! that can't run has shown nothing.

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

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

    /// Its root.
    pub fn at(&self) -> PathBuf {
        self.dir.path().join("at")
    }

    /// What the kernel calls it.
    pub fn kind(&self) -> String {
        let mounts = std::fs::read_to_string("/proc/self/mounts").expect("it is there");
        let at = self.at().display().to_string();
        let line = mounts.lines().find(|line| line.split(' ').nth(1) == Some(&at)).expect("it is mounted");
        line.split(' ').nth(2).expect("a mount has a kind").to_owned()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily: whatever a failed test left in there must not keep it. A loop device goes with its mount.
        let _ = Command::new("umount").arg("--lazy").arg(self.at()).status();
    }
}
