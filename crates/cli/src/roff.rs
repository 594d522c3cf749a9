//! A manual page, written in the `man` macros of roff. All text is escaped here: nothing in it can be taken for a request.

use std::fmt::Write as _;

/// A page that is being written.
pub(crate) struct Page {
    text: String,
}

impl Page {
    pub(crate) fn new(name: &str) -> Self {
        let title = plain(&name.to_uppercase());
        let version = env!("CARGO_PKG_VERSION");
        Self { text: format!(".TH \"{title}\" \"1\" \"\" \"lokt {version}\" \"lokt\"\n") }
    }

    pub(crate) fn section(&mut self, title: &str) {
        let _ = writeln!(self.text, ".SH \"{}\"", plain(title));
    }

    pub(crate) fn subsection(&mut self, title: &str) {
        let _ = writeln!(self.text, ".SS \"{}\"", plain(title));
    }

    /// A paragraph; what is in backticks is bold.
    pub(crate) fn paragraph(&mut self, text: &str) {
        let _ = writeln!(self.text, ".PP\n{}", prose(text));
    }

    /// One line as it stands, without a paragraph of its own.
    pub(crate) fn line(&mut self, text: &str) {
        let _ = writeln!(self.text, "{}", prose(text));
    }

    /// Something in bold, and what it means.
    pub(crate) fn entry(&mut self, term: &str, meaning: &str) {
        let _ = writeln!(self.text, ".TP\n\\fB{}\\fR\n{}", plain(term), prose(meaning));
    }

    /// What to type, as it is typed.
    pub(crate) fn example(&mut self, code: &str) {
        let lines: Vec<String> = code.lines().map(at_start).collect();
        let _ = writeln!(self.text, ".PP\n.RS 4\n.nf\n{}\n.fi\n.RE", lines.join("\n"));
    }

    pub(crate) fn finish(self) -> String {
        self.text
    }
}

/// Text in which nothing means anything to roff. Typed things must be copied from the page as they are, so hyphens and quotes are the
/// ASCII ones.
fn plain(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => escaped.push_str("\\e"),
            '-' => escaped.push_str("\\-"),
            '\'' => escaped.push_str("\\(aq"),
            '"' => escaped.push_str("\\(dq"),
            '`' => escaped.push_str("\\(ga"),
            '^' => escaped.push_str("\\(ha"),
            '~' => escaped.push_str("\\(ti"),
            ' '..='~' => escaped.push(c),
            c if c.is_control() => escaped.push(' '),
            c => {
                let _ = write!(escaped, "\\[u{:04X}]", u32::from(c));
            }
        }
    }
    escaped
}

/// The same where a line begins: a dot or a quote there would be a request.
fn at_start(text: &str) -> String {
    let text = plain(text);
    if text.starts_with('.') { format!("\\&{text}") } else { text }
}

/// Text with bold words between backticks. Lines are one paragraph.
fn prose(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut shown = String::new();
    for (index, piece) in words.split('`').enumerate() {
        let piece = if index == 0 { at_start(piece) } else { plain(piece) };
        if index % 2 == 1 {
            let _ = write!(shown, "\\fB{piece}\\fR");
        } else {
            shown.push_str(&piece);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::{at_start, prose};

    #[test]
    fn no_text_becomes_a_request() {
        assert_eq!(at_start(".so /etc/passwd"), "\\&.so /etc/passwd");
        assert_eq!(at_start("'br"), "\\(aqbr");
        assert_eq!(prose("a\n.br\nb"), "a .br b", "a line that begins with a dot is in the middle of one");
        assert_eq!(prose("\\fIx"), "\\efIx");
    }

    #[test]
    fn typed_words_are_bold_and_their_dashes_are_dashes() {
        assert_eq!(prose("type `lokt lock --ttl 5m` now"), "type \\fBlokt lock \\-\\-ttl 5m\\fR now");
    }
}
