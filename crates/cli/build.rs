//! Packs the manual pages of `man/` into one compressed file, which the binary includes. Tells the linker what a
//! release doesn't need.

#![expect(
    clippy::disallowed_methods,
    reason = "it is no part of lokt: cargo gives it its directory and reads its file"
)]

use std::path::{Path, PathBuf};
use std::{env, fs};

use miniz_oxide::deflate::compress_to_vec;

/// The highest level: the pages are packed once and are in every binary.
const LEVEL: u8 = 10;

fn main() {
    println!("cargo::rerun-if-changed=man");
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    if env::var_os("PROFILE").is_some_and(|profile| profile == "release") {
        leave_out_stack_frames(&out);
    }
    // The standard library starts a process in another directory without a copy of the whole test program's memory only if this
    // function is there, and a static binary has it only if it is asked for. A copy was a quarter of the tests' time.
    // A published package has no tests, and cargo refuses an argument for them then.
    if Path::new("tests").exists() {
        println!("cargo::rustc-link-arg-tests=-Wl,--undefined=posix_spawn_file_actions_addchdir_np");
    }
    let mut pages: Vec<PathBuf> =
        fs::read_dir("man").expect("the package has man/").map(|entry| entry.expect("it can be read").path()).collect();
    pages.sort_unstable();
    let mut text = Vec::new();
    for page in pages {
        text.extend(page.file_name().expect("an entry has a name").as_encoded_bytes());
        text.push(0);
        text.extend(fs::read(&page).expect("a page can be read"));
        text.push(0);
    }
    fs::write(out.join("man"), compress_to_vec(&text, LEVEL)).expect("OUT_DIR can be written to");
}

/// Leaves out the descriptions of stack frames and their index, an eighth of the binary: a release aborts at a panic, so nothing
/// unwinds its stack. The C runtime's first and last object keep theirs, because they refer to them.
fn leave_out_stack_frames(out: &Path) {
    let script = out.join("frames.ld");
    let frames = "SECTIONS { /DISCARD/ : { *(EXCLUDE_FILE(*crt*.o) .eh_frame) } } INSERT BEFORE .text;\n";
    fs::write(&script, frames).expect("OUT_DIR can be written to");
    println!("cargo::rustc-link-arg-bins=-Wl,--no-eh-frame-hdr");
    println!("cargo::rustc-link-arg-bins=-Wl,-T,{}", script.display());
}
