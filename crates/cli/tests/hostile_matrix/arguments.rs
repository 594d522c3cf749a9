//! What can be typed.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use lokt_testkit::dose::is_due;

use super::calls::{self, FORMATS};
use super::scene::Scene;

/// Words that no command takes, put after its name.
fn bad_words() -> Vec<(&'static str, Vec<OsString>)> {
    let not_text = || OsString::from_vec(b"\xff\xfe".to_vec());
    let mut bad: Vec<(&str, Vec<OsString>)> = vec![
        ("an unknown flag", vec!["--no-such-flag".into()]),
        ("an unknown flag with a value", vec!["--no-such-flag=1".into()]),
        ("an unknown short flag", vec!["-Z".into()]),
        ("a flag with three dashes", vec!["---json".into()]),
        ("escape codes", vec!["--\u{1b}[2J\n".into()]),
        ("a flag that is no text", vec![[OsString::from("--"), not_text()].into_iter().collect()]),
        ("a value for a flag without", vec!["--json=yes".into()]),
    ];
    for word in ["--ttl", "--timeout", "--token"] {
        bad.push(("a flag without its value, or of another command", vec![word.into()]));
    }
    bad
}

#[test]
fn what_no_command_takes_is_a_usage_error_for_each() {
    let scene = Scene::used();
    let before = scene.inside();
    for (m, call) in calls::all().into_iter().enumerate() {
        let command = call.words("x", false)[0].clone();
        // It says nothing but candidates, and help is about its words.
        if command == "complete" || command == "help" {
            continue;
        }
        for (n, (what, bad)) in bad_words().into_iter().enumerate().filter(|(n, _)| is_due(n + m)) {
            let json = FORMATS[n % 2];
            let mut words: Vec<OsString> = call.words("x", json).into_iter().map(Into::into).collect();
            words.splice(1..1, bad);
            let said = scene.root.lokt("b").args(&words).run();
            assert_eq!(said.code, 64, "{command} with {what}{said}");
            if json {
                said.failure();
            } else {
                assert_eq!(said.stdout, "", "an error is no answer{said}");
            }
            scene.is_untouched(&said);
        }
    }
    assert_eq!(scene.inside(), before, "nothing is touched by what was mistyped");
}

#[test]
fn ten_thousand_words_are_too_many_and_not_a_problem() {
    let scene = Scene::new();
    for (_, call) in calls::all().into_iter().enumerate().filter(|(n, _)| is_due(*n)) {
        for json in FORMATS {
            let mut words = call.words("x", json);
            if words.contains(&"--".to_owned()) || words[0] == "complete" {
                continue;
            }
            words.extend((0..10_000).map(|n| format!("y{n}")));
            let said = scene.root.lokt("b").args(&words).run();
            assert_eq!(said.code, 64, "nothing takes that many words: {}", words[0]);
            if json && words[0] != "help" {
                said.failure();
            }
        }
    }
    let many: Vec<String> = (0..10_000).map(|n| format!("y{}", n % 7)).collect();
    let said = scene.root.lokt("b").args(["guard"]).args(&many).args(["--", "true"]).run();
    assert!([0, 64].contains(&said.code), "a guard of many names{said}");
    let said = scene.root.lokt("b").args(["complete", "--", "lokt", "unlock"]).args(&many).run();
    said.exits(0, "it says what it can");
}

#[test]
fn numbers_that_are_none_are_usage_errors() {
    let scene = Scene::used();
    let before = scene.inside();
    let durations = [
        "",
        " ",
        "-1",
        "-5m",
        "NaN",
        "nan",
        "inf",
        "1e9",
        "1e999",
        "0x10",
        "5 m",
        "m",
        "5m5",
        "5mm",
        "1h-5m",
        "٣m",
        "5m\n",
        "5\u{1b}m",
        "1_000s",
        "99999999999999999999999999h",
        "18446744073709551616",
        "9223372036854775808s",
        ".",
        ".s",
        "1.2.3s",
        "1,5h",
        "5μ",
        "∞",
    ];
    let tokens = ["", "-1", "1.0", "NaN", "0x1", "18446744073709551616", " 1", "1 ", "١", "1\n"];
    let pids = ["", "0", "-1", "NaN", "9223372036854775808", "1.0", " 1"];
    let codes = ["", "-1", "256", "1000000", "NaN", "1.0"];
    let table: [(&[&str], &[&str], &[&str]); 11] = [
        (&["lock", "x", "--ttl"], &durations, &[]),
        (&["lock", "x", "--timeout"], &durations, &[]),
        (&["lock", "x", "--bind"], &pids, &[]),
        (&["guard", "x", "--ttl"], &durations, &["--", "true"]),
        (&["guard", "x", "--timeout"], &durations, &["--", "true"]),
        (&["guard", "x", "-E"], &codes, &["--", "true"]),
        (&["freeze", "x", "--ttl"], &durations, &[]),
        (&["freeze", "x", "--drain", "--timeout"], &durations, &[]),
        (&["unlock", "x", "--token"], &tokens, &[]),
        (&["fence", "check", "x", "--token"], &tokens, &[]),
        (&["publish", "x", "source", "target", "--token"], &tokens, &[]),
    ];
    for (n, (first, values, last)) in table.into_iter().enumerate() {
        for (_, value) in values.iter().enumerate().filter(|(m, _)| is_due(n + m)) {
            let json = ["--json"];
            for format in [&json[..0], &json] {
                let said = scene
                    .root
                    .lokt("b")
                    .args(&first[..1])
                    .args(format)
                    .args(&first[1..])
                    .args([value])
                    .args(last)
                    .run();
                assert_eq!(said.code, 64, "{value:?} is no number for {first:?}{said}");
                if !format.is_empty() {
                    said.failure();
                }
            }
        }
        // The same flag twice.
        let said =
            scene.root.lokt("b").args(first).args(["1"]).args(&first[first.len() - 1..]).args(["2"]).args(last).run();
        assert_eq!(said.code, 64, "a flag is given once{said}");
    }
    assert_eq!(scene.inside(), before, "nothing is touched by what was mistyped");
}

#[test]
fn the_longest_durations_there_are_do_not_overflow() {
    let scene = Scene::new();
    for value in ["9223372036854775807", "9223372036s", "106751991167300d", "2562047788015215h", "292y", "9999999999s"]
    {
        for words in [
            &["lock", "x", "--ttl"][..],
            &["freeze", "y", "--ttl"],
            &["lock", "x", "--timeout"],
            &["freeze", "y", "--drain", "--timeout"],
        ] {
            let said = scene.root.lokt("b").args(words).args([value]).run();
            assert!([0, 2, 64].contains(&said.code), "{value} is long, or too long{said}");
            for look in ["status", "status --json", "why x", "why y"] {
                let said = scene.root.run("c", look);
                assert!([0, 2].contains(&said.code), "and can be shown{said}");
            }
        }
    }
}
