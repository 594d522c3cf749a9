//! Lists the modules of the crates that are compiled together, from the `lib.rs` of each.

#![expect(clippy::disallowed_methods, reason = "cargo tells a build script through the environment where to write")]

use std::env;
use std::fs;
use std::path::Path;

/// The crates whose threads are scheduled, and those between them.
const CRATES: [&str; 3] = ["sys", "guard", "named"];

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let here = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let out = env::var("OUT_DIR").expect("cargo sets it");
    let mut modules = String::new();
    for name in CRATES {
        let dir = Path::new(&here).join("..").join(name).join("src");
        println!("cargo::rerun-if-changed={}", dir.display());
        for line in fs::read_to_string(dir.join("lib.rs"))?.lines().filter(|line| !line.starts_with("//!")) {
            modules.push_str(&located(line, &dir, &here));
            modules.push('\n');
        }
    }
    fs::write(Path::new(&out).join("modules.rs"), modules)
}

/// Adds to a declaration of a module where its file is. The threads are those of the scheduler.
fn located(line: &str, dir: &Path, here: &str) -> String {
    let name = line.strip_suffix(';').and_then(|line| line.strip_prefix("pub mod ").or(line.strip_prefix("mod ")));
    let Some(name) = name else { return line.to_owned() };
    let file = match name {
        "threads" => Path::new(here).join("src/scheduled.rs"),
        _ => [dir.join(format!("{name}.rs")), dir.join(name).join("mod.rs")]
            .into_iter()
            .find(|file| file.exists())
            .unwrap_or_else(|| dir.join(name)),
    };
    format!("#[path = {:?}]\n{line}", file.display().to_string())
}
