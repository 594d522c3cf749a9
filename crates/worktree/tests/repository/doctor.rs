//! `doctor --strict`: what it finds, what it repairs, and what it leaves alone.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lokt_core::lease::config::Isolation;
use lokt_core::lease::policy::LeasePolicy;
use lokt_sys::os_disk::OsDisk;
use lokt_sys::wait_policy::WaitPolicy;
use lokt_testkit::machine::FakeMachine;
use lokt_worktree::lease::doctor::{Finding, Fix, Severity, examine, examine_one};
use lokt_worktree::lease::{LeaseState, LeaseTerms, Leasing};
use lokt_worktree::repo::Repository;

use crate::place::{Place, done, me, name, session, take, terms, worktree};

fn findings(repo: &Repository, fix: bool) -> Vec<Finding> {
    examine_one(repo, fix).checkup.checks.into_iter().flat_map(|check| check.findings).collect()
}

fn codes(repo: &Repository) -> Vec<&'static str> {
    findings(repo, false).iter().map(|finding| finding.code).collect()
}

/// Each is found, repaired, and found no more.
fn is_mended(repo: &Repository, code: &str) {
    let found = findings(repo, false);
    assert!(
        found.iter().all(|finding| finding.code == code && matches!(finding.fix, Fix::Possible(_))),
        "{code}: {found:?}"
    );
    assert!(!found.is_empty(), "{code} is found");
    let fixed = findings(repo, true);
    assert!(!fixed.is_empty() && fixed.iter().all(|finding| finding.fixed().is_some()), "{code}: {fixed:?}");
    assert_eq!(findings(repo, false), [], "{code} is gone");
}

fn make_old(path: &Path, secs: u64) {
    let then = SystemTime::now() - Duration::from_secs(secs);
    File::options()
        .write(true)
        .open(path)
        .and_then(|file| file.set_modified(then))
        .expect("it can be made to look old");
}

fn plant(path: &Path, bytes: &[u8], secs: u64) {
    fs::create_dir_all(path.parent().expect("it is in something")).expect("a directory");
    fs::write(path, bytes).expect("a file");
    make_old(path, secs);
}

#[test]
fn a_healthy_repository_is_healthy_also_while_its_lease_is_held() {
    let (_place, repo) = Place::new();
    assert_eq!(findings(&repo, true), []);
    let main = repo.worktree(&name("main")).expect("it can be read").expect("it is there");
    take(&main, 1);
    assert_eq!(findings(&repo, true), []);
    assert_eq!(examine(repo.top(), &me(), false).expect("it is there").expect("it is one").checkup.worst(), None);
    let status = main.status(Some(&session(1))).expect("it can be asked");
    assert!(status.lives && status.mine, "nobody was hurt");
    assert!(examine(Place::empty().top().as_path(), &me(), false).expect("it can be looked for").is_none());
}

#[test]
fn temporary_files_are_removed_when_they_are_old_and_nobody_has_them_open() {
    let (place, repo) = Place::new();
    let theirs = place.at(".jvs/locks/main.lock.tmp");
    plant(&theirs, b"{}", 30);
    plant(&place.at(".jvs/locks/.lokt-00.tmp"), b"", 30);
    assert_eq!(findings(&repo, true), [], "what is young may be somebody's");
    assert!(theirs.exists());
    make_old(&theirs, 3600);
    let open = File::open(&theirs).expect("it opens");
    assert_eq!(findings(&repo, true), [], "what is open is somebody's");
    drop(open);
    make_old(&place.at(".jvs/locks/.lokt-00.tmp"), 3600);
    plant(&place.at(".jvs/.lokt-01.tmp"), b"", 3600);
    plant(&place.at(".jvs/locks/main.lock.d/.lokt-02.tmp"), b"", 3600);
    plant(&place.at(".jvs/worktrees/main/.lokt-03.tmp"), b"", 3600);
    assert_eq!(codes(&repo), ["orphan_temp"; 5]);
    is_mended(&repo, "orphan_temp");
    assert!(!theirs.exists());
}

#[test]
fn the_view_of_a_worktree_that_is_called_like_a_temporary_file_is_none() {
    let (place, repo) = Place::new();
    for text in ["x.lock.tmp", "a.lock.tmp.b"] {
        done(repo.create(&name(text), Isolation::Exclusive).expect("it can be made").value);
        take(&worktree(&repo, text), 1);
        let view = place.at(".jvs/locks").join(format!("{text}.lock"));
        plant(&place.at(".jvs/locks").join(format!("{text}.lock.tmp.7")), b"", 3600);
        File::open(&view)
            .and_then(|file| file.set_modified(SystemTime::UNIX_EPOCH))
            .expect("it can be made to look old");
        is_mended(&repo, "orphan_temp");
        assert!(view.exists(), "{text}");
    }
}

#[test]
fn a_view_that_was_taken_aside_a_moment_ago_is_left_alone() {
    let (place, repo) = Place::new();
    let main = repo.worktree(&name("main")).expect("it can be read").expect("it is there");
    take(&main, 1);
    let aside = place.at(".jvs/locks/.lokt-04.tmp");
    fs::hard_link(place.at(".jvs/locks/main.lock"), &aside).expect("a second name");
    assert_eq!(findings(&repo, true), [], "its content is as old as the lease, its name is new");
    assert!(aside.exists());
}

#[test]
fn a_view_that_was_removed_or_is_old_says_again_what_the_chain_says() {
    let (place, repo) = Place::new();
    let main = repo.worktree(&name("main")).expect("it can be read").expect("it is there");
    let (view, kept) = (place.at(".jvs/locks/main.lock"), place.at("kept"));
    take(&main, 1);
    fs::hard_link(&view, &kept).expect("a second name");
    fs::remove_file(&view).expect("it is there");
    is_mended(&repo, "stale_view");
    assert_eq!(fs::read(&view).expect("it is there"), fs::read(&kept).expect("it is there"));
    main.renew(&session(1)).expect("it is ours");
    fs::rename(&kept, &view).expect("it is put back");
    is_mended(&repo, "stale_view");
    let _ = main.release(&session(1)).expect("it is ours");
    assert!(!view.exists());
}

#[test]
fn another_programs_lock_is_told_of_and_never_touched() {
    let (place, repo) = Place::new();
    let main = repo.worktree(&name("main")).expect("it can be read").expect("it is there");
    take(&main, 1);
    let view = place.at(".jvs/locks/main.lock");
    let mut record: serde_json::Value =
        serde_json::from_slice(&fs::read(&view).expect("it is there")).expect("it is JSON");
    let _ = main.release(&session(1)).expect("it is ours");
    record.as_object_mut().expect("an object").retain(|member, _| member != "chain" && !member.starts_with("holder_b"));
    plant(&view, record.to_string().as_bytes(), 0);
    for fix in [false, true] {
        let found = findings(&repo, fix);
        assert_eq!(found.iter().map(|finding| finding.code).collect::<Vec<_>>(), ["foreign_lock"]);
        assert!(found[0].message.contains("counts as over in "), "{}", found[0].message);
        assert!(matches!(found[0].fix, Fix::No));
    }
    plant(&view, b"", 7200);
    let found = findings(&repo, true);
    assert!(found[0].message.contains("can't be read"), "{}", found[0].message);
    assert!(view.exists(), "what can't be read may be being written");
}

#[test]
fn what_is_left_around_a_chain_is_removed_and_what_is_in_use_is_not() {
    let (place, repo) = Place::new();
    let main = repo.worktree(&name("main")).expect("it can be read").expect("it is there");
    let old = take(&main, 1);
    let _ = main.release(&session(1)).expect("it is ours");
    let token = take(&main, 2);
    let chain = place.at(".jvs/locks/main.lock.d");
    plant(&chain.join("pulse.7"), b"", 3600);
    is_mended(&repo, "dead_pulse");
    plant(&chain.join("pulse.8"), b"", 10);
    plant(&chain.join("pulse.9"), b"", 3600);
    let beating = File::open(chain.join("pulse.9")).expect("it opens");
    rustix::fs::flock(&beating, rustix::fs::FlockOperation::LockExclusive).expect("it can be locked");
    assert_eq!(findings(&repo, true), [], "one is new and one beats");
    fs::remove_file(chain.join("pulse.8")).expect("it is there");
    plant(&chain.join("watch.0000-old"), b"{}", 3600);
    is_mended(&repo, "stale_watch");
    let staged = place.at(".jvs/staging/main").join(format!("{old}.0123"));
    let current = place.at(".jvs/staging/main").join(format!("{token}.0123"));
    plant(&staged, b"x", 0);
    plant(&current, b"x", 0);
    is_mended(&repo, "staging");
    assert!(current.exists() && !staged.exists(), "whoever holds the lease is publishing");
    assert!(main.status(Some(&session(2))).expect("it can be asked").mine);
}

#[test]
fn links_of_an_earlier_life_go_and_those_of_this_one_stay() {
    let (place, repo) = Place::new();
    let main = repo.worktree(&name("main")).expect("it can be read").expect("it is there");
    take(&main, 1);
    let chain = place.at(".jvs/locks/main.lock.d");
    let link = fs::read(chain.join("00000000000000000001")).expect("it is there");
    fs::remove_dir_all(place.at(".jvs/locks")).expect("it is there");
    fs::create_dir(place.at(".jvs/locks")).expect("it is gone");
    take(&main, 2);
    // Somebody was stopped while that happened.
    plant(&chain.join("00000000000000000001"), &link, 0);
    is_mended(&repo, "ghost_slot");
    assert!(main.status(Some(&session(2))).expect("it can be asked").mine);
}

#[test]
fn worktrees_whose_files_or_configuration_are_damaged_are_named() {
    let (place, repo) = Place::new();
    for text in ["a", "b", "c", "d"] {
        done(repo.create(&name(text), Isolation::Exclusive).expect("it can be made").value);
    }
    fs::remove_dir(place.at("worktrees/a")).expect("it is there");
    plant(&place.at(".jvs/worktrees/b/config.json"), b"{", 0);
    let config = fs::read_to_string(place.at(".jvs/worktrees/c/config.json")).expect("it is there");
    plant(&place.at(".jvs/worktrees/C/config.json"), config.replace("\"c\"", "\"C\"").as_bytes(), 0);
    fs::create_dir(place.at("worktrees/C")).expect("a directory");
    plant(&place.at(".jvs/worktrees/d/config.json"), config.as_bytes(), 0);
    let found = findings(&repo, true);
    let told: Vec<_> = found.iter().map(|finding| (finding.code, finding.severity)).collect();
    assert_eq!(
        told,
        [
            ("missing_payload", Severity::Error),
            ("E_CORRUPT", Severity::Error),
            ("wrong_name", Severity::Warning),
            ("same_name", Severity::Warning),
        ]
    );
    assert!(found.iter().all(|finding| finding.hint.is_some() && finding.fix == Fix::No), "people decide");
}

#[test]
fn a_ceiling_that_nobody_can_have_reached_is_named() {
    let (place, repo) = Place::new();
    let main = worktree(&repo, "main");
    take(&main, 1);
    let far = place.at(".jvs/worktrees/main/fence.9007199254740000");
    plant(&far, b"", 0);
    let found = findings(&repo, true);
    assert_eq!((found[0].code, found[0].path.as_deref(), found.len()), ("far_fence", far.to_str(), 1));
    assert!(found[0].hint.as_ref().is_some_and(|hint| hint.contains("remove that file")));
    fs::remove_dir_all(place.at(".jvs/locks/main.lock.d")).expect("it is there");
    fs::remove_file(place.at(".jvs/locks/main.lock")).expect("it is there");
    let asked = main.acquire(&session(2), &terms(), &mut WaitPolicy::none());
    let error = asked.expect_err("there are no numbers left");
    assert!(error.to_string().contains("fence.9007199254740000"), "it is named: {error}");
    fs::remove_file(far).expect("it is there");
    take(&main, 2);
}

#[test]
fn an_interrupted_rename_is_finished() {
    let (place, repo) = Place::new();
    done(repo.create(&name("old"), Isolation::Exclusive).expect("it can be made").value);
    let file = place.at(".jvs/worktrees/old/config.json");
    let config = fs::read_to_string(&file).expect("it is there");
    plant(&file, config.replacen('{', "{\"renaming_to\": \"new\",", 1).as_bytes(), 0);
    is_mended(&repo, "interrupted_rename");
    assert!(place.at("worktrees/new").is_dir() && repo.worktree(&name("new")).expect("it can be read").is_some());
}

#[test]
fn a_removal_that_never_came_to_anything_is_taken_back() {
    let (place, repo) = Place::new();
    done(repo.create(&name("old"), Isolation::Exclusive).expect("it can be made").value);
    let file = place.at(".jvs/worktrees/old/config.json");
    let config = fs::read_to_string(&file).expect("it is there");
    plant(&file, config.replacen('{', "{\"removing\": true,", 1).as_bytes(), 0);
    is_mended(&repo, "interrupted_remove");
    assert_eq!(fs::read_to_string(&file).expect("it is there"), config);
    plant(&file, config.replacen('{', "{\"removing\": true,", 1).as_bytes(), 0);
    take(&worktree(&repo, "old"), 1);
    assert_eq!(fs::read_to_string(&file).expect("it is there"), config, "whoever asks for it takes it back, too");
}

#[test]
fn a_broken_audit_log_is_replaced_and_kept() {
    let (place, repo) = Place::new();
    let main = repo.worktree(&name("main")).expect("it can be read").expect("it is there");
    take(&main, 1);
    let log = place.at(".jvs/audit/audit.jsonl");
    let text = fs::read_to_string(&log).expect("it is there");
    plant(&log, text.replacen("lock_acquire", "lock_release", 1).as_bytes(), 0);
    let found = findings(&repo, false);
    assert_eq!((found[0].code, found[0].severity), ("E_AUDIT_CHAIN_BROKEN", Severity::Critical));
    is_mended(&repo, "E_AUDIT_CHAIN_BROKEN");
    assert!(place.at(".jvs/audit/audit.jsonl.broken.1").exists());
    let _ = main.release(&session(1)).expect("it is ours");
    assert_eq!(repo.audit_log().verify().expect("it can be read").value.broken, None);
    let log = Place::operations(&repo);
    assert_eq!(log[0].0, "audit_repair");
    assert!(log.contains(&("lock_acquire".into(), "main".into())), "what the chain knows is in it: {log:?}");
}

#[test]
fn a_repository_that_cannot_be_used_is_told_of_too() {
    let (place, _) = Place::new();
    plant(&place.at(".jvs/format_version"), b"7\n", 0);
    let told = examine(&place.at("main"), &me(), true).expect("it can be looked at").expect("it is one");
    assert_eq!(told.repository, place.top());
    assert_eq!(told.checkup.checks[0].findings[0].code, "E_FORMAT_UNSUPPORTED");
    assert_eq!(told.checkup.worst(), Some(Severity::Critical));
    plant(&place.at(".jvs/format_version"), b"1\n", 0);
    for config in ["{\"lease_ms\": \"x\"}", "{\"lease_ms\": 1}", ""] {
        plant(&place.at(".jvs/config.json"), config.as_bytes(), 0);
        let told = examine(&place.at("main"), &me(), true).expect("it can be looked at").expect("it is one");
        assert_eq!(
            (told.checkup.checks[0].findings[0].code, told.checkup.worst()),
            ("E_CORRUPT", Some(Severity::Error)),
            "{config}"
        );
        assert_eq!(told.checkup.checks[0].findings[0].path.as_deref(), place.at(".jvs/config.json").to_str());
    }
}

#[test]
fn a_clock_that_is_not_the_file_systems_is_told_of() {
    let (place, _) = Place::new();
    let disk = Arc::new(OsDisk::open_as(&place.at(".jvs"), 0o755).expect("it opens"));
    let audit = Arc::new(OsDisk::open_as(&place.at(".jvs/audit"), 0o755).expect("it opens"));
    let repo = Repository::on(&place.top(), disk, audit, Arc::new(FakeMachine::new()), me()).expect("it opens");
    let found = findings(&repo, true);
    assert_eq!(found.iter().map(|finding| finding.code).collect::<Vec<_>>(), ["clock_offset"]);
    assert!(found[0].message.contains("half of the allowed skew is 1000 ms"), "{}", found[0].message);
}

#[test]
fn a_lease_that_is_over_is_left_for_whoever_wants_it() {
    let (_place, repo) = Place::new();
    let main = repo.worktree(&name("main")).expect("it can be read").expect("it is there");
    let policy = LeasePolicy { lease_ms: 100, renew_ms: 30, skew_ms: 0, grace_ms: 0 };
    let short = LeaseTerms { policy, ..terms() };
    // Where it takes longer than the lease lasts, it is given back.
    let is_granted = || {
        let said = main.acquire(&session(1), &short, &mut WaitPolicy::none()).expect("it can be asked");
        matches!(said.value, Leasing::Granted(_))
    };
    assert!((0..50).any(|_| is_granted()), "it is free");
    lokt_testkit::swarm::pause(Duration::from_millis(300));
    assert_eq!(main.status(None).expect("it can be asked").state, LeaseState::Expired);
    assert_eq!(findings(&repo, true), []);
    assert_eq!(main.status(None).expect("it can be asked").state, LeaseState::Expired);
}
