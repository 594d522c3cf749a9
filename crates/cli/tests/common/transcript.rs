//! What a terminal shows, compared with what a page shows.
//!
//! Equal means: line by line, apart from what is different on every machine and at every moment. `…` on the page stands for anything, and
//! on a line of its own for any lines.

use std::fmt;
use std::path::PathBuf;

use super::{CREATED, host};

/// The host's name on the pages.
const HOST: &str = "laptop";
/// The home directory on the pages.
const HOME: &str = "/home/alice";
/// Only a wait of some seconds ends with such a line; nobody knows how long a test waits.
const AFTER_A_LONG_WAIT: &str = "got lock ";

/// Where the commands were typed.
pub(crate) struct Place {
    pub(crate) home: PathBuf,
    /// On which page they stand.
    pub(crate) page: &'static str,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.page)
    }
}

/// What remains on the screen: `\r` and an erasure clear the line that they are on. Colours, and Ctrl-C as it is echoed, are left out.
pub(crate) fn visible(screen: &str) -> String {
    let screen = screen.replace("\r\n", "\n").replace("^C", "");
    let last = |line: &str| line.rsplit("\r\u{1b}[K").next().map(without_colours).unwrap_or_default();
    screen.split('\n').map(last).collect::<Vec<_>>().join("\n")
}

fn without_colours(line: &str) -> String {
    let mut pieces = line.split("\u{1b}[");
    let first = pieces.next().unwrap_or_default().to_owned();
    first
        + &pieces
            .map(|piece| piece.split_once(|c: char| c.is_ascii_alphabetic()).map_or(piece, |(_, rest)| rest))
            .collect::<String>()
}

/// Is that what the page says?
pub(crate) fn agrees(expected: &[String], shown: &str, place: &Place) -> bool {
    let expected: Vec<String> = expected.iter().filter_map(|line| plain(line)).collect();
    let shown = shown.replace(&*place.home.to_string_lossy(), HOME);
    // Nearly every page makes a root; one that is about that shows it.
    let tells = expected.iter().any(|line| line.starts_with(CREATED.trim_end()));
    let shown = shown.lines().filter(|line| tells || !line.starts_with(CREATED));
    let shown: Vec<String> = shown.filter_map(plain).collect();
    alike(
        &expected,
        &shown,
        |line| line == "…",
        |line, other| {
            let (line, other): (Vec<char>, Vec<char>) = (line.chars().collect(), other.chars().collect());
            alike(&line, &other, |c| *c == '…', |c, other| c == other)
        },
    )
}

/// Compares two lists, where each gap stands for any number of elements.
fn alike<T>(expected: &[T], shown: &[T], is_gap: fn(&T) -> bool, same: fn(&T, &T) -> bool) -> bool {
    match (expected, shown) {
        ([], []) => true,
        ([gap, rest @ ..], _) if is_gap(gap) => {
            (0..=shown.len()).any(|skipped| alike(rest, &shown[skipped..], is_gap, same))
        }
        ([first, rest @ ..], [other, others @ ..]) => same(first, other) && alike(rest, others, is_gap, same),
        _ => false,
    }
}

/// A line without what differs from machine to machine and from moment to moment, and without how columns are spaced.
fn plain(line: &str) -> Option<String> {
    if line.starts_with(AFTER_A_LONG_WAIT) {
        return None;
    }
    let mut words: Vec<String> = Vec::new();
    let mut before = "";
    for piece in line.split_inclusive(|c: char| !c.is_ascii_alphanumeric() && !":-_.+".contains(c)) {
        let word = piece.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        words.push(format!("{}{}", same_for_all(word, before), &piece[word.len()..]));
        if !word.is_empty() {
            before = word;
        }
    }
    Some(words.concat().split_whitespace().collect::<Vec<_>>().join(" "))
}

/// What stands for this word wherever it differs.
fn same_for_all<'a>(word: &'a str, before: &str) -> &'a str {
    let all = |chars: &str| word.chars().all(|c| chars.contains(c));
    let is_number = !word.is_empty() && all("0123456789");
    let is_id = word.len() == 32 && all("0123456789abcdef");
    let is_snapshot = word.len() == 22 && word.find('-') == Some(13) && all("0123456789abcdef-");
    let is_agent =
        word.strip_prefix("agent-").is_some_and(|rest| rest.len() == 4 && rest.chars().all(|c| c.is_ascii_hexdigit()));
    let is_duration = word.starts_with(|c: char| c.is_ascii_digit()) && !is_number && all("0123456789.dhms");
    match word {
        _ if word == host() => HOST,
        _ if word.parse::<jiff::Timestamp>().is_ok() => "TIME",
        _ if is_number && ["pid", "process", "PID", "kill"].contains(&before) => "PID",
        _ if is_id => "ID",
        _ if is_snapshot => "SNAPSHOT",
        _ if is_agent => "AGENT",
        _ if is_duration => "DURATION",
        _ => word,
    }
}

#[cfg(test)]
mod tests {
    use super::{Place, agrees, visible};

    fn agree(page: &str, shown: &str) -> bool {
        let page: Vec<String> = page.lines().map(ToOwned::to_owned).collect();
        agrees(&page, shown, &Place { home: "/tmp/x/home".into(), page: "page.md" })
    }

    #[test]
    fn what_differs_everywhere_is_the_same() {
        let host = super::host();
        let shown =
            format!("held by a (agent-12ab)@{host} (pid 17) for 1m2s, until 2026-11-16T00:02:41Z  in /tmp/x/home/p\n");
        assert!(agree(
            "held by a (agent-43cb)@laptop (pid 24167) for 2s, until 2026-01-02T03:04:05Z in /home/alice/p",
            &shown
        ));
        assert!(!agree(
            "held by b (agent-43cb)@laptop (pid 24167) for 2s, until 2026-01-02T03:04:05Z in /home/alice/p",
            &shown
        ));
    }

    #[test]
    fn one_snapshot_is_like_another() {
        assert!(agree("snapshot 1763280000000-1a2b3c4d: 2 files", "snapshot 1763280009999-99999999: 2 files\n"));
        assert!(!agree("snapshot 1763280000000-1a2b3c4d: 2 files", "snapshot 1763280009999-99999999: 3 files\n"));
    }

    #[test]
    fn numbers_and_words_are_compared() {
        assert!(agree("2", "2\n"));
        assert!(!agree("2", "3\n"));
        assert!(!agree("token 2", "token 3\n"));
        assert!(!agree("", "token 3\n"));
        assert!(!agree("a\nb", "a\n"));
    }

    #[test]
    fn an_ellipsis_is_anything() {
        assert!(agree("a … c\n…\nz", "a b c\nd\ne\nz\n"));
        assert!(!agree("a … c\n…\nz", "a b d\nd\ne\nz\n"));
        assert!(!agree("a\n…\nz", "a\ny\n"));
    }

    #[test]
    fn a_line_that_was_cleared_is_gone() {
        assert_eq!(visible("\x1b[31ma\x1b[m\r\n\r\x1b[Kwaiting\r\x1b[Kwaiting 2\r\x1b[Kb\r\n"), "a\nb\n");
    }
}
