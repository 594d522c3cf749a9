//! Which root is meant, when `LOKT_ROOT` doesn't say.

use std::fs;
use std::os::unix::fs::{chown, symlink};
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
    let place = Place::new();
    let bare = place.dir("bare.git");
    git(&bare, &["init", "-q", "--bare"]);
    assert_eq!(root_of(lokt(&bare)), (bare.join("lokt"), "git".into()), "the root is inside");
}

#[test]
fn git_itself_is_not_needed() {
    let place = Place::new();
    let repository = place.repository("repo");
    let found = root_of(lokt(&repository).env("PATH", "/nonexistent"));
    assert_eq!(found, (repository.join(".git/lokt"), "git".into()), "its files are read, it is not run");
    lokt(&repository).env("PATH", "").args(["lock", "x"]).run().exits(0, "locking needs no program either");
}

#[test]
fn git_dir_names_the_repository() {
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
    let place = Place::new();
    let (strange, deep) = (place.dir("strange"), place.dir("strange/ours"));
    place.dir("strange/.lokt");
    assert_eq!(root_of(lokt(&deep)).0, strange.join(".lokt"), "our own directory counts");
    chown(&strange, Some(20_003), None).expect("these tests run as root, as CI does");
    assert_eq!(root_of(lokt(&deep)).0, deep.join(".lokt"), "what a stranger put above us doesn't decide");
}

#[test]
fn a_new_root_outside_git_keeps_itself_out_of_commits() {
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
