//! Members of the files of snapshots, read without trusting any of them. An optional member may be
//! absent or null, but never something else.

use alloc::format;
use alloc::string::String;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::id::SnapshotId;
use crate::lease::json::Unique;
use crate::lease::record::RECORD_BYTES_MAX;
use crate::time::parse_wall;

/// The members of an object, without duplicates.
pub(super) struct Members(pub(super) Map<String, Value>);

impl Members {
    /// Parses a file that is one object.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > RECORD_BYTES_MAX {
            return Err("it is too long".into());
        }
        if bytes.trim_ascii().is_empty() {
            return Err("it is empty".into());
        }
        let Unique(members) =
            serde_json::from_slice(bytes).map_err(|error| format!("it is no JSON object ({error})"))?;
        Ok(Self(members))
    }

    /// Returns the members of an object inside another.
    pub(super) fn of(value: &Value) -> Option<Self> {
        Some(Self(value.as_object()?.clone()))
    }

    /// Reads an optional member.
    pub(super) fn may<T>(&self, name: &str, read: impl Fn(&Value) -> Option<T>) -> Result<Option<T>, String> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => read(value).map(Some).ok_or_else(|| format!("its {name} can't be one")),
        }
    }

    /// Reads a required member.
    pub(super) fn must<T>(&self, name: &str, read: impl Fn(&Value) -> Option<T>) -> Result<T, String> {
        self.may(name, read)?.ok_or_else(|| format!("it has no {name}"))
    }

    /// Reads a required member that has either name; the first one counts.
    pub(super) fn must_any<T>(&self, names: [&str; 2], read: impl Fn(&Value) -> Option<T>) -> Result<T, String> {
        match self.may(names[0], &read)? {
            Some(value) => Ok(value),
            None => self.must(names[1], read),
        }
    }

    /// Reads an optional member that has either name.
    pub(super) fn may_any<T>(&self, names: [&str; 2], read: impl Fn(&Value) -> Option<T>) -> Result<Option<T>, String> {
        Ok(match self.may(names[0], &read)? {
            Some(value) => Some(value),
            None => self.may(names[1], read)?,
        })
    }

    /// Refuses the file of a later version. A file without a version is another program's, or of
    /// the first version.
    pub(super) fn check_version(&self, known: u64) -> Result<(), String> {
        match self.may("version", Value::as_u64)? {
            Some(version) if version != known => {
                Err(format!("its version is {version}, which this program doesn't know"))
            }
            _ => Ok(()),
        }
    }
}

pub(super) fn id(value: &Value) -> Option<SnapshotId> {
    SnapshotId::parse(value.as_str()?)
}

pub(super) fn time(value: &Value) -> Option<Timestamp> {
    parse_wall(value.as_str()?)
}

pub(super) fn owned(value: &Value) -> Option<String> {
    value.as_str().map(String::from)
}

/// Reads a text that isn't empty.
pub(super) fn said(value: &Value) -> Option<String> {
    owned(value).filter(|text| !text.is_empty())
}
