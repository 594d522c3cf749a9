//! One deed of one process, as a line.

use serde::{Deserialize, Serialize};
use std::string::String;

/// No line is longer, newline included: POSIX promises that a write of so many bytes to a pipe isn't torn, and Linux keeps that for
/// files that are opened for appending too. Every lock name fits, and keys and ledgers of 120 plain characters do.
pub const LINE_BYTES_MAX: usize = 512;

/// One thing that a process did, or that was done to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Nanoseconds of `CLOCK_MONOTONIC`, which all processes of a machine share and nobody sets.
    pub at: u64,
    /// One life of one process: a number that no other life of the history has.
    pub who: u64,
    /// What.
    #[serde(flatten)]
    pub deed: Deed,
}

/// What a process did, or what was done to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "did", rename_all = "kebab-case")]
pub enum Deed {
    /// Written before it asks.
    Asked {
        /// For which lock.
        name: String,
    },
    /// Written after its place in the line was seen to be there.
    InLine {
        /// For which lock.
        name: String,
    },
    /// Written after it was let in.
    Entered {
        /// Into which lock.
        name: String,
        /// The token that it got.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token: Option<u64>,
        /// Until when it may believe to be inside, on the clock of the entries. `None`: as long as it lives.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<u64>,
    },
    /// Written before it gives the lock back.
    Left {
        /// Which lock.
        name: String,
    },
    /// It asked and didn't get it.
    GaveUp {
        /// Which lock.
        name: String,
    },
    /// It was in line until a moment for certain, and gave up because its time was over. Written after that, before it says that it gave
    /// up.
    OutOfTime {
        /// For which lock.
        name: String,
        /// Until when it was in line, on the clock of the entries.
        until: u64,
    },
    /// Written before a write under a token, by somebody whose lease is over by then for certain.
    Overslept {
        /// Of which lock.
        name: String,
        /// The token.
        token: u64,
    },
    /// A read-modify-write was answered.
    Wrote {
        /// Of what.
        register: String,
        /// Under which token.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token: Option<u64>,
        /// What it read.
        seen: u64,
        /// What it wrote.
        made: u64,
        /// Or was it refused?
        taken: bool,
    },
    /// Written before it appends.
    Appending {
        /// To which ledger.
        ledger: String,
        /// What no other append has; one that is repeated has the same.
        key: String,
    },
    /// It was told that its append is there.
    Appended {
        /// In which ledger.
        ledger: String,
        /// That of the append.
        key: String,
        /// The number that it got.
        number: u64,
    },
    /// Written by whoever kills it: at this moment it had not ended, which was looked at afterwards and before the signal. It must be the
    /// very process that writes this life's entries and whose end frees its locks; a guard may outlive the command that is inside.
    Killing,
    /// Written by whoever killed it, after its end.
    Killed,
    /// Written by whoever stops it, before that.
    Stopped,
    /// Written by whoever continued it, after that.
    Continued,
}

impl Deed {
    /// Done to the process, and written by another.
    pub fn is_suffered(&self) -> bool {
        matches!(self, Self::Killing | Self::Killed | Self::Stopped | Self::Continued)
    }

    /// The process lived at that moment. One that is stopped or continued may be dead: nobody looked.
    pub fn is_sign_of_life(&self) -> bool {
        !self.is_suffered() || matches!(self, Self::Killing)
    }
}

impl Entry {
    /// The entry as a line, newline included.
    pub fn encode(&self) -> String {
        let mut line = serde_json::to_string(self).expect("an entry has only strings and numbers");
        line.push('\n');
        line
    }

    /// Reads a line.
    pub fn parse(line: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(line)
    }
}

#[cfg(test)]
mod tests {
    use std::prelude::v1::*;

    use super::*;
    use lokt_core::name::NAME_BYTES_MAX;

    #[test]
    fn an_entry_is_one_line_and_reads_back() {
        let x = || "x".repeat(NAME_BYTES_MAX);
        let half = || "x".repeat(120);
        let (at, who, big) = (u64::MAX, u64::MAX - 1, u64::MAX - 2);
        let deeds = [
            Deed::Asked { name: x() },
            Deed::InLine { name: x() },
            Deed::Entered { name: x(), token: Some(big), until: Some(big) },
            Deed::Entered { name: x(), token: None, until: None },
            Deed::Left { name: x() },
            Deed::GaveUp { name: x() },
            Deed::OutOfTime { name: x(), until: big },
            Deed::Overslept { name: x(), token: big },
            Deed::Wrote { register: x(), token: Some(big), seen: big, made: big, taken: false },
            Deed::Appending { ledger: half(), key: half() },
            Deed::Appended { ledger: half(), key: half(), number: big },
            Deed::Killing,
            Deed::Killed,
            Deed::Stopped,
            Deed::Continued,
        ];
        for deed in deeds {
            let entry = Entry { at, who, deed };
            let line = entry.encode();
            assert!(line.len() <= LINE_BYTES_MAX, "{} bytes are more than one piece: {line}", line.len());
            assert_eq!(line.find('\n'), Some(line.len() - 1), "an entry is one line: {line}");
            assert_eq!(Entry::parse(&line).expect("what was written can be read"), entry);
        }
    }

    #[test]
    fn the_line_is_what_the_documents_show() {
        let entry = Entry { at: 7, who: 3, deed: Deed::InLine { name: "hot".into() } };
        assert_eq!(entry.encode(), "{\"at\":7,\"who\":3,\"did\":\"in-line\",\"name\":\"hot\"}\n");
        assert!(Entry::parse("{\"at\":7,\"who\":3,\"did\":\"danced\"}").is_err(), "an unknown deed is no entry");
        assert!(Entry::parse("{\"at\":7,\"who\":3,\"did\":\"in-line\",\"na").is_err(), "a torn line is no entry");
    }
}
