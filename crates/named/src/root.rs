//! Finds the root directory: `--root`, else `LOKT_ROOT`, else that of the outermost of the git
//! common directory and the lokt repository (`.jvs`) around the current directory, else the nearest
//! `.lokt` upwards, else `./.lokt`. The rule is in docs/protocol.md, section 1.
//!
//! Git's files are read; `git` is never run: it may be missing or refuse, and half of a team would
//! then lock somewhere else.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use lokt_core::git;

use lokt_sys::error::Error;
use lokt_sys::files::{self, is_link};
use lokt_sys::look::{Look, look_through, us};
use lokt_sys::repository::{JVS, lokt_repository};
use lokt_sys::search::{entries, find, find_through, is_dir, is_file, read_short, real_path, resolve};

/// Maximum size in bytes of git's files that are read here: one short line each.
const GIT_FILE_BYTES_MAX: u64 = 64 << 10;
/// The root's directory in a git common directory and in `.jvs`.
const LOKT: &str = "lokt";
/// Maximum number of lokt repositories around each other, with git between them, that are checked.
/// Links that form a cycle end here.
const NESTED_MAX: usize = 16;
/// Maximum depth below a directory at which other roots are searched for.
const DEPTH: usize = 3;
/// Maximum number of entries that are checked. A larger tree is searched in part.
const ENTRIES_MAX: usize = 10_000;
/// Directories that are not searched: large, and nobody works in there.
const SKIPPED: [&str; 5] = [".git", ".jvs", "node_modules", "target", ".lokt"];

/// Inputs of the search; the caller reads them from the command line and the environment.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// `--root`.
    pub named_root: Option<PathBuf>,
    /// `LOKT_ROOT`.
    pub lokt_root: Option<OsString>,
    /// `GIT_DIR`.
    pub git_dir: Option<OsString>,
    /// `GIT_COMMON_DIR`.
    pub git_common_dir: Option<OsString>,
    /// `GIT_CEILING_DIRECTORIES`: the search for git doesn't enter these from below.
    pub git_ceilings: Option<OsString>,
    /// `HOME`: the search for `.lokt` doesn't go above it.
    pub home: Option<PathBuf>,
    /// The current directory, absolute and without symbolic links.
    pub cwd: PathBuf,
}

/// The way in which a root was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// `--root`.
    Flag,
    /// `LOKT_ROOT`.
    Env,
    /// In a git repository.
    Git,
    /// In a lokt repository (`.jvs`).
    LoktRepository,
    /// A `.lokt` directory.
    Local,
}

impl Method {
    /// Returns the name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Flag => "flag",
            Self::Env => "env",
            Self::Git => "git",
            Self::LoktRepository => "lokt-repository",
            Self::Local => "local",
        }
    }
}

/// A root directory, which may not exist yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its path.
    pub path: PathBuf,
    /// The way in which it was found.
    pub method: Method,
}

/// State of a root's path.
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
    /// Checks what is there.
    pub fn state(&self) -> State {
        match look_through(&self.path) {
            Ok(Some(found)) if found.is_dir => State::There,
            Ok(Some(_)) => State::Unusable("it is not a directory".into()),
            Ok(None) if is_link(&self.path) => State::Unusable("it is a symbolic link to nothing".into()),
            Ok(None) => State::Missing,
            Err(error) => State::Unusable(error.to_string()),
        }
    }
}

impl Surroundings {
    /// Finds the root; nothing is created. Fails if the system doesn't say what is at one of the
    /// places: the next place could lead to another root than the one that other processes find.
    pub fn find_root(&self) -> Result<Found, Error> {
        if let Some(path) = &self.named_root {
            return Ok(Found { path: self.cwd.join(path), method: Method::Flag });
        }
        if let Some(path) = self.lokt_root.as_ref().filter(|path| !path.is_empty()) {
            return Ok(Found { path: self.cwd.join(path), method: Method::Env });
        }
        if let Some(found) = self.of_repositories()? {
            return Ok(found);
        }
        let path = self.nearest_lokt()?.unwrap_or_else(|| self.cwd.join(".lokt"));
        Ok(Found { path, method: Method::Local })
    }

    /// Returns the root of the git repository and the lokt repository around the current directory:
    /// that of the outermost one, so that all directories of either have the same.
    fn of_repositories(&self) -> Result<Option<Found>, Error> {
        let git = self.git_common_dir()?;
        let around = lokt_repository(&self.cwd)?;
        let Some(git) = git else { return around.map(|top| self.outermost(top)).transpose() };
        let top = match around {
            // A hook changed to another directory with the `GIT_DIR` of its own repository.
            Some(top) if self.is_only_named(&git)? => Some(top),
            Some(top) if real_path(&git)?.starts_with(&top) => Some(top),
            // A repository around a git directory above us is above us, too.
            None if git.parent().is_some_and(|dir| self.cwd.starts_with(dir)) => None,
            // All worktrees of a git repository share a root, even one that was put into a lokt
            // repository elsewhere.
            _ => lokt_repository(&real_path(&git)?)?,
        };
        match top {
            Some(top) => self.outermost(top).map(Some),
            None => Ok(Some(Found::in_git(&git))),
        }
    }

    /// Returns the root of the lokt repository in `top`, or of the outermost repository around
    /// that.
    fn outermost(&self, mut top: PathBuf) -> Result<Found, Error> {
        for _ in 0..NESTED_MAX {
            let Some(git) = self.git_upwards(&top)? else { break };
            match lokt_repository(&real_path(&git)?)? {
                Some(outer) if outer != top => top = outer,
                _ => return Ok(Found::in_git(&git)),
            }
        }
        Ok(Found { path: top.join(JVS).join(LOKT), method: Method::LoktRepository })
    }

    /// Reports whether git's variables alone lead to `git`: it isn't the repository around the
    /// current directory.
    fn is_only_named(&self, git: &Path) -> Result<bool, Error> {
        let named = |dir: &Option<OsString>| dir.as_ref().is_some_and(|dir| !dir.is_empty());
        if !named(&self.git_dir) && !named(&self.git_common_dir) {
            return Ok(false);
        }
        let Some(around) = self.git_upwards(&self.cwd)? else { return Ok(true) };
        Ok(real_path(&around)? != real_path(git)?)
    }

    /// Returns git's common directory: the one that the variables name, if it is one, else the one
    /// found upwards. A variable of git's that names nothing from here (a hook's `GIT_DIR=.` after
    /// a `cd`) must not lead to a root of its own.
    fn git_common_dir(&self) -> Result<Option<PathBuf>, Error> {
        let named = |dir: &Option<OsString>| dir.as_ref().filter(|dir| !dir.is_empty()).map(|dir| self.cwd.join(dir));
        if let Some(dir) = named(&self.git_common_dir)
            && is_common(&dir)?
        {
            return Ok(Some(dir));
        }
        if let Some(dir) = named(&self.git_dir)
            && let Some(common) = common_of(&dir)?
        {
            return Ok(Some(common));
        }
        self.git_upwards(&self.cwd)
    }

    /// Returns the common directory of the nearest git repository from `start` upwards.
    fn git_upwards(&self, start: &Path) -> Result<Option<PathBuf>, Error> {
        let us = us();
        let ceiling = self.ceiling_above(start)?;
        for dir in upwards(start) {
            let dir = dir?;
            if ceiling.as_deref() == Some(dir) {
                break;
            }
            for (mark, git) in [(".git", &*dir.join(".git")), ("HEAD", dir)] {
                if is_no_strangers(dir, mark, us)?
                    && let Some(common) = common_of(git)?
                {
                    return Ok(Some(common));
                }
            }
        }
        Ok(None)
    }

    /// Returns the nearest directory above `start` that git's search doesn't enter. As git does:
    /// entries that are not absolute don't count, nor does `start` itself; links are resolved up to
    /// an empty entry.
    fn ceiling_above(&self, start: &Path) -> Result<Option<PathBuf>, Error> {
        let Some(list) = &self.git_ceilings else { return Ok(None) };
        let mut resolves = true;
        let mut ceilings = Vec::new();
        for entry in list.as_bytes().split(|byte| *byte == b':') {
            let entry = Path::new(OsStr::from_bytes(entry));
            resolves &= !entry.as_os_str().is_empty();
            if entry.is_absolute() {
                ceilings.extend(if resolves { resolve(entry)? } else { Some(entry.components().collect()) });
            }
        }
        let above = ceilings.into_iter().filter(|ceiling| start.starts_with(ceiling) && start != ceiling.as_path());
        Ok(above.max_by_key(|ceiling| ceiling.components().count()))
    }

    /// Returns the nearest existing `.lokt`. The search ends at the home directory, at a mount
    /// border, and at a directory that belongs to neither us nor root. What a stranger puts above
    /// us doesn't decide where we lock.
    fn nearest_lokt(&self) -> Result<Option<PathBuf>, Error> {
        let us = us();
        let trusted = |found: &Look| found.uid == us || found.uid == 0;
        // Compared by identity, not by name: `HOME` may lead there through a link.
        let home = self.home.as_deref().map(find_through).transpose()?.flatten().map(|home| home.id);
        for dir in upwards(&self.cwd) {
            let dir = dir?;
            let Some(here) = find_through(dir)?.filter(trusted) else { break };
            // Anybody can create one in a directory like /tmp, which is root's.
            let candidate = dir.join(".lokt");
            if find_through(&candidate)?.is_some_and(|found| found.is_dir && trusted(&found)) {
                return Ok(Some(candidate));
            }
            if home == Some(here.id) {
                break;
            }
        }
        Ok(None)
    }

    /// Returns every `.lokt` from here upwards that could be found from somewhere.
    fn lokts_upwards(&self) -> Result<Vec<PathBuf>, Error> {
        let mut here = self.clone();
        let mut found = Vec::new();
        while let Some(lokt) = here.nearest_lokt()? {
            let above = lokt.parent().and_then(Path::parent).map(ToOwned::to_owned);
            let at_home = lokt.parent() == here.home.as_deref();
            found.push(lokt);
            match above.filter(|_| !at_home) {
                Some(above) => here.cwd = above,
                None => break,
            }
        }
        Ok(found)
    }

    /// Returns every place near the current directory where a root could be that another process
    /// uses: with other variables, from another directory of the same repositories, by another
    /// program or an earlier version. They may not exist.
    pub(crate) fn places_of_roots(&self) -> Result<Vec<PathBuf>, Error> {
        let bare = Self { home: self.home.clone(), ..Self::at(&self.cwd) };
        let mut places = vec![self.cwd.join(".lokt")];
        for looks in [self, &Self { git_ceilings: None, ..self.clone() }, &bare] {
            let git = looks.git_common_dir()?;
            places.extend(looks.of_repositories()?.map(|found| found.path));
            let around_git = match &git {
                Some(git) => lokt_repository(&real_path(git)?)?,
                None => None,
            };
            for top in [lokt_repository(&self.cwd)?, around_git].into_iter().flatten() {
                places.push(top.join(JVS).join(LOKT));
                for worktree in std::iter::once(top.clone()).chain(worktrees(&top)?) {
                    places.push(worktree.join(".lokt"));
                    places.extend(common_of(&worktree.join(".git"))?.map(|git| git.join(LOKT)));
                }
            }
            if let Some(git) = git {
                // Its work tree, if it isn't bare.
                places.extend(git.parent().filter(|_| git.ends_with(".git")).map(|dir| dir.join(".lokt")));
                places.push(git.join(LOKT));
            }
        }
        for dir in upwards(&self.cwd) {
            let dir = dir?;
            if find(&dir.join(".git"))?.is_some() {
                places.push(dir.join(".lokt"));
                break;
            }
        }
        places.extend(self.lokts_upwards()?);
        Ok(places)
    }

    /// Returns the roots in use that commands would no longer find if the current directory became
    /// a lokt repository.
    pub fn replaced_by_repository(&self) -> Result<Vec<PathBuf>, Error> {
        let bare = Self { home: self.home.clone(), ..Self::at(&self.cwd) };
        let next = bare.git_upwards(&self.cwd)?.unwrap_or_else(|| self.cwd.join(JVS)).join(LOKT);
        let now = std::iter::once(bare.find_root()?.path);
        let mut seen = BTreeSet::from([files::real_path(&next)]);
        let places = now.chain(roots_below(&self.cwd, &[".lokt", ".git/lokt"])?);
        Ok(places.filter(|path| is_root(path) && seen.insert(files::real_path(path))).collect())
    }

    fn at(cwd: &Path) -> Self {
        Self { cwd: cwd.to_owned(), ..Self::default() }
    }
}

impl Found {
    fn in_git(common: &Path) -> Self {
        Self { path: common.join(LOKT), method: Method::Git }
    }
}

/// Returns `start` and the directories above it, on the same mount.
fn upwards(start: &Path) -> impl Iterator<Item = Result<&Path, Error>> {
    let mut device = None;
    start.ancestors().map_while(move |dir| match find_through(dir) {
        Ok(found) => {
            let here = found.map(|found| found.id.0);
            (*device.get_or_insert(here) == here).then_some(Ok(dir))
        }
        Err(error) => Some(Err(error)),
    })
}

/// Reports whether a command has used it as a root.
pub(crate) fn is_root(path: &Path) -> bool {
    files::is_dir(&path.join("locks")) || files::is_dir(&path.join("state"))
}

/// Returns where roots of these names would be in directories below `dir`.
pub(crate) fn roots_below(dir: &Path, names: &[&str]) -> Result<Vec<PathBuf>, Error> {
    let (mut roots, mut looked_at, mut level) = (Vec::new(), 0, vec![dir.to_owned()]);
    for _ in 0..DEPTH {
        let mut next = Vec::new();
        for dir in &level {
            for entry in entries(dir)? {
                looked_at += 1;
                if looked_at > ENTRIES_MAX {
                    return Ok(roots);
                }
                if entry.is_dir && !SKIPPED.iter().any(|skipped| entry.name == *skipped) {
                    let below = dir.join(entry.name);
                    roots.extend(names.iter().map(|name| below.join(name)));
                    next.push(below);
                }
            }
        }
        level = next;
    }
    Ok(roots)
}

/// Returns the directories of a lokt repository's worktrees.
fn worktrees(top: &Path) -> Result<Vec<PathBuf>, Error> {
    let dir = top.join("worktrees");
    let others = entries(&dir)?.into_iter().map(|entry| dir.join(entry.name));
    Ok(std::iter::once(top.join("main")).chain(others).collect())
}

/// Reports whether `mark` in `dir` belongs to us, to root, or to the owner of the directory.
/// Anybody can put a repository into a directory like `/tmp`; in a colleague's project it is the
/// colleague's.
fn is_no_strangers(dir: &Path, mark: &str, us: u32) -> Result<bool, Error> {
    let owner = |path: &Path| Ok::<_, Error>(find(path)?.map(|found| found.uid));
    let Some(uid) = owner(&dir.join(mark))? else { return Ok(false) };
    Ok(uid == us || uid == 0 || Some(uid) == owner(dir)?)
}

/// Returns the common directory of a repository, if `place` is its directory or a `gitdir:` file.
/// Linked worktrees share one.
fn common_of(place: &Path) -> Result<Option<PathBuf>, Error> {
    let Some(found) = find_through(place)? else { return Ok(None) };
    if found.kind.is_some() {
        return common_of_dir(place);
    }
    let content = read_short(place, GIT_FILE_BYTES_MAX)?.unwrap_or_default();
    match (git::gitdir(&content), place.parent()) {
        (Some(target), Some(dir)) => common_of_dir(&real_path(&dir.join(OsStr::from_bytes(target)))?),
        _ => Ok(None),
    }
}

fn common_of_dir(dir: &Path) -> Result<Option<PathBuf>, Error> {
    if !is_file(&dir.join("HEAD"))? {
        return Ok(None);
    }
    // It is usually `../..`, just as a submodule's `gitdir` begins with `../`: not a path that
    // people would write.
    let content = read_short(&dir.join("commondir"), GIT_FILE_BYTES_MAX)?.unwrap_or_default();
    let common = match git::commondir(&content) {
        Some(target) => real_path(&dir.join(OsStr::from_bytes(target)))?,
        None => dir.to_owned(),
    };
    Ok(is_common(&common)?.then_some(common))
}

/// Reports whether the directories exist that worktrees share.
fn is_common(dir: &Path) -> Result<bool, Error> {
    Ok(is_dir(&dir.join("objects"))? && is_dir(&dir.join("refs"))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, create_dir_all};

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
        Surroundings::at(cwd)
    }

    impl Surroundings {
        fn find(&self) -> Found {
            self.find_root().expect("everything can be looked at")
        }
    }

    #[test]
    fn the_variable_wins_and_may_be_relative() {
        let dir = tempfile::tempdir().expect("temp");
        repository(&dir.path().join(".git"));
        let found = Surroundings { lokt_root: Some("r".into()), ..at(dir.path()) }.find();
        assert_eq!(found, Found { path: dir.path().join("r"), method: Method::Env });
        let empty = Surroundings { lokt_root: Some("".into()), ..at(dir.path()) }.find();
        assert_eq!(empty.method, Method::Git, "an empty variable is none");
    }

    #[test]
    fn subdirectories_and_linked_worktrees_share_the_repositorys_root() {
        let dir = tempfile::tempdir().expect("temp");
        let dir = dir.path().canonicalize().expect("it exists");
        let git = dir.join("repo/.git");
        repository(&git);
        create_dir_all(dir.join("repo/a/b")).expect("temp");
        assert_eq!(at(&dir.join("repo/a/b")).find().path, git.join("lokt"));
        assert_eq!(at(&git).find().path, git.join("lokt"), "inside the git directory itself");

        let linked = git.join("worktrees/w");
        create_dir_all(&linked).expect("temp");
        put(&linked.join("HEAD"), "ref: refs/heads/w\n");
        put(&linked.join("commondir"), "../..\n");
        create_dir_all(dir.join("w")).expect("temp");
        put(&dir.join("w/.git"), format!("gitdir: {}\n", linked.display()));
        assert_eq!(at(&dir.join("w")).find(), Found { path: git.join("lokt"), method: Method::Git });

        let from_env = Surroundings { git_dir: Some(git.clone().into()), ..at(&dir) }.find();
        assert_eq!(from_env.path, git.join("lokt"));
    }

    #[test]
    fn the_flag_wins_over_the_variable() {
        let found = Surroundings { named_root: Some("f".into()), lokt_root: Some("r".into()), ..at(Path::new("/d")) };
        assert_eq!(found.find(), Found { path: "/d/f".into(), method: Method::Flag });
    }

    #[test]
    fn the_outermost_of_git_and_the_lokt_repository_counts() {
        let dir = tempfile::tempdir().expect("temp");
        let dir = dir.path().canonicalize().expect("it exists");
        let (top, deep) = (dir.join("outer/top"), dir.join("outer/top/worktrees/a/deep"));
        create_dir_all(&deep).expect("temp");
        create_dir_all(top.join(".jvs")).expect("temp");
        assert_eq!(at(&deep).find().method, Method::Local, "a .jvs without a format is none");
        put(&top.join(".jvs/format_version"), "1\n");
        repository(&top.join("worktrees/a/.git"));
        let jvs = Found { path: top.join(".jvs/lokt"), method: Method::LoktRepository };
        assert_eq!(at(&deep).find(), jvs, "git is inside");
        assert_eq!(at(&top).find(), jvs, "everywhere in it");
        repository(&top.join(".git"));
        for from in [&deep, &top] {
            assert_eq!(at(from).find(), Found::in_git(&top.join(".git")), "git at its top is as far outside");
        }
        fs::remove_dir_all(top.join(".git")).expect("temp");
        repository(&dir.join("outer/.git"));
        for from in [&deep, &top] {
            assert_eq!(at(from).find(), Found::in_git(&dir.join("outer/.git")), "git is around it");
        }
    }

    #[test]
    fn links_that_lead_in_a_circle_end() {
        let dir = tempfile::tempdir().expect("temp");
        let dir = dir.path().canonicalize().expect("it exists");
        for (one, other) in [("one", "other"), ("other", "one")] {
            let top = dir.join(one);
            create_dir_all(top.join(".jvs")).expect("temp");
            put(&top.join(".jvs/format_version"), "1\n");
            repository(&top.join("main/.git"));
            put(&top.join(".git"), format!("gitdir: {}\n", dir.join(other).join("main/.git").display()));
        }
        assert_eq!(at(&dir.join("one")).find().method, Method::LoktRepository, "there is an answer");
    }

    #[test]
    fn a_variable_of_gits_that_names_nothing_is_searched_past() {
        let dir = tempfile::tempdir().expect("temp");
        let sub = dir.path().join("sub");
        create_dir_all(&sub).expect("temp");
        repository(&dir.path().join(".git"));
        let expected = Found::in_git(&dir.path().join(".git"));
        for value in [".", ".git", "/nonexistent", ""] {
            assert_eq!(Surroundings { git_dir: Some(value.into()), ..at(&sub) }.find(), expected, "GIT_DIR={value}");
            let common = Surroundings { git_common_dir: Some(value.into()), ..at(&sub) };
            assert_eq!(common.find(), expected, "GIT_COMMON_DIR={value}");
        }
    }

    /// A process that lost the path would lock beside all the others.
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
            let found = at(&worktree).find();
            assert_eq!(found, Found { path: git.join("lokt"), method: Method::Git }, "{}", name.escape_ascii());
        }
    }

    #[test]
    fn outside_git_the_nearest_lokt_upwards_counts() {
        let dir = tempfile::tempdir().expect("temp");
        let deep = dir.path().join("a/b");
        create_dir_all(&deep).expect("temp");
        assert_eq!(at(&deep).find().path, deep.join(".lokt"), "none yet: here");
        create_dir_all(dir.path().join(".lokt")).expect("temp");
        assert_eq!(at(&deep).find(), Found { path: dir.path().join(".lokt"), method: Method::Local });
        let below_home = Surroundings { home: Some(dir.path().join("a")), ..at(&deep) };
        assert_eq!(below_home.find().path, deep.join(".lokt"), "the search ends at the home directory");
    }

    #[test]
    fn a_git_file_that_leads_nowhere_is_no_repository() {
        let dir = tempfile::tempdir().expect("temp");
        put(&dir.path().join(".git"), "gitdir: /nonexistent\n");
        assert_eq!(at(dir.path()).find().method, Method::Local);
        put(&dir.path().join(".git"), "garbage");
        assert_eq!(at(dir.path()).find().method, Method::Local);
    }
}
