//! Work on snapshots that takes long: it shows how far it is, and a signal ends it without leaving anything behind.

use std::fs::{self, File};

use lokt_testkit::session::Start;
use rustix::process::{Pid, Signal, kill_process};

use crate::common::grove::Grove;
use crate::common::{Call, LOKT, Running, eventually, names_in, put};

/// A worktree with a file that takes minutes to read, and no space.
fn slow() -> Grove {
    let grove = Grove::new();
    let path = grove.top().join("main/huge");
    put(&path, "x");
    File::options().write(true).open(&path).and_then(|file| file.set_len(1 << 38)).expect("holes take no space");
    grove
}

fn has_begun(grove: &Grove) {
    eventually("it begins", || !names_in(&grove.inside("snapshots")).is_empty());
}

fn send(running: &Running, signal: Signal) {
    let pid = i32::try_from(running.pid()).ok().and_then(Pid::from_raw).expect("it has a pid");
    kill_process(pid, signal).expect("it runs");
}

#[test]
fn a_signal_ends_it_and_nothing_is_left() {
    for (signal, code, number) in [(Signal::INT, 130, 2), (Signal::TERM, 143, 15), (Signal::HUP, 129, 1)] {
        let grove = slow();
        let running = grove.lokt("alice").args(["snapshot", "create", "--acquire", "--json"]).start();
        has_begun(&grove);
        send(&running, signal);
        let said = running.wait().exits(code, "it was told to end");
        let json = said.json();
        assert_eq!((json["code"].as_str(), json["signal"].as_i64()), (Some("E_INTERRUPTED"), Some(number)), "{json}");
        for dir in ["snapshots", "descriptors", "intents"] {
            assert!(names_in(&grove.inside(dir)).is_empty(), "nothing is left in {dir}");
        }
        assert_eq!(grove.state("main"), "free", "the lease was given back");
    }
}

#[test]
fn it_says_so_in_a_word() {
    let grove = slow();
    let running = grove.lokt("alice").args(["snapshot", "create", "--acquire"]).start();
    has_begun(&grove);
    send(&running, Signal::TERM);
    let said = running.wait().exits(143, "it was told to end");
    assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("", "interrupted: there is no snapshot\n"));
}

#[test]
fn a_terminal_shows_how_far_it_is() {
    let grove = slow();
    for name in ["a", "b", "c"] {
        grove.put(&format!("main/{name}"), "small");
    }
    let (top, home) = (grove.top(), grove.home().to_string_lossy().into_owned());
    let words = vec![LOKT, "snapshot", "create", "--acquire"];
    let env = vec![("LOKT_OWNER", "alice".to_owned()), ("HOME", home), ("TERM", "xterm".to_owned())];
    let mut terminal = Start { words, env, dir: &top }.terminal(200);
    terminal.shows_after(0, "copying: 3 of 4 files, ");
    terminal.shows_after(0, " left");
    terminal.types("\x03");
    assert_eq!(terminal.ends(), 130, "Ctrl-C ends it");
    assert!(
        terminal.screen().ends_with("\r\x1b[Kinterrupted: there is no snapshot\r\n"),
        "the line is gone: {:?}",
        terminal.screen()
    );
    assert!(names_in(&grove.inside("snapshots")).is_empty(), "nothing is left");
}

/// Whoever waits for signals meanwhile is woken when the work is done. If it weren't, it would sleep on for an hour.
#[test]
fn a_wake_up_that_fails_once_does_not_keep_it() {
    lokt_testkit::need!("strace");
    let grove = Grove::new();
    grove.put("main/a", "text");
    let log = grove.top().join("strace.log");
    let inject = ["-e", "trace=write", "-e", "inject=write:error=ENOSPC:when=1", "-P", "anon_inode:[eventfd]"];
    let call = Call::new("timeout").args(["60", "strace", "-f", "-o"]).args([&log]).args(inject);
    let call = call
        .args([LOKT, "snapshot", "create", "--acquire"])
        .env("LOKT_OWNER", "alice")
        .env("HOME", grove.home())
        .cwd(&grove.top());
    call.run().exits(0, "it ends when its work is done");
    let told = fs::read_to_string(&log).expect("strace wrote it");
    assert!(told.contains("(INJECTED)"), "a wake-up failed: {told}");
}
