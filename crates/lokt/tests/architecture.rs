//! The architecture as docs/architecture.md draws it: which crate knows which, which folders know each
//! other, and which code talks to the system.

#[path = "architecture/methods.rs"]
mod methods;
#[path = "architecture/sources.rs"]
mod sources;
#[path = "architecture/system.rs"]
mod system;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sources::{code, read, sources};

/// Folders of one crate that may import each other, because they are one idea in several files.
const ONE_IDEA: [(&str, &[&str]); 1] = [("worktree", &["lease", "repo", "snapshot"])];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What each crate of the workspace depends on within it, tests left out; names without `lokt-`.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let cargo = option_env!("CARGO").unwrap_or("cargo");
    let arguments = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
    let output = Command::new(cargo).args(arguments).current_dir(workspace()).output().expect("cargo runs");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let mut crates = BTreeMap::new();
    for package in metadata["packages"].as_array().expect("there are packages") {
        let own = package["dependencies"].as_array().expect("they have dependencies").iter();
        let own = own.filter(|dependency| dependency["kind"].is_null() && !dependency["path"].is_null());
        let own = own.map(|dependency| short(&dependency["name"])).collect();
        crates.insert(short(&package["name"]), own);
    }
    crates
}

fn short(name: &serde_json::Value) -> String {
    let name = name.as_str().expect("a name is a string");
    name.strip_prefix("lokt-").unwrap_or(name).to_owned()
}

/// The lines `name → a, b` of the first code block in docs/architecture.md.
fn drawn() -> BTreeMap<String, BTreeSet<String>> {
    let page = fs::read_to_string(workspace().join("docs/architecture.md")).expect("the page is there");
    let block = page.split("```").nth(1).expect("the page begins with a picture");
    let mut crates = BTreeMap::new();
    for line in block.lines().filter(|line| !line.trim().is_empty()) {
        let name = line.split_whitespace().next().expect("the line isn't empty").to_owned();
        let below = line.rsplit_once('→').map_or("", |(_, below)| below);
        let below = below.split(',').map(str::trim).filter(|name| !name.is_empty());
        crates.insert(name, below.map(ToOwned::to_owned).collect());
    }
    crates
}

#[test]
fn the_picture_of_the_crates_is_what_cargo_builds() {
    assert_eq!(drawn(), dependencies(), "docs/architecture.md draws other arrows than Cargo.toml has");
}

#[test]
fn arrows_between_crates_point_down() {
    // The order of the page is from top to bottom.
    let page = fs::read_to_string(workspace().join("docs/architecture.md")).expect("the page is there");
    let block = page.split("```").nth(1).expect("the page begins with a picture");
    let order: Vec<&str> = block.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let at = |name: &str| order.iter().position(|known| *known == name).expect("every crate is drawn");
    for (name, below) in dependencies() {
        for other in below {
            assert!(at(&name) < at(&other), "{name} knows {other}, which is drawn above it");
        }
    }
}

#[test]
fn no_folder_imports_itself_through_another() {
    let mut cycles = Vec::new();
    for entry in fs::read_dir(workspace().join("crates")).expect("there are crates") {
        let entry = entry.expect("it can be read");
        let name = entry.file_name().into_string().expect("a crate has a plain name");
        let graph = folders(&entry.path().join("src"));
        let friends = ONE_IDEA.iter().find(|(crate_name, _)| *crate_name == name).map_or(&[][..], |(_, one)| one);
        for folder in graph.keys() {
            let circle = reached(&graph, folder);
            if circle.contains(folder) && !friends.contains(&folder.as_str()) {
                cycles.push(format!("{name}/src/{folder}"));
            }
        }
    }
    assert!(cycles.is_empty(), "these folders import themselves through others: {cycles:?}");
}

/// The folders in `src`, each with those that its files import.
fn folders(src: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let Ok(entries) = fs::read_dir(src) else { return BTreeMap::new() };
    let dirs = entries.flatten().filter(|entry| entry.path().is_dir());
    let names: BTreeSet<String> = dirs.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let imports = |name: &String| {
        let text: String = sources(&src.join(name)).iter().map(|file| plain(file)).collect();
        let others = names.iter().filter(|other| *other != name);
        others
            .filter(|other| ["::", ";", " "].iter().any(|end| text.contains(&format!("crate::{other}{end}"))))
            .cloned()
            .collect()
    };
    names.iter().map(|name| (name.clone(), imports(name))).collect()
}

fn reached(graph: &BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<String> {
    let (mut seen, mut left) = (BTreeSet::new(), vec![from.to_owned()]);
    while let Some(folder) = left.pop() {
        for next in &graph[&folder] {
            if seen.insert(next.clone()) {
                left.push(next.clone());
            }
        }
    }
    seen
}

/// The code of a file as one text.
fn plain(file: &Path) -> String {
    let text = read(file);
    code(&text).iter().flat_map(|(_, line)| [line, "\n"]).collect()
}
