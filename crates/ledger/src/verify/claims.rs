//! Claims that another owner's event ended before they expired.

use lokt_core::ledger::claims::{Remark, Table};
use lokt_core::ledger::seq::{Seq, Style};
use lokt_core::ledger::stored::Stored;

/// All claims, event by event.
pub(super) struct Claims(Table);

impl Claims {
    pub(super) fn new(style: Style) -> Self {
        Self(Table::new(style))
    }

    /// Applies the next event. Returns which claims it took from their holders.
    pub(super) fn see(&mut self, seq: Seq, event: &Stored) -> Vec<String> {
        let mut taken: Vec<String> = self.ended_by_another(seq, event).into_iter().collect();
        for remark in self.0.apply(seq, event) {
            // An owner that claims its own node again takes it from no other.
            let by = event.members.get("owner").and_then(serde_json::Value::as_str);
            if let Remark::Displaced { node, owner, token, live: true } = remark
                && by != Some(&owner)
            {
                taken.push(format!(
                    "event {seq} takes node {node} from {owner}, whose claim (token {token}) hadn't ended"
                ));
            }
        }
        taken
    }

    /// Returns a release or reap of another owner's live claim. It counts, whichever program wrote
    /// it.
    fn ended_by_another(&self, seq: Seq, event: &Stored) -> Option<String> {
        let text = |name: &str| event.members.get(name).and_then(serde_json::Value::as_str);
        let claim = self.0.claim(text("node_id")?)?;
        let live = claim.outlasts(event).unwrap_or(false);
        let how = match event.kind.as_str() {
            "lock_released" if text("owner") != Some(&claim.owner) => "releases",
            "lock_reaped" => "reaps",
            _ => return None,
        };
        live.then(|| {
            let (node, owner, token) = (text("node_id").unwrap_or_default(), &claim.owner, claim.token);
            format!("event {seq} {how} the claim of {owner} on node {node} (token {token}), which hadn't ended")
        })
    }
}
