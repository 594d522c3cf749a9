//! How wide text is on a terminal, and how it is cut to what fits. For text without styles: those are added afterwards.

use unicode_width::UnicodeWidthChar as _;

/// Stands for what was cut out.
const ELLIPSIS: char = '…';
/// Asks for the character before it to be shown as an emoji, which is twice as wide.
const EMOJI_PRESENTATION: char = '\u{fe0f}';

/// The columns that a text takes, at most: some terminals draw a sequence of emoji as one.
pub(crate) fn of(text: &str) -> usize {
    text.chars().map(width).sum()
}

fn width(c: char) -> usize {
    if c == EMOJI_PRESENTATION { 1 } else { c.width().unwrap_or(0) }
}

/// The beginning that fits into `columns`.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if of(text) <= columns {
        return text.to_owned();
    }
    let mut shown: String = fitting(text.chars(), columns.saturating_sub(1)).collect();
    shown.extend((columns > 0).then_some(ELLIPSIS));
    shown
}

/// Beginning and end, as much as fits into `columns`: names differ at either.
pub(crate) fn cut_middle(text: &str, columns: usize) -> String {
    if columns < 3 || of(text) <= columns {
        return cut(text, columns);
    }
    let end_columns = (columns - 1) / 2;
    let mut end: Vec<char> = fitting(text.chars().rev(), end_columns).collect();
    end.reverse();
    let beginning = fitting(text.chars(), columns - 1 - end_columns);
    beginning.chain([ELLIPSIS]).chain(end).collect()
}

/// As many characters as fit.
fn fitting(chars: impl Iterator<Item = char>, columns: usize) -> impl Iterator<Item = char> {
    chars
        .scan(0, |taken, c| {
            *taken += width(c);
            Some((*taken, c))
        })
        .take_while(move |(taken, _)| *taken <= columns)
        .map(|(_, c)| c)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{cut, cut_middle, of};

    #[test]
    fn wide_characters_count_twice_and_marks_not_at_all() {
        assert_eq!((of("abc"), of("日本"), of("e\u{301}"), of("❤\u{fe0f}")), (3, 4, 1, 2));
    }

    #[test]
    fn a_name_is_cut_in_the_middle_and_a_sentence_at_its_end() {
        assert_eq!(cut_middle("deploy-production-eu", 11), "deplo…on-eu");
        assert_eq!(cut("a sentence about it", 11), "a sentence…");
        assert_eq!(cut_middle("日本語日本語", 6), "日…語", "half a character is none");
        assert_eq!((cut("abc", 3), cut("abc", 1), cut("abc", 0)), ("abc".into(), "…".into(), String::new()));
    }

    proptest! {
        #[test]
        fn what_is_cut_fits(text in "\\PC*", columns in 0_usize..30) {
            prop_assert!(of(&cut(&text, columns)) <= columns);
            prop_assert!(of(&cut_middle(&text, columns)) <= columns);
        }
    }
}
