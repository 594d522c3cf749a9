//! `man`: pages that say what `--help` says, render without a warning, and have examples that work.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::common::programs::program;
use crate::common::{Call, LOKT, Root, chmod, names_in, put};

/// All pages, in a directory; with their names in the order of the help.
fn pages(root: &Root) -> (PathBuf, Vec<String>) {
    let dir = root.outside().join("share/man/man1");
    let said = root.lokt("a").args(["man", "--json", "--dir"]).args([&dir]).run().exits(0, "the directory is made");
    let json = said.json();
    assert_eq!(json["dir"], json!(dir.to_str().expect("temp paths are text")), "where{said}");
    let pages = json["pages"].as_array().expect("it is a list").iter();
    (dir, pages.map(|page| page.as_str().expect("a page has a name").to_owned()).collect())
}

/// What a reader sees.
#[track_caller]
fn rendered(page: &Path) -> String {
    // -P-c: no escape codes, -P-bou: no overstriking either.
    let call = Call::new("groff").args(["-man", "-Tutf8", "-ww", "-rLL=300n", "-P-cbou"]).args([page]);
    let said = call.run().exits(0, "it renders");
    assert_eq!(said.stderr, "", "{}: no warning", page.display());
    said.stdout
}

#[test]
fn every_command_has_a_page_that_renders_without_a_warning() {
    lokt_testkit::need!("groff");
    let root = Root::new();
    let (dir, pages) = pages(&root);
    let help = root.run("a", "help").stdout;
    let mut expected = vec!["lokt.1".to_owned()];
    for line in help.lines().filter(|line| line.starts_with("  ") && line.as_bytes()[2].is_ascii_lowercase()) {
        let command = line.split_whitespace().next().expect("the line isn't empty");
        expected.push(format!("lokt-{command}.1"));
        // The commands of a group follow it, in the next line of the help.
        if line.starts_with(&format!("  {command} <COMMAND>")) {
            let names = help.split(line).nth(1).and_then(|rest| rest.lines().nth(1)).expect("it has commands");
            expected.extend(names.trim().split(", ").map(|name| format!("lokt-{command}-{name}.1")));
        }
    }
    assert_eq!(pages, expected, "lokt's page and one per command");
    let written: Vec<_> = names_in(&dir);
    assert_eq!(written.len(), pages.len(), "nothing else was written: {written:?}");
    for page in &written {
        let text = rendered(page);
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "ENVIRONMENT", "LOKT_OWNER"] {
            assert!(text.contains(section), "{}: {section}\n{text}", page.display());
        }
        for code in ["0 ", "2 ", "64", "79", "127"] {
            assert!(text.contains(&format!("\n       {code} ")), "{}: exit code {code}\n{text}", page.display());
        }
    }
    assert!(!root.path().exists(), "no root was made");
}

#[test]
fn a_page_says_what_the_help_says() {
    lokt_testkit::need!("groff");
    let root = Root::new();
    let (dir, pages) = pages(&root);
    for page in &pages[1..] {
        let command = page.strip_prefix("lokt-").and_then(|page| page.strip_suffix(".1")).expect("a page has a name");
        let help = root.run("a", &format!("help {}", command.replace('-', " "))).stdout;
        let text = rendered(&dir.join(page));
        if command == "help" {
            continue;
        }
        let about = help.lines().next().expect("it begins with what it does").replace('`', "");
        assert!(text.contains(&format!("lokt-{command} - {about}")), "{page}: what it does\n{text}");
        let usage = help.lines().find_map(|line| line.strip_prefix("Usage: ")).expect("it has a usage");
        assert!(text.contains(usage), "{page}: {usage}\n{text}");
        for flag in help.lines().filter_map(|line| line.trim_start().strip_prefix("--")) {
            let flag = flag.split("  ").next().expect("split gives at least one").trim();
            assert!(text.contains(&format!("--{flag}")), "{page}: --{flag}\n{text}");
        }
    }
    let main = rendered(&dir.join("lokt.1"));
    let of_a_group = |page: &&String| page.matches('-').count() > 1;
    for page in pages[1..].iter().filter(|page| !of_a_group(page)) {
        let name = page.strip_suffix(".1").expect("a page has a name");
        assert!(main.contains(&format!("{name}(1)")), "lokt.1 names {name}\n{main}");
    }
    for text in ["ROOT/locks/NAME.json", "ROOT/audit.log", "1h30m"] {
        assert!(main.contains(text), "lokt.1 explains {text}\n{main}");
    }
}

#[test]
fn what_is_typed_can_be_copied_from_a_page() {
    lokt_testkit::need!("groff");
    let root = Root::new();
    let (dir, _) = pages(&root);
    let text = rendered(&dir.join("lokt-guard.1"));
    assert!(text.contains("lokt guard build -- sh -c 'make && make install'\n"), "dashes and quotes are ASCII\n{text}");
    let usage = "lokt guard [OPTIONS] <NAME>... -- <COMMAND>...";
    assert!(text.contains(usage), "dashes are dashes\n{text}");
}

#[test]
fn one_page_is_printed_as_it_would_be_written() {
    lokt_testkit::need!("man", "groff");
    let root = Root::new();
    let (dir, _) = pages(&root);
    for (words, page) in [
        ("man", "lokt.1"),
        ("man lokt", "lokt.1"),
        ("man guard", "lokt-guard.1"),
        ("man run", "lokt-guard.1"),
        ("man ledger", "lokt-ledger.1"),
        ("man claim take", "lokt-claim-take.1"),
    ] {
        let text = fs::read_to_string(dir.join(page)).expect("it was written");
        let said = root.run("a", words).exits(0, "there is such a page");
        assert_eq!((said.stdout.as_str(), said.stderr.as_str()), (text.as_str(), ""), "{words} prints {page}");
        let said = root.run("a", &format!("{words} --json")).exits(0, "there is such a page");
        assert_eq!(said.json(), json!({"page": page, "text": text}), "{words} in JSON");
    }
    let said = Call::new("man").args(["-l"]).args([dir.join("lokt-guard.1")]).env("MANPAGER", "cat").run();
    said.exits(0, "man reads it").says("lokt guard [OPTIONS]", "the usage is there");
}

#[test]
fn a_page_of_an_unknown_command_is_a_usage_error() {
    let root = Root::new();
    let said = root.run("a", "man gaurd").exits(64, "there is no such command");
    assert_eq!(said.stdout, "", "nothing that man could show");
    said.notes("unknown command: gaurd", "it is named").notes("`lokt guard`", "the nearest is suggested");
    assert_eq!(root.run("a", "man gaurd --json").exits(64, "in JSON too").failure(), "E_USAGE");
    root.run("a", "man guard --dir x").exits(64, "one page or all");
    assert!(!root.outside().join("x").exists(), "nothing was made");
}

#[test]
fn pages_are_written_again_and_a_directory_that_cant_be_used_is_named() {
    let root = Root::new();
    let (dir, pages) = pages(&root);
    put(&dir.join("lokt.1"), "an old page");
    let said = root.lokt("a").args(["man", "--dir"]).args([&dir]).run().exits(0, "old pages are replaced");
    assert_eq!(said.stdout, format!("{} pages in {}\n", pages.len(), dir.display()), "the answer");
    let text = fs::read_to_string(dir.join("lokt.1")).expect("it is there");
    assert_eq!(text, root.run("a", "man").stdout, "the new page");
    let file = root.outside().join("file");
    put(&file, "not a directory");
    chmod(&file, 0o600);
    let said = root.lokt("a").args(["man", "--dir"]).args([&file]).run().exits(1, "a file is no directory");
    said.notes(&file.display().to_string(), "the path is named");
    let said = root.lokt("a").args(["man", "--json", "--dir"]).args([&file]).run().exits(1, "in JSON too");
    assert_eq!(said.failure(), "E_IO");
}

#[test]
fn every_example_works_as_it_stands() {
    let root = Root::new();
    let (dir, pages) = pages(&root);
    let bin = root.outside().join("bin");
    program(&bin.join("make"), "#!/bin/sh\nexit 0\n");
    let ours = Path::new(LOKT).parent().expect("it is in a directory").display();
    let path = format!("{}:{ours}:/usr/bin:/bin", bin.display());
    let mut examples = 0;
    for page in pages {
        let text = fs::read_to_string(dir.join(&page)).expect("it was written");
        for code in text.split("\n.nf\n").skip(1).filter_map(|rest| rest.split("\n.fi\n").next()) {
            let code = code.replace("\\-", "-").replace("\\(aq", "'").replace("\\(dq", "\"").replace("\\(ga", "`");
            assert!(!code.contains('\\'), "{page}: nothing else was escaped in {code}");
            let call = Call::new("sh").args(["-c", &code]).env("PATH", &path).env("LOKT_ROOT", root.path());
            call.env("LOKT_OWNER", "alice")
                .env("HOME", root.outside())
                .cwd(root.outside())
                .run()
                .exits(0, &format!("{page}: {code}"));
            examples += 1;
        }
    }
    assert!(examples > 10, "there are examples: {examples}");
}
