//! How `jvs` hashes a tree. The hashes in here were computed by another program, from the recipes alone.

use lokt_core::ledger::chain::Digest;
use lokt_core::snapshot::descriptor::{Era, Schema};
use lokt_core::snapshot::entry::Time;
use lokt_core::snapshot::payload::{Payload, jvs_line, jvs_root_hash};

const MTIME: Time = Time { secs: 1_700_000_000, nanos: 5 };

/// SHA-256 of `hello`.
fn hello() -> Payload<'static> {
    let content = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    Payload::File { size: 5, content: content.parse::<Digest>().expect("a digest").0 }
}

fn tree(schema: Schema) -> Vec<Vec<u8>> {
    let line = |path: &str, mode, payload| jvs_line(schema, path.as_bytes(), mode, MTIME, payload);
    let lines = [
        line("", 0o755, Payload::Dir),
        line("l", 0o777, Payload::Symlink { target: b"a/b.txt" }),
        line("a/sub", 0o700, Payload::Dir),
        line("a", 0o755, Payload::Dir),
        line("a/b.txt", 0o4644, hello()),
        line(".READY", 0o644, hello()),
    ];
    lines.into_iter().flatten().collect()
}

#[test]
fn trees_hash_as_jvs_does_it() {
    let code = tree(Schema::Code(Era::Locks));
    let shown: Vec<&str> = code.iter().map(|line| core::str::from_utf8(line).expect("text")).collect();
    assert_eq!(
        shown,
        [
            "symlink:l:mode=0777:5550000d3b1cf1ff9d8ad3380f759f84f8abda4b5032ee735bdfef6766d6919f",
            "dir:a/sub:mode=0700:ddc6e2b224d0fd821669202258386936fc9ce2899e215eec6322b95f8dd96d6a",
            "dir:a:mode=0755:ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb",
            "file:a/b.txt:mode=0644,size=5,mod=1700000000000000005:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
        ]
    );
    let root = |lines| Digest(jvs_root_hash(lines)).to_string();
    assert_eq!(root(code), "baff80e8157d804e0d49a97c838851c01f389858ba9a503005571bea879f7b4b");
    assert_eq!(root(tree(Schema::Spec)), "4b1324f47522c943a0c628884d2954f76d3c91bf48ee14cc97806e03a65b66f5");
}

#[test]
fn marks_are_no_part_of_a_tree() {
    let line = |schema, path: &str, payload| jvs_line(schema, path.as_bytes(), 0o644, MTIME, payload);
    assert_eq!(line(Schema::Code(Era::Locks), "a/.READY", hello()), None, "the code leaves out each of them");
    assert!(line(Schema::Spec, "a/.READY", hello()).is_some(), "the specification knows of one");
    assert_eq!(line(Schema::Spec, ".READY", hello()), None);
    assert!(line(Schema::Code(Era::Locks), ".READY", Payload::Dir).is_some(), "a directory is no mark");
    assert_eq!(line(Schema::Lokt, "a", hello()), None, "ours have a manifest");
}

#[test]
fn names_are_any_bytes() {
    let line = jvs_line(Schema::Spec, b"a\xff", 0o644, MTIME, Payload::Dir);
    assert_eq!(line.as_deref(), Some(&b"dir:a\xff::"[..]));
}
