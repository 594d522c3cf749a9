//! What the documents say about this repository is true.

use std::fs;
use std::path::{Path, PathBuf};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A source file as the guarantees call it: by its path, or in short by its crate's tests.
fn source_file(word: &str) -> Option<PathBuf> {
    if Path::new(word).extension()? != "rs" {
        return None;
    }
    let path = repository().join(word);
    if path.is_file() {
        return Some(path);
    }
    let (krate, rest) = word.split_once('/')?;
    let short = if rest.starts_with("src/") { rest.to_owned() } else { format!("tests/{rest}") };
    Some(repository().join("crates").join(krate).join(short))
}

/// A test's name: a sentence.
fn is_test_name(word: &str) -> bool {
    word.matches('_').count() >= 3 && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

#[test]
fn every_test_that_the_guarantees_name_is_where_they_say() {
    let page = fs::read_to_string(repository().join("docs/guarantees.md")).expect("the page is there");
    let mut named = 0;
    for row in page.lines().filter(|line| line.starts_with('|')) {
        let mut source = None;
        for word in row.split('`').skip(1).step_by(2) {
            if let Some(path) = source_file(word) {
                let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{word} is no file: {error}"));
                source = Some((word, text));
            } else if let (true, Some((file, text))) = (is_test_name(word), &source) {
                assert!(text.contains(&format!("fn {word}(")), "{file} has no test {word}");
                named += 1;
            }
        }
    }
    assert!(named > 100, "the page names tests: {named}");
}

#[test]
fn every_link_between_the_documents_leads_somewhere() {
    let beside = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "fuzz/README.md"];
    let mut pages = beside.map(|page| repository().join(page)).to_vec();
    let docs =
        fs::read_dir(repository().join("docs")).expect("it is there").filter_map(|entry| Some(entry.ok()?.path()));
    // Beside the pages are results, which link to nothing.
    pages.extend(docs.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    let mut links = 0;
    for page in pages {
        let text = fs::read_to_string(&page).expect("a page is text");
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = target.split('#').next().unwrap_or_default();
            let there =
                file.is_empty() || file.contains("://") || page.parent().is_some_and(|dir| dir.join(file).exists());
            assert!(there, "{} links to {target}, which isn't there", page.display());
            links += 1;
        }
    }
    assert!(links > 10, "the pages have links: {links}");
}

#[test]
fn every_fuzz_target_has_a_source_inputs_and_a_row_in_the_table() {
    let fuzz = repository().join("fuzz");
    let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).expect("the fuzz crate is there");
    let table = fs::read_to_string(fuzz.join("README.md")).expect("its page is there");
    let targets: Vec<&str> = manifest
        .split("[[bin]]\n")
        .skip(1)
        .map(|bin| bin.split('"').nth(1).expect("a program has a name in quotes"))
        .collect();
    let doses = repository().join("crates/testkit/tests/fuzz_targets.rs");
    let doses = fs::read_to_string(doses).expect("every run has a dose");
    for target in &targets {
        let dose = format!("    {target} \"../../../fuzz/fuzz_targets/{target}.rs\"\n");
        assert!(doses.contains(&dose), "fuzz_targets.rs has no dose of {target}");
        assert!(fuzz.join(format!("fuzz_targets/{target}.rs")).is_file(), "fuzz target {target} has no source");
        let inputs = fs::read_dir(fuzz.join("corpus").join(target)).map_or(0, Iterator::count);
        assert!(inputs >= 2, "fuzz/corpus/{target} has {inputs} inputs to begin with");
        assert!(table.contains(&format!("| `{target}` |\n")), "fuzz/README.md has no row for {target}");
    }
    for place in ["fuzz_targets", "corpus"] {
        for entry in fs::read_dir(fuzz.join(place)).expect("it is there").flatten() {
            let path = entry.path();
            let name = path.file_stem().and_then(|name| name.to_str()).expect("its name is text");
            assert!(targets.contains(&name), "fuzz/{place} has {name}, which fuzz/Cargo.toml does not: nobody runs it");
        }
    }
}
