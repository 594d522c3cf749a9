//! The sources of a crate as the checks read them: without comments, without unit tests.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A line of code, with its number in the file.
pub(crate) type Line<'t> = (usize, &'t str);

/// The attribute before code that only tests have.
const TESTS: &str = "#[cfg(test)]";

/// The sources in `dir` and below, without files that only tests have.
pub(crate) fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut found = BTreeSet::new();
    collect(dir, &mut found);
    let tests: Vec<PathBuf> = found.iter().flat_map(|file| test_modules(file, &read(file))).collect();
    found.into_iter().filter(|file| !tests.iter().any(|test| file.starts_with(test))).collect()
}

fn collect(dir: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.insert(path);
        }
    }
}

/// The file and the directory of each module that `file` declares for its tests.
fn test_modules(file: &Path, text: &str) -> Vec<PathBuf> {
    let dir = file.parent().expect("a source is in a directory");
    let dir = match file.file_stem().and_then(|stem| stem.to_str()) {
        Some("mod" | "lib" | "main") | None => dir.to_owned(),
        Some(stem) => dir.join(stem),
    };
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let declared = lines.windows(2).filter(|pair| pair[0] == TESTS);
    let names = declared.filter_map(|pair| pair[1].strip_suffix(';')?.rsplit_once("mod ").map(|(_, name)| name));
    names.flat_map(|name| [dir.join(format!("{name}.rs")), dir.join(name)]).collect()
}

/// The text of a source.
pub(crate) fn read(file: &Path) -> String {
    fs::read_to_string(file).expect("a source can be read")
}

/// The lines of a source that are neither comments nor unit tests.
pub(crate) fn code(text: &str) -> Vec<Line<'_>> {
    let mut kept = Vec::new();
    let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
    while let Some((number, line)) = lines.next() {
        if line.trim() == TESTS {
            skip_item(line, &mut lines);
        } else if !line.trim_start().starts_with("//") {
            kept.push((number, line.split(" // ").next().unwrap_or(line)));
        }
    }
    kept
}

/// Skips the item after an attribute: to its `;`, or to the brace that ends it, which is indented as the attribute.
fn skip_item<'t>(attribute: &str, lines: &mut impl Iterator<Item = Line<'t>>) {
    let end = format!("{}}}", &attribute[..attribute.len() - attribute.trim_start().len()]);
    let mut is_open = false;
    for (_, line) in lines {
        if line == end || (!is_open && line.ends_with([';', '}'])) {
            return;
        }
        is_open |= line.ends_with('{');
    }
}

/// The imports of a source, each as a full path with the number of the line on which its statement begins.
pub(crate) fn imports(lines: &[Line<'_>]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut statement: Option<(usize, String)> = None;
    for (number, line) in lines {
        let line = line.trim();
        if statement.is_none() && is_import(line) {
            statement = Some((*number, String::new()));
        }
        if let Some((_, text)) = &mut statement {
            text.push_str(line);
            text.push(' ');
        }
        if line.ends_with(';')
            && let Some((number, text)) = statement.take()
        {
            let tree = text.split_once("use ").map_or("", |(_, tree)| tree).trim_end_matches([';', ' ']);
            expand("", tree, &mut |path| found.push((number, path)));
        }
    }
    found
}

fn is_import(line: &str) -> bool {
    let line = line.strip_prefix("pub").unwrap_or(line);
    let line = if line.starts_with('(') { line.split_once(')').map_or(line, |(_, rest)| rest) } else { line };
    line.trim_start().starts_with("use ")
}

/// `a::{b, c::{d, e}}` as `a::b`, `a::c::d`, `a::c::e`.
fn expand(prefix: &str, tree: &str, see: &mut dyn FnMut(String)) {
    let Some((head, rest)) = tree.split_once('{') else { return see(format!("{prefix}{}", tree.trim())) };
    let prefix = format!("{prefix}{}", head.trim());
    let inner = rest.trim_end().strip_suffix('}').unwrap_or(rest);
    let (mut depth, mut start) = (0_usize, 0);
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                expand(&prefix, inner[start..at].trim(), see);
                start = at + 1;
            }
            _ => {}
        }
    }
    if !inner[start..].trim().is_empty() {
        expand(&prefix, inner[start..].trim(), see);
    }
}

#[test]
fn comments_and_unit_tests_are_no_code() {
    let text = "a(); // b\n/// c\n#[cfg(test)]\nmod t;\nd();\n    #[cfg(test)]\n    fn e() {\n        f();\n    }\ng();\n\
                #[cfg(test)]\n#[expect(lint)]\nmod tests {\n    use h;\n    i();\n}\nj();\n";
    let kept: Vec<&str> = code(text).into_iter().map(|(_, line)| line).collect();
    assert_eq!(kept, ["a();", "d();", "g();", "j();"]);
    assert_eq!(code(text).last(), Some(&(17, "j();")), "lines keep their numbers");
}

#[test]
fn imports_are_read_with_all_their_branches() {
    let text =
        "use std::{\n    fs,\n    os::unix::{ffi::OsStrExt as _, fs::symlink},\n};\npub(crate) use a::b;\nlet x = 1;\n";
    let found = imports(&code(text));
    let paths: Vec<&str> = found.iter().map(|(_, path)| path.as_str()).collect();
    assert_eq!(paths, ["std::fs", "std::os::unix::ffi::OsStrExt as _", "std::os::unix::fs::symlink", "a::b"]);
    assert_eq!(found[3].0, 5);
}
