//! Any bytes where a manifest, or a line of one, should be: never a panic, nothing that leads out of the tree, and what is one reads back.
#![cfg_attr(fuzzing, no_main)]

use libfuzzer_sys::fuzz_target;
use lokt_core::snapshot::entry::{Entry, Kind};
use lokt_core::snapshot::manifest::{Header, Manifest};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(entry) = Entry::parse_line(bytes) {
        stays_inside(&entry);
        // A line of the longest may have been written shorter than we do it.
        if let Ok(line) = entry.line() {
            assert_eq!(Entry::parse_line(&line), Ok(entry), "an entry reads back");
        }
    }
    if let Ok(header) = Header::parse_line(bytes) {
        assert_eq!(Header::parse_line(&header.line()), Ok(header), "a header reads back");
    }
    let Ok(manifest) = Manifest::parse(bytes) else { return };
    assert!(manifest.entries.is_sorted_by(|one, next| one.path < next.path), "it is sorted");
    for entry in &manifest.entries {
        stays_inside(entry);
        if let Kind::HardLink { to } = &entry.kind {
            let first = manifest.get(to).expect("a first name is there");
            assert!(matches!(first.kind, Kind::File { .. } | Kind::Symlink { .. }), "and is one");
        }
    }
    let Ok(written) = manifest.to_bytes() else { return };
    let again = Manifest::parse(&written).expect("what was written is a manifest");
    assert_eq!(again.root_hash(), manifest.root_hash(), "of the same tree");
    assert_eq!(again, manifest, "it reads back");
});

fn stays_inside(entry: &Entry) {
    let is_inside = |path: &[u8]| {
        path.is_empty() || path.split(|byte| *byte == b'/').all(|name| !matches!(name, b"" | b"." | b".."))
    };
    assert!(is_inside(&entry.path), "a path stays in the tree");
    if let Kind::HardLink { to } = &entry.kind {
        assert!(!to.is_empty() && is_inside(to), "so does a first name");
    }
}
