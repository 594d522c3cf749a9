//! Claims as files, which few programs know: `locks/*.lock` beside the ledger.

use lokt_core::ledger::moment;
use serde_json::{Map, Value};

use super::{Doctor, Repairable};
use lokt_sys::disk::Entry;
use lokt_sys::error::{At as _, Error};

const DIR: &str = "locks";
const BYTES_MAX: usize = 64 << 10;

impl Doctor<'_> {
    pub(super) fn lock_file_findings(self) -> Result<Vec<Repairable>, Error> {
        let mut names = Vec::new();
        let listed = self.log.above.each_name(DIR, &mut |name| {
            if name.strip_suffix(".lock").is_some() {
                names.push(name.to_owned());
            }
        });
        listed.at("list", &self.log.dir, DIR)?;
        names.sort_unstable();
        Ok(names.into_iter().map(|name| self.lock_file_finding(&name)).collect())
    }

    fn lock_file_finding(self, name: &str) -> Repairable {
        let path = format!("{DIR}/{name}");
        let shown = self.log.dir.join(&path);
        let found = |what: String| Repairable::new("lock-file", what).path(shown.clone());
        let nobody = "few programs know such files; if nobody needs it, remove it";
        let members: Map<String, Value> = match self.log.above.read(&path, BYTES_MAX) {
            Ok(Entry::File(content)) => serde_json::from_slice(&content.bytes).unwrap_or_default(),
            Ok(Entry::NotRegular(kind)) => return found(format!("{name} is {kind}, not a claim")).hint(nobody),
            Ok(_) => Map::new(),
            Err(error) => return found(format!("{name} can't be read: {error}")),
        };
        let text = |member: &str| members.get(member).and_then(Value::as_str).unwrap_or_default();
        let (node, owner) = (text("node_id"), text("owner"));
        match moment::parse(text("expires_at")) {
            Some(end) if !node.is_empty() && !owner.trim().is_empty() => {
                let end_text = moment::show(end);
                if end < self.log.now().wall {
                    found(format!("{name} claims node {node} for {owner}, and ended at {end_text}")).hint(nobody)
                } else {
                    found(format!("{name} claims node {node} for {owner} until {end_text}; no event says so"))
                        .hint("lokt honours it until then")
                }
            }
            _ => found(format!("{name} is no claim that can be understood")).hint(nobody),
        }
    }
}
