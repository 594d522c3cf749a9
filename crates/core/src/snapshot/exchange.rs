//! The plan of a restore that exchanges a worktree entry by entry, because something in it must not move.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;

use super::bytes::{from_hex, to_hex};

/// The first word of a plan: what it is, and its version.
const MAGIC: &str = "lokt-exchange-1";
/// The last line: a plan without it was cut off.
const END: &str = "end";

/// What is exchanged, decided once. Everything that is not in it stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// The inode of the directory that the plan is in: in a copy of the repository it differs, and so do all others.
    pub ino: u64,
    /// The entries, parents before what is in them.
    pub parts: Vec<Part>,
}

/// One entry of the worktree that is replaced, added or removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Where it is, from the worktree's directory.
    pub path: Vec<u8>,
    /// The inode that the snapshot has there; `None`: it has nothing there, and the entry goes.
    pub new: Option<u64>,
    /// The inode that the worktree had there; `None`: it had nothing.
    pub old: Option<u64>,
}

impl Exchange {
    /// As bytes: one line per part.
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

    /// Back; `None` if it is no plan, or not all of one.
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

/// Paths of a plan are renamed: each must lead to something below the directory that it is about.
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
