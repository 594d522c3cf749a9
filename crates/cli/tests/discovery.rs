//! Which root is meant, when `LOKT_ROOT` doesn't say.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::common::{Call, LOKT, Said, mode, put};

/// A directory outside any repository, known by its real path.
struct Place {
    _dir: TempDir,
    path: PathBuf,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("there is room for a temp directory");
        let path = dir.path().canonicalize().expect("it exists");
        Self { _dir: dir, path }
    }

    fn dir(&self, name: &str) -> PathBuf {
        let path = self.path.join(name);
        fs::create_dir_all(&path).expect("a temp directory is writable");
        path
    }

    /// A repository with one commit.
    fn repository(&self, name: &str) -> PathBuf {
        let dir = self.dir(name);
        git(&dir, &["init", "-q"]);
        git(
            &dir,
            &["-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "--allow-empty", "-m", "first"],
        );
        dir
    }
}

fn git(dir: &Path, args: &[&str]) {
    let call =
        Call::new("git").args(args).cwd(dir).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    call.run().exits(0, "git works");
}

fn lokt(cwd: &Path) -> Call {
    Call::new(LOKT).env("LOKT_OWNER", "a").cwd(cwd)
}

fn run(cwd: &Path, words: &str) -> Said {
    lokt(cwd).args(words.split_whitespace()).run()
}

/// Where a call in `cwd` would lock, and how that was found.
fn root_of(call: Call) -> (PathBuf, String) {
    let json = call.args(["root", "--json"]).run().exits(0, "there always is an answer").json();
    let text = |member: &str| json[member].as_str().expect("it is a text").to_owned();
    (text("root_path").into(), text("root_method"))
}

#[test]
fn in_a_repository_it_is_in_the_git_directory() {
    lokt_testkit::need!("git");
    let place = Place::new();
    let repository = place.repository("repo");
    assert_eq!(root_of(lokt(&repository)), (repository.join(".git/lokt"), "git".into()), "below .git");
    let said = run(&repository, "root").exits(0, "there always is an answer");
    said.notes("found via: git common directory", "it says how it was found");
    run(&repository, "lock x").exits(0, "it is free");
    assert!(repository.join(".git/lokt/locks/x.json").exists(), "the record is there");
    assert!(!repository.join(".git/lokt/.gitignore").exists(), "what is in .git needs no .gitignore");
    assert_eq!(mode(&repository.join(".git/lokt")), 0o700, "and is private");
}

#[test]
fn every_subdirectory_of_a_repository_means_the_same_root() {
    lokt_testkit::need!("git");
    let place = Place::new();
    let repository = place.repository("repo");
    let deep = place.dir("repo/a/b/c");
    assert_eq!(root_of(lokt(&deep)), (repository.join(".git/lokt"), "git".into()), "from deep inside");
    assert_eq!(root_of(lokt(&repository.join(".git"))).0, repository.join(".git/lokt"), "from inside .git");
    run(&deep, "lock x").exits(0, "it is free");
    lokt(&repository).env("LOKT_OWNER", "b").args(["lock", "x"]).run().exits(2, "it is one root");
}

#[test]
fn linked_worktrees_share_the_root_of_their_repository() {
    lokt_testkit::need!("git");
    let place = Place::new();
    let repository = place.repository("repo");
    git(&repository, &["worktree", "add", "-q", "../linked"]);
    let linked = place.path.join("linked");
    assert!(linked.join(".git").is_file(), "a linked worktree has a .git file");
    assert_eq!(root_of(lokt(&linked)), (repository.join(".git/lokt"), "git".into()), "the common directory's");
    let deep = place.dir("linked/sub");
    assert_eq!(root_of(lokt(&deep)).0, repository.join(".git/lokt"), "from below it too");
    run(&linked, "lock x").exits(0, "it is free");
    lokt(&repository).env("LOKT_OWNER", "b").args(["lock", "x"]).run().exits(2, "it is one root");
}

#[test]
fn a_submodule_has_a_root_of_its_own() {
    lokt_testkit::need!("git");
    let place = Place::new();
    let inner = place.repository("inner");
    let outer = place.repository("outer");
    let source = inner.display().to_string();
    git(&outer, &["-c", "protocol.file.allow=always", "submodule", "add", "-q", &source, "sub"]);
    let found = root_of(lokt(&outer.join("sub")));
    assert_eq!(found, (outer.join(".git/modules/sub/lokt"), "git".into()), "its own, without .. in its path");
}

#[test]
fn a_bare_repository_is_a_repository() {
    lokt_testkit::need!("git");
    let place = Place::new();
    let bare = place.dir("bare.git");
    git(&bare, &["init", "-q", "--bare"]);
    assert_eq!(root_of(lokt(&bare)), (bare.join("lokt"), "git".into()), "the root is inside");
}

#[test]
fn git_itself_is_not_needed() {
    lokt_testkit::need!("git");
    let place = Place::new();
    let repository = place.repository("repo");
    let found = root_of(lokt(&repository).env("PATH", "/nonexistent"));
    assert_eq!(found, (repository.join(".git/lokt"), "git".into()), "its files are read, it is not run");
    lokt(&repository).env("PATH", "").args(["lock", "x"]).run().exits(0, "locking needs no program either");
}

#[test]
fn git_dir_names_the_repository() {
    lokt_testkit::need!("git");
    let place = Place::new();
    let repository = place.repository("repo");
    let other = place.dir("other");
    let git_dir = repository.join(".git");
    let found = root_of(lokt(&other).env("GIT_DIR", &git_dir));
    assert_eq!(found, (repository.join(".git/lokt"), "git".into()), "wherever we are");
    let found = root_of(lokt(&place.path).env("GIT_DIR", "repo/.git"));
    assert_eq!(found, (repository.join(".git/lokt"), "git".into()), "it may be relative");
    git(&repository, &["worktree", "add", "-q", "../linked"]);
    let found = root_of(lokt(&other).env("GIT_DIR", repository.join(".git/worktrees/linked")));
    assert_eq!(found, (repository.join(".git/lokt"), "git".into()), "a linked worktree's leads to the common one");
    let found = root_of(lokt(&other).env("GIT_COMMON_DIR", &git_dir));
    assert_eq!(found, (repository.join(".git/lokt"), "git".into()), "so does GIT_COMMON_DIR");
}

#[test]
fn a_git_dir_that_is_none_is_ignored() {
    let place = Place::new();
    let dir = place.dir("plain");
    let found = root_of(lokt(&dir).env("GIT_DIR", "/nonexistent"));
    assert_eq!(found, (dir.join(".lokt"), "local".into()), "there is no repository");
    put(&dir.join(".git"), "gitdir: /nonexistent\n");
    assert_eq!(root_of(lokt(&dir)), (dir.join(".lokt"), "local".into()), "neither is a file that leads nowhere");
}

#[test]
fn lokt_root_wins_over_git() {
    lokt_testkit::need!("git");
    let place = Place::new();
    let repository = place.repository("repo");
    let found = root_of(lokt(&repository).env("LOKT_ROOT", "mine"));
    assert_eq!(found, (repository.join("mine"), "env".into()), "the variable wins");
    let found = root_of(lokt(&repository).env("LOKT_ROOT", ""));
    assert_eq!(found.1, "git", "an empty variable is none");
}

#[test]
fn outside_git_it_is_here() {
    let place = Place::new();
    let dir = place.dir("plain");
    assert_eq!(root_of(lokt(&dir)), (dir.join(".lokt"), "local".into()), "in the current directory");
    run(&dir, "root")
        .exits(0, "there always is an answer")
        .notes("found via: nearest .lokt", "it says how it was found");
    run(&dir, "lock x").exits(0, "it is free");
    assert!(dir.join(".lokt/locks/x.json").exists(), "the record is there");
}

#[test]
fn outside_git_the_nearest_lokt_upwards_counts() {
    let place = Place::new();
    let (top, deep) = (place.dir("top"), place.dir("top/a/b"));
    run(&top, "lock x").exits(0, "it is free");
    assert_eq!(root_of(lokt(&deep)), (top.join(".lokt"), "local".into()), "found above");
    lokt(&deep).env("LOKT_OWNER", "b").args(["lock", "x"]).run().exits(2, "it is one root");
    assert!(!deep.join(".lokt").exists(), "and no second one appears");
    run(&place.dir("top/a"), "root").exits(0, "there always is an answer");
    place.dir("top/a/.lokt");
    assert_eq!(root_of(lokt(&deep)).0, top.join("a/.lokt"), "the nearest one counts");
}

#[test]
fn the_search_upwards_ends_at_home() {
    let place = Place::new();
    let (home, deep) = (place.dir("home"), place.dir("home/a/b"));
    place.dir(".lokt");
    assert_eq!(root_of(lokt(&deep)).0, place.path.join(".lokt"), "without a home it goes on");
    assert_eq!(root_of(lokt(&deep).env("HOME", &home)).0, deep.join(".lokt"), "above home nothing counts");
    let link = place.path.join("link-to-home");
    symlink(&home, &link).expect("a temp directory is writable");
    assert_eq!(root_of(lokt(&deep).env("HOME", &link)).0, deep.join(".lokt"), "by whichever name it goes");
    place.dir("home/.lokt");
    assert_eq!(root_of(lokt(&deep).env("HOME", &home)).0, home.join(".lokt"), "home itself does");
}

#[test]
fn the_search_upwards_ends_at_a_strangers_directory() {
    lokt_testkit::need!(root);
    let place = Place::new();
    let (strange, deep) = (place.dir("strange"), place.dir("strange/ours"));
    place.dir("strange/.lokt");
    assert_eq!(root_of(lokt(&deep)).0, strange.join(".lokt"), "our own directory counts");
    chown(&strange, Some(20_003), None).expect("these tests run as root, as CI does");
    assert_eq!(root_of(lokt(&deep)).0, deep.join(".lokt"), "what a stranger put above us doesn't decide");
}

#[test]
fn a_new_root_outside_git_keeps_itself_out_of_commits() {
    lokt_testkit::need!("git");
    let place = Place::new();
    let dir = place.dir("plain");
    run(&dir, "lock x").exits(0, "it is free");
    assert_eq!(fs::read_to_string(dir.join(".lokt/.gitignore")).expect("it is there"), "*\n", "everything is ignored");
    git(&dir, &["init", "-q"]);
    let status = Call::new("git").args(["status", "--porcelain"]).cwd(&dir).env("GIT_CONFIG_GLOBAL", "/dev/null").run();
    assert_eq!(status.exits(0, "git works").stdout, "", "and git sees nothing");
}

#[test]
fn a_root_that_was_there_gets_no_gitignore() {
    let place = Place::new();
    let dir = place.dir("plain");
    place.dir("plain/.lokt");
    run(&dir, "lock x").exits(0, "it is free");
    assert!(!dir.join(".lokt/.gitignore").exists(), "whoever made it decided");
}

// --- lokt repositories

/// A lokt repository with the worktrees `a` and `b` beside `main`.
fn grove(place: &Place, name: &str) -> PathBuf {
    let top = place.dir(name);
    for words in ["worktree init", "worktree create a", "worktree create b"] {
        run(&top, words).exits(0, "a repository can be made");
    }
    top
}

#[test]
fn worktrees_of_one_lokt_repository_share_a_root_outside_git() {
    let place = Place::new();
    let top = grove(&place, "grove");
    let (a, b) = (top.join("worktrees/a"), top.join("worktrees/b"));
    let deep = place.dir("grove/main/src/deep");
    for dir in [&top, &a, &b, &deep] {
        let found = root_of(lokt(dir));
        assert_eq!(found, (top.join(".jvs/lokt"), "lokt-repository".into()), "from {}", dir.display());
    }
    run(&a, "root").exits(0, "there is an answer").notes("found via: lokt repository (.jvs)", "it says how");
    let said = run(&a, "lock x").exits(0, "it is free");
    assert_eq!(said.created, Some(top.join(".jvs/lokt")), "it says where{said}");
    let beside = lokt(&b).env("LOKT_OWNER", "b").args(["guard", "x", "--", "true"]).run();
    beside.exits(2, "one-holder: worktrees of one repository exclude each other");
    for dir in [&top, &a, &b, &deep] {
        assert!(!dir.join(".lokt").exists(), "nowhere else is a root: {}", dir.display());
    }
}

#[test]
fn a_root_in_a_lokt_repository_is_nothing_wrong_with_it() {
    let place = Place::new();
    let top = grove(&place, "grove");
    let a = top.join("worktrees/a");
    put(&a.join("page"), "text");
    run(&a, "lock x").exits(0, "it is free");
    put(&a.join("scripts/build.sh"), "#!/bin/sh\nexec lokt guard build -- make\n");
    run(&a, "prime").exits(0, "there is an answer").says("scripts/build.sh", "the worktree is the project");
    crate::common::remove(&a.join("scripts/build.sh"));
    run(&top, "worktree list").exits(0, "the root is no worktree").says("b", "they are listed");
    let saves = lokt(&a).env("HOME", &place.path).args(["snapshot", "create", "--acquire"]).run();
    saves.exits(0, "it can be saved").says("1 file", "without the root");
    run(&top, "worktree rename b c").exits(0, "it can be renamed");
    run(&top, "worktree remove c").exits(0, "it can be removed");
    let strict = run(&top, "doctor --strict").exits(0, "nothing is wrong");
    assert!(!strict.stdout.contains("WARN") && !strict.stdout.contains("FAIL"), "nothing is odd{strict}");
    run(&top, "exists x").exits(0, "the lock is still held");
}

#[test]
fn the_outermost_of_git_and_the_lokt_repository_has_the_root() {
    lokt_testkit::need!("git");
    let place = Place::new();
    let top = grove(&place, "inside/grove");
    let inner = place.repository("inside/grove/worktrees/a");
    let jvs = (top.join(".jvs/lokt"), "lokt-repository".to_owned());
    assert_eq!(root_of(lokt(&inner)), jvs, "git in a worktree is inside");
    git(&inner, &["worktree", "add", "-q", "../../../../linked"]);
    assert_eq!(root_of(lokt(&place.path.join("linked"))), jvs, "so is what is linked to it from outside");
    let hook = lokt(&inner).env("GIT_DIR", ".git");
    assert_eq!(root_of(hook), jvs, "what git says to its hooks changes nothing");

    git(&top, &["init", "-q"]);
    for dir in [&top, &inner, &top.join("main"), &place.path.join("linked")] {
        let found = root_of(lokt(dir));
        assert_eq!(found, (top.join(".git/lokt"), "git".into()), "git at its top, from {}", dir.display());
    }
    fs::remove_dir_all(top.join(".git")).expect("it is ours");
    let around = place.repository("inside");
    for dir in [&around, &top, &inner, &top.join("main"), &place.path.join("linked")] {
        let found = root_of(lokt(dir));
        assert_eq!(found, (around.join(".git/lokt"), "git".into()), "git around it, from {}", dir.display());
    }
    run(&place.path, "worktree init").exits(0, "a repository around all of them");
    for dir in [&around, &top, &inner, &place.path.join("linked")] {
        let found = root_of(lokt(dir)).0;
        assert_eq!(found, place.path.join(".jvs/lokt"), "a repository around that, from {}", dir.display());
    }
}

/// Git tells a hook of a linked worktree the whole path of its directory, and the hook may go elsewhere.
#[test]
fn the_git_dir_of_another_repository_does_not_lead_out_of_a_lokt_repository() {
    lokt_testkit::need!("git");
    let place = Place::new();
    let elsewhere = place.repository("elsewhere");
    git(&elsewhere, &["worktree", "add", "-q", "../linked"]);
    let top = grove(&place, "grove");
    for dir in [".git/worktrees/linked", ".git"] {
        let hook = lokt(&top.join("worktrees/a")).env("GIT_DIR", elsewhere.join(dir));
        assert_eq!(root_of(hook), (top.join(".jvs/lokt"), "lokt-repository".into()), "GIT_DIR is {dir}");
    }
}

/// All worktrees of a git repository share a root. Where one of them was put into a lokt repository, `doctor` names the other root.
#[test]
fn a_worktree_of_an_outside_git_repository_keeps_that_ones_root() {
    lokt_testkit::need!("git");
    let place = Place::new();
    let top = grove(&place, "grove");
    let outside = place.repository("outside");
    git(&outside, &["worktree", "add", "-q", "../grove/worktrees/linked"]);
    let linked = top.join("worktrees/linked");
    assert_eq!(root_of(lokt(&linked)), (outside.join(".git/lokt"), "git".into()), "as in its main checkout");
    assert_eq!(root_of(lokt(&top.join("main"))).0, top.join(".jvs/lokt"), "the others aren't git's");
    run(&linked, "lock x").exits(0, "it is free");
    lokt(&outside).env("LOKT_OWNER", "b").args(["lock", "x"]).run().exits(2, "git's worktrees share it");
    run(&top.join("main"), "lock x").exits(0, "that is another root");
    run(&linked, "doctor").exits(0, "a warning").says(&top.join(".jvs/lokt").display().to_string(), "it is named");
    let said = run(&top.join("main"), "doctor").exits(0, "a warning");
    said.says(&outside.join(".git/lokt").display().to_string(), "from here too");
}

#[test]
fn a_strangers_lokt_repository_in_a_public_directory_does_not_decide() {
    use std::os::unix::fs::PermissionsExt as _;
    lokt_testkit::need!(root);
    let place = Place::new();
    let top = grove(&place, "public");
    let ours = place.dir("public/ours");
    fs::set_permissions(&top, fs::Permissions::from_mode(0o1777)).expect("it is ours");
    chown(top.join(".jvs"), Some(20_003), None).expect("these tests run as root, as CI does");
    assert_eq!(root_of(lokt(&ours)), (ours.join(".lokt"), "local".into()), "anybody could have put it there");
    chown(&top, Some(20_003), None).expect("these tests run as root, as CI does");
    assert_eq!(root_of(lokt(&ours)).0, top.join(".jvs/lokt"), "in the stranger's own directory it is the project");
}

#[test]
fn a_lokt_repository_is_not_made_under_those_who_hold_locks() {
    lokt_testkit::need!("git");
    let place = Place::new();
    let top = place.dir("top");
    let clone = place.repository("top/clone");
    run(&top, "lock x").exits(0, "it is free");
    let said = run(&top, "worktree init").exits(2, "the holder would be in another root");
    said.notes(&top.join(".lokt").display().to_string(), "it says where").notes("\"x\"", "and what");
    assert!(!top.join(".jvs").exists(), "nothing was made");
    run(&top, "unlock x").exits(0, "it is ours");
    run(&clone, "lock y").exits(0, "it is free");
    let said = run(&top, "worktree init --json").exits(2, "what is below would be in another root, too");
    assert_eq!(said.failure(), "E_LOCK_CONFLICT", "the code is stable");
    run(&clone, "unlock y").exits(0, "it is ours");
    let said = run(&top, "worktree init").exits(0, "nothing is held");
    said.notes(&top.join(".lokt").display().to_string(), "it says which roots are no longer used")
        .notes(&clone.join(".git/lokt").display().to_string(), "all of them");
    assert_eq!(root_of(lokt(&clone)).0, top.join(".jvs/lokt"), "there is one");
    run(&clone, "doctor")
        .exits(0, "a warning")
        .says(&clone.join(".git/lokt").display().to_string(), "the old one is named");
}

// --- what git's variables say

/// `git push` to a bare repository runs its hooks with `GIT_DIR=.`; a hook that deploys goes elsewhere.
#[test]
fn a_git_dir_that_names_nothing_from_here_is_searched_past() {
    lokt_testkit::need!("git");
    let place = Place::new();
    let site = place.repository("site");
    let sub = place.dir("site/sub");
    let bare = place.dir("bare.git");
    git(&bare, &["init", "-q", "--bare"]);
    assert_eq!(root_of(lokt(&bare).env("GIT_DIR", ".")).0, bare.join("lokt"), "in the hook's own directory");
    for (variable, value) in
        [("GIT_DIR", "."), ("GIT_DIR", ".git"), ("GIT_DIR", "/nonexistent"), ("GIT_COMMON_DIR", ".")]
    {
        let found = root_of(lokt(&sub).env(variable, value));
        assert_eq!(found, (site.join(".git/lokt"), "git".into()), "{variable}={value}: as for everybody here");
    }
    run(&site, "lock deploy").exits(0, "it is free");
    let hook = lokt(&sub).env("GIT_DIR", ".").env("LOKT_OWNER", "hook").args(["guard", "deploy", "--", "true"]).run();
    hook.exits(2, "one-holder: the hook doesn't enter beside a person");
}

#[test]
fn a_root_that_another_git_dir_leads_to_is_named_by_doctor() {
    lokt_testkit::need!("git");
    let place = Place::new();
    let (one, other) = (place.repository("one"), place.repository("other"));
    run(&one, "lock x").exits(0, "it is free");
    run(&other, "lock x").exits(0, "it is free");
    let led = lokt(&one).env("GIT_DIR", other.join(".git")).args(["doctor"]).run().exits(0, "a warning");
    led.says(&one.join(".git/lokt").display().to_string(), "what is used without the variable is named");
}

#[test]
fn doctor_names_the_roots_that_were_used_before_the_lokt_repository() {
    lokt_testkit::need!("git");
    let place = Place::new();
    let top = grove(&place, "grove");
    let inner = place.repository("grove/worktrees/a");
    let old = [top.join("worktrees/b/.lokt"), top.join("main/.lokt"), inner.join(".git/lokt"), top.join(".lokt")];
    for root in &old {
        lokt(&top).env("LOKT_ROOT", root).args(["lock", "x"]).run().exits(0, "it is free");
    }
    for dir in [top.join("main"), inner] {
        let said = run(&dir, "doctor").exits(0, "a warning");
        let said = said.says("[WARN]  One root", "there are more");
        for root in &old {
            assert!(said.stdout.contains(&root.display().to_string()), "{} is named{said}", root.display());
        }
    }
}

/// The Go program asks git, which refuses a stranger's repository, and locks in the current directory then.
#[test]
fn doctor_names_what_is_used_where_git_refuses() {
    lokt_testkit::need!(root, "git");
    let place = Place::new();
    let strange = place.repository("strange");
    let sub = place.dir("strange/sub");
    for path in [strange.clone(), strange.join(".git")] {
        chown(&path, Some(20_003), None).expect("these tests run as root, as CI does");
    }
    assert_eq!(root_of(lokt(&sub)).0, strange.join(".git/lokt"), "a colleague's project is shared");
    fs::create_dir_all(sub.join(".lokt/locks")).expect("a temp directory is writable");
    chown(sub.join(".lokt"), Some(20_003), None).expect("these tests run as root, as CI does");
    run(&sub, "doctor").exits(0, "a warning").says(&sub.join(".lokt").display().to_string(), "it is named");
}

#[test]
fn the_search_for_git_stops_where_gits_own_does() {
    lokt_testkit::need!("git");
    let place = Place::new();
    let repository = place.repository("repo");
    let deep = place.dir("repo/a/b");
    let link = place.path.join("link");
    symlink(&repository, &link).expect("a temp directory is writable");
    let text = |path: &Path| path.display().to_string();
    let cases = [
        text(&repository),
        text(&repository.join("a")),
        format!("{}/", text(&repository.join("a"))),
        text(&deep),
        text(&place.path),
        text(&link),
        format!(":{}", text(&link)),
        format!(":{}", text(&repository.join("a"))),
        format!("/nonexistent:relative:{}", text(&repository)),
        "relative".to_owned(),
        "/".to_owned(),
        String::new(),
    ];
    for ceilings in cases {
        let asked = Call::new("git")
            .args(["rev-parse", "--git-dir"])
            .cwd(&deep)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CEILING_DIRECTORIES", &ceilings)
            .run();
        let expected =
            if asked.code == 0 { (repository.join(".git/lokt"), "git") } else { (deep.join(".lokt"), "local") };
        let found = root_of(lokt(&deep).env("GIT_CEILING_DIRECTORIES", &ceilings));
        assert_eq!(
            found,
            (expected.0, expected.1.to_owned()),
            "GIT_CEILING_DIRECTORIES={ceilings}, as git has it{asked}"
        );
    }
    run(&deep, "lock x").exits(0, "it is free");
    let walled = lokt(&deep).env("GIT_CEILING_DIRECTORIES", &repository).args(["doctor"]).run();
    walled.exits(0, "a warning").says(&repository.join(".git/lokt").display().to_string(), "doctor looks behind it");
}

// --- creation

#[test]
fn whichever_rule_a_root_is_created_by_its_path_is_said() {
    lokt_testkit::need!("git");
    let place = Place::new();
    let repository = place.repository("repo");
    let plain = place.dir("plain");
    let top = grove(&place, "grove");
    let cases = [
        (lokt(&repository), repository.join(".git/lokt")),
        (lokt(&plain), plain.join(".lokt")),
        (lokt(&top), top.join(".jvs/lokt")),
        (lokt(&plain).env("LOKT_ROOT", "named"), plain.join("named")),
    ];
    for (call, root) in cases {
        let said = call.args(["guard", "x", "--", "true"]).run().exits(0, "it is free");
        assert_eq!(said.created, Some(root), "somebody who expected another one sees it{said}");
        assert_eq!(said.stderr, "", "and nothing else");
    }
}

/// A search, by where it begins and which variables it has, and the root that it finds.
type Searched = (PathBuf, &'static [(&'static str, String)], PathBuf);

/// Runs `lokt root` in `cwd` and lets the `nth` of its calls of this name fail. `None` if there aren't so many.
fn root_with_error((cwd, variables, _): &Searched, trace: &Path, call: &str, nth: usize) -> Option<Said> {
    let inject = format!("inject={call}:error=EIO:when={nth}");
    let words = ["-e", &format!("trace={call}"), "-e", &inject, LOKT, "root", "--json"];
    let strace = Call::new("strace").args(["-qq", "-o"]).args([trace]).args(words).env("LOKT_OWNER", "a").cwd(cwd);
    let said = variables.iter().fold(strace, |call, (name, value)| call.env(name, value)).run();
    fs::read_to_string(trace).expect("strace wrote it").contains("(INJECTED)").then_some(said)
}

/// Every call of a search fails once: an error must not lead to another root than the one that everybody else finds.
#[test]
fn a_look_that_fails_leads_to_no_second_root() {
    lokt_testkit::need!("git", "strace");
    let place = Place::new();
    let [yard, below, inside, deep] =
        ["yard", "plain/below", "symlinked/inside", "repo/ceiling/deep"].map(|name| place.dir(name));
    run(&yard, "worktree init").exits(0, "it makes a repository");
    run(&yard, "worktree create w1").exits(0, "it makes a worktree");
    let repository = place.repository("repo");
    git(&repository, &["worktree", "add", "-q", "../linked"]);
    place.dir("plain/.lokt");
    symlink(repository.join(".git/worktrees/linked"), place.path.join("symlinked/.git")).expect("temp");
    symlink(repository.join("ceiling"), place.path.join("ceiling")).expect("temp");
    let ceiling: &'static [_] =
        Vec::leak(vec![("GIT_CEILING_DIRECTORIES", place.path.join("ceiling").display().to_string())]);
    let cases: [Searched; 5] = [
        (yard.join("worktrees/w1"), &[], yard.join(".jvs/lokt")),
        (place.path.join("linked"), &[], repository.join(".git/lokt")),
        (below, &[], place.path.join("plain/.lokt")),
        (inside, &[], repository.join(".git/lokt")),
        (deep.clone(), ceiling, deep.join(".lokt")),
    ];
    let trace = place.path.join("trace");
    for searched in &cases {
        let (mut failed, own) = (0, searched.2.to_string_lossy());
        for call in ["newfstatat", "statx", "openat", "read", "?readlink", "?readlinkat", "?faccessat2", "getdents64"] {
            for nth in 1.. {
                let Some(said) = root_with_error(searched, &trace, call, nth) else { break };
                if said.code == 0 {
                    assert_eq!(said.json()["root_path"], *own, "{call} {nth} doesn't matter{said}");
                } else {
                    let said = said.exits(1, "a search that fails is an error");
                    assert_eq!(said.failure(), "E_IO", "it says so{said}");
                    failed += 1;
                }
            }
        }
        assert!(failed > 2, "errors were met on the way to {own}: {failed}");
    }
}

/// In a directory like `/tmp`, an error must not make a stranger's repository one of ours.
#[test]
fn a_strangers_repository_is_not_used_because_of_an_error() {
    lokt_testkit::need!(root, "strace");
    let place = Place::new();
    let (open, below) = (place.dir("open"), place.dir("open/below"));
    run(&open, "worktree init").exits(0, "it makes a repository");
    for path in [open.join(".jvs"), open.join(".jvs/format_version")] {
        chown(&path, Some(20_003), Some(20_003)).expect("root gives files away");
    }
    fs::set_permissions(&open, fs::Permissions::from_mode(0o1777)).expect("it is ours");
    let searched: Searched = (below.clone(), &[], below.join(".lokt"));
    for call in ["newfstatat", "statx"] {
        for nth in 1.. {
            let Some(said) = root_with_error(&searched, &place.path.join("trace"), call, nth) else { break };
            let is_safe = said.code == 1 || said.json()["root_path"] == *searched.2.to_string_lossy();
            assert!(is_safe, "{call} {nth} trusts a stranger{said}");
        }
    }
}

/// A directory that can't be listed may have a root below it in which a lock is held.
#[test]
fn no_repository_is_made_above_what_can_not_be_listed() {
    lokt_testkit::need!("strace");
    let place = Place::new();
    let (top, sub) = (place.dir("top"), place.dir("top/sub"));
    run(&sub, "lock held").exits(0, "it is free");
    let said = Call::new("strace")
        .args(["-qq", "-o", "/dev/null", "-e", "trace=getdents64", "-e", "inject=getdents64:error=EIO", LOKT])
        .args(["worktree", "init"])
        .env("LOKT_OWNER", "a")
        .cwd(&top)
        .run();
    said.exits(1, "what is below isn't known").notes("Input/output error", "it says why");
    assert!(!top.join(".jvs").exists(), "nothing was made");
}

#[test]
fn a_guard_whose_search_fails_runs_nothing_and_makes_no_root() {
    lokt_testkit::need!("strace");
    let place = Place::new();
    let yard = place.dir("yard");
    run(&yard, "worktree init").exits(0, "it makes a repository");
    for (path, error) in [(".jvs", "EIO"), (".jvs", "ENOMEM"), (".jvs/format_version", "ESTALE")] {
        let call = Call::new("strace").args(["-qq", "-o", "/dev/null", "-P"]).args([yard.join(path)]).args([
            "-e",
            "trace=newfstatat,statx",
            "-e",
            &format!("inject=newfstatat,statx:error={error}"),
            LOKT,
            "guard",
            "x",
            "--",
            "touch",
            "ran",
        ]);
        let said = call.env("LOKT_OWNER", "a").cwd(&yard).run();
        said.exits(1, "which root is meant isn't known")
            .notes(&format!("look at {}", yard.join(path).display()), "it names the path")
            .notes("--root", "and what to do");
        assert!(!yard.join("ran").exists() && !yard.join(".lokt").exists(), "{path} {error}: nothing was done");
    }
}
