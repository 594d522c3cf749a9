//! No type does everything: methods are counted per type, wherever in its crate they are.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::sources::{Line, code, read, sources};
use crate::workspace;

/// The largest number of inherent methods of one type. A type with more is about several things.
const METHODS_MAX: usize = 40;

/// A type: its crate, the file that declares it if several types of the crate have its name, its name.
type TypeKey = (String, Option<PathBuf>, String);

/// The name of the type that `header` implements something for by itself; `None` for the impl of a trait.
fn inherent(header: &str) -> Option<String> {
    let mut rest = header.strip_prefix("impl")?.trim_start();
    if rest.starts_with('<') {
        let mut depth = 0_usize;
        let end = rest.char_indices().find_map(|(at, c)| {
            depth = match c {
                '<' => depth + 1,
                '>' if !rest[..at].ends_with('-') => depth - 1,
                _ => depth,
            };
            (depth == 0).then_some(at + 1)
        })?;
        rest = rest[end..].trim_start();
    }
    let is_trait = rest.split('{').next().is_some_and(|head| head.contains(" for "));
    let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!is_trait && !name.is_empty()).then_some(name)
}

/// Every type of a source with inherent methods, and their number.
fn counted(lines: &[Line<'_>]) -> BTreeMap<String, usize> {
    let mut methods = BTreeMap::new();
    let (mut header, mut current): (Option<String>, Option<String>) = (None, None);
    for (_, line) in lines {
        if line.starts_with("impl") {
            header = Some(String::new());
        }
        if let Some(text) = &mut header {
            text.push_str(line);
            text.push(' ');
            if line.ends_with(['{', '}']) {
                current = header.take().and_then(|text| inherent(&text));
            }
        } else if line.starts_with('}') {
            current = None;
        } else if let Some(name) = current.as_ref().filter(|_| is_method(line)) {
            *methods.entry(name.clone()).or_default() += 1;
        }
    }
    methods
}

/// Reports whether a line begins a function directly in an `impl`.
fn is_method(line: &str) -> bool {
    let Some(line) = line.strip_prefix("    ").filter(|line| !line.starts_with(' ')) else { return false };
    let mut words = line.split_whitespace().skip_while(|word| word.starts_with("pub") || is_qualifier(word));
    words.next() == Some("fn")
}

fn is_qualifier(word: &str) -> bool {
    ["const", "async", "in", "crate)", "super)"].contains(&word)
}

/// The types that a source declares.
fn declared(lines: &[Line<'_>]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (_, line) in lines {
        let mut words = line.split_whitespace();
        if words.any(|word| word == "struct" || word == "enum")
            && let Some(word) = words.next()
        {
            names.insert(word.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect());
        }
    }
    names
}

/// The methods of every type of a crate, with the files that they are in.
fn methods_of(name: &str, src: &Path) -> BTreeMap<TypeKey, (usize, Vec<PathBuf>)> {
    let files: Vec<(PathBuf, String)> = sources(src).into_iter().map(|file| (file.clone(), read(&file))).collect();
    let mut places: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for (file, text) in &files {
        for declared in declared(&code(text)) {
            places.entry(declared).or_default().push(file.clone());
        }
    }
    let mut types: BTreeMap<TypeKey, (usize, Vec<PathBuf>)> = BTreeMap::new();
    for (file, text) in &files {
        for (type_name, count) in counted(&code(text)) {
            // Types of one name: the one that is declared in the nearest folder is meant.
            let near = places.get(&type_name).filter(|places| places.len() > 1).and_then(|places| {
                let shared =
                    |place: &&PathBuf| place.components().zip(file.components()).take_while(|(a, b)| a == b).count();
                places.iter().max_by_key(shared).cloned()
            });
            let (methods, files) = types.entry((name.to_owned(), near, type_name)).or_default();
            *methods += count;
            files.push(file.strip_prefix(src).expect("it is below").to_owned());
        }
    }
    types
}

#[test]
fn no_type_has_more_than_forty_methods() {
    let mut wrong = Vec::new();
    for entry in fs::read_dir(workspace().join("crates")).expect("there are crates") {
        let entry = entry.expect("it can be read");
        let crate_name = entry.file_name().into_string().expect("a crate has a plain name");
        for ((_, _, name), (methods, files)) in methods_of(&crate_name, &entry.path().join("src")) {
            if methods > METHODS_MAX {
                wrong.push(format!("{crate_name}: {name} has {methods} methods; they are in {files:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "split these by what their methods are about:\n{}", wrong.join("\n"));
}

#[test]
fn methods_are_counted_and_those_of_traits_are_not() {
    let text = "pub struct A<T>(T);\nimpl<T: Fn() -> u8> A<T> {\n    pub(crate) const fn a() {}\n    fn b() {\n        fn inner() {}\n    }\n}\n\
                impl<T> Clone for A<T> {\n    fn clone(&self) {}\n}\nimpl<T> A<T>\nwhere\n    T: Copy,\n{\n    fn c() {}\n}\n\
                fn free() {}\nimpl B {\n    #[must_use]\n    pub fn d(self) {}\n}\n";
    let counted: Vec<(String, usize)> = counted(&code(text)).into_iter().collect();
    assert_eq!(counted, [("A".to_owned(), 3), ("B".to_owned(), 1)]);
    assert!(declared(&code(text)).contains("A"));
}
