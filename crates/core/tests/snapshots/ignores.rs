//! What is left out. What these tables say was asked of `git check-ignore` too.

use lokt_core::snapshot::ignore::Ignore;
use proptest::prelude::*;

/// What of these is hidden; a `/` at the end says that it is a directory.
fn hidden<'a>(patterns: &str, paths: &[&'a str]) -> Vec<&'a str> {
    let ignore = Ignore::parse(patterns);
    let is_hidden = |path: &&&str| ignore.hides(path.trim_end_matches('/').as_bytes(), path.ends_with('/'));
    paths.iter().filter(is_hidden).copied().collect()
}

#[test]
fn patterns_say_what_they_say_to_git() {
    for (patterns, paths, expected) in TABLE {
        assert_eq!(hidden(patterns, paths), *expected, "{patterns:?}");
    }
}

/// A file of patterns, paths, and which of those are hidden.
const TABLE: &[(&str, &[&str], &[&str])] = &[
    // Names anywhere, and what is below them.
    (
        "target",
        &["target/", "target", "a/target", "a/target/b", "targets", "a/b"],
        &["target/", "target", "a/target", "a/target/b"],
    ),
    ("target/", &["target/", "target", "a/target/", "target/b"], &["target/", "a/target/", "target/b"]),
    // A slash in the middle or at the beginning ties it to the root.
    ("/target", &["target", "a/target"], &["target"]),
    ("a/target", &["a/target", "b/a/target", "a/target/c"], &["a/target", "a/target/c"]),
    ("/a/", &["a/", "a", "b/a/"], &["a/"]),
    // Blanks, comments, empty lines, line ends.
    ("\n# a\n\nb\n", &["a", "# a", "b"], &["b"]),
    ("\\#a", &["#a", "a"], &["#a"]),
    ("a  \nb\\ \nc\\  ", &["a", "a  ", "b", "b ", "c ", "c  "], &["a", "b ", "c "]),
    ("a\r\nb\r\n", &["a", "b", "a\r"], &["a", "b"]),
    ("\u{feff}a", &["a", "\u{feff}a"], &["a"]),
    (" a", &["a", " a"], &[" a"]),
    // One star, one question mark.
    ("*.log", &["a.log", ".log", "a/b.log", "a.logs"], &["a.log", ".log", "a/b.log"]),
    ("a/*.log", &["a/b.log", "a/b/c.log"], &["a/b.log"]),
    ("a*c", &["ac", "abc", "abcc", "abcd", "a/c"], &["ac", "abc", "abcc"]),
    ("*a*b*", &["xaxbx", "ab", "ba", "x/ab"], &["xaxbx", "ab", "x/ab"]),
    ("a/?", &["a/b", "a/bc", "a/"], &["a/b"]),
    ("a?b", &["a/b", "axb"], &["axb"]),
    ("*", &["a", "a/b", ".x"], &["a", "a/b", ".x"]),
    // Two stars.
    ("**/b", &["b", "a/b", "a/c/b", "ab"], &["b", "a/b", "a/c/b"]),
    ("a/**", &["a/", "a/b", "a/b/c", "ab"], &["a/b", "a/b/c"]),
    ("a/**/b", &["a/b", "a/x/b", "a/x/y/b", "a/xb", "ab", "c/a/b"], &["a/b", "a/x/b", "a/x/y/b"]),
    ("/**/b/", &["b/", "a/b/", "a/b"], &["b/", "a/b/"]),
    ("**", &["a", "a/b"], &["a", "a/b"]),
    ("**/**/b", &["b", "a/b", "a/a/b"], &["b", "a/b", "a/a/b"]),
    ("a/**b", &["a/b", "a/xb", "a/x/b"], &["a/b", "a/xb"]),
    ("a/b**/c", &["a/b/c", "a/bx/c"], &["a/b/c", "a/bx/c"]),
    // Sets.
    ("[ab]", &["a", "b", "c", "ab"], &["a", "b"]),
    ("[!ab]c", &["ac", "cc", "c"], &["cc"]),
    ("[^ab]c", &["ac", "cc"], &["cc"]),
    ("[a-c]", &["a", "b", "c", "d", "-"], &["a", "b", "c"]),
    ("[a-]", &["a", "-", "b"], &["a", "-"]),
    ("[]a]", &["]", "a", "b"], &["]", "a"]),
    ("[!]a]", &["]", "a", "b"], &["b"]),
    ("[\\]a]", &["]", "a", "\\"], &["]", "a"]),
    ("[[:digit:]x]", &["5", "x", "y", ":"], &["5", "x"]),
    ("[[:upper:]]", &["A", "a"], &["A"]),
    ("a/[!x]", &["a/b", "a/x"], &["a/b"]),
    ("a[/]b", &["a/b"], &[]),
    ("[a", &["a", "[a"], &[]),
    ("[[:new:]]", &["a", "n"], &[]),
    ("a\\", &["a", "a\\"], &[]),
    ("\\a\\*", &["a*", "ab"], &["a*"]),
    // The last one counts; but nothing comes back from a directory that is out.
    ("*.log\n!keep.log", &["a.log", "keep.log", "a/keep.log"], &["a.log"]),
    ("!a\na", &["a"], &["a"]),
    ("a/\n!a/b", &["a/", "a/b"], &["a/", "a/b"]),
    ("a/*\n!a/b", &["a/", "a/b", "a/c"], &["a/c"]),
    ("\\!a", &["!a", "a"], &["!a"]),
    // Nothing at all.
    ("", &["a"], &[]),
    ("/", &["a/", "a"], &[]),
    ("!", &["a"], &[]),
    ("a//", &["a/", "a/b"], &[]),
];

#[test]
fn two_stars_after_a_letter_are_one_as_the_manual_says() {
    // git 2.47 takes away what is in front of the first star before it looks, and so takes these for directories. Its manual says otherwise, and
    // what is wrongly left out of a snapshot can't be restored.
    assert_eq!(hidden("ab**/c", &["ab/c", "abx/c", "ab/x/c"]), ["ab/c", "abx/c"]);
}

#[test]
fn who_walks_asks_about_what_it_sees_and_the_root_is_never_out() {
    let ignore = Ignore::parse("a/\n*\n");
    assert!(ignore.is_ignored(b"a", true) && !ignore.is_ignored(b"", true) && !ignore.hides(b"", true));
    let ignore = Ignore::parse("a/\n");
    assert!(!ignore.is_ignored(b"a/b", false), "only what it is asked about");
    assert!(ignore.hides(b"a/b", false) && !ignore.hides(b"a", false));
    assert!(Ignore::parse("# nothing\n\n").is_empty() && Ignore::default().is_empty() && !ignore.is_empty());
}

#[test]
fn names_and_patterns_are_any_bytes() {
    let ignore = Ignore::parse(b"\xff*\n[\x80-\x90]\n");
    assert!(ignore.is_ignored(b"\xff\xfe", false) && ignore.is_ignored(b"a/\x85", false));
    assert!(!ignore.is_ignored(b"\xfe", false) && !ignore.is_ignored(b"\x91", false));
}

#[test]
fn no_pattern_is_slow() {
    let stars = "**/*a*a*a*a*a*a*a*a*".repeat(20) + "b";
    let path = "a/".repeat(2_000) + &"a".repeat(2_000);
    assert!(!Ignore::parse(stars).is_ignored(path.as_bytes(), false));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(patterns in "[ab*?\\[\\]!/\\\\ #\\n:\\-^]{0,40}", path in "[ab/*\\[]{0,20}", raw in any::<Vec<u8>>()) {
        let ignore = Ignore::parse(&patterns);
        let _ = (ignore.hides(path.as_bytes(), true), ignore.is_ignored(path.as_bytes(), false), ignore.hides(&raw, true));
        let _ = Ignore::parse(&raw).hides(path.as_bytes(), false);
    }

    #[test]
    fn what_is_written_out_is_left_out(name in "[a-z *?\\[\\]!#\\\\]{1,8}", dir in "[a-z]{1,3}") {
        let escaped: String = name.chars().flat_map(|letter| ['\\', letter]).collect();
        let ignore = Ignore::parse(&escaped);
        prop_assert!(ignore.is_ignored(name.as_bytes(), false));
        let path = format!("{dir}/{name}");
        prop_assert!(ignore.is_ignored(path.as_bytes(), true));
        let tied = Ignore::parse(format!("/{escaped}"));
        prop_assert!(tied.is_ignored(name.as_bytes(), false) && !tied.is_ignored(path.as_bytes(), false));
    }
}
