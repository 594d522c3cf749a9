//! Text from files inside Markdown, YAML and shell commands.

use crate::show::{clean, clean_json};

/// The longest text of somebody else's that is shown, in bytes.
const SHOWN_MAX: usize = 60;

/// One short line.
pub(super) fn short(text: &str) -> String {
    let text = clean(text);
    if text.len() <= SHOWN_MAX {
        return text;
    }
    let dots = "...";
    let end = (0..=SHOWN_MAX - dots.len()).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}{dots}", &text[..end])
}

/// A code span that its content can't leave.
pub(super) fn code(text: &str) -> String {
    let mut longest = 0;
    let mut ticks = 0;
    for c in text.chars() {
        ticks = if c == '`' { ticks + 1 } else { 0 };
        longest = longest.max(ticks);
    }
    let fence = "`".repeat(longest + 1);
    let pad = if longest > 0 || text.is_empty() { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

/// The same in a table, where a bar would begin the next cell even there.
pub(super) fn cell(text: &str) -> String {
    code(text).replace('|', "\\|")
}

/// Text that is as harmless as a name, or a code span.
pub(super) fn plain_or_code(text: &str) -> String {
    let harmless = |c: char| c.is_alphanumeric() || ".-@+".contains(c);
    if !text.is_empty() && text.chars().all(harmless) { text.to_owned() } else { code(text) }
}

/// A string in YAML: JSON's are strings there too.
pub(super) fn yaml(text: &str) -> String {
    clean_json(&serde_json::to_string(text).expect("a string is JSON"))
}

/// One word for a shell, quoted if it must be.
pub(super) fn shell_word(text: &str) -> String {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "./_-+@%,:".contains(c);
    if text.chars().all(harmless) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::{cell, code, plain_or_code, shell_word, short};

    #[test]
    fn no_content_leaves_its_code_span() {
        assert_eq!(code("make"), "`make`");
        assert_eq!(cell("a | b"), "`a \\| b`");
        assert_eq!(code("x` **y** ``z"), "``` x` **y** ``z ```");
        assert_eq!(plain_or_code("alice@host"), "alice@host");
        assert_eq!(plain_or_code("# a"), "`# a`");
    }

    #[test]
    fn what_is_too_long_is_cut_between_characters() {
        assert_eq!(short(&"x".repeat(60)), "x".repeat(60));
        assert_eq!(short(&"x".repeat(61)), format!("{}...", "x".repeat(57)));
        assert_eq!(short(&"é".repeat(31)), format!("{}...", "é".repeat(28)));
        assert_eq!(short("a\nb"), "a\\nb");
    }

    #[test]
    fn a_path_is_one_word_for_a_shell() {
        assert_eq!(shell_word("./scripts/build.sh"), "./scripts/build.sh");
        assert_eq!(shell_word("./it's.sh"), r"'./it'\''s.sh'");
    }
}
