//! Which root directory is meant: `LOKT_ROOT`, else the git repository's, else the nearest `.lokt` upwards, else `./.lokt`.
//!
//! Git's files are read, `git` is never run: it may be missing or refuse, and half of a team would then lock somewhere else.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use lokt_core::git;

/// Git's files that are read here are one short line each.
const GIT_FILE_BYTES_MAX: u64 = 64 << 10;

/// What the search depends on; the caller reads it from the environment.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// `LOKT_ROOT`.
    pub lokt_root: Option<OsString>,
    /// `GIT_DIR`.
    pub git_dir: Option<OsString>,
    /// `GIT_COMMON_DIR`.
    pub git_common_dir: Option<OsString>,
    /// `HOME`: the search for `.lokt` doesn't go above it.
    pub home: Option<PathBuf>,
    /// The current directory.
    pub cwd: PathBuf,
}

/// How a root was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// `LOKT_ROOT`.
    Env,
    /// In a git repository.
    Git,
    /// A `.lokt` directory.
    Local,
}

impl Method {
    /// As in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Env => "env",
            Self::Git => "git",
            Self::Local => "local",
        }
    }
}

/// A root directory, which may not exist yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Where.
    pub path: PathBuf,
    /// How.
    pub method: Method,
}

/// What is at a root's path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// A directory.
    There,
    /// Nothing yet.
    Missing,
    /// Something that can't be used; the text says why.
    Unusable(String),
}

impl Found {
    /// Looks what is there.
    pub fn state(&self) -> State {
        match fs::metadata(&self.path) {
            Ok(meta) if meta.is_dir() => State::There,
            Ok(_) => State::Unusable("it is not a directory".into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound && leads_nowhere(&self.path) => {
                State::Unusable("it is a symbolic link to nothing".into())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => State::Missing,
            Err(error) => State::Unusable(error.to_string()),
        }
    }
}

/// Is this a symbolic link? Asked about a path where nothing was found: then it is one to nothing.
pub(crate) fn leads_nowhere(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink())
}

impl Surroundings {
    /// Finds the root. Always gives an answer; nothing is created.
    pub fn find_root(&self) -> Found {
        if let Some(path) = self.lokt_root.as_ref().filter(|path| !path.is_empty()) {
            return Found { path: self.cwd.join(path), method: Method::Env };
        }
        if let Some(common) = self.git_common_dir() {
            return Found { path: common.join("lokt"), method: Method::Git };
        }
        Found { path: self.nearest_lokt().unwrap_or_else(|| self.cwd.join(".lokt")), method: Method::Local }
    }

    fn git_common_dir(&self) -> Option<PathBuf> {
        if let Some(dir) = self.git_common_dir.as_ref().filter(|dir| !dir.is_empty()) {
            return Some(self.cwd.join(dir)).filter(|dir| dir.is_dir());
        }
        if let Some(dir) = self.git_dir.as_ref().filter(|dir| !dir.is_empty()) {
            return common_of(&self.cwd.join(dir));
        }
        let us = rustix::process::geteuid().as_raw();
        self.upwards().find_map(|dir| {
            let repository =
                |mark: &str, git: &Path| if is_no_strangers(dir, mark, us) { common_of(git) } else { None };
            repository(".git", &dir.join(".git")).or_else(|| repository("HEAD", dir))
        })
    }

    /// The nearest existing `.lokt`. The search ends at the home directory, at a mount border, and at a directory that belongs to
    /// somebody who is neither us nor root: what a stranger puts above us doesn't decide where we lock.
    fn nearest_lokt(&self) -> Option<PathBuf> {
        let us = rustix::process::geteuid().as_raw();
        let trusted = |meta: &fs::Metadata| meta.uid() == us || meta.uid() == 0;
        // By what it is, not by its name: `HOME` may lead there through a link.
        let place = |meta: &fs::Metadata| (meta.dev(), meta.ino());
        let home = self.home.as_deref().and_then(|home| fs::metadata(home).ok()).map(|meta| place(&meta));
        for dir in self.upwards() {
            let meta = fs::metadata(dir).ok().filter(trusted)?;
            // Anybody can put one into a directory like /tmp, which is root's.
            let candidate = dir.join(".lokt");
            if fs::metadata(&candidate).is_ok_and(|meta| meta.is_dir() && trusted(&meta)) {
                return Some(candidate);
            }
            if home == Some(place(&meta)) {
                return None;
            }
        }
        None
    }

    /// Every `.lokt` from here upwards that could be found from somewhere.
    pub(crate) fn lokts_upwards(&self) -> Vec<PathBuf> {
        let mut here = self.clone();
        let mut found = Vec::new();
        while let Some(lokt) = here.nearest_lokt() {
            let above = lokt.parent().and_then(Path::parent).map(ToOwned::to_owned);
            let at_home = lokt.parent() == here.home.as_deref();
            found.push(lokt);
            match above.filter(|_| !at_home) {
                Some(above) => here.cwd = above,
                None => break,
            }
        }
        found
    }

    /// The current directory and those above it, on the same mount.
    fn upwards(&self) -> impl Iterator<Item = &Path> {
        let device = |dir: &Path| fs::metadata(dir).map(|meta| meta.dev()).ok();
        let here = device(&self.cwd);
        self.cwd.ancestors().take_while(move |dir| device(dir) == here)
    }
}

/// Does `mark` in `dir` belong to us, to root, or to whom the directory belongs? Anybody can put a repository into a directory like
/// `/tmp`; in a colleague's project it is the colleague's.
fn is_no_strangers(dir: &Path, mark: &str, us: u32) -> bool {
    let owner = |path: &Path| fs::symlink_metadata(path).map(|meta| meta.uid()).ok();
    owner(&dir.join(mark)).is_some_and(|uid| uid == us || uid == 0 || Some(uid) == owner(dir))
}

/// The common directory of a repository, if `place` is its directory or a `gitdir:` file. Linked worktrees share one.
fn common_of(place: &Path) -> Option<PathBuf> {
    let meta = fs::metadata(place).ok()?;
    if meta.is_file() {
        let content = short_file(place)?;
        let target = git::gitdir(&content)?;
        return common_of_dir(&tidy(&place.parent()?.join(OsStr::from_bytes(target))));
    }
    common_of_dir(place)
}

fn common_of_dir(dir: &Path) -> Option<PathBuf> {
    if !dir.join("HEAD").is_file() {
        return None;
    }
    let content = short_file(&dir.join("commondir")).unwrap_or_default();
    let common = match git::commondir(&content) {
        Some(target) => tidy(&dir.join(OsStr::from_bytes(target))),
        None => dir.to_owned(),
    };
    (common.join("objects").is_dir() && common.join("refs").is_dir()).then_some(common)
}

/// `a/b/../..` as people would write it; `commondir` is usually `../..`, and a submodule's `gitdir` begins with `../`.
fn tidy(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn short_file(path: &Path) -> Option<Vec<u8>> {
    let meta = fs::metadata(path).ok()?;
    (meta.is_file() && meta.len() <= GIT_FILE_BYTES_MAX).then(|| fs::read(path).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::create_dir_all;

    fn repository(git: &Path) {
        create_dir_all(git.join("objects")).expect("a temp directory is writable");
        create_dir_all(git.join("refs")).expect("a temp directory is writable");
        put(&git.join("HEAD"), "ref: refs/heads/main\n");
    }

    #[expect(clippy::disallowed_methods, reason = "a fixture, not a record")]
    fn put(path: &Path, content: impl AsRef<[u8]>) {
        fs::write(path, content).expect("a temp directory is writable");
    }

    fn at(cwd: &Path) -> Surroundings {
        Surroundings { cwd: cwd.to_owned(), ..Surroundings::default() }
    }

    #[test]
    fn the_variable_wins_and_may_be_relative() {
        let dir = tempfile::tempdir().expect("temp");
        repository(&dir.path().join(".git"));
        let found = Surroundings { lokt_root: Some("r".into()), ..at(dir.path()) }.find_root();
        assert_eq!(found, Found { path: dir.path().join("r"), method: Method::Env });
        let empty = Surroundings { lokt_root: Some("".into()), ..at(dir.path()) }.find_root();
        assert_eq!(empty.method, Method::Git, "an empty variable is none");
    }

    #[test]
    fn subdirectories_and_linked_worktrees_share_the_repositorys_root() {
        let dir = tempfile::tempdir().expect("temp");
        let dir = dir.path().canonicalize().expect("it exists");
        let git = dir.join("repo/.git");
        repository(&git);
        create_dir_all(dir.join("repo/a/b")).expect("temp");
        assert_eq!(at(&dir.join("repo/a/b")).find_root().path, git.join("lokt"));
        assert_eq!(at(&git).find_root().path, git.join("lokt"), "inside the git directory itself");

        let linked = git.join("worktrees/w");
        create_dir_all(&linked).expect("temp");
        put(&linked.join("HEAD"), "ref: refs/heads/w\n");
        put(&linked.join("commondir"), "../..\n");
        create_dir_all(dir.join("w")).expect("temp");
        put(&dir.join("w/.git"), format!("gitdir: {}\n", linked.display()));
        assert_eq!(at(&dir.join("w")).find_root(), Found { path: git.join("lokt"), method: Method::Git });

        let from_env = Surroundings { git_dir: Some(git.clone().into()), ..at(&dir) }.find_root();
        assert_eq!(from_env.path, git.join("lokt"));
    }

    /// Whoever lost the path would lock beside everybody else.
    #[test]
    fn a_linked_worktree_shares_a_root_whose_path_is_any_bytes() {
        let dir = tempfile::tempdir().expect("temp");
        let dir = dir.path().canonicalize().expect("it exists");
        for (nth, name) in [&b"b\xfccher"[..], b"ends with a blank "].into_iter().enumerate() {
            let git = dir.join(OsStr::from_bytes(name)).join(".git");
            repository(&git);
            let linked = git.join("worktrees/w");
            create_dir_all(&linked).expect("temp");
            put(&linked.join("HEAD"), "ref: refs/heads/w\n");
            put(&linked.join("commondir"), [git.as_os_str().as_bytes(), b"\n"].concat());
            let worktree = dir.join(format!("w{nth}"));
            create_dir_all(&worktree).expect("temp");
            put(&worktree.join(".git"), [b"gitdir: ", linked.as_os_str().as_bytes(), b"\n"].concat());
            let found = at(&worktree).find_root();
            assert_eq!(found, Found { path: git.join("lokt"), method: Method::Git }, "{}", name.escape_ascii());
        }
    }

    #[test]
    fn outside_git_the_nearest_lokt_upwards_counts() {
        let dir = tempfile::tempdir().expect("temp");
        let deep = dir.path().join("a/b");
        create_dir_all(&deep).expect("temp");
        assert_eq!(at(&deep).find_root().path, deep.join(".lokt"), "none yet: here");
        create_dir_all(dir.path().join(".lokt")).expect("temp");
        assert_eq!(at(&deep).find_root(), Found { path: dir.path().join(".lokt"), method: Method::Local });
        let below_home = Surroundings { home: Some(dir.path().join("a")), ..at(&deep) };
        assert_eq!(below_home.find_root().path, deep.join(".lokt"), "the search ends at the home directory");
    }

    #[test]
    fn a_git_file_that_leads_nowhere_is_no_repository() {
        let dir = tempfile::tempdir().expect("temp");
        put(&dir.path().join(".git"), "gitdir: /nonexistent\n");
        assert_eq!(at(dir.path()).find_root().method, Method::Local);
        put(&dir.path().join(".git"), "garbage");
        assert_eq!(at(dir.path()).find_root().method, Method::Local);
    }
}
