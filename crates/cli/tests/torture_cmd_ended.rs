//! `lokt torture` that somebody ends before its time: it says what was seen by then, and leaves nothing behind.

use std::fs;
use std::path::Path;

use lokt_testkit::session::Start;
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Call, LOKT, Running, eventually, names_in};
use crate::torture_cmd::{fights, long_ago, nothing_is_left_in, processes_in, ring, temp, torture};

fn send(running: &Running, signal: Signal) {
    let pid = i32::try_from(running.pid()).ok().and_then(Pid::from_raw).expect("it has a pid");
    kill_process(pid, signal).expect("it runs");
}

/// Somebody was let in, told so, and has changed a number since.
fn has_updates(dir: &Path) -> bool {
    names_in(dir)
        .iter()
        .flat_map(|arena| names_in(arena))
        .any(|name| name.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"count-")))
}

#[test]
fn a_signal_ends_it_and_nothing_is_left() {
    let _ring = ring();
    for (signal, code, json) in [(Signal::INT, 130, ""), (Signal::TERM, 143, " --json"), (Signal::HUP, 129, "")] {
        let dir = temp();
        let running = torture(dir.path(), &format!("--seconds 1m --procs 3{json}")).start();
        fights(dir.path(), 3);
        eventually("somebody was inside", || has_updates(dir.path()));
        send(&running, signal);
        let said = running.wait().exits(code, "it was told to end");
        let said = said.says("every promise held, until it was interrupted", "what was seen by then is told");
        if !json.is_empty() {
            let told = said.json();
            assert_eq!((&told["interrupted"], &told["status"]), (&true.into(), &"held".into()), "{told}");
            let untried = told["untried"].to_string();
            assert!(untried.contains("asking when all are gone"), "nobody asks for a minute after Ctrl-C: {told}");
        }
        nothing_is_left_in(dir.path());
    }
}

#[test]
fn one_that_is_interrupted_before_anybody_got_a_lock_says_that_nothing_was_tried() {
    let _ring = ring();
    let dir = temp();
    for (words, without) in [("", ""), (" --without-locks", " (without locks)")] {
        // Its directory is there before its processes are. If this test is too slow for that, it tries once more.
        let interrupted = || {
            let running = torture(dir.path(), &format!("--seconds 1m --procs 2 --json{words}")).start();
            eventually("it has begun", || !names_in(dir.path()).is_empty());
            send(&running, Signal::INT);
            running.wait()
        };
        let mut said = interrupted();
        for _ in 1..20 {
            if said.json()["holds"] == 0 {
                break;
            }
            said = interrupted();
        }
        let told = said.exits(130, "it was told to end").json();
        assert_eq!((&told["holds"], &told["status"]), (&0.into(), &"untried".into()), "{told}");
        let verdict = format!(": nothing was tried{without}: it was interrupted before that");
        assert!(told["verdict"].as_str().is_some_and(|text| text.ends_with(&verdict)), "{verdict:?} {told}");
    }
}

#[test]
fn a_terminal_shows_how_far_it_is_and_ctrl_c_ends_it() {
    let _ring = ring();
    let dir = temp();
    let words = vec![LOKT, "torture", "--procs", "2", "--seconds", "100"];
    let env = vec![("TERM", "xterm".to_owned())];
    let mut terminal = Start { words, env, dir: dir.path() }.terminal(200);
    terminal.shows_after(0, "seconds of torture: ");
    terminal.types("\x03");
    assert_eq!(terminal.ends(), 130, "Ctrl-C ends it");
    let screen = terminal.screen();
    assert!(screen.contains("\r\x1b[K  processes "), "the line is gone before the answer: {screen:?}");
    nothing_is_left_in(dir.path());
}

#[test]
fn one_that_is_killed_leaves_no_process_and_disturbs_nobody() {
    let _ring = ring();
    let dir = temp();
    let running = torture(dir.path(), "--seconds 1m --procs 4").start();
    fights(dir.path(), 4);
    send(&running, Signal::KILL);
    assert_eq!(running.wait().code, 137, "it was killed");
    eventually("its processes die with it, also those that are stopped", || processes_in(dir.path()).is_empty());
    let left = names_in(dir.path());
    assert_eq!(left.len(), 1, "its directory is left: {left:?}");
    let next = torture(dir.path(), "--seconds 3s --procs 2").run().exits(0, "the next one isn't disturbed");
    assert_eq!(next.stderr, "", "so shortly after it might belong to one that lives");
    let left = fs::canonicalize(&left[0]).expect("it is there");
    long_ago(&left);
    let next = torture(dir.path(), "--seconds 3s --procs 2").run().exits(0, "a later one isn't disturbed either");
    let told = "a run left this behind; unless one is running there, it can be deleted: ";
    next.notes(&format!("{told}{}", left.display()), "it is told");
    let json = torture(dir.path(), "--seconds 3s --procs 2 --json").run().exits(0, "the same in JSON").json();
    assert_eq!(json["left_over"], serde_json::json!([left]), "it is told in JSON");
    let exam = Call::new(LOKT).cwd(dir.path()).args(["doctor"]).run();
    exam.exits(0, "doctor isn't disturbed").says("Result: PASS", "and finds nothing");
}
