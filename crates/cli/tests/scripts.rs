//! `scripts/test` and what it prints at the end, as far as that can be tried without running all tests.

use std::path::PathBuf;

use crate::common::{Call, Said, put};

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn scripts_test(words: &[&str]) -> Said {
    Call::new(repository().join("scripts/test")).args(words).run()
}

#[test]
fn the_help_of_the_test_script_has_its_options_and_how_long_they_take() {
    let said = scripts_test(&["--help"]).exits(0, "help is an answer");
    for text in ["usage: scripts/test [--full] [WORD…]", "half an hour", "an hour", "skipped and counted"] {
        assert!(said.stdout.contains(text), "{text:?} is in it: {}", said.stdout);
    }
}

#[test]
fn an_unknown_option_of_the_test_script_is_refused_before_anything_runs() {
    let said = scripts_test(&["--quik"]).exits(64, "it is a mistake of usage");
    assert!(said.stderr.starts_with("scripts/test: there is no option --quik\nusage: "), "{}", said.stderr);
    assert_eq!(said.stdout, "");
}

#[test]
fn ci_runs_everything_and_skips_nothing() {
    let script = std::fs::read_to_string(repository().join(".ci/run")).expect("it is there");
    assert!(script.contains("\nexport CI=true\n") && script.ends_with("\nexec scripts/test --full\n"), "{script}");
}

/// What the summary says about a run: what the rings printed, which tests were skipped, and which passed at the second try.
fn summary(rings: &str, skipped: &str, unsteady: &str) -> Said {
    let dir = tempfile::tempdir().expect("a directory");
    put(&dir.path().join("rings"), rings);
    put(&dir.path().join("skipped"), skipped);
    put(&dir.path().join("unsteady"), unsteady);
    Call::new(repository().join("scripts/summary")).args([dir.path()]).run()
}

#[test]
fn the_summary_has_a_line_for_each_ring_and_counts_what_was_skipped() {
    let rings = "ring\tlints\t61\tok\n\
        ring\tlints\t9\tok\n\
        ring\ttests\t100\tFAILED\n     \
        Running tests/main.rs (target/debug/deps/commands-0123456789abcdef)\n\
        test result: FAILED. 10 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 75.50s\n     \
        Running unittests src/lib.rs (target/debug/deps/lokt_core-0123456789abcdef)\n\
        test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s\n\
        ring\tpower cuts\t1\tok\n\
        test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n";
    let skipped = "commands-0123456789abcdef\tusers::a\tneeds root\n\
        commands-0123456789abcdef\tusers::b\tneeds root\n\
        commands-0123456789abcdef\tman::c\tneeds groff\n\
        power_cut-0123456789abcdef\tmain\tneeds root\n";
    let table = "ring               time\n\
        lints              1:10  ok\n\
        tests              1:40  FAILED\n  \
          commands         1:15\n  \
          unit tests       0:00\n\
        power cuts         0:01  ok\n\
        together           2:51\n\
        12 passed, 1 failed, 4 skipped\n\
        1 skipped: needs groff\n\
        3 skipped: need root\n";
    let said = summary(rings, skipped, "").exits(0, "it is told");
    assert_eq!(said.stdout, table);
}

#[test]
fn a_filter_that_fits_no_test_fails() {
    let rings = "ring\ttests\t1\tok\n\
        test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 7 filtered out; finished in 0.00s\n";
    let said = summary(rings, "", "").exits(1, "nothing was shown");
    assert!(said.stderr.contains("no test ran: none has such a name"), "{}", said.stderr);
}

#[test]
fn tests_that_pass_at_the_second_try_are_counted() {
    let rings = "ring\ttests\t1\tunsteady\n\
        test result: FAILED. 7 passed; 2 failed; 0 ignored; 0 measured; 7 filtered out; finished in 0.00s\n";
    let unsteady = "\n== once more: a b::c\nunsteady, passed at the second try: a b::c\n";
    let said = summary(rings, "", unsteady).exits(0, "it is told");
    assert!(said.stdout.ends_with("9 passed, 0 failed, 0 skipped\n2 unsteady: passed at the second try\n"), "{said}");
}

/// A second try after `log`, with a command that answers with `answer`.
fn second_try(log: &str, answer: &str) -> Said {
    let dir = tempfile::tempdir().expect("a directory");
    put(&dir.path().join("log"), log);
    let script = repository().join("scripts/second-try");
    Call::new(script).args([dir.path().join("log").as_os_str(), answer.as_ref()]).run()
}

#[test]
fn a_few_failed_tests_get_a_second_try_and_are_named() {
    let log = "test a::b ... ok\ntest a::c ... FAILED\ntest d ... FAILED\n\
        test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 75.50s\n";
    let said = second_try(log, "echo").exits(0, "they pass");
    let shown = "\n== once more: a::c d\n-- --exact a::c d\nunsteady, passed at the second try: a::c d\n";
    assert_eq!(said.stdout, shown);
    second_try(log, "false").exits(1, "a test that fails twice fails");
}

#[test]
fn what_is_no_accident_of_a_test_gets_no_second_try() {
    let result = |failed: u32| format!("test result: FAILED. 1 passed; {failed} failed; 0 ignored\n");
    let many = ["a", "b", "c", "d"].map(|name| format!("test {name} ... FAILED\n")).concat();
    for (log, why) in [
        (
            format!("test guards::one_holder_is_kept ... FAILED\n{}", result(1)),
            "guards::one_holder_is_kept is about a promise",
        ),
        (many + &result(4), "4 tests failed"),
        (format!("test a ... FAILED\n{}", result(2)), "not all that failed is a test"),
        (
            format!("test a ... FAILED\n{}  process didn't exit successfully: `x` (signal: 6, SIGABRT)\n", result(1)),
            "not all that failed is a test",
        ),
        ("error: could not compile `lokt`\n".to_owned(), "not all that failed is a test"),
    ] {
        let said = second_try(&log, "echo").exits(1, why);
        assert_eq!((said.stdout.as_str(), said.stderr), ("", format!("no second try: {why}\n")));
    }
}
