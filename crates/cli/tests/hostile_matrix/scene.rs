//! A root, and things around it that nobody may touch.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::calls::Call;
use crate::common::{Root, Said, names_in, put};

/// Path, mode, and the bytes of a file or what a link names.
type Item = (PathBuf, u32, Vec<u8>);

pub(super) struct Scene {
    pub(super) root: Root,
    around: Vec<Item>,
}

impl Scene {
    /// A root with nothing but its directories. Around it are a file, a directory with a file for every name that lokt uses in its own,
    /// and something to publish.
    pub(super) fn new() -> Self {
        let root = Root::new();
        for dir in ["locks", "freezes"] {
            fs::create_dir_all(root.path().join(dir)).expect("a temp directory is writable");
        }
        for file in
            ["precious", "source", "target", "dir/x.json", "dir/1", "dir/next", "dir/x/1", "dir/0123456789abcdef"]
        {
            put(&root.outside().join(file), "precious");
        }
        Self { around: around(&root), root }
    }

    /// The same with a root that has been used.
    pub(super) fn used() -> Self {
        let scene = Self::new();
        for words in ["lock x", "unlock x", "freeze x", "unfreeze x", "guard x --ttl 5m -- true"] {
            scene.root.run("b", words).exits(0, "a fresh root can be used");
        }
        scene
    }

    /// A copy of it, which is cheaper than another one.
    pub(super) fn copy(&self) -> Self {
        let copy = Self::new();
        copy_files(&self.root.path(), &copy.root.path());
        copy
    }

    pub(super) fn run(&self, call: &Call, json: bool) -> Said {
        let said = self.root.lokt("b").args(call.words("x", json)).run();
        if json {
            call.check_json(&said);
        }
        said
    }

    /// Everything in the root.
    pub(super) fn inside(&self) -> Vec<Item> {
        let mut found = Vec::new();
        collect(&self.root.path(), &mut found);
        found
    }

    /// Everything around the root is as it was.
    #[track_caller]
    pub(super) fn is_untouched(&self, said: &Said) {
        assert_eq!(around(&self.root), self.around, "nothing outside the root is touched{said}");
    }

    /// Another name can be locked and given back.
    #[track_caller]
    pub(super) fn works(&self, after: &Said) {
        let said = self.root.run("c", "guard another -- true");
        assert_eq!(said.code, 0, "afterwards another name can be locked{said}\nafter{after}");
    }
}

fn around(root: &Root) -> Vec<Item> {
    let mut found = Vec::new();
    for path in names_in(root.outside()).into_iter().filter(|path| *path != root.path()) {
        collect(&path, &mut found);
    }
    found
}

/// Everything at and below `path`, as it is.
fn collect(path: &Path, found: &mut Vec<Item>) {
    let meta = fs::symlink_metadata(path).expect("it is there");
    let bytes = match meta.file_type() {
        kind if kind.is_file() => fs::read(path).expect("it is there"),
        kind if kind.is_symlink() => fs::read_link(path).expect("it is there").into_os_string().into_encoded_bytes(),
        _ => Vec::new(),
    };
    found.push((path.to_owned(), meta.mode(), bytes));
    if meta.is_dir() {
        for child in names_in(path) {
            collect(&child, found);
        }
    }
}

fn copy_files(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a temp directory is writable");
    for path in names_in(from) {
        let target = to.join(path.file_name().expect("it has a name"));
        if path.is_dir() {
            copy_files(&path, &target);
        } else {
            put(&target, fs::read(&path).expect("it is there"));
        }
    }
}
