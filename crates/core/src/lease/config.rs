//! Configuration of a lokt repository and of its worktrees.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use jiff::Timestamp;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::json::{object, text, whole};
use super::policy::PolicyWish;
use crate::time::{parse_wall, show_wall};

/// Snapshot members of every worktree's configuration, null if unknown.
const SNAPSHOTS: [&str; 2] = ["base_snapshot_id", "head_snapshot_id"];

/// Member for the link that set the worktree's head snapshot.
const HEAD_SLOT: &str = "head_slot";

/// Member for the newest snapshot, as `jvs` v8 and later write it.
const LATEST: &str = "latest_snapshot_id";

/// Write access to a worktree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// One writer, which holds the lease.
    #[default]
    Exclusive,
    /// Any number of writers; there is no lease.
    Shared,
}

/// `worktrees/<name>/config.json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorktreeConfig {
    /// Its name.
    pub name: String,
    /// Write access.
    pub isolation: Isolation,
    /// Creation time.
    pub created_at: Option<Timestamp>,
    /// New name of a worktree that is being renamed.
    pub renaming_to: Option<String>,
    /// True if it is about to be removed.
    pub removing: bool,
    /// All other members of the file, which are preserved.
    pub extra: Map<String, Value>,
}

impl Isolation {
    /// Returns its name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Shared => "shared",
        }
    }
}

impl WorktreeConfig {
    /// Returns the configuration of a worktree of which only the name is known.
    pub fn nameless(name: &str) -> Self {
        Self {
            name: name.into(),
            isolation: Isolation::default(),
            created_at: None,
            renaming_to: None,
            removing: false,
            extra: Map::new(),
        }
    }

    /// Returns the snapshot that it was created from.
    pub fn base(&self) -> Option<&str> {
        self.extra.get(SNAPSHOTS[0])?.as_str()
    }

    /// Returns its head: the snapshot that it is at.
    pub fn head(&self) -> Option<&str> {
        self.extra.get(SNAPSHOTS[1])?.as_str()
    }

    /// Returns the link of its chain that set the head; 0 if none did.
    pub fn head_slot(&self) -> u64 {
        self.extra.get(HEAD_SLOT).and_then(Value::as_u64).unwrap_or(0)
    }

    /// Returns the configuration with another head, as the link `number` says.
    #[must_use]
    pub fn with_head(mut self, head: Option<&str>, number: u64) -> Self {
        self.extra.insert(SNAPSHOTS[1].into(), head.into());
        self.extra.insert(HEAD_SLOT.into(), number.into());
        self
    }

    /// Returns the configuration with a newest snapshot, a member that only `jvs` reads.
    #[must_use]
    pub fn with_latest(mut self, latest: &str) -> Self {
        self.extra.insert(LATEST.into(), latest.into());
        self
    }

    /// Returns the configuration of a worktree that was created from `base`, with `base` as its
    /// head.
    #[must_use]
    pub fn made_from(mut self, base: &str) -> Self {
        self.extra.insert(SNAPSHOTS[0].into(), base.into());
        self.extra.insert(SNAPSHOTS[1].into(), base.into());
        self
    }

    /// Returns the configuration without a pending rename or removal.
    #[must_use]
    pub fn staying(self) -> Self {
        Self { renaming_to: None, removing: false, ..self }
    }

    /// Reports whether both have the same pending rename or removal, or none.
    pub fn goes_with(&self, other: &Self) -> bool {
        (&self.renaming_to, self.removing) == (&other.renaming_to, other.removing)
    }

    /// Returns its bytes, indented by two.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).expect("JSON values are JSON");
        bytes.push(b'\n');
        bytes
    }

    /// Parses a file of ours or of `jvs`; the error says what is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut extra = object(bytes)?;
        // One schema has `worktree_id`, the other `name`, ours both. If they differ, the id is
        // another program's, and is preserved.
        let name = text(&extra, "name").or_else(|| text(&extra, "worktree_id"));
        let name = name.filter(|name| !name.is_empty()).ok_or("it has no name")?;
        extra.remove("name");
        if text(&extra, "worktree_id").as_ref() == Some(&name) {
            extra.remove("worktree_id");
        }
        let isolation = match extra.remove("isolation") {
            None | Some(Value::Null) => Isolation::default(),
            Some(Value::String(text)) if text == Isolation::Exclusive.as_str() => Isolation::Exclusive,
            Some(Value::String(text)) if text == Isolation::Shared.as_str() => Isolation::Shared,
            // Choosing either would be a guess about who may write.
            Some(_) => return Err("its isolation is neither exclusive nor shared".into()),
        };
        // An unreadable time is preserved unchanged.
        let created_at = text(&extra, "created_at").and_then(|at| parse_wall(&at));
        if created_at.is_some() {
            extra.remove("created_at");
        }
        // Null is written for an unknown snapshot.
        extra.retain(|member, value| !value.is_null() || !SNAPSHOTS.contains(&member.as_str()));
        let renaming_to = text(&extra, "renaming_to");
        extra.remove("renaming_to");
        let removing = extra.remove("removing") == Some(Value::Bool(true));
        Ok(Self { name, isolation, created_at, renaming_to, removing, extra })
    }
}

impl Serialize for WorktreeConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let own = [
            ("worktree_id", Some(Value::from(self.name.as_str()))),
            ("name", Some(self.name.as_str().into())),
            ("isolation", Some(self.isolation.as_str().into())),
            ("created_at", self.created_at.map(|at| show_wall(at).into())),
            (SNAPSHOTS[0], Some(Value::Null)),
            (SNAPSHOTS[1], Some(Value::Null)),
            ("renaming_to", self.renaming_to.as_deref().map(Value::from)),
            ("removing", self.removing.then_some(Value::Bool(true))),
        ];
        // These members are written only from our own fields, whatever the preserved ones contain.
        let is_ours = |member: &str| matches!(member, "name" | "isolation" | "renaming_to" | "removing");
        let kept = |member: &str| self.extra.get(member).filter(|_| !is_ours(member));
        for (member, value) in &own {
            // If we have a `created_at`, it counts; in every other case the preserved member does.
            let kept = kept(member).filter(|_| *member != "created_at" || value.is_none());
            if let Some(value) = kept.or(value.as_ref()) {
                map.serialize_entry(member, value)?;
            }
        }
        for (member, value) in self.extra.iter().filter(|(member, _)| own.iter().all(|(own, _)| own != member)) {
            map.serialize_entry(member, value)?;
        }
        map.end()
    }
}

/// Reads the policy in the repository's `config.json`; unknown members are ignored.
pub fn policy(bytes: &[u8]) -> Result<PolicyWish, String> {
    let members = object(bytes)?;
    let number = |name: &str| match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            // This checks only for a whole number. Limits are checked later, together with those of
            // the other members.
            let is_whole = value.is_u64() || value.as_f64().is_some_and(|number| number >= 0.0 && number % 1.0 == 0.0);
            let number = whole(value).filter(|_| is_whole);
            number.map(Some).ok_or_else(|| format!("its {name} is no number of milliseconds"))
        }
    };
    Ok(PolicyWish {
        lease_ms: number("lease_ms")?,
        renew_ms: number("renew_ms")?,
        skew_ms: number("skew_ms")?,
        grace_ms: number("grace_ms")?,
    })
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use proptest::prelude::*;

    use super::*;

    const OURS: &str = r#"{
  "worktree_id": "main",
  "name": "main",
  "isolation": "exclusive",
  "created_at": "2026-11-15T18:00:00.25Z",
  "base_snapshot_id": null,
  "head_snapshot_id": null
}
"#;

    #[test]
    fn a_worktree_reads_back_to_the_byte() {
        let config = WorktreeConfig {
            name: "main".into(),
            isolation: Isolation::Exclusive,
            created_at: parse_wall("2026-11-15T18:00:00.25Z"),
            renaming_to: None,
            removing: false,
            extra: Map::new(),
        };
        assert_eq!(String::from_utf8(config.to_bytes()).as_deref(), Ok(OURS));
        let read = WorktreeConfig::parse(OURS.as_bytes()).expect("ours");
        assert_eq!(read.to_bytes(), OURS.as_bytes());
        let going = WorktreeConfig { renaming_to: Some("next".into()), removing: true, ..config.clone() };
        assert_eq!(WorktreeConfig::parse(&going.to_bytes()), Ok(going.clone()));
        assert!(!going.goes_with(&config) && going.clone().staying().goes_with(&config));
        assert_eq!(going.staying(), config);
    }

    #[test]
    fn both_schemas_of_jvs_are_read_and_what_they_have_beside_survives() {
        for (json, members) in [
            (
                r#"{"name":"w","head_snapshot_id":"1708300800000-a3f7c1b2","created_at":"2026-02-19T00:00:00.123456789Z","isolation":"exclusive"}"#,
                &[
                    "1708300800000-a3f7c1b2",
                    "2026-02-19T00:00:00.123456789Z",
                    "\"worktree_id\": \"w\"",
                    "\"base_snapshot_id\": null",
                ][..],
            ),
            (
                r#"{"worktree_id":"w","isolation":"exclusive","created_at":"2026-02-19T00:00:00Z","base_snapshot_id":"b","head_snapshot_id":null,"label":"x","snapshot_defaults":{"a":[1]}}"#,
                &["\"base_snapshot_id\": \"b\"", "\"label\": \"x\"", "\"snapshot_defaults\": {", "\"name\": \"w\""][..],
            ),
            (
                r#"{"worktree_id":"4f1c","name":"w","created_at":"soon"}"#,
                &["\"worktree_id\": \"4f1c\"", "\"created_at\": \"soon\""][..],
            ),
        ] {
            let config = WorktreeConfig::parse(json.as_bytes()).expect("a worktree");
            assert_eq!((config.name.as_str(), config.isolation), ("w", Isolation::Exclusive), "{json}");
            let written = String::from_utf8(config.to_bytes()).expect("JSON is text");
            for member in members {
                assert!(written.contains(member), "{member} is lost from {json}: {written}");
            }
            assert_eq!(WorktreeConfig::parse(written.as_bytes()), Ok(config), "{json}");
        }
    }

    #[test]
    fn a_worktree_knows_where_it_is_and_where_it_came_from() {
        let config = WorktreeConfig::parse(OURS.as_bytes()).expect("ours");
        assert_eq!((config.base(), config.head(), config.head_slot()), (None, None, 0));
        let made = config.made_from("1708300800000-a3f7c1b2");
        assert_eq!((made.base(), made.head(), made.head_slot()), (made.head(), Some("1708300800000-a3f7c1b2"), 0));
        let moved = made.with_head(Some("1708300800001-a3f7c1b2"), 7);
        let read = WorktreeConfig::parse(&moved.to_bytes()).expect("ours");
        assert_eq!((read.head(), read.head_slot()), (Some("1708300800001-a3f7c1b2"), 7));
        assert_eq!(read.base(), Some("1708300800000-a3f7c1b2"));
        assert_eq!(read.clone().with_head(None, 8).head(), None);
        let latest = read.with_latest("1708300800001-a3f7c1b2");
        let written = String::from_utf8(latest.to_bytes()).expect("JSON is text");
        assert!(written.contains("\"latest_snapshot_id\": \"1708300800001-a3f7c1b2\""), "{written}");
    }

    #[test]
    fn who_may_write_is_never_guessed() {
        let shared = WorktreeConfig::parse(br#"{"name":"w","isolation":"shared"}"#).map(|config| config.isolation);
        assert_eq!(shared, Ok(Isolation::Shared));
        for bad in
            [r#"{"name":"w","isolation":"Shared"}"#, r#"{"name":"w","isolation":1}"#, r#"{"name":""}"#, "{}", "[]", ""]
        {
            assert!(WorktreeConfig::parse(bad.as_bytes()).is_err(), "{bad} was taken for a worktree");
        }
    }

    #[test]
    fn a_policy_is_read_from_any_configuration() {
        let wish = policy(br#"{"lease_ms":5e3,"renew_ms":null,"grace_ms":0,"engine":"copy"}"#);
        let expected = PolicyWish { lease_ms: Some(5_000), grace_ms: Some(0), ..PolicyWish::default() };
        assert_eq!(wish, Ok(expected));
        assert_eq!(policy(b"{}"), Ok(PolicyWish::default()));
        for bad in
            [r#"{"lease_ms":"30s"}"#, r#"{"skew_ms":-1}"#, r#"{"skew_ms":-1.0}"#, r#"{"grace_ms":1.5}"#, "[]", ""]
        {
            assert!(policy(bad.as_bytes()).is_err(), "{bad} was taken for a policy");
        }
        let beyond = policy(br#"{"lease_ms":1e300}"#).expect("a number").policy();
        assert!(beyond.is_err_and(|why| why.to_string().contains("24h")), "what is out of bounds is refused");
    }

    proptest! {
        #[test]
        fn no_bytes_make_reading_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = WorktreeConfig::parse(&bytes);
            let _ = policy(&bytes);
        }
    }
}
