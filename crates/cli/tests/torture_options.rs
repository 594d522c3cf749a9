//! What the torture program makes of its words. It has no test harness of its own, so its options are tested here.

#[path = "torture/options.rs"]
mod options;

use self::options::{SECONDS, Wish, parse};

fn parsed(words: &str) -> Result<Wish, String> {
    parse(words.split_whitespace().map(str::to_owned))
}

#[test]
fn a_run_is_what_was_asked_for() {
    let minute = Wish::Run { seconds: SECONDS, seed: None };
    assert_eq!(parsed(""), Ok(minute), "without words it runs for a minute");
    let given = Wish::Run { seconds: 600, seed: Some(7) };
    assert_eq!(parsed("--seconds 600 --seed=7"), Ok(given), "both ways of giving a value work");
    assert_eq!(parsed("--judge kept"), Ok(Wish::Judge("kept".into())));
    assert!(parsed("--seconds").is_err(), "a value that is missing is an error");
    assert!(parsed("--seed x").is_err(), "and so is one that is no number");
}

#[test]
fn words_for_other_test_programs_are_understood() {
    let minute = || Ok(Wish::Run { seconds: SECONDS, seed: None });
    for words in ["--nocapture", "--test-threads 1 -q", "--color=always --format pretty", "tort", "--exact torture"] {
        assert_eq!(parsed(words), minute(), "{words:?} runs it");
    }
    for words in ["unlock", "--skip torture", "--exact tort"] {
        assert_eq!(parsed(words), Ok(Wish::Nothing), "{words:?} is about others");
    }
    assert_eq!(parsed("--list"), Ok(Wish::List));
}
