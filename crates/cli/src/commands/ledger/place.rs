//! Which ledger a command is about.

use std::path::{Path, PathBuf};

use clap::ValueHint;
use lokt_core::hold::Identity;
use lokt_ledger::{ClaimEntry, Ledger};
use lokt_sys::files::{exists, is_dir};

use crate::context;
use crate::exit::Exit;
use crate::report::Failure;
use crate::show::clean;

use super::super::deny::shell_word;

/// Which ledger.
#[derive(clap::Args)]
pub(crate) struct Place {
    /// The directory that contains `ledger`
    #[arg(short = 'd', long = "dir", id = "dir", value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    dir: PathBuf,
}

impl Place {
    /// The directory, wherever the command is by now.
    pub(crate) fn dir(&self) -> PathBuf {
        // Without a current directory it stays as it was given, and the system says what is wrong with that.
        std::path::absolute(&self.dir).unwrap_or_else(|_| self.dir.clone())
    }

    /// The ledger, for whoever only looks or appends: there an owner is a name for people.
    pub(crate) fn open(&self) -> Result<Ledger, Failure> {
        let me = context::caller(None).unwrap_or_else(|_| lokt_sys::machine::identity(String::new(), None));
        self.open_as(me)
    }

    /// The ledger, for this owner.
    pub(crate) fn open_as(&self, me: Identity) -> Result<Ledger, Failure> {
        let dir = self.dir();
        Ledger::existing(&dir, me)?.ok_or_else(|| self.missing(&dir))
    }

    fn missing(&self, dir: &Path) -> Failure {
        let shown = clean(&dir.to_string_lossy());
        if is_ledger_itself(dir) {
            let parent = dir.parent().unwrap_or(dir).to_string_lossy();
            let parent = shell_word(&parent).map_or_else(String::new, |parent| format!(": -d {parent}"));
            return Failure::new(Exit::Missing, "E_NOT_FOUND", format!("{shown} is a ledger, and contains none"))
                .hint(format!("`-d` takes the directory that contains `ledger`{parent}"));
        }
        let init = match self.dir.to_str().and_then(shell_word) {
            _ if self.dir == Path::new(".") => "`lokt ledger init`".to_owned(),
            Some(dir) => format!("`lokt ledger init -d {dir}`"),
            None => "`lokt ledger init` with the same `-d`".to_owned(),
        };
        Failure::new(Exit::Missing, "E_NOT_FOUND", format!("there is no ledger in {shown}"))
            .hint(format!("{init} makes one; `-d DIR` names the directory that contains `ledger`"))
    }
}

/// Is it the `ledger` directory rather than the one around it?
fn is_ledger_itself(dir: &Path) -> bool {
    let has = |name: &str| exists(&dir.join(name));
    let named = dir.file_name().is_some_and(|name| name == "ledger");
    (named && is_dir(dir)) || has("event-000001.json") || has(".lokt/settings.json")
}

/// The claims in the ledger below `dir`; none if there is no ledger, or it can't be read.
pub(crate) fn claims_in(dir: &Path) -> Vec<ClaimEntry> {
    let ledger = context::caller(None).ok().and_then(|me| Ledger::existing(dir, me).ok()?);
    ledger.and_then(|ledger| ledger.claims().ok()).map(|said| said.value).unwrap_or_default()
}
