//! The audit log.

use super::{Exam, Finding, finding};
use crate::lease::audit::{LOG, begin_anew};

impl Exam<'_> {
    pub(super) fn audit_log(&self) -> Vec<Finding> {
        let path = self.at("audit").join(LOG);
        let said = match self.repo.audit_log().verify() {
            Ok(said) => said,
            Err(error) => return vec![finding::error("E_IO", path, error.to_string())],
        };
        let notes = said.warnings.into_iter().map(|note| finding::info("audit_note", path.clone(), note.to_string()));
        let mut findings: Vec<Finding> = notes.collect();
        if let Some(broken) = said.value.broken {
            let problem = format!("line {}: {}", broken.line, broken.why);
            let finding = finding::critical("E_AUDIT_CHAIN_BROKEN", path, problem);
            let finding = finding.fixable("move the log aside and begin a new one that says so");
            findings.extend(self.mend(finding, || begin_anew(self.repo).map(|anew| anew.is_some())));
        }
        findings
    }
}
