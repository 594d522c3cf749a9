//! Worktrees are made, renamed and removed.

use std::fs;

use lokt_core::lease::config::Isolation;
use lokt_sys::error::ErrorKind;
use lokt_worktree::repo::Changing;

use crate::place::{Place, done, name, release, take, worktree};

#[test]
fn worktrees_are_made_and_listed() {
    let (place, repo) = Place::new();
    done(repo.create(&name("side"), Isolation::Shared).expect("it can be made").value);
    let entries = repo.worktrees().expect("they can be listed");
    let shown: Vec<_> = entries.iter().map(|entry| (entry.name.as_str(), entry.isolation, entry.has_payload)).collect();
    assert_eq!(shown, [("main", Isolation::Exclusive, true), ("side", Isolation::Shared, true)]);
    assert_eq!(entries[1].path, place.at("worktrees/side"));
    assert!(repo.worktree(&name("none")).expect("it can be read").is_none());
    let log = Place::operations(&repo);
    assert_eq!(log, [("worktree_create".into(), "main".into()), ("worktree_create".into(), "side".into())]);
}

#[test]
fn names_that_a_file_system_may_take_for_another_are_refused() {
    let (place, repo) = Place::new();
    done(repo.create(&name("Side"), Isolation::Exclusive).expect("it can be made").value);
    for taken in ["Side", "side", "MAIN"] {
        let answer = repo.create(&name(taken), Isolation::Exclusive).expect("it can be asked").value;
        assert!(matches!(answer, Changing::Exists(_)), "{taken}: {answer:?}");
    }
    let error = repo.create(&name(".fences"), Isolation::Exclusive).expect_err("that is where ceilings are");
    assert_eq!(error.kind(), ErrorKind::BadName);
    assert_eq!(fs::read_dir(place.at("worktrees")).expect("it is there").count(), 1, "nothing else was made");
}

#[test]
fn a_directory_with_files_does_not_become_a_worktree_by_accident() {
    let (place, repo) = Place::new();
    fs::create_dir_all(place.at("worktrees/side")).expect("a directory");
    done(repo.create(&name("side"), Isolation::Exclusive).expect("an empty one is as good as none").value);
    fs::create_dir_all(place.at("worktrees/full/x")).expect("a directory");
    let answer = repo.create(&name("full"), Isolation::Exclusive).expect("it can be asked").value;
    assert!(matches!(answer, Changing::NotEmpty(path) if path == place.at("worktrees/full")));
    assert!(repo.worktree(&name("full")).expect("it can be read").is_none());
}

#[test]
fn a_renamed_worktree_has_its_files_and_its_old_numbers_are_used() {
    let (place, repo) = Place::new();
    done(repo.create(&name("old"), Isolation::Exclusive).expect("it can be made").value);
    fs::write(place.at("worktrees/old/file"), "x").expect("a file");
    let first = take(&worktree(&repo, "old"), 1);
    release(&worktree(&repo, "old"), 1);
    let said = repo.rename(&name("old"), &name("new")).expect("it can be renamed");
    assert_eq!(said.warnings, []);
    assert_eq!(done(said.value).path, place.at("worktrees/new"));
    assert!(place.at("worktrees/new/file").exists() && !place.at("worktrees/old").exists());
    let entries = repo.worktrees().expect("they can be listed");
    assert_eq!(entries.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["main", "new"]);
    assert!(entries[1].problem.is_none(), "{:?}", entries[1].problem);
    let second = take(&worktree(&repo, "new"), 2);
    assert!(second > first, "a token of the same files is greater: {second} after {first}");
    done(repo.create(&name("old"), Isolation::Exclusive).expect("the name is free").value);
    let third = take(&worktree(&repo, "old"), 3);
    assert!(third > first, "a token of the same name is greater: {third} after {first}");
    let verdict = repo.audit_log().verify().expect("it can be read").value;
    assert_eq!(verdict.broken, None);
    assert!(Place::operations(&repo).contains(&("worktree_rename".into(), "old".into())));
}

#[test]
fn a_worktree_that_takes_the_name_of_a_removed_one_goes_on_above_both() {
    let (_place, repo) = Place::new();
    for text in ["a", "b"] {
        done(repo.create(&name(text), Isolation::Exclusive).expect("it can be made").value);
    }
    // Three blocks of numbers for a: its chain is deleted and born again.
    let mut highest = 0;
    for number in 1..4 {
        highest = take(&worktree(&repo, "a"), number);
        fs::remove_dir_all(repo.top().join(".jvs/locks")).expect("it is there");
        fs::create_dir(repo.top().join(".jvs/locks")).expect("it is gone");
    }
    let low = take(&worktree(&repo, "b"), 9);
    release(&worktree(&repo, "b"), 9);
    assert!(low < highest, "b has used fewer numbers: {low} and {highest}");
    done(repo.remove(&name("b"), false).expect("it can be removed").value);
    done(repo.rename(&name("a"), &name("b")).expect("it can be renamed").value);
    let next = take(&worktree(&repo, "b"), 5);
    assert!(next > highest, "the files of a know {highest}: {next}");
}

#[test]
fn a_removed_worktree_is_gone_and_its_name_goes_on_with_its_numbers() {
    let (place, repo) = Place::new();
    done(repo.create(&name("side"), Isolation::Exclusive).expect("it can be made").value);
    fs::create_dir_all(place.at("worktrees/side/a/b")).expect("directories");
    let token = take(&worktree(&repo, "side"), 1);
    release(&worktree(&repo, "side"), 1);
    let answer = repo.remove(&name("side"), false).expect("it can be asked").value;
    assert!(matches!(answer, Changing::NotEmpty(_)), "files aren't removed by accident");
    assert!(place.at("worktrees/side/a/b").exists());
    let said = repo.remove(&name("side"), true).expect("it can be removed");
    assert_eq!(said.warnings, []);
    done(said.value);
    assert!(!place.at("worktrees/side").exists() && !place.at(".jvs/worktrees/side").exists());
    assert_eq!(fs::read_dir(place.at(".jvs/trash")).expect("it is there").count(), 0, "nothing is left of it");
    assert!(matches!(repo.remove(&name("side"), true).expect("it can be asked").value, Changing::Missing));
    done(repo.create(&name("side"), Isolation::Exclusive).expect("the name is free").value);
    assert!(take(&worktree(&repo, "side"), 2) > token, "no token is given twice");
    assert_eq!(repo.audit_log().verify().expect("it can be read").value.broken, None);
}

#[test]
fn nobody_takes_a_worktree_from_its_holder() {
    let (place, repo) = Place::new();
    done(repo.create(&name("side"), Isolation::Exclusive).expect("it can be made").value);
    take(&worktree(&repo, "side"), 1);
    let view = fs::read(place.at(".jvs/locks/side.lock")).expect("it is there");
    let renamed = repo.rename(&name("side"), &name("new")).expect("it can be asked").value;
    let Changing::Leased(refusal) = renamed else { panic!("it is held: {renamed:?}") };
    assert_eq!(refusal.code(), "E_LOCK_CONFLICT");
    assert!(matches!(repo.remove(&name("side"), true).expect("it can be asked").value, Changing::Leased(_)));
    assert_eq!(fs::read(place.at(".jvs/locks/side.lock")).expect("it is there"), view, "the lease is as it was");
    assert!(place.at("worktrees/side").is_dir());
    let left = fs::read_dir(place.at(".jvs/locks/side.lock.d")).expect("it is there");
    let pulses = left.filter_map(Result::ok).filter(|file| file.file_name().to_string_lossy().starts_with("pulse."));
    assert_eq!(pulses.count(), 0, "whoever asked in vain leaves nothing behind");
}

#[test]
fn a_name_that_another_is_on_its_way_to_is_taken() {
    let (place, repo) = Place::new();
    done(repo.create(&name("old"), Isolation::Exclusive).expect("it can be made").value);
    take(&worktree(&repo, "old"), 1);
    let file = place.at(".jvs/worktrees/old/config.json");
    let config = fs::read_to_string(&file).expect("it is there").replacen('{', "{\"renaming_to\": \"new\",", 1);
    fs::write(&file, config).expect("it can be written");
    let answer = repo.create(&name("new"), Isolation::Exclusive).expect("it can be asked").value;
    assert!(matches!(answer, Changing::Exists(other) if other == name("old")));
    assert_eq!(repo.worktrees().expect("they can be listed").len(), 2, "whoever holds it keeps it where it is");
    release(&worktree(&repo, "old"), 1);
    let there: Vec<_> = repo.worktrees().expect("they can be listed").into_iter().map(|entry| entry.name).collect();
    assert_eq!(there, [name("main"), name("new")], "then it goes where it was going");
}

#[test]
fn main_stays_what_it_is() {
    let (_place, repo) = Place::new();
    for error in [
        repo.remove(&name("main"), true).expect_err("it can't be removed"),
        repo.rename(&name("main"), &name("x")).expect_err("it can't be renamed"),
        repo.rename(&name("x"), &name("main")).expect_err("nothing becomes it"),
    ] {
        assert_eq!(error.kind(), ErrorKind::BadName);
    }
}

#[test]
fn a_shared_worktree_is_renamed_and_removed_without_a_lease() {
    let (_place, repo) = Place::new();
    done(repo.create(&name("all"), Isolation::Shared).expect("it can be made").value);
    done(repo.rename(&name("all"), &name("every")).expect("it can be renamed").value);
    assert_eq!(worktree(&repo, "every").isolation(), Isolation::Shared);
    done(repo.remove(&name("every"), false).expect("it can be removed").value);
}

#[test]
fn what_others_wrote_into_a_configuration_survives_a_rename() {
    let (place, repo) = Place::new();
    done(repo.create(&name("old"), Isolation::Exclusive).expect("it can be made").value);
    let file = place.at(".jvs/worktrees/old/config.json");
    let text = fs::read_to_string(&file).expect("it is there").replacen('{', "{\n  \"label\": \"blue\",", 1);
    fs::write(&file, text).expect("it can be written");
    done(repo.rename(&name("old"), &name("new")).expect("it can be renamed").value);
    let text = fs::read_to_string(place.at(".jvs/worktrees/new/config.json")).expect("it is there");
    assert!(text.contains("\"label\": \"blue\"") && text.contains("\"name\": \"new\""), "{text}");
    assert!(!text.contains("renaming_to"), "it has arrived: {text}");
}
