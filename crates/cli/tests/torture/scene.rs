//! Where a run takes place: its directories, and what is prepared in them.
//!
//! Everything is below one directory, which is kept when something was found.
//!
//! | path | what |
//! | --- | --- |
//! | `history/` | what everybody did, one file for each slot of the traffic |
//! | `main/`, `mess/`, `fenced/`, `twin/` | wards: each has a root, and the first a ledger and worktrees |
//! | `yard/` | a lokt repository without `LOKT_ROOT`: its worktrees must find one root |
//! | `nest/` | a lokt repository whose root is inside the worktree that is restored |
//! | `.tmp…/at`, `.tmp…/image` | a small disk, which is one more ward with all of that; and what it is mounted from |
//! | `peers/` | other locks under the same load, with histories of their own |
//! | `registers/` | what the locks protect |
//! | `ends`, `struck` | how every command ended, and to which of them the nemesis did something |
//! | `freezes` | which lock was frozen from when to when |
//! | `troubles`, `clock` | what the nemesis did to single commands; where the moved clocks stand |
//! | `said` | what everybody had to say |

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lokt_testkit::mounted::Mounted;
use lokt_testkit::moved_clock;
use lokt_testkit::swarm::put;

use crate::ends::Ended;

/// The command.
pub(crate) const LOKT: &str = env!("CARGO_BIN_EXE_lokt");
/// So that processes of a run can be told from others.
pub(crate) const MARK: &str = "LOKT_TORTURE";
/// Names that are held as long as their holders live, and protect registers.
pub(crate) const LASTING: [&str; 3] = ["a", "b", "c"];
/// Names that are held for a second at a time.
pub(crate) const BRIEF: [&str; 2] = ["s", "t"];
/// Names whose files are damaged.
pub(crate) const MESSY: [&str; 2] = ["x", "y"];
/// Nodes that are claimed.
pub(crate) const NODES: [&str; 2] = ["n1", "n2"];
/// Worktrees whose leases are wanted; the last one is snapshotted.
pub(crate) const WORKTREES: [&str; 3] = ["w1", "w2", "snap"];
/// Directories of the yard from which its one root is used, below its base; the third is also a git repository.
pub(crate) const YARD: [&str; 4] = ["", "worktrees/w1", "worktrees/w2/below", "main"];
/// How large the disk is that is filled. The history isn't on it.
const DISK_MB: u32 = 48;

/// The directories, and what must go away with them.
pub(crate) struct Scene {
    /// Below it is everything.
    pub(crate) dir: PathBuf,
    /// The command with shared libraries, whose clock can be moved.
    pub(crate) dynamic: String,
    /// What moves it.
    pub(crate) preload: String,
    disk: Mounted,
}

impl Scene {
    /// Makes everything in `dir`. Whoever made that takes it away.
    pub(crate) fn new(dir: &Path, dynamic: &str) -> Self {
        let dir = dir.to_path_buf();
        // The small disk, too: whoever ends a run from outside knows where everything is.
        tempfile::env::override_temp_dir(&dir).expect("no temp directory was made before");
        for part in
            ["history", "registers", "strace", "scratch", "main", "mess", "fenced", "twin", "yard", "nest", "peers"]
        {
            fs::create_dir(dir.join(part)).expect("a temp directory is writable");
        }
        put(&dir.join("clock"), "+0");
        let scene = Self {
            dir,
            dynamic: dynamic.to_owned(),
            preload: moved_clock::library().to_owned(),
            // Whoever watches over the run takes everything away, if all is well.
            disk: Mounted::image("ext4", DISK_MB).keep(),
        };
        for ward in ["main", "disk", "nest", "yard"] {
            scene.expect(ward, &["worktree", "init"]);
            for worktree in WORKTREES {
                scene.expect(ward, &["worktree", "create", worktree]);
            }
            let link = scene.base(ward).join("worktrees").join(WORKTREES[WORKTREES.len() - 1]).join("link");
            std::os::unix::fs::symlink("part-0", link).expect("a new worktree is writable");
        }
        for ward in ["main", "disk"] {
            scene.expect(ward, &["ledger", "init"]);
        }
        scene.expect("fenced", &["worktree", "init"]);
        scene.furnish_yard();
        scene
    }

    /// A git repository in one of the yard's worktrees. It must not bring a second root.
    fn furnish_yard(&self) {
        let below = self.base("yard").join(YARD[2]);
        fs::create_dir(&below).expect("a new worktree is writable");
        let top = below.parent().expect("it was made in a worktree");
        let made = Command::new("git").args(["init", "-q"]).current_dir(top).status();
        assert!(made.is_ok_and(|status| status.success()), "git makes a repository");
    }

    /// The directory of a ward: its root is in it, its ledger and its repository are there.
    pub(crate) fn base(&self, ward: &str) -> PathBuf {
        if ward == "disk" { self.disk.at() } else { self.dir.join(ward) }
    }

    /// Runs the command in a ward, undisturbed.
    pub(crate) fn run(&self, ward: &str, args: &[&str]) -> Ended {
        run_in(&self.base(ward), "visitor", &[&[LOKT], args].concat(), &self.dir)
    }

    fn expect(&self, ward: &str, args: &[&str]) {
        let ended = self.run(ward, args);
        assert_eq!(ended.code, Some(0), "{ward} can be prepared: {args:?}: {ended:?}");
    }

    /// The moved clock moves, and not by chance: a hold of five minutes that is taken by it ends more than an hour from now.
    pub(crate) fn clock_moves(&self) -> bool {
        put(&self.dir.join("clock"), "+7200");
        let moved = moved_clock::by_file(&self.preload, &self.dir.join("clock"));
        let mut words: Vec<&str> = moved.iter().map(String::as_str).collect();
        words.extend([self.dynamic.as_str(), "lock", "probe", "--ttl", "5m", "--json"]);
        let ended = run_in(&self.base("mess"), "visitor", &words, &self.dir);
        let truth = run_in(&self.base("mess"), "visitor", &[LOKT, "lock", "truth", "--ttl", "1h", "--json"], &self.dir);
        for name in ["probe", "truth"] {
            self.run("mess", &["unlock", name]);
        }
        put(&self.dir.join("clock"), "+0");
        let end = |ended: &Ended| {
            let answer: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap_or_default();
            answer["expires_at"].as_str().unwrap_or_default().to_owned()
        };
        !end(&ended).is_empty() && end(&ended) > end(&truth)
    }
}

/// The value of `LOKT_ROOT` in a ward. The yard has none: there the root is found.
pub(crate) fn root_of(base: &Path) -> Option<PathBuf> {
    match base.file_name().and_then(|name| name.to_str()) {
        Some("yard") => None,
        Some("nest") => Some(base.join("worktrees").join(WORKTREES[WORKTREES.len() - 1]).join("deep/root")),
        _ => Some(base.join("root")),
    }
}

/// Sets up the environment of a command in a ward.
pub(crate) fn settle(command: &mut Command, base: &Path, owner: &str, mark: &Path) {
    command.env("LOKT_OWNER", owner).env(MARK, mark);
    for variable in ["LOKT_HOLDS", "GIT_DIR", "LOKT_ROOT"] {
        command.env_remove(variable);
    }
    if let Some(root) = root_of(base) {
        command.env("LOKT_ROOT", root);
    }
}

/// Runs a command line in the directory of a ward.
pub(crate) fn run_in(base: &Path, owner: &str, words: &[&str], mark: &Path) -> Ended {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(base);
    settle(&mut command, base, owner, mark);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap_or_else(|error| panic!("run {words:?}: {error}"));
    let pid = child.id();
    let output = child.wait_with_output().expect("it is our child");
    Ended {
        pid,
        code: output.status.code(),
        signal: output.status.signal(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
