//! `lokt man`: the manual pages of `crates/cli/man`, which `build.rs` packs into the binary.
//!
//! They are made by `clap_mangen` from the table of commands, in a test: see `generate`. The binary has
//! no generator, which is larger than the packed pages.

#[cfg(test)]
mod generate;
#[cfg(test)]
mod texts;

use std::path::{Path, PathBuf};

use clap::ValueHint;
use lokt_sys::files::{make_dirs, overwrite};
use miniz_oxide::inflate::decompress_to_vec;
use serde::Serialize;

use super::{Row, all_rows, find, help};
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};
use crate::show::clean;

/// Print the manual page of lokt or of a command
#[derive(clap::Parser)]
#[command(
    after_help = "Read one with `lokt man guard | man -l -`. Install all with `lokt man --dir ~/.local/share/man/man1`."
)]
pub(crate) struct Args {
    /// The command, of a group with the group's name before it; without it, lokt itself
    #[arg(value_name = "COMMAND", num_args = 0..=2)]
    command: Vec<String>,
    /// Write all pages into this directory, which is made if it is missing
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "command")]
    dir: Option<PathBuf>,
}

#[derive(Serialize)]
struct Printed {
    page: String,
    text: String,
}

#[derive(Serialize)]
struct Written {
    dir: String,
    pages: Vec<String>,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    if let Some(dir) = &args.dir {
        return install(dir, format).map(Report::changes);
    }
    let words: Vec<&str> = args.command.iter().map(String::as_str).collect();
    let row = match (words.as_slice(), words.first().and_then(|word| find(word))) {
        ([] | ["lokt"], _) => None,
        ([_], Some((_, row))) => Some(row),
        ([word, ..], None) => return Ok(help::unknown(word.as_ref(), format)),
        ([_, word, ..], Some((_, group))) => match group.rows.iter().find(|row| row.word() == *word) {
            Some(row) => Some(row),
            None if group.rows.is_empty() => {
                return Err(Failure::usage(format!("unexpected argument '{}' found", clean(word)))
                    .hint(format!("`lokt man {}` prints its page", group.name)));
            }
            None => return Ok(help::unknown_in(Some(group), word.as_ref(), format)),
        },
    };
    let page = file_name(row);
    let pages = Pages::unpack();
    let text = pages.text(&page);
    let report = Report::new(Exit::Done);
    Ok(match format {
        Format::Json => report.json(&Printed { page, text: text.to_owned() }),
        Format::Text => report.text(text),
    })
}

fn install(dir: &Path, format: Format) -> Result<Report, Failure> {
    let cant = |what: &str, path: &Path, error: &std::io::Error| {
        Failure::io(format!("{what} {}: {error}", path.display()), Some("choose a directory that you may write to"))
    };
    make_dirs(dir).map_err(|error| cant("make", dir, &error))?;
    let (packed, mut pages) = (Pages::unpack(), Vec::new());
    for row in std::iter::once(None).chain(all_rows().map(Some)) {
        let name = file_name(row);
        let path = dir.join(&name);
        overwrite(&path, packed.text(&name)).map_err(|error| cant("write", &path, &error))?;
        pages.push(name);
    }
    let report = Report::new(Exit::Done);
    let dir = dir.to_string_lossy();
    Ok(match format {
        Format::Text => report.text(format!("{} pages in {}\n", pages.len(), clean(&dir))),
        Format::Json => report.json(&Written { dir: dir.into_owned(), pages }),
    })
}

/// The file name of a command's page; without a command, of lokt's.
fn file_name(row: Option<&Row>) -> String {
    row.map_or_else(|| "lokt.1".to_owned(), |row| format!("{}.1", page_name(row)))
}

/// The name of a command's page, without its section.
fn page_name(row: &Row) -> String {
    format!("lokt-{}", row.name.replace(' ', "-"))
}

/// All pages: after each file name its text, each followed by a zero byte.
struct Pages(String);

impl Pages {
    fn unpack() -> Self {
        let packed = include_bytes!(concat!(env!("OUT_DIR"), "/man"));
        let text = decompress_to_vec(packed).ok().and_then(|text| String::from_utf8(text).ok());
        Self(text.expect("build.rs packed text"))
    }

    fn text(&self, name: &str) -> &str {
        let mut parts = self.0.split('\0');
        parts
            .find(|part| *part == name)
            .and_then(|_| parts.next())
            .expect("a test compares the pages with the commands")
    }
}
