//! The root's mutex: whoever keeps it is named, nobody waits for ever, and it is free the moment its holder dies.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lokt_testkit::cmd::Place;
use lokt_testkit::swarm::wait_until;

/// Somebody who keeps the mutex; killed when dropped.
pub(crate) struct Keeper(Child);

impl Keeper {
    pub(crate) fn of(place: &Place) -> Self {
        std::fs::create_dir_all(place.root()).expect("the test's own root");
        let ready = place.beside("ready");
        let script = format!("touch {}; exec sleep 60", ready.display());
        let child = Command::new("flock").arg(place.root()).args(["sh", "-c", &script]).stdin(Stdio::null()).spawn();
        let keeper = Self(child.expect("flock of util-linux runs"));
        assert!(wait_until(Duration::from_secs(10), || ready.exists()), "the keeper has the mutex");
        keeper
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().expect("kill runs").success());
    }

    /// flock's child inherits the lock; both must go.
    fn end(&mut self) {
        let pid = self.0.id().to_string();
        let _ = Command::new("pkill").args(["-KILL", "-P", &pid]).status();
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.end();
    }
}

fn place() -> Place {
    Place::new(env!("CARGO_BIN_EXE_lokt"))
}

#[test]
fn a_command_gives_up_after_five_seconds_and_names_who_keeps_the_mutex() {
    lokt_testkit::need!("pkill");
    let place = place();
    let mut keeper = Keeper::of(&place);
    let pid = keeper.0.id().to_string();
    let busy = place.run("a", &["lock", "x", "--json"]);
    assert_eq!(busy.code, Some(75), "busy is 75: {busy:?}");
    let answer: serde_json::Value = serde_json::from_str(&busy.stdout).expect("JSON also for failures");
    assert_eq!(answer["code"], "E_BUSY");
    let message = answer["message"].as_str().unwrap_or_default();
    assert!(message.contains(&format!("process {pid} ")), "the message names process {pid}: {message}");
    assert!(message.contains(&place.root().display().to_string()), "and the root: {message}");

    keeper.end();
    assert_eq!(place.run("a", &["lock", "x"]).code, Some(0), "crash-frees: the mutex is free when its holder is gone");
}

#[test]
fn a_stopped_keeper_is_named_with_the_command_that_lets_it_go_on() {
    let place = place();
    let keeper = Keeper::of(&place);
    keeper.signal("-STOP");
    let busy = place.run("a", &["unlock", "x"]);
    assert_eq!(busy.code, Some(75), "busy is 75: {busy:?}");
    let hint = format!("kill -CONT {}", keeper.0.id());
    assert!(busy.stderr.contains(&hint), "the message says what to do: {}", busy.stderr);
    keeper.signal("-CONT");
}

#[test]
fn commands_that_only_look_do_not_need_the_mutex() {
    let place = place();
    place.take("a", &["x"]);
    let _keeper = Keeper::of(&place);
    assert_eq!(place.run("b", &["status"]).code, Some(0));
    assert_eq!(place.run("b", &["status", "x"]).code, Some(0));
    assert_eq!(place.run("b", &["exists", "x"]).code, Some(0));
    assert_eq!(place.run("b", &["why", "x"]).code, Some(2));
}

#[test]
fn a_root_that_is_replaced_while_a_command_waits_is_noticed() {
    let place = place();
    let mut keeper = Keeper::of(&place);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| place.run("a", &["lock", "x"]));
        // The command has the old root open and waits for its mutex; then the root is moved away and made anew.
        let waits = || std::fs::read_to_string("/proc/locks").is_ok_and(|locks| locks.contains("-> FLOCK"));
        wait_until(Duration::from_secs(3), waits);
        assert!(Command::new("mv").arg(place.root()).arg(place.beside("old")).status().expect("mv runs").success());
        std::fs::create_dir_all(place.root()).expect("the test's own root");
        keeper.end();
        let ended = waiting.join().expect("it ran");
        assert_eq!(ended.code, Some(0), "it goes on in the new root: {ended:?}");
    });
    assert!(place.stored("x").is_some(), "the lock is in the root that the path names");
    assert!(!place.beside("old/locks/x.json").exists(), "and not in the one that was moved away");
}

#[test]
fn a_signal_that_comes_before_the_command_does_keeps_it_from_running() {
    lokt_testkit::need!("pkill");
    let place = place();
    let mut keeper = Keeper::of(&place);
    let ran = place.beside("ran");
    let words = place.words(&["guard", "x", "--", "touch", ran.to_str().expect("a plain path")]);
    let mut command = Command::new(words[0]);
    let mut guard = command.args(&words[1..]).envs(place.env("a")).spawn().expect("it runs");
    // It takes signals from its start, and is kept from the mutex.
    let status = format!("/proc/{}/status", guard.id());
    let blocks_term = || {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let mask = text.lines().find_map(|line| line.strip_prefix("SigBlk:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 << 14 != 0)
    };
    assert!(wait_until(Duration::from_secs(10), blocks_term), "the guard listens to signals");
    assert!(Command::new("kill").arg(guard.id().to_string()).status().expect("kill runs").success());
    keeper.end();
    let signal = guard.wait().expect("it is ours").signal();
    assert_eq!(signal, Some(15), "it died of the signal, as everybody does");
    assert!(!ran.exists(), "a command that nobody wants any more is not started");
    assert_eq!(place.stored("x"), None, "and the lock was given back");
}
