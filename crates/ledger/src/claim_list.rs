//! All claims, and whether the events that say so can be trusted.

use lokt_core::ledger::claims::Claim;
use lokt_core::ledger::fold::Folded;

use super::Ledger;
use super::answers::ClaimEntry;
use super::log::view;
use lokt_sys::call::Call;
use lokt_sys::error::{Error, ErrorKind};
use lokt_sys::warnings::{Warning, WithWarnings};

impl Ledger {
    /// Every claim, expired ones too.
    pub fn claims(&self) -> Result<WithWarnings<Vec<ClaimEntry>>, Error> {
        let files = self.lock_files();
        let mut warnings = Vec::new();
        let mut entries: Vec<ClaimEntry> = Vec::new();
        let now = self.now();
        view(self.log(), &Call::UNLIMITED, &mut |at| {
            let folded = at.fold();
            warnings = folded.trouble.iter().map(|(_, what)| Warning::Damaged(what.clone())).collect();
            warnings.extend(unreadable(folded));
            let entry = |(node, claim): (&str, &Claim)| ClaimEntry {
                node: node.to_owned(),
                holder: claim.holder(node, &at.now, self.me()),
                lock_file: None,
            };
            entries = folded.table.iter().map(entry).collect();
        })?;
        warnings.extend(files.warnings);
        entries.extend(files.found.iter().zip(files.paths).map(|(file, path)| ClaimEntry {
            node: file.node.clone(),
            holder: file.holder(&now, self.me()),
            lock_file: Some(path),
        }));
        entries.sort_by_cached_key(|entry| place(&entry.node));
        Ok(WithWarnings { value: entries, warnings })
    }
}

/// Fails if claims can't be judged by what was read: a missing or damaged event may have been one.
/// `force` judges them anyway.
pub(super) fn trusted(folded: &Folded, gap: Option<u64>, force: bool) -> Result<(), Error> {
    // Events that an earlier command has read may be gone by now.
    let gone = gap.filter(|_| folded.trouble.is_empty()).map(|gap| (gap, format!("event {gap} is missing")));
    let Some((_, first)) = folded.trouble.first().or(gone.as_ref()).filter(|_| !force) else { return Ok(()) };
    let more = match folded.trouble.len() {
        0 | 1 => String::new(),
        count => format!(", and {} more", count - 1),
    };
    let message = format!("the ledger has gaps or damaged events, which may be claims: {first}{more}");
    Err(Error::new(ErrorKind::Damaged, message).hint("`lokt ledger doctor` says more; --force goes on without them"))
}

/// A warning if the af program can't read its ledger any more.
pub(super) fn unreadable(folded: &Folded) -> Option<Warning> {
    let (number, why) = folded.refusals.first()?;
    let sentence = format!("the native program can't read this ledger: of event {number} it says that {why}");
    Some(Warning::OtherPrograms(sentence))
}

/// 1.2 comes before 1.10, and both before a name.
fn place(node: &str) -> (bool, Vec<u64>, String) {
    let numbers = node.split('.').map(|part| part.parse::<u64>().ok()).collect::<Option<Vec<u64>>>();
    (numbers.is_none(), numbers.unwrap_or_default(), node.to_owned())
}
