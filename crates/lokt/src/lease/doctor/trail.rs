//! The audit log.

use super::{Exam, Finding, Severity};
use crate::lease::audit::{LOG, begin_anew};

impl Exam<'_> {
    pub(super) fn audit_log(&self) -> Vec<Finding> {
        let path = self.at("audit").join(LOG);
        let said = match self.repo.verify_audit() {
            Ok(said) => said,
            Err(error) => return vec![Finding::error("E_IO", path, error.to_string())],
        };
        let notes = said.warnings.into_iter().map(|note| Finding::info("audit_note", path.clone(), note));
        let mut findings: Vec<Finding> = notes.collect();
        if let Some(broken) = said.value.broken {
            let problem = format!("line {}: {}", broken.line, broken.why);
            let finding = Finding::new("E_AUDIT_CHAIN_BROKEN", Severity::Critical, path, problem);
            let finding = finding.mendable("move the log aside and begin a new one that says so");
            findings.extend(self.mend(finding, || begin_anew(self.repo).map(|anew| anew.is_some())));
        }
        findings
    }
}
