//! Any patterns, and a path after a NUL: never a panic, never slow, and the root is never left out.
#![cfg_attr(fuzzing, no_main)]

use libfuzzer_sys::fuzz_target;
use lokt_core::snapshot::ignore::Ignore;

fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.splitn(2, |byte| *byte == 0);
    let (patterns, path) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let ignore = Ignore::parse(patterns);
    assert!(!ignore.hides(b"", true), "the root is taken");
    for is_dir in [false, true] {
        let is_ignored = ignore.is_ignored(path, is_dir);
        assert!(!is_ignored || ignore.hides(path, is_dir), "what is left out is hidden");
        assert!(!is_ignored || !ignore.is_empty(), "by a pattern");
    }
    let but_this = [patterns, b"\n!*\n"].concat();
    assert!(!Ignore::parse(but_this).is_ignored(path, true), "the last pattern counts");
});
