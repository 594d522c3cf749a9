//! Lock names, and the rules for them.
//!
//! A name becomes a file name, so it is checked once, before the first file is touched, and from
//! then on passed as a [`LockName`].

use alloc::string::String;
use core::fmt;

/// Maximum length of a name in bytes: with `.json` and a temp suffix it still fits the 255 bytes
/// that file systems allow.
pub const NAME_BYTES_MAX: usize = 200;

/// A checked lock name: `[A-Za-z0-9._-]+`, no `..` inside, not `.`, not starting with `-`, at most
/// 200 bytes.
///
/// ```
/// use lokt_core::name::LockName;
///
/// assert!(LockName::new("build-1.2").is_ok());
/// assert!(LockName::new("../build").is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockName(String);

/// The problem with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadName {
    /// The empty string.
    Empty,
    /// It starts with `/`.
    Absolute,
    /// It is `.` or has `..` inside.
    Traversal,
    /// It starts with `-` and would read as a flag.
    LeadingDash,
    /// It is longer than [`NAME_BYTES_MAX`].
    TooLong,
    /// It has a character outside the allowed set.
    Characters,
}

impl fmt::Display for BadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "name cannot be empty",
            Self::Absolute => "absolute paths not allowed",
            Self::Traversal => "path traversal not allowed",
            Self::LeadingDash => "must not start with a hyphen",
            Self::TooLong => "must be at most 200 bytes long",
            Self::Characters => "must contain only alphanumeric characters, dots, hyphens, and underscores",
        })
    }
}

impl core::error::Error for BadName {}

impl core::str::FromStr for LockName {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        Self::new(text)
    }
}

impl LockName {
    /// Checks `text`.
    ///
    /// # Errors
    /// The problem with it.
    pub fn new(text: &str) -> Result<Self, BadName> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        match text {
            "" => Err(BadName::Empty),
            _ if text.starts_with('/') => Err(BadName::Absolute),
            _ if text == "." || text.contains("..") => Err(BadName::Traversal),
            _ if !text.bytes().all(allowed) => Err(BadName::Characters),
            _ if text.starts_with('-') => Err(BadName::LeadingDash),
            _ if text.len() > NAME_BYTES_MAX => Err(BadName::TooLong),
            _ => Ok(Self(text.into())),
        }
    }

    /// Returns the lock name of a record file, `<name>.json`; `None` for files that aren't records.
    pub fn from_file_name(file: &str) -> Option<Self> {
        Self::new(file.strip_suffix(".json")?).ok()
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for LockName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_names_are_taken_as_they_are() {
        for text in ["build", "a", "A.b_c-9", ".hidden", "x.json", &"n".repeat(200)] {
            assert_eq!(LockName::new(text).map(|name| name.0), Ok(text.into()), "{text} is a name");
        }
    }

    #[test]
    fn each_bad_name_is_refused_for_its_reason() {
        let long = "n".repeat(201);
        for (text, reason) in [
            ("", BadName::Empty),
            ("/etc/passwd", BadName::Absolute),
            (".", BadName::Traversal),
            ("..", BadName::Traversal),
            ("../x", BadName::Traversal),
            ("a..b", BadName::Traversal),
            ("-x", BadName::LeadingDash),
            ("a/b", BadName::Characters),
            ("a b", BadName::Characters),
            ("a\0", BadName::Characters),
            ("é", BadName::Characters),
            (&long, BadName::TooLong),
        ] {
            assert_eq!(LockName::new(text), Err(reason), "{text:?}");
        }
    }
}
