//! The environment, read in one place: who asks, and where.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use lokt_core::decide::Presented;
use lokt_core::hold::{Fence, Identity, LockId};
use lokt_core::inherited_holds::InheritedHolds;
use lokt_core::name::LockName;
use lokt_named::{EntryState, FoundRoot, Lokt, Surroundings};
use lokt_sys::look::{look_through, us};

use crate::args::{RootArg, lock_name};
use crate::report::{Failure, say};
use crate::show::{clean, quoted};

/// Who asks, and on which root.
pub(crate) struct Context {
    /// What the root was found from.
    pub(crate) surroundings: Surroundings,
    pub(crate) root: FoundRoot,
    pub(crate) me: Identity,
    /// `LOKT_OWNER` was set; otherwise the owner is the login name.
    pub(crate) named_owner: bool,
    /// The holds that we run under.
    pub(crate) holds: InheritedHolds,
}

impl Context {
    pub(crate) fn read(root: &RootArg) -> Result<Self, Failure> {
        let named_root = root.root.clone();
        let lokt_root = variable("LOKT_ROOT");
        let named = named_root.as_deref().or(lokt_root.as_ref().map(Path::new));
        let cwd = match std::env::current_dir() {
            Ok(cwd) => cwd,
            // Where we are doesn't matter then; a script that deleted its directory must still be able to unlock.
            Err(_) if named.is_some_and(Path::is_absolute) => PathBuf::from("/"),
            Err(error) => {
                let hint = "cd to a directory that exists, or name the root by an absolute path with --root";
                return Err(Failure::io(format!("find the current directory: {error}"), Some(hint)));
            }
        };
        let surroundings = Surroundings {
            named_root,
            lokt_root,
            git_dir: variable("GIT_DIR"),
            git_common_dir: variable("GIT_COMMON_DIR"),
            git_ceilings: variable("GIT_CEILING_DIRECTORIES"),
            home: variable("HOME").map(PathBuf::from),
            cwd,
        };
        let owner = named_owner()?;
        let named_owner = owner.is_some();
        let me = lokt_sys::machine::identity(owner.unwrap_or_else(default_owner), text("LOKT_AGENT_ID"));
        let holds = text("LOKT_HOLDS").map(|holds| InheritedHolds::parse(&holds)).unwrap_or_default();
        let root = surroundings.find_root()?;
        Ok(Self { surroundings, root, me, named_owner, holds })
    }

    /// What a command that acts under a token claims to hold: `name` with `given`; without a token, with the one that the guard got
    /// that we run under; without a name too, all of that guard's. A token from the environment comes with the lock id of the
    /// hold for which it was issued: in another root the same number is another holder's.
    pub(crate) fn claimed(
        &self,
        name: Option<&str>,
        given: Option<Presented>,
        lokt: Option<&Lokt>,
    ) -> Result<Vec<Claimed>, Failure> {
        let Some(name) = name else { return innermost(given.as_ref()) };
        let name = lock_name(name)?;
        let presented = match given {
            Some(given) => Some(given),
            None => self.inherited(&name, lokt)?,
        };
        let Some(presented) = presented else {
            return Err(Failure::usage(format!("no token of lock {} is given", quoted(name.as_str())))
                .hint("pass --token, or run it inside `lokt guard`, which hands down its tokens"));
        };
        Ok(vec![Claimed { name, presented }])
    }

    /// The token of `name` that the environment hands down. Guards of several roots can be around us: then the one that was issued
    /// for what is stored here, else the innermost.
    fn inherited(&self, name: &LockName, lokt: Option<&Lokt>) -> Result<Option<Presented>, Failure> {
        let inherited_holds = self.holds.all_of(name).filter_map(|inherited_hold| {
            Some(Presented {
                token: inherited_hold.token.map(Fence::get)?,
                lock_id: Some(inherited_hold.lock_id.clone()),
            })
        });
        // A guard inside its own lock hands down the names it was asked for, and no `LOKT_HOLDS` of its own.
        let listed = innermost(None).unwrap_or_default().into_iter();
        let listed = listed.filter(|claimed| claimed.name == *name).map(|claimed| claimed.presented);
        let mut candidates: Vec<Presented> = inherited_holds.chain(listed).collect();
        candidates.dedup();
        if let ([_, _, ..], Some(lokt)) = (candidates.as_slice(), lokt)
            && let Some(EntryState::Held(holder)) = lokt.inspect().entry(name)?.map(|entry| entry.state)
        {
            let stored = Some(holder.hold.lock_id);
            candidates.sort_by_key(|candidate| candidate.lock_id != stored);
        }
        Ok(candidates.into_iter().next())
    }

    /// The root, created if it is missing. A caller who expected another one sees where: in a new root nobody else is excluded.
    pub(crate) fn create(&self, quiet: bool) -> Result<Lokt, Failure> {
        let lokt = Lokt::create(&self.root.path, self.me.clone())?;
        if lokt.is_new() && !quiet {
            say(&format!("note: created a new lock root: {}\n", clean(&lokt.root().to_string_lossy())));
        }
        Ok(lokt)
    }

    /// The root, if there is one.
    pub(crate) fn open(&self) -> Result<Option<Lokt>, Failure> {
        Ok(Lokt::existing(&self.root.path, self.me.clone())?)
    }
}

/// The exit code of a runner that was refused, as `LOKT_EXIT_CONFLICT` has it; `flag` is what the command line says.
pub(crate) fn conflict_exit_code(flag: Option<u8>) -> Result<Option<u8>, Failure> {
    if flag.is_some() {
        return Ok(flag);
    }
    let Some(value) = variable("LOKT_EXIT_CONFLICT") else { return Ok(None) };
    value.to_str().and_then(|value| value.parse().ok()).map(Some).ok_or_else(|| {
        Failure::usage(format!("LOKT_EXIT_CONFLICT is not an exit code: {}", quoted(&value.to_string_lossy())))
            .hint("set LOKT_EXIT_CONFLICT to a number from 0 to 255, or unset it")
    })
}

/// Where we are.
pub(crate) fn current_dir() -> Result<PathBuf, Failure> {
    std::env::current_dir().map_err(|error| {
        Failure::io(format!("find the current directory: {error}"), Some("cd to a directory that exists"))
    })
}

/// `LOKT_SESSION`: the file of this session.
pub(crate) fn named_session() -> Option<PathBuf> {
    variable("LOKT_SESSION").map(PathBuf::from)
}

/// The default directory of session files: the login session's, else the user's.
pub(crate) fn sessions_dir() -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
    // Whoever became another user has the first one's directory in the environment, where it would make files that the first one can't use.
    let is_ours =
        |dir: &PathBuf| look_through(dir).ok().flatten().is_some_and(|found| found.is_dir && found.uid == us());
    let runtime = absolute("XDG_RUNTIME_DIR").filter(is_ours).map(|dir| dir.join("lokt"));
    runtime.or_else(|| {
        let state = absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")));
        state.map(|dir| dir.join("lokt/sessions"))
    })
}

/// The lease that a command of `lokt lease run` runs under.
pub(crate) struct LeaseRun {
    pub(crate) top: PathBuf,
    /// The id of that repository: another one can be in its place by now.
    pub(crate) repo_id: Option<String>,
    pub(crate) worktree: String,
    pub(crate) token: u64,
}

impl LeaseRun {
    /// Is its worktree the one that was asked about?
    pub(crate) fn is_meant(&self, named: Option<&LockName>) -> bool {
        named.is_none_or(|name| name.as_str() == self.worktree)
    }
}

/// What `lokt lease run` told its command, if this is one.
pub(crate) fn lease_run() -> Option<LeaseRun> {
    let token = text("LOKT_LEASE_TOKEN")?.parse().ok()?;
    let top = variable("LOKT_LEASE_REPO").map(PathBuf::from)?;
    Some(LeaseRun { top, repo_id: text("LOKT_LEASE_REPO_ID"), worktree: text("LOKT_LEASE_WORKTREE")?, token })
}

/// The caller of a command that needs no root. `owner` is the one of the command line.
pub(crate) fn caller(owner: Option<&str>) -> Result<Identity, Failure> {
    let owner = match owner {
        Some("") => return Err(Failure::usage("an owner can't be empty").hint("leave out --owner, or give it a name")),
        Some(owner) => owner.to_owned(),
        None => named_owner()?.unwrap_or_else(default_owner),
    };
    Ok(lokt_sys::machine::identity(owner, text("LOKT_AGENT_ID")))
}

/// `LOKT_OWNER`. Replaced by something readable, two owners could become one.
fn named_owner() -> Result<Option<String>, Failure> {
    variable("LOKT_OWNER").map(OsString::into_string).transpose().map_err(|_| {
        Failure::usage("LOKT_OWNER is not UTF-8 text").hint("set LOKT_OWNER to a name of letters and digits")
    })
}

/// A name, and the token under which somebody acts on it.
pub(crate) struct Claimed {
    pub(crate) name: LockName,
    pub(crate) presented: Presented,
}

/// The names of the guard that we run under, with their tokens and the holds for which those were issued.
fn innermost(given: Option<&Presented>) -> Result<Vec<Claimed>, Failure> {
    let none = || {
        Failure::usage("no lock is named, and this doesn't run inside `lokt guard`")
            .hint("name a lock and its token, as in `lokt fence check NAME --token TOKEN`")
    };
    let names = text("LOKT_NAME").ok_or_else(none)?;
    let tokens = text("LOKT_FENCING_TOKEN").unwrap_or_default();
    let mut tokens = tokens.split(',').map(|token| token.parse().unwrap_or(0));
    let lock_ids = text("LOKT_LOCK_ID").unwrap_or_default();
    let mut lock_ids = lock_ids.split(',').map(LockId::from_text);
    let names: Vec<LockName> = names.split(',').map(lock_name).collect::<Result<_, _>>()?;
    if let (Some(_), true) = (given, names.len() > 1) {
        return Err(Failure::usage("one token, but the guard holds several locks").hint("name the lock, too"));
    }
    let mut handed_down = || Presented {
        token: tokens.next().unwrap_or(0),
        // Without one the token belongs to no hold, so it opens none.
        lock_id: Some(lock_ids.next().unwrap_or_default()),
    };
    let presented = |name| Claimed { name, presented: given.cloned().unwrap_or_else(&mut handed_down) };
    Ok(names.into_iter().map(presented).collect())
}

#[expect(clippy::disallowed_methods, reason = "this is the module that owns the environment")]
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn text(name: &str) -> Option<String> {
    variable(name).map(|value| value.to_string_lossy().into_owned())
}

/// `NO_COLOR` is set to something, as <https://no-color.org> has it.
pub(crate) fn no_colour() -> bool {
    variable("NO_COLOR").is_some()
}

/// The terminal doesn't say that it can do more than print.
pub(crate) fn dumb_terminal() -> bool {
    variable("TERM").is_none_or(|term| term == "dumb")
}

/// The login name, else `USER`, else the uid.
fn default_owner() -> String {
    lokt_sys::machine::login_name().or_else(|| text("USER")).unwrap_or_else(|| us().to_string())
}
