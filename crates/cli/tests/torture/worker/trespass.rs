//! A command under a guard of one root that goes to another root, where a lock of the same name is held by somebody else, and
//! publishes there without naming a token. What it inherited is good in its own root alone.
//!
//! Small numbers of two roots are often the same. Here they always are: the number of the other root is put into the environment,
//! beside the lock id that the guard got.

use std::path::Path;
use std::process::{Command, Stdio};

use super::{Life, inherited};
use crate::ends::{self, Ended, Whose};
use crate::report;
use crate::scene::{LOKT, MARK, root_of};

/// Lists how each attempt ended.
pub(crate) const ATTEMPTS: &str = "trespasses";
/// The file that nobody may publish.
pub(crate) const TARGET: &str = "trespassed";

/// Tries it.
pub(super) fn run(life: &mut Life) {
    let there = life.dir.join("fenced");
    let root = root_of(&there).expect("that ward has a root of its own");
    let Some(token) = current_token(&root) else { return };
    let lock_id = inherited("LOKT_LOCK_ID").expect("a guard says which hold it has");
    let source = life.scratch("trespass", &life.owner());
    let target = there.join(TARGET).display().to_string();
    for words in [vec!["publish", "r", &source, &target], vec!["fence", "check", "r"]] {
        let mut command = Command::new(LOKT);
        command.args(&words).current_dir(&there).env("LOKT_ROOT", &root).env(MARK, &life.dir);
        command.env("LOKT_FENCING_TOKEN", token.to_string()).env("LOKT_HOLDS", format!("r={lock_id}:{token}"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().expect("a process can be started");
        let pid = child.id();
        let output = child.wait_with_output().expect("it is our child");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let ended = Ended { pid, code: output.status.code(), signal: None, stdout: String::new(), stderr };
        report::file(&life.dir.join(ATTEMPTS), &format!("{} {}", ended.code.unwrap_or(-1), words.join(" ")));
        if words[0] == "publish" {
            ends::note(&life.dir, Whose::Commands(life.who), "fenced", &words.join(" "), true, &ended);
        }
    }
    let _ = rustix::fs::unlink(&source);
    life.dwell(200);
}

/// The token of the hold that the other root has now.
fn current_token(root: &Path) -> Option<u64> {
    let bytes = std::fs::read(root.join("locks/r.json")).ok()?;
    serde_json::from_slice::<serde_json::Value>(&bytes).ok()?["fencing_token"].as_u64()
}
