//! What a file says that a cut may have torn.

use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde_json::Value;

/// A record, or what is in its place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    Nothing,
    /// A cut may leave this of a record that was never acknowledged: no bytes, or on ext4 as many zeros as there were bytes.
    Blank,
    Torn(String),
    Record {
        id: String,
        token: u64,
    },
}

impl Stored {
    /// What is at `path`. A record without a token has 0.
    pub(crate) fn read(path: &Path) -> Self {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Self::Nothing,
            Err(error) => return Self::Torn(error.to_string()),
        };
        if bytes.iter().all(|byte| *byte == 0) {
            return Self::Blank;
        }
        let Ok(record) = serde_json::from_slice::<Value>(&bytes) else {
            return Self::Torn(String::from_utf8_lossy(&bytes).into_owned());
        };
        let id = record["lock_id"].as_str().unwrap_or_default().to_owned();
        Self::Record { id, token: record["fencing_token"].as_u64().unwrap_or_default() }
    }
}

impl fmt::Display for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => write!(f, "nothing"),
            Self::Blank => write!(f, "a blank file"),
            Self::Torn(text) => write!(f, "something else: {text}"),
            Self::Record { id, token } => write!(f, "{id} with the token {token}"),
        }
    }
}

/// A text in an answer.
pub(crate) fn text(answer: &Value, member: &str) -> String {
    answer[member].as_str().unwrap_or_default().to_owned()
}

/// A number in an answer; 0 if there is none, which no token is.
pub(crate) fn number(answer: &Value, member: &str) -> u64 {
    answer[member].as_u64().unwrap_or_default()
}
