//! One line that stands for all events up to a number, to be stored elsewhere: `N:HEX`.

use core::fmt;
use core::str::FromStr;

use super::chain::Digest;

/// The digest of the head, for safekeeping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoint {
    /// Number of the last event.
    pub head: u64,
    /// Digest of all events up to it.
    pub chain: Digest,
}

impl fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.head, self.chain)
    }
}

/// Text that is not a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoCheckpoint;

impl fmt::Display for NoCheckpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a checkpoint: a number, a colon and 64 hex digits, as `lokt ledger checkpoint` prints them")
    }
}

impl core::error::Error for NoCheckpoint {}

impl FromStr for Checkpoint {
    type Err = NoCheckpoint;

    /// Parses a checkpoint as it is printed, also in upper case, and with blanks around it: people
    /// copy it.
    fn from_str(text: &str) -> Result<Self, NoCheckpoint> {
        let (head, chain) = text.trim().split_once(':').ok_or(NoCheckpoint)?;
        let is_number = !head.is_empty() && head.bytes().all(|byte| byte.is_ascii_digit());
        let head = head.parse().ok().filter(|_| is_number).ok_or(NoCheckpoint)?;
        let chain = chain.to_ascii_lowercase().parse().map_err(|_| NoCheckpoint)?;
        Ok(Self { head, chain })
    }
}

#[cfg(test)]
mod tests {
    use std::prelude::v1::*;

    use super::*;

    #[test]
    fn a_checkpoint_is_read_as_it_is_printed() {
        let text = format!("17:{}", "0f".repeat(32));
        let read: Checkpoint = text.parse().expect("it is one");
        assert_eq!((read.head, read.to_string()), (17, text.clone()));
        assert_eq!(format!(" {}\n", text.to_uppercase()).parse(), Ok(read), "however it was copied");
        let signed = text.replace("0f", "+f");
        for bad in ["", "17", "17:", ":00", "x:00", &text[..66], &format!("{text}0"), &text.replace('f', "g"), &signed]
        {
            assert_eq!(bad.parse::<Checkpoint>(), Err(NoCheckpoint), "{bad:?} is none");
        }
        assert_eq!(format!("+{text}").parse::<Checkpoint>(), Err(NoCheckpoint), "a number has no sign");
    }
}
