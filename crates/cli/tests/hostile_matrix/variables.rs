//! What the environment can say.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use lokt_testkit::dose::is_due;

use super::calls::{self, FORMATS};
use super::scene::Scene;

const VARIABLES: [&str; 12] = [
    "LOKT_OWNER",
    "LOKT_AGENT_ID",
    "LOKT_HOLDS",
    "LOKT_NAME",
    "LOKT_FENCING_TOKEN",
    "LOKT_LOCK_ID",
    "LOKT_SESSION",
    "LOKT_LEASE_TOKEN",
    "XDG_RUNTIME_DIR",
    "HOME",
    "GIT_DIR",
    "USER",
];

fn values() -> Vec<OsString> {
    let mut values: Vec<OsString> = [
        "\n",
        "forged\nforged line\u{1b}[2J\u{9b}",
        "x=",
        "=",
        "x=0123:7,x=0123:7",
        ",,,,",
        "x=\u{1b}:-1",
        "../../precious",
        "-1",
        "18446744073709551616",
        "NaN",
        "x,y,z",
        "{}",
        "/dev/zero",
        "\u{202e}",
    ]
    .map(OsString::from)
    .to_vec();
    values.push(OsString::from_vec(b"\xff\xfe".to_vec()));
    values.push("x".repeat(120_000).into());
    values.push("\u{1}".repeat(120_000).into());
    values.push("x=1:1,".repeat(20_000).into());
    values
}

#[test]
fn no_variable_makes_a_command_lie_or_touch_anything_else() {
    let all = calls::all();
    let answers: Vec<i32> = all.iter().map(|call| Scene::new().run(call, false).code).collect();
    for (n, variable) in VARIABLES.into_iter().enumerate() {
        let scene = Scene::new();
        for (m, value) in values().into_iter().enumerate() {
            if !is_due(n + m) {
                continue;
            }
            // One call per value and variable would be enough to crash; five see more.
            for (call, answer) in all.iter().zip(&answers).skip((n + m) % 5).step_by(5) {
                let json = FORMATS[(n + m) % 2];
                let said = scene.root.lokt("b").env(variable, &value).args(call.words("x", json)).run();
                let what = format!("{variable}={:.40}", value.to_string_lossy());
                let bad_owner = variable == "LOKT_OWNER" && value.to_str().is_none() && call.asks_who;
                if json {
                    call.check_json(&said);
                }
                if bad_owner && !call.is_quiet() {
                    assert_eq!(said.code, 64, "{what:?} is no owner{said}");
                } else {
                    // The calls before it took the lock, or froze it.
                    let held = [0, 1, 2, 3, 4, 6];
                    assert!(said.code == *answer || held.contains(&said.code), "{what:?} is no error{said}");
                }
                for line in said.stdout.lines().chain(said.stderr.lines()) {
                    assert!(!line.trim_start().starts_with("forged"), "{what:?} forges no line{said}");
                }
                scene.is_untouched(&said);
            }
        }
        let said = scene.root.run("b", "unlock --force x");
        scene.works(&said);
    }
}

#[test]
fn a_guards_environment_that_was_made_up_proves_nothing() {
    let scene = Scene::new();
    for value in values() {
        for json in ["", "--json"] {
            for words in ["fence check", "fence check x", "publish x source target"] {
                let call =
                    scene.root.lokt("b").args(words.split(' ')).args([json].iter().filter(|word| !word.is_empty()));
                let said =
                    call.env("LOKT_NAME", &value).env("LOKT_FENCING_TOKEN", &value).env("LOKT_HOLDS", &value).run();
                assert!([6, 64].contains(&said.code), "nobody holds anything{said}");
                if !json.is_empty() {
                    said.failure();
                }
                scene.is_untouched(&said);
            }
        }
    }
}
