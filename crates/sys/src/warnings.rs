//! Results that come with warnings.

use std::fmt;

/// A warning about a call that succeeded. The kind tells a program what to do about it; the
/// sentence is for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// The audit log could not be written or synced, or it lacks lines.
    Audit(String),
    /// The name is still frozen: only one of its two freezes has ended.
    StillFrozen(String),
    /// A file could not be read or is not valid, and was left out.
    Unreadable(String),
    /// A setting is invalid or out of range, and another value is used.
    Setting(String),
    /// Files were damaged, replaced or deleted at some time. Some of them may be repaired.
    Damaged(String),
    /// Another program got in the way, or does not work with what was done.
    OtherPrograms(String),
    /// The key of an event belongs to another event.
    KeyReused(String),
    /// A lock, lease or claim could not be released; it ends when it expires or is found stale.
    NotReleased(String),
    /// Something remains that could not be removed or repaired.
    Leftover(String),
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Audit(text)
            | Self::StillFrozen(text)
            | Self::Unreadable(text)
            | Self::Setting(text)
            | Self::Damaged(text)
            | Self::OtherPrograms(text)
            | Self::KeyReused(text)
            | Self::NotReleased(text)
            | Self::Leftover(text) => text,
        })
    }
}

/// A result, with warnings about a call that succeeded.
#[derive(Debug)]
pub struct WithWarnings<T> {
    /// The result.
    pub value: T,
    /// Warnings, one sentence each.
    pub warnings: Vec<Warning>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_of_any_kind_is_shown_as_its_sentence() {
        for kind in [
            Warning::Audit,
            Warning::StillFrozen,
            Warning::Unreadable,
            Warning::Setting,
            Warning::Damaged,
            Warning::OtherPrograms,
            Warning::KeyReused,
            Warning::NotReleased,
            Warning::Leftover,
        ] {
            let sentence = "event 2 is missing: {} is not there";
            assert_eq!(kind(sentence.to_owned()).to_string(), sentence);
        }
    }
}
