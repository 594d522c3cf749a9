//! The plan of a restore that exchanges a worktree entry by entry, because something in it must not
//! move.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;

use super::bytes::{from_hex, to_hex};

/// First word of a plan: its type and version.
const MAGIC: &str = "lokt-exchange-1";
/// Last line: a plan without it was cut off.
const END: &str = "end";

/// Entries to be exchanged, decided once. Everything else stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// Inode of the directory that the plan is in. In a copy of the repository it differs, and so
    /// do all other inodes.
    pub ino: u64,
    /// The entries, parents before their content.
    pub parts: Vec<Part>,
}

/// One entry of the worktree that is replaced, added or removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Path from the worktree's directory.
    pub path: Vec<u8>,
    /// Inode of the snapshot's entry; `None` if it has none there, and the worktree's entry is
    /// removed.
    pub new: Option<u64>,
    /// Inode of the worktree's entry before; `None` if there was none.
    pub old: Option<u64>,
}

impl Exchange {
    /// Returns its bytes: one line per part.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = format!("{MAGIC} {}\n", self.ino);
        let shown = |ino: Option<u64>| ino.map_or_else(|| String::from("-"), |ino| format!("{ino}"));
        for part in &self.parts {
            let _ = writeln!(text, "{} {} {}", shown(part.new), shown(part.old), to_hex(&part.path));
        }
        text.push_str(END);
        text.push('\n');
        text.into_bytes()
    }

    /// Parses a plan; `None` if it is invalid or incomplete.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let text = core::str::from_utf8(bytes).ok()?;
        let mut lines = text.strip_suffix('\n')?.split('\n');
        let (magic, ino) = lines.next()?.split_once(' ')?;
        let ino = ino.parse().ok().filter(|_| magic == MAGIC)?;
        let mut parts = Vec::new();
        let mut has_end = false;
        for line in lines {
            if has_end {
                return None;
            }
            if line == END {
                has_end = true;
                continue;
            }
            let mut words = line.split(' ');
            let (new, old, path) = (words.next()?, words.next()?, words.next()?);
            let path = from_hex(path).filter(|path| words.next().is_none() && is_below(path))?;
            let read = |word: &str| if word == "-" { Some(None) } else { word.parse().ok().map(Some) };
            parts.push(Part { path, new: read(new)?, old: read(old)? });
        }
        has_end.then_some(Self { ino, parts })
    }
}

/// Reports whether a path leads to something below its directory, which it must: paths of a plan
/// are renamed.
fn is_below(path: &[u8]) -> bool {
    let is_name = |name: &[u8]| !matches!(name, b"" | b"." | b"..") && !name.contains(&0);
    path.split(|byte| *byte == b'/').all(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Exchange {
        let part = |path: &[u8], new, old| Part { path: path.into(), new, old };
        Exchange {
            ino: 7,
            parts: [part(b"a", Some(1), Some(2)), part(b"b/\xff c", None, Some(3)), part(b"d", Some(4), None)].into(),
        }
    }

    #[test]
    fn a_plan_is_read_as_it_was_written() {
        assert_eq!(Exchange::parse(&plan().to_bytes()), Some(plan()));
    }

    #[test]
    fn a_plan_that_was_cut_off_is_none() {
        let bytes = plan().to_bytes();
        for end in 0..bytes.len() {
            assert_eq!(Exchange::parse(&bytes[..end]), None, "after {end} bytes");
        }
    }

    #[test]
    fn a_plan_leads_nowhere_else() {
        for path in [&b""[..], b"/a", b"..", b"a/../b", b"a//b", b"a/.", b"a\0b"] {
            let plan = Exchange { ino: 1, parts: [Part { path: path.into(), new: None, old: Some(1) }].into() };
            assert_eq!(Exchange::parse(&plan.to_bytes()), None, "{path:?}");
        }
    }
}
