//! Reads what a swarm left behind and says which promise was broken.

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;

/// One event of the audit log.
#[derive(Debug, Clone)]
pub struct Told {
    /// What happened.
    pub event: String,
    /// Which lock.
    pub name: String,
    /// By whom.
    pub owner: String,
    /// Which hold.
    pub lock_id: String,
    /// Its token.
    pub token: Option<u64>,
    /// The rest.
    pub extra: Value,
}

/// Reads a root's audit log. A line that is no event is an error: nothing may be torn.
pub fn read_audit(root: &Path) -> Result<Vec<Told>, String> {
    let text = std::fs::read_to_string(root.join("audit.log")).map_err(|error| format!("audit.log: {error}"))?;
    text.lines()
        .map(|line| {
            let value: Value = serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))?;
            let member = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
            Ok(Told {
                event: member("event"),
                name: member("name"),
                owner: member("owner"),
                lock_id: member("lock_id"),
                token: value["extra"]["fencing_token"].as_u64(),
                extra: value["extra"].clone(),
            })
        })
        .collect()
}

/// Judges a history by the audit log, whose order is that of the changes. Empty: every promise was kept.
///
/// * one-holder: a name is acquired only while nobody has it.
/// * token-order: every acquisition has a greater token than all before it, under any name.
/// * no-lost-thief: what ends is the hold that is there, by its lock id.
pub fn verdict(history: &[Told]) -> Vec<String> {
    let mut broken = Vec::new();
    let mut holds: HashMap<&str, &Told> = HashMap::new();
    let mut last_token = 0;
    for (line, told) in history.iter().enumerate() {
        let at = format!("line {}: {} of {} by {}", line + 1, told.event, told.name, told.owner);
        match told.event.as_str() {
            "acquire" => {
                if let Some(holder) = holds.get(told.name.as_str()) {
                    broken.push(format!("one-holder: {at} while {} has it", holder.owner));
                }
                let token = told.token.unwrap_or(0);
                if token <= last_token {
                    broken.push(format!("token-order: {at} got token {token} after {last_token}"));
                }
                last_token = last_token.max(token);
                holds.insert(&told.name, told);
            }
            "release" | "force-break" | "stale-break" | "auto-prune" => {
                if let Some(holder) = holds.remove(told.name.as_str())
                    && holder.lock_id != told.lock_id
                {
                    broken.push(format!("no-lost-thief: {at} ended {} of {}", holder.lock_id, holder.owner));
                }
            }
            "renew" => {
                if let Some(holder) = holds.get(told.name.as_str())
                    && holder.lock_id != told.lock_id
                {
                    broken.push(format!("no-lost-thief: {at} renewed over {} of {}", holder.lock_id, holder.owner));
                }
            }
            _ => {}
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(event: &str, owner: &str, lock_id: &str, token: u64) -> Told {
        Told {
            event: event.into(),
            name: "x".into(),
            owner: owner.into(),
            lock_id: lock_id.into(),
            token: Some(token),
            extra: Value::Null,
        }
    }

    #[test]
    fn a_clean_history_has_no_verdict() {
        let history = [told("acquire", "a", "1", 1), told("release", "a", "1", 1), told("acquire", "b", "2", 2)];
        assert!(verdict(&history).is_empty());
    }

    #[test]
    fn each_broken_promise_is_named() {
        let two = [told("acquire", "a", "1", 1), told("acquire", "b", "2", 2)];
        assert!(verdict(&two)[0].starts_with("one-holder"));
        let repeated = [told("acquire", "a", "1", 1), told("release", "a", "1", 1), told("acquire", "b", "2", 1)];
        assert!(verdict(&repeated)[0].starts_with("token-order"));
        let thief = [told("acquire", "a", "1", 1), told("release", "b", "2", 2)];
        assert!(verdict(&thief)[0].starts_with("no-lost-thief"));
    }
}
