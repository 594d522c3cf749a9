//! Colours: the few styles that texts may have, and where they are wanted.
//!
//! Commands put styles into their text; whoever prints removes them where nobody wants them. What comes from files has been through
//! `show::clean` and contains no escape codes, so every style in a text is one of ours. Red, green, magenta and bold are the ones that can
//! be read on light and on dark backgrounds; nothing is told by colour alone.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::sync::OnceLock;

use clap::ValueEnum;

use crate::context;

/// `--color`
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Choice {
    /// On a terminal, unless `NO_COLOR` is set or `TERM` is dumb
    #[default]
    Auto,
    /// Everywhere, except in JSON
    Always,
    /// Nowhere
    Never,
}

/// What was asked for, from the first moment on: what is wrong with the other words is said in colours, too.
static CHOICE: OnceLock<Choice> = OnceLock::new();

/// What every style begins with.
pub(crate) const ESCAPE: char = '\x1b';
const BOLD: &str = "\x1b[1m";
const RED: &str = "\x1b[1;31m";
const GREEN: &str = "\x1b[32m";
const MAGENTA: &str = "\x1b[35m";
const RESET: &str = "\x1b[0m";

/// How the lines of a conversation begin.
const PREFIXES: [(&str, &str); 4] = [("error:", RED), ("warning:", MAGENTA), ("hint:", BOLD), ("note:", BOLD)];

/// Takes note of `--color` in the words of a command line. Whether they are right is the parser's business.
pub(crate) fn choose(words: &[OsString]) {
    let ours: Vec<&str> = words.iter().take_while(|word| *word != "--").filter_map(|word| word.to_str()).collect();
    let apart = ours.windows(2).rev().find(|pair| pair[0] == "--color").map(|pair| pair[1]);
    let value = apart.or_else(|| ours.iter().rev().find_map(|word| word.strip_prefix("--color=")));
    let choice = value.and_then(|value| Choice::from_str(value, false).ok());
    let _ = CHOICE.set(choice.unwrap_or_default());
}

/// Are colours wanted there?
pub(crate) fn wanted(stream: &impl IsTerminal) -> bool {
    match CHOICE.get().copied().unwrap_or_default() {
        Choice::Always => true,
        Choice::Never => false,
        Choice::Auto => stream.is_terminal() && !context::no_colour() && !context::dumb_terminal(),
    }
}

/// The name of a lock.
pub(crate) fn name(text: &str) -> String {
    format!("{BOLD}{text}{RESET}")
}

/// The state of a lock, in capitals, as every answer has it. A word that is none is left alone.
pub(crate) fn tag(word: &str) -> String {
    let style = match word.trim_end_matches([',', ':']) {
        "HELD" | "WAITING" => BOLD,
        "FREE" => GREEN,
        "BLOCKED" | "FROZEN" | "DEADLOCK" => RED,
        "EXPIRED" | "DEAD" | "STALE" | "ORPHAN" | "CORRUPT" | "CORRUPTED" | "NEWER" | "UNREADABLE"
        | "BEING_WRITTEN" => MAGENTA,
        _ => return word.to_owned(),
    };
    format!("{style}{word}{RESET}")
}

/// Lines of conversation, with what each begins with.
pub(crate) fn conversation(text: &str) -> String {
    let mut painted = String::with_capacity(text.len() + RED.len() + RESET.len());
    for line in text.split_inclusive('\n') {
        match PREFIXES.iter().find_map(|(prefix, style)| Some((prefix, style, line.strip_prefix(prefix)?))) {
            Some((prefix, style, rest)) => painted.extend([style, *prefix, RESET, rest]),
            None => painted.push_str(line),
        }
    }
    painted
}

/// The text without its styles.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(ESCAPE) {
        return Cow::Borrowed(text);
    }
    let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(ESCAPE) {
        // What isn't ours stays.
        let end = at + style_at(&rest[at..]).map_or(ESCAPE.len_utf8(), str::len);
        let kept = if style_at(&rest[at..]).is_some() { at } else { end };
        shown.push_str(&rest[..kept]);
        rest = &rest[end..];
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

/// The style that a text begins with.
pub(crate) fn style_at(text: &str) -> Option<&'static str> {
    [BOLD, RED, GREEN, MAGENTA, RESET].into_iter().find(|style| text.starts_with(style))
}

#[cfg(test)]
mod tests {
    use super::{conversation, name, plain, tag};

    #[test]
    fn a_text_without_its_styles_is_the_text() {
        assert_eq!(plain("no style"), "no style");
        assert_eq!(plain(&format!("{} is {}.", name("ü"), tag("FREE"))), "ü is FREE.");
        assert_eq!(plain(&conversation("error: a\nhint: b\nnothing: c\n")), "error: a\nhint: b\nnothing: c\n");
        assert_eq!(plain("\x1b[2J"), "\x1b[2J", "only what is ours is removed");
    }
}
