//! What a process under torture tells: its deeds, or what went wrong.

use std::string::{String, ToString as _};

use super::entry::Entry;

/// Begins a line that says what went wrong, after which nobody can go on.
pub const TROUBLE: char = '!';
/// Begins a line that says what went wrong in a way in which it never does while locks work.
pub const ODDITY: char = '?';

/// A line, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told<'a> {
    /// A deed.
    Did(Entry),
    /// What went wrong, and it goes on.
    Odd(&'a str),
    /// What went wrong, and it can't go on.
    Trouble(&'a str),
    /// Something else; the text says why it is no deed.
    Nothing(String),
}

impl<'a> Told<'a> {
    /// Reads a line.
    pub fn parse(line: &'a str) -> Self {
        if let Some(why) = line.strip_prefix(ODDITY) {
            return Self::Odd(why);
        }
        if let Some(why) = line.strip_prefix(TROUBLE) {
            return Self::Trouble(why);
        }
        Entry::parse(line).map_or_else(|error| Self::Nothing(error.to_string()), Self::Did)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Deed;

    #[test]
    fn the_first_character_says_what_a_line_is() {
        let entry = Entry { at: 7, who: 3, deed: Deed::Killed };
        assert_eq!(Told::parse(entry.encode().trim_end()), Told::Did(entry));
        assert_eq!(Told::parse("?no room"), Told::Odd("no room"));
        assert_eq!(Told::parse("!?"), Told::Trouble("?"));
        for nothing in ["", "x", " !x", "{}"] {
            assert!(matches!(Told::parse(nothing), Told::Nothing(_)), "{nothing}");
        }
    }
}
