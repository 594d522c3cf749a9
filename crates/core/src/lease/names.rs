//! Names of the files of a chain. A number has only one name: a name in another notation isn't
//! ours.

use alloc::format;
use alloc::string::String;

use crate::hold::Fence;

/// Number of digits in the name of a link.
const SLOT_DIGITS: usize = 20;
/// Maximum length of a boot id in bytes.
const BOOT_ID_BYTES_MAX: usize = 64;

/// A file in the directory of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum File {
    /// `base`
    Base,
    /// A link: twenty digits.
    Slot(u64),
    /// `watch.<boot id>`
    Watch(String),
    /// `pulse.<n>`
    Pulse(u64),
    /// Not a file of ours.
    Other,
}

impl File {
    /// Returns the file that a name stands for.
    pub fn parse(name: &str) -> Self {
        Self::ours(name).unwrap_or(Self::Other)
    }

    fn ours(name: &str) -> Option<Self> {
        if name == "base" {
            return Some(Self::Base);
        }
        if let Some(boot_id) = name.strip_prefix("watch.") {
            return is_boot_id(boot_id).then(|| Self::Watch(boot_id.into()));
        }
        if let Some(number) = name.strip_prefix("pulse.") {
            return decimal(number).map(Self::Pulse);
        }
        let number = Some(name).filter(|name| name.len() == SLOT_DIGITS)?.trim_start_matches('0');
        decimal(number).filter(|number| *number > 0).map(Self::Slot)
    }

    /// Returns its name; [`File::Other`] has none.
    pub fn name(&self) -> String {
        match self {
            Self::Base => "base".into(),
            Self::Slot(number) => format!("{number:020}"),
            Self::Watch(boot_id) => format!("watch.{boot_id}"),
            Self::Pulse(number) => format!("pulse.{number}"),
            Self::Other => String::new(),
        }
    }
}

/// Returns the ceiling in `fence.<n>`; `None` for other names.
pub fn fence_number(name: &str) -> Option<u64> {
    decimal(name.strip_prefix("fence.")?)
}

/// `fence.<n>`
pub fn fence_name(ceiling: u64) -> String {
    format!("fence.{ceiling}")
}

/// Returns the ceiling in `<worktree>.<n>`, which outlives its worktree; `None` for other names,
/// and for those of other worktrees.
pub fn kept_fence_number(worktree: &str, name: &str) -> Option<u64> {
    decimal(name.strip_prefix(worktree)?.strip_prefix('.')?)
}

/// `<worktree>.<n>`
pub fn kept_fence_name(worktree: &str, ceiling: u64) -> String {
    format!("{worktree}.{ceiling}")
}

/// Returns the token in the name of a tree that is to be restored to a worktree:
/// `<worktree>.<token>.<nonce>`, perhaps with a further nonce of the process that claimed it.
/// `None` for other names, and for those of other worktrees.
pub fn tree_token(worktree: &str, name: &str) -> Option<u64> {
    let (token, nonces) = name.strip_prefix(worktree)?.strip_prefix('.')?.split_once('.')?;
    let is_nonce =
        |part: &str| part == "old" || (part.len() == 32 && part.bytes().all(|byte| byte.is_ascii_hexdigit()));
    nonces.split('.').all(is_nonce).then(|| token.parse().ok())?
}

/// Parses the number of a link, or zero, in the notation that we write.
fn decimal(text: &str) -> Option<u64> {
    let is_ours = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|number| is_ours && *number < Fence::LIMIT)
}

fn is_boot_id(text: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=BOOT_ID_BYTES_MAX).contains(&text.len()) && text.bytes().all(good)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_file_is_known_by_its_name() {
        for (name, file) in [
            ("base", File::Base),
            ("00000000000000000007", File::Slot(7)),
            ("00009007199254740991", File::Slot(Fence::LIMIT - 1)),
            ("watch.e7c9e5a0-1111-4222-8333-444455556666", File::Watch("e7c9e5a0-1111-4222-8333-444455556666".into())),
            ("pulse.3", File::Pulse(3)),
        ] {
            assert_eq!(File::parse(name), file);
            assert_eq!(file.name(), name);
        }
    }

    #[test]
    fn a_number_has_one_name_only() {
        for name in [
            "",
            "7",
            "0000000000000000007",
            "00000000000000000000",
            "00009007199254740992",
            "99999999999999999999",
            "+0000000000000000007",
            "0000000000000000000a",
            "pulse.",
            "pulse.064",
            "pulse.+64",
            "pulse.-1",
            "pulse.99999999999999999999",
            "watch.",
            "watch.../x",
            "pulse.x",
            "base.tmp",
            "BASE",
        ] {
            assert_eq!(File::parse(name), File::Other, "{name:?} was taken for ours");
        }
    }

    #[test]
    fn ceilings_are_found_in_both_places() {
        assert_eq!(fence_number(&fence_name(1024)), Some(1024));
        assert_eq!(fence_number("fence.json"), None);
        assert_eq!(fence_number("fence.18446744073709551615"), None);
        assert_eq!(kept_fence_number("a", &kept_fence_name("a", 5)), Some(5));
        assert_eq!(kept_fence_number("a", "a.5.7"), None, "that is a worktree called a.5");
        assert_eq!(kept_fence_number("a.5", "a.5.7"), Some(7));
        assert_eq!(kept_fence_number("a", "ab.7"), None);
    }

    #[test]
    fn a_tree_that_is_to_come_back_has_the_token_under_which_that_was_decided() {
        let nonce = "0f".repeat(16);
        assert_eq!(tree_token("a", &format!("a.7.{nonce}")), Some(7));
        assert_eq!(tree_token("a", &format!("a.7.{nonce}.{nonce}.old")), Some(7), "whoever claimed it");
        assert_eq!(tree_token("a", &format!("a.5.7.{nonce}")), None, "that is a worktree called a.5");
        assert_eq!(tree_token("a.5", &format!("a.5.7.{nonce}")), Some(7));
        for other in ["a", "a.7", "a.7.", "a.7.0f", "ab.7.old", "a.x.old"] {
            assert_eq!(tree_token("a", other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn a_name_that_is_ours_is_the_one_that_we_write(name in "(base|watch\\.|pulse\\.|0{0,20})[0-9a-f.]{0,20}") {
            let file = File::parse(&name);
            prop_assert!(file == File::Other || file.name() == name);
        }
    }
}
