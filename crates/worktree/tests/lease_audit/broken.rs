//! What somebody did to the log, and how it is noticed.

use lokt_testkit::mem_disk::PowerCut;
use lokt_worktree::lease::audit::{begin_anew, event, note};

use crate::scene::{Chain, HEAD, LOG, Scene, is_broken};

fn with_lines(count: usize) -> (Scene, Chain) {
    let scene = Scene::new();
    let mut main = scene.chain("main");
    for _ in 0..count {
        scene.take(&mut main);
    }
    (scene, main)
}

fn without(scene: &Scene, unwanted: usize) -> Vec<u8> {
    let log = scene.log();
    let lines = log.split_inclusive(|byte| *byte == b'\n').enumerate();
    lines.filter(|(index, _)| *index != unwanted).flat_map(|(_, line)| line.to_vec()).collect()
}

#[test]
fn a_line_that_was_changed_is_named() {
    let (scene, _) = with_lines(4);
    let text = String::from_utf8(scene.log()).expect("it is text");
    scene.set_log(text.replacen("\"fencing_token\":3", "\"fencing_token\":9", 1).as_bytes());
    assert_eq!(scene.broken_line(), Some(3));
}

#[test]
fn a_line_that_is_gone_is_noticed_wherever_it_was() {
    for (unwanted, line) in [(0, 1), (1, 2), (3, 4)] {
        let (scene, _) = with_lines(4);
        scene.set_log(&without(&scene, unwanted));
        assert_eq!(scene.broken_line(), Some(line), "line {} is gone", unwanted + 1);
    }
}

#[test]
fn a_tail_that_was_cut_off_is_reported_and_never_refilled() {
    let (scene, mut main) = with_lines(4);
    let short = without(&scene, 3);
    scene.set_log(&short);
    for _ in 0..3 {
        let filled = scene.take(&mut main);
        assert!(is_broken(&filled), "whoever writes says so: {filled:?}");
    }
    assert_eq!(scene.log(), short, "nothing is added to it");
    assert_eq!(scene.broken_line(), Some(4));
}

#[test]
fn a_tail_that_was_cut_off_together_with_its_head_contradicts_the_links() {
    let (scene, mut main) = with_lines(2);
    let (log, head) = (scene.log(), scene.audit.peek(HEAD).expect("there is one"));
    scene.take(&mut main);
    scene.take(&mut main);
    scene.set_log(&log);
    scene.audit.plant(HEAD, &head);
    assert_eq!(scene.broken_line(), Some(3));
    assert!(is_broken(&scene.take(&mut main)), "whoever writes says so");
    assert_eq!(scene.log(), log, "nothing is added to it");
}

#[test]
fn a_tail_that_was_cut_off_after_the_lease_ended_is_no_power_cut_either() {
    let (scene, mut main) = with_lines(2);
    let (log, head) = (scene.log(), scene.audit.peek(HEAD).expect("there is one"));
    scene.take(&mut main);
    scene.end(&mut main);
    scene.set_log(&log);
    scene.audit.plant(HEAD, &head);
    assert!(is_broken(&scene.take(&mut main)), "the machine has run all the time");
    assert_eq!(scene.log(), log, "nothing is added to it");
    assert_eq!(scene.broken_line(), Some(3));
}

#[test]
fn a_tail_that_was_cut_off_and_a_head_that_was_removed_are_no_power_cut() {
    for ends in [false, true] {
        let (scene, mut main) = with_lines(3);
        if ends {
            scene.end(&mut main);
        }
        let repo = scene.repo();
        let denied = event(&repo, "lock_denied", "main", serde_json::Map::new()).expect("there are random bits");
        assert_eq!(note(&repo, &denied), None);
        for last in (0..scene.events().len()).rev() {
            let short = without(&scene, last);
            scene.set_log(&short);
            scene.audit.delete(HEAD);
            assert!(scene.broken_line().is_some(), "{last} lines are left, and no head");
            assert!(is_broken(&scene.fill(&repo, &main)), "whoever writes says so");
            assert_eq!((scene.log(), scene.audit.peek(HEAD)), (short, None), "nothing is added to it");
        }
        begin_anew(&repo).expect("it can be mended").expect("it was broken");
        assert_eq!((scene.take(&mut main).warning, scene.broken_line()), (None, None));
    }
}

#[test]
fn a_head_that_is_missing_after_a_restart_is_made_before_any_link_counts_on_it() {
    let (mut scene, mut main) = with_lines(3);
    scene.cut_power(PowerCut::Everything);
    scene.audit.delete(HEAD);
    let repo = scene.repo();
    let before = scene.fill(&repo, &main);
    assert_eq!(before.warning, None, "the power may have taken it away");
    // Whoever added this link was killed before its line.
    scene.add(&mut main, before.anchor);
    assert_eq!(scene.broken_line(), None);
    assert_eq!(scene.take(&mut main).warning, None);
    assert_eq!(scene.times_logged(&main), [1; 5]);
    scene.audit.delete(HEAD);
    assert!(scene.broken_line().is_some(), "now somebody took it away");
}

#[test]
fn what_was_known_during_another_boot_is_not_known_during_this_one_because_somebody_was_busy() {
    use lokt_sys::disk::Disk as _;
    let (mut scene, mut main) = with_lines(3);
    scene.cut_power(PowerCut::SyncedOnly);
    let busy = scene.audit.lock(std::time::Duration::ZERO).expect("it is free");
    assert!(scene.take(&mut main).warning.is_some(), "somebody else writes");
    drop(busy);
    assert_eq!(scene.take(&mut main).warning, None, "what the power took away is no crime");
    assert_eq!(scene.broken_line(), None);
    assert_eq!(scene.times_logged(&main), [1; 5]);
}

#[test]
fn a_log_that_was_removed_contradicts_the_links() {
    let (scene, mut main) = with_lines(3);
    for gone in [vec![LOG], vec![LOG, HEAD]] {
        for name in gone {
            scene.audit.delete(name);
        }
        assert_eq!(scene.broken_line(), Some(1));
        assert!(is_broken(&scene.take(&mut main)), "whoever writes says so");
        assert_eq!(scene.audit.peek(LOG), None, "nothing is begun in its place");
    }
}

#[test]
fn a_new_log_says_what_became_of_the_old_one_and_has_all_that_the_chains_know() {
    let (scene, mut main) = with_lines(4);
    let short = without(&scene, 3);
    scene.set_log(&short);
    scene.take(&mut main);
    let anew = begin_anew(&scene.repo()).expect("it can be mended").expect("it was broken");
    let aside = anew.aside.expect("there was one");
    assert_eq!(aside, "audit.jsonl.broken.1");
    assert_eq!(scene.audit.peek(&aside), Some(short), "the old one is kept as it was");
    assert_eq!(scene.broken_line(), None, "what the links knew of the old one counts no more");
    assert_eq!(scene.take(&mut main).warning, None);
    let first = &scene.events()[0];
    assert_eq!(first.operation, "audit_repair");
    assert_eq!(first.details["old_file"], "audit.jsonl.broken.1");
    assert_eq!(first.details["sha256"].as_str().map(str::len), Some(64));
    assert_eq!(scene.times_logged(&main), [1; 6], "every link that is still there has a line");
    assert_eq!(scene.broken_line(), None);
    assert_eq!(begin_anew(&scene.repo()).expect("it can be looked at"), None, "nothing is broken any more");
}

#[test]
fn a_line_that_was_torn_is_cut_off_and_written_again() {
    let (scene, mut main) = with_lines(2);
    let whole = scene.log();
    let last = whole.len() - without(&scene, 1).len();
    for left in [1, 2, last / 2, last - 2, last - 1] {
        let mut torn = whole.clone();
        torn.extend_from_slice(&whole[whole.len() - last..][..left]);
        scene.set_log(&torn);
        assert_eq!(scene.broken_line().is_some(), left == last - 1, "what isn't whole was never a line: {left}");
        let filled = scene.fill(&scene.repo(), &main);
        assert_eq!(filled.anchor.logged, 2);
    }
    scene.set_log(&[&whole[..], b"{\"event_id\":\"x"].concat());
    assert_eq!(scene.take(&mut main).warning, None);
    assert_eq!(scene.times_logged(&main), [1, 1, 1]);
    assert_eq!(scene.broken_line(), None);
}

#[test]
fn after_what_is_no_beginning_of_a_line_new_ones_follow_and_verify_tells() {
    let (scene, mut main) = with_lines(2);
    scene.set_log(&[&scene.log()[..], b"somebody was here"].concat());
    assert!(is_broken(&scene.take(&mut main)), "whoever finds it says so");
    assert_eq!(scene.broken_line(), Some(3));
    let log = String::from_utf8(scene.log()).expect("it is text");
    assert!(log.contains("somebody was here\n{"), "the next line begins on its own");
    begin_anew(&scene.repo()).expect("it can be mended").expect("it was broken");
    assert_eq!(scene.take(&mut main).warning, None);
    assert_eq!(scene.times_logged(&main), [1, 1, 1, 1]);
}

#[test]
fn a_line_longer_than_any_event_is_named_and_does_not_stop_anybody() {
    let (scene, mut main) = with_lines(2);
    scene.set_log(&[&scene.log()[..], &vec![b'x'; 9 << 20], b"\n"].concat());
    assert!(is_broken(&scene.take(&mut main)), "whoever finds it says so");
    assert_eq!(scene.broken_line(), Some(3));
    assert_eq!(scene.take(&mut main).anchor.count, 5, "two lines came after it");
}

#[test]
fn a_last_line_without_its_newline_is_a_line() {
    let (mut scene, mut main) = with_lines(2);
    let log = scene.log();
    let anchorless = scene.chain("other");
    scene.cut_power(PowerCut::Everything);
    scene.audit.delete(HEAD);
    scene.set_log(log.trim_ascii_end());
    assert_eq!(scene.take(&mut main).warning, None);
    assert_eq!(scene.times_logged(&main), [1, 1, 1]);
    assert_eq!(scene.times_logged(&anchorless), Vec::<usize>::new());
}

#[test]
fn a_head_that_is_longer_than_any_is_written_anew() {
    let (scene, mut main) = with_lines(2);
    scene.audit.plant(HEAD, &[0xff; 400]);
    assert!(scene.broken_line().is_some(), "somebody took away what was known of the log");
    assert!(begin_anew(&scene.repo()).expect("it can be written").is_some(), "so a new one is begun");
    assert_eq!(scene.broken_line(), None, "of which everything is known");
    scene.take(&mut main);
    assert_eq!(scene.broken_line(), None, "and stays so");
}
