//! A page of the documentation, read as what a reader does with it.
//!
//! - A `console` block is what a terminal shows: `$ command`, `> ` before the further lines of a command, `^C` where Ctrl-C is pressed,
//!   and everything else is output. A block that doesn't begin with `$ ` goes on with the command before: at the end of the former block
//!   it is still running.
//! - A `sh` block is a script; it ends with 0.
//! - Any other block is a file.
//!
//! A comment on a line of its own before a block says what a reader learns from the text around it:
//!
//! - `<!-- fresh -->`: from here on everything happens in a new, empty directory.
//! - `<!-- terminal 2 -->`: this is typed in another terminal.
//! - `<!-- file: Makefile -->`: the block is the content of that file, which the reader makes. A script can be run.
//! - `<!-- not run: REASON -->`: nobody can run this here.

use std::path::Path;

/// What one block asks for.
#[derive(Debug)]
pub(crate) struct Step {
    /// The line of the page where the block begins.
    pub(crate) line: usize,
    pub(crate) deed: Deed,
    pub(crate) text: String,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// Type it in this terminal and compare.
    Type { terminal: usize },
    /// Run it.
    Run,
    /// Write it to this file.
    Write { path: String },
    /// Leave it.
    Skip { reason: String },
}

/// What happens in one directory, in order.
pub(crate) type Part = Vec<Step>;

/// Reads a page.
pub(crate) fn parts(page: &Path) -> Vec<Part> {
    let text = std::fs::read_to_string(page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
    let mut parts = vec![Vec::new()];
    let mut remark = None;
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        if let Some(words) = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->")) {
            if words == "fresh" {
                parts.push(Vec::new());
            } else {
                assert!(remark.is_none(), "{}:{}: one remark per block", page.display(), at + 1);
                remark = Some(words);
            }
        } else if let Some(language) = line.trim_start().strip_prefix("```") {
            let block: Vec<&str> =
                lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim_start() != "```").collect();
            let place = format!("{}:{}", page.display(), at + 1);
            let deed = deed(language, remark.take(), &place);
            let text: String = block.iter().flat_map(|line| [line, "\n"]).collect();
            if language == "json" {
                let parsed = serde_json::from_str::<serde_json::Value>(&text);
                parsed.unwrap_or_else(|error| panic!("{place}: this is JSON: {error}"));
            }
            parts.last_mut().expect("there is one").push(Step { line: at + 1, deed, text });
        } else if !line.is_empty() {
            assert!(remark.is_none(), "{}:{}: a remark stands before a block", page.display(), at + 1);
        }
    }
    parts
}

/// The code in the text of a page, outside its blocks.
pub(crate) fn code_in_text(page: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
    let text: Vec<&str> = text.split("```").step_by(2).collect();
    let in_paragraphs = text.iter().flat_map(|text| text.split("\n\n"));
    in_paragraphs.flat_map(|words| words.split('`').skip(1).step_by(2)).map(|code| code.replace('\n', " ")).collect()
}

fn deed(language: &str, remark: Option<&str>, place: &str) -> Deed {
    let remark = remark.map(|words| words.split_once(' ').unwrap_or_else(|| panic!("{place}: {words} what?")));
    match (language, remark) {
        ("console", None) => Deed::Type { terminal: 1 },
        ("console", Some(("terminal", number))) => {
            Deed::Type { terminal: number.parse().unwrap_or_else(|_| panic!("{place}: {number} is no number")) }
        }
        ("sh", None) => Deed::Run,
        (_, Some(("file:", path))) => Deed::Write { path: path.to_owned() },
        (_, Some(("not", reason))) if reason.starts_with("run: ") => Deed::Skip { reason: reason[5..].to_owned() },
        other => panic!("{place}: nobody knows what to do with this block: {other:?}"),
    }
}
