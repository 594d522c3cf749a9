//! What a power cut takes away comes back from the links.

use lokt_core::lease::audit::Anchor;
use lokt_testkit::mem_disk::PowerCut;

use crate::scene::Scene;

#[test]
fn lines_that_a_power_cut_took_away_are_made_anew_byte_for_byte() {
    for cut in [PowerCut::SyncedOnly, PowerCut::NamesWithoutContents, PowerCut::Everything] {
        let mut scene = Scene::new();
        let (mut main, mut other) = (scene.chain("main"), scene.chain("other"));
        for turn in 0..4 {
            scene.take(&mut main);
            scene.take(&mut other);
            if turn == 1 {
                lokt_worktree::lease::audit::sync(&scene.repo()).expect("it can be synced");
            }
        }
        let before = scene.log();
        scene.cut_power(cut);
        assert_eq!(scene.fill(&scene.repo(), &other).warning, None);
        assert_eq!(scene.fill(&scene.repo(), &main).warning, None);
        assert_eq!(String::from_utf8_lossy(&scene.log()), String::from_utf8_lossy(&before), "{cut:?}");
        assert_eq!(scene.broken_line(), None);
    }
}

#[test]
fn where_the_order_cannot_be_told_the_log_says_which_lines_were_lost() {
    let mut scene = Scene::new();
    let (mut main, mut other) = (scene.chain("main"), scene.chain("other"));
    scene.take(&mut main);
    scene.take(&mut other);
    // A link whose line wasn't there when the next one's anchor was taken, but whose line is lost with its own.
    scene.add(
        &mut main,
        Anchor { count: 7, hash: "7".repeat(64), size: 9999, logged: 1, boot_id: Some("boot-1".into()) },
    );
    scene.cut_power(PowerCut::SyncedOnly);
    assert_eq!(scene.broken_line(), None, "before anybody wrote, it may come back");
    assert_eq!(scene.fill(&scene.repo(), &other).warning, None);
    assert_eq!(scene.broken_line(), None, "what can't come back is listed");
    assert_eq!(scene.fill(&scene.repo(), &main).warning, None);
    let repairs = scene.events().iter().filter(|event| event.operation == "audit_repair").count();
    assert_eq!(repairs, 1, "it is said once");
    assert_eq!(scene.times_logged(&main), [1, 1]);
    assert_eq!(scene.times_logged(&other), [1]);
    assert_eq!(scene.broken_line(), None);
}

#[test]
fn lines_of_which_a_power_cut_left_only_the_length_are_made_anew() {
    let mut scene = Scene::new();
    let (mut main, mut other) = (scene.chain("main"), scene.chain("other"));
    scene.take(&mut main);
    scene.take(&mut other);
    let kept = scene.log().len();
    scene.take(&mut other);
    scene.take(&mut main);
    let whole = scene.log();
    scene.cut_power(PowerCut::Everything);
    for left in [kept, kept + 7] {
        let mut wiped = whole.clone();
        wiped[left..].fill(0);
        scene.set_log(&wiped);
        assert_eq!(scene.broken_line(), None, "before anybody wrote, it may come back");
        assert_eq!(scene.fill(&scene.repo(), &main).warning, None);
        assert_eq!(scene.fill(&scene.repo(), &other).warning, None);
        assert_eq!(String::from_utf8_lossy(&scene.log()), String::from_utf8_lossy(&whole));
        assert_eq!(scene.broken_line(), None);
        scene.cut_power(PowerCut::Everything);
    }
    let mut changed = whole.clone();
    changed[7] = 0;
    scene.set_log(&changed);
    assert_eq!(scene.broken_line(), Some(1), "a power cut takes the end, and the end is there");
    scene.set_log(&whole);
    scene.take(&mut main);
    let mut wiped = scene.log();
    wiped[kept..].fill(0);
    scene.set_log(&wiped);
    assert_eq!(scene.broken_line(), Some(3), "without a power cut somebody did that");
}

#[test]
fn a_zero_before_a_last_line_of_any_length_is_no_power_cut() {
    // Longer than what is read at once, and such that its newline is at the edges of that, too.
    for length in [15 << 10, 16_384 - 300, 20_000, 32 << 10, 500_000] {
        let mut scene = Scene::new();
        let mut main = scene.chain("main");
        for _ in 0..4 {
            scene.take(&mut main);
        }
        assert_eq!(scene.take_for(&mut main, &"x".repeat(length)).warning, None);
        scene.cut_power(PowerCut::Everything);
        let mut changed = scene.log();
        changed[7] = 0;
        scene.set_log(&changed);
        assert_eq!(scene.broken_line(), Some(1), "{length}: a power cut takes the end, and the end is there");
        scene.fill(&scene.repo(), &main);
        assert_eq!(scene.log().len(), changed.len(), "{length}: what tells of it was cut off");
        assert_eq!(scene.broken_line(), Some(1), "{length}: it is forgotten");
    }
}

/// Worktrees that are made, renamed and removed, and `gc`, are told of without a link: nobody makes such a line anew.
#[test]
fn a_line_without_a_link_of_which_a_power_cut_left_only_the_length_is_forgotten() {
    let mut scene = Scene::new();
    let mut main = scene.chain("main");
    scene.take(&mut main);
    let whole = scene.log();
    scene.cut_power(PowerCut::Everything);
    scene.set_log(&[&whole[..], &[0; 300]].concat());
    assert_eq!(scene.broken_line(), None, "before anybody wrote, it may come back");
    assert_eq!(scene.fill(&scene.repo(), &main).warning, None);
    assert_eq!(scene.broken_line(), None, "whoever looked first has not made tampering of it");
    assert_eq!(scene.fill(&scene.repo(), &main).warning, None);
    assert_eq!(String::from_utf8_lossy(&scene.log()), String::from_utf8_lossy(&whole));
}

#[test]
fn two_machines_that_take_turns_lose_nothing_and_say_nothing() {
    let mut scene = Scene::new();
    let (mut main, mut other) = (scene.chain("main"), scene.chain("other"));
    for _ in 0..4 {
        assert_eq!(scene.take(&mut main).warning, None);
        scene.change_machines();
        assert_eq!(scene.take(&mut other).warning, None);
    }
    assert_eq!(scene.events().len(), 8);
    assert_eq!((scene.times_logged(&main), scene.times_logged(&other)), (vec![1; 4], vec![1; 4]));
    assert_eq!(scene.broken_line(), None);
}

#[test]
fn after_a_restart_without_loss_nothing_is_said_and_a_cut_is_noticed_again() {
    let mut scene = Scene::new();
    let mut main = scene.chain("main");
    scene.take(&mut main);
    scene.cut_power(PowerCut::Everything);
    let before = scene.log();
    scene.take(&mut main);
    assert!(scene.log().starts_with(&before), "lines are only added");
    assert_eq!(scene.times_logged(&main), [1, 1]);
    scene.set_log(&before);
    assert_eq!(scene.broken_line(), Some(2));
}
